"""Pods of failed nodes: which leave at once, which wait for a proof, which stay, and how many nodes at a time."""
