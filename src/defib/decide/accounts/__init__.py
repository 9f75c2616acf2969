"""Accounts: the NodeIncidents that tell what NodeHealthChecks began and what came of it. Nothing is decided by them."""
