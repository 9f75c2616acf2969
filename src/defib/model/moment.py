"""Moments that others wrote down: whether one makes sense, so that adding a duration to it stays in the calendar."""

from datetime import datetime

FIRST_YEAR, LAST_YEAR = 1970, 9000


def is_sensible(moment: datetime) -> bool:
    return FIRST_YEAR <= moment.year <= LAST_YEAR


def read_moment(text: str) -> datetime | None:
    """An RFC 3339 time with a zone that makes sense, or None."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None and is_sensible(moment) else None
