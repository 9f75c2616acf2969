"""The agent of one node: it feeds a watchdog while the node may live, and stops when it is meant to die or cannot know.

It never takes another node down, and nobody can tell it to but the API server, by an order in the node's own Lease.
"""
