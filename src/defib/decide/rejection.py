"""A person's no to what a check in mode Approve wants to do to a node: an annotation of the node that holds for a time."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.model.moment import read_moment

REJECTED = "defib.dev/rejected"  # such as "2026-11-15T22:00:00Z ann: the disk is being copied"


class Rejection(msgspec.Struct, frozen=True):
    """Without `until`, what stands there is not a time. Then it holds: a wish that we cannot read means "do not touch"."""

    until: datetime | None
    said: str  # until when, by whom and why, as far as that is known

    def holds(self, now: datetime) -> bool:
        return self.until is None or now < self.until


def rejection_of(annotations: Mapping[str, str]) -> Rejection | None:
    value = annotations.get(REJECTED, "")
    if not value:
        return None
    moment, _, rest = value.partition(" ")
    until = read_moment(moment)
    if until is None:
        return Rejection(None, f"the annotation {REJECTED} says no, and its {value!r} does not begin with a time")
    by, _, reason = rest.partition(": ")
    return Rejection(until, f"{by or 'a person'} has said no until {moment}" + (f" ({reason})" if reason else ""))


def rejection_value(until: str, by: str, reason: str) -> str:
    return f"{until} {by}" + (f": {reason}" if reason else "")
