"""Durations as Kubernetes objects write them: `300s`, `1h30m`, `1.5h`."""

import re
from datetime import timedelta

_PARTS = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|μs|ms|s|m|h)")
_MICROSECONDS = {"ns": 0.001, "us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1e3, "s": 1e6, "m": 6e7, "h": 3.6e9}
_LONGEST_TEXT = 64  # searching a text for parts takes its length squared
_LEGIBLE = 40  # of a text that makes no sense, so many characters are repeated to whoever wrote it
LONGEST = timedelta(days=36500)  # beyond it, adding to a time of today would leave the calendar
_FINE_BELOW_SECONDS = 10  # from here on, nobody wants to read milliseconds


def read_duration(text: object) -> timedelta:
    """Raises ValueError, with what to write instead, when it is not one. One leading minus is understood."""
    digits = text.removeprefix("-") if isinstance(text, str) and len(text) <= _LONGEST_TEXT else ""
    parts = _PARTS.findall(digits)
    if not isinstance(text, str) or not parts or "".join(number + unit for number, unit in parts) != digits:
        # Only a text is repeated: a list may be nested deeper than it could be printed.
        shown = f"{text[:_LEGIBLE]!r} is not" if isinstance(text, str) else "this is not"
        raise ValueError(f"{shown} a duration; write it like 300s, 5m or 1h30m")
    microseconds = sum(float(number) * _MICROSECONDS[unit] for number, unit in parts)
    if microseconds > LONGEST / timedelta(microseconds=1):
        raise ValueError(f"{text[:_LEGIBLE]} is longer than a hundred years")
    length = timedelta(microseconds=microseconds)
    return -length if text.startswith("-") else length


def say(length: timedelta) -> str:
    """For people: `1h30m`, `45s`, `0.5s`."""
    if length < timedelta():
        return f"-{say(-length)}"
    seconds = length.total_seconds()
    # Rounded before it is divided, or 59.99 s of a minute would be told as 60 s of it.
    hours, rest = divmod(round(seconds, 3 if seconds < _FINE_BELOW_SECONDS else 1), 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [f"{hours:.0f}h" if hours else "", f"{minutes:.0f}m" if minutes else ""]
    text = "".join(parts) + (f"{seconds:g}s" if seconds else "")
    return text or "0s"
