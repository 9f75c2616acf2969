"""How long others give a drain, in the two ways in which they write it. What makes no sense is no limit, as is zero."""

from datetime import datetime, timedelta

from defib.model.duration import LONGEST, read_duration


def as_duration(value: object) -> timedelta | None:
    try:
        length = read_duration(value)
    except ValueError:
        return None
    return length if length > timedelta() else None


def as_seconds(value: object) -> timedelta | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return timedelta(seconds=value) if 0 < value <= LONGEST.total_seconds() else None


def later(moment: datetime | None, length: timedelta | None) -> datetime | None:
    return moment + length if moment is not None and length is not None else None
