"""What the event log of a BMC says of its machine: that it stopped, or started. All other entries are nobody's business.

The clocks of BMCs are wrong as often as not. So an entry counts by how old it is on that clock; and a log whose clock is not
told, or was set back, is only worth a remark.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol, runtime_checkable

import msgspec

from defib.model.evidence import Says
from defib.power.base import Target

NEWEST = 20  # entries are looked at, and no more
_TOLD_IN = timedelta(seconds=1)  # BMCs tell whole seconds
_WORDS_MAX = 300
_MEANWHILE = timedelta(seconds=10)  # an entry may be written while the log is being read


class Event(Enum):
    STOPPED = "stopped"  # its power went, or its operating system stopped
    STARTED = "started"


class Entry(msgspec.Struct, frozen=True):
    """`at` is by the clock of the BMC."""

    at: datetime
    event: Event
    text: str


class EventLog(msgspec.Struct, frozen=True, kw_only=True):
    """`theirs` is the clock of the BMC, None where it does not tell; `ours` is the moment before it was asked for that.

    The moment before, so that the way there and back makes no entry look later than it was.
    """

    entries: tuple[Entry, ...] = ()
    theirs: datetime | None = None
    ours: datetime | None = None
    why_not: str = ""  # it could not be read


@runtime_checkable
class KeepsLog(Protocol):
    """What a driver may have besides its four calls: the newest entries of the machine's event log."""

    async def log(self, target: Target, within_seconds: float) -> EventLog: ...


def newest(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.at)[-NEWEST:])


def says(log: EventLog, heard: datetime) -> tuple[Says, str]:
    """What the log knows that is later than the last sign of life. What came last counts; in one second, the start."""
    if log.why_not:
        return Says.UNKNOWN, log.why_not
    if not log.entries:
        return Says.QUIET, "nothing of its power or its operating system"
    last = max(log.entries, key=lambda entry: (entry.at, entry.event is Event.STARTED))
    if log.theirs is None or log.ours is None:
        return Says.UNKNOWN, f"{last.text}; but the BMC does not tell its clock, so nobody knows when"
    # Lengths of time are compared, and not moments: what a BMC tells may lie at the end of the calendar.
    if last.at - log.theirs > _MEANWHILE:
        return Says.UNKNOWN, f"{last.text}; but the clock of the BMC was set back, so nobody knows when"
    age = log.theirs - last.at + _TOLD_IN
    if log.ours - heard <= age:
        return Says.QUIET, "nothing since the last heartbeat"
    return (Says.STARTED if last.event is Event.STARTED else Says.STOPPED), last.text


# What BMCs write in words, each in its own. Parts of a machine, and what was only asked for, are not the machine.
_OF_A_PART = re.compile(r"power supply|psu|redundan|attempt|request|fail|slot|\bfan\b")
_STARTS = re.compile(
    r"power(ed)?[ -]?(is )?(on|restored|up)\b|poweron|turn(ing|ed) on|boot (completed|initiated)|boot/restart|server reset"
)
_STOPS = re.compile(
    r"power(ed)?[ -]?(is )?(off|removed|lost|loss|down)|turn(ing|ed) off|\bos stop|critical stop|graceful (stop|shutdown)"
    r"|kernel panic|watchdog.*(expired|reset|power|reboot)|\bsoft-?off\b"
)


def meaning(words: str, *, is_over: bool = False) -> Event | None:
    """Of an entry in words; None where it is of something else. `is_over`: it says that this is so no longer."""
    words = words[:_WORDS_MAX].lower()  # a BMC that is somebody else's could keep us searching
    if _OF_A_PART.search(words):
        return None
    if _STARTS.search(words):  # first: of one that speaks of both, it is the safer half
        return None if is_over else Event.STARTED
    if _STOPS.search(words):
        return Event.STARTED if is_over else Event.STOPPED
    return None
