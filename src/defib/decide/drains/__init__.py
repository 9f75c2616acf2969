"""Drains that do not end: who drains which node, what is still there and why, and what is done about it, when."""
