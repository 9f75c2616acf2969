"""A Kubernetes API server in this process: the demo and the simulation tests run on it. No IO, no clock, no chance of its own."""
