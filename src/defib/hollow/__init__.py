"""Hollow nodes, disks and machines: everything of a cluster but the hardware. They speak to the API server only through a client."""
