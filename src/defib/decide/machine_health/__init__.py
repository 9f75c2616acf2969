"""MachineHealthChecks, served for clusters in which nobody else does."""
