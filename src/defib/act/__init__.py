"""PLAN → API SERVER: does what was decided, with a mandate, a live look and preconditions."""
