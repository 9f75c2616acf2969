"""What is known of an action that did not work."""

from datetime import timedelta

import msgspec


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An action that did not work, how often in a row, and when it may be tried again.

    `check` and `node` are set where a remediation may have been started all the same: its answer was lost.
    """

    why: str
    times: int
    again_in: timedelta
    forbidden: bool = False  # by the roles that we have
    check: str = ""
    node: str = ""
