"""Scenarios as data: a story says what a cluster has, what happens to it and what must be seen, and runs on any stage."""
