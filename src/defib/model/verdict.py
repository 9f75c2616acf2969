"""What we think of a node or a check, and why: the same words for status, events, the command line and the page."""

from datetime import datetime
from enum import StrEnum

import msgspec


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One reason that could stop a remediation: what is, what may be, and whether it stops it now.

    `opens_at` is when a closed one opens although nothing changes but the time, if it does.
    """

    name: str
    is_open: bool
    message: str
    value: str = ""
    limit: str = ""
    opens_at: datetime | None = None


class State(StrEnum):
    HEALTHY = "Healthy"
    SUSPECT = "Suspect"  # shows an unhealthy condition, not yet for long enough
    UNHEALTHY = "Unhealthy"  # and nothing is being done: the gates say why
    REMEDIATING = "Remediating"
    RECOVERING = "Recovering"  # healthy again; its remediation is on its way out
    UNSEEN = "Unseen"  # no check selects it


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Of one node under one check. `reason` is a code that stays the same, `message` the sentence for a person."""

    node: str
    check: str
    state: State
    reason: str
    message: str
    since: datetime | None = None
    gates: tuple[Gate, ...] = ()
