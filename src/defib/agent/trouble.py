"""Why an agent cannot run."""


class CannotRun(Exception):
    """`str()` is one line that says why and what to do."""
