"""Defib keeps workloads alive when Kubernetes nodes die."""

__version__ = "0.1.0"
