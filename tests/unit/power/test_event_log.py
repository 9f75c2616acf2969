"""What the event log of a BMC comes to: by its own clock, by what came last, and never by what is said of a part."""

from datetime import UTC, datetime, timedelta

import pytest

from defib.model.evidence import Says
from defib.power.event_log import NEWEST, Entry, Event, EventLog, meaning, newest, says
from defib.power.sel import entry_of, number_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HEARD = NOW - timedelta(seconds=30)
CLOCKS = (timedelta(), timedelta(hours=9), timedelta(days=-9000))


def a_log(*ages: tuple[float, Event], ahead: timedelta = timedelta(), **changes: object) -> EventLog:
    """Entries by how many seconds ago they were made, on a clock that goes ahead by so much."""
    theirs = NOW + ahead
    entries = tuple(Entry(theirs - timedelta(seconds=age), event, event.value) for age, event in ages)
    return EventLog(**({"entries": entries, "theirs": theirs, "ours": NOW} | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("ahead", CLOCKS, ids=str)
@pytest.mark.parametrize(
    ("entries", "word"),
    [
        ([(20, Event.STOPPED)], Says.STOPPED),
        ([(40, Event.STOPPED)], Says.QUIET),
        ([(29.5, Event.STOPPED)], Says.QUIET),
        ([(20, Event.STOPPED), (10, Event.STARTED)], Says.STARTED),
        ([(10, Event.STARTED), (20, Event.STOPPED)], Says.STARTED),
        ([(20, Event.STARTED), (10, Event.STOPPED)], Says.STOPPED),
        ([(10, Event.STARTED), (10, Event.STOPPED)], Says.STARTED),
        ([(10, Event.STOPPED), (10, Event.STARTED)], Says.STARTED),
        ([(-5, Event.STOPPED)], Says.STOPPED),
        ([], Says.QUIET),
    ],
)
def test_an_entry_counts_by_how_old_it_is_on_the_bmcs_own_clock(
    ahead: timedelta, entries: list[tuple[float, Event]], word: Says
) -> None:
    assert says(a_log(*entries, ahead=ahead), HEARD)[0] is word


def test_a_log_without_a_clock_or_with_one_that_was_set_back_is_a_remark_only() -> None:
    assert says(a_log((20, Event.STOPPED), theirs=None), HEARD) == (
        Says.UNKNOWN,
        "stopped; but the BMC does not tell its clock, so nobody knows when",
    )
    assert says(a_log((-3600, Event.STOPPED)), HEARD) == (
        Says.UNKNOWN,
        "stopped; but the clock of the BMC was set back, so nobody knows when",
    )


EDGES = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]


@pytest.mark.parametrize("theirs", EDGES)
@pytest.mark.parametrize("at", EDGES)
def test_a_bmc_at_the_end_of_the_calendar_breaks_nothing(theirs: datetime, at: datetime) -> None:
    word, _ = says(EventLog(entries=(Entry(at, Event.STOPPED, ""),), theirs=theirs, ours=NOW), HEARD)
    assert word is (Says.STOPPED if at == theirs else Says.UNKNOWN if at > theirs else Says.QUIET)


def test_words_without_end_are_cut() -> None:
    assert meaning("watchdog " * 100_000 + "expired") is None


def test_a_log_that_could_not_be_read_says_why() -> None:
    assert says(EventLog(why_not="it keeps no event log"), HEARD) == (Says.UNKNOWN, "it keeps no event log")


def test_only_the_newest_entries_are_looked_at() -> None:
    entries = [Entry(NOW + timedelta(seconds=each), Event.STOPPED, "") for each in range(2 * NEWEST)]
    assert newest(reversed(entries)) == tuple(entries[-NEWEST:])


STOPS = [
    "The system is turning off.",
    "A runtime critical stop occurred.",
    "An OS graceful stop occurred.",
    "The watchdog timer expired.",
    "The watchdog timer reset the system.",
    "Server power removed.",
    "OpenBMC.0.1.DCPowerOff Host system DC power is off",
    "ResourceEvent.1.2.ResourcePoweredOff The resource has powered off.",
    "OS Stop/Shutdown OS Status - Assert",
    "Watchdog Hard reset",
    "kernel panic: not syncing",
    "Power unit: Power off/down",
]
STARTS = [
    "The system is turning on.",
    "Server power restored.",
    "Server reset.",
    "OpenBMC.0.1.DCPowerOn Host system DC power is on",
    "SystemBoot/Restart Initiated by power up",
    "BaseOSBoot/InstallationStatus boot completed",
]
NEITHER = [
    "Power supply 1: AC power lost",
    "Power supply redundancy is lost.",
    "PSU2 power off",
    "Attempting to power off server by user admin",
    "Power off was requested by admin",
    "Fan 3: power lost",
    "User admin logged in from 10.0.0.9",
    "Temperature is above the upper limit",
    "A firmware update was successful",
    "",
]


@pytest.mark.parametrize("words", STOPS)
def test_words_of_a_machine_that_stopped(words: str) -> None:
    assert meaning(words) is Event.STOPPED
    assert meaning(words, is_over=True) is Event.STARTED


@pytest.mark.parametrize("words", STARTS)
def test_words_of_a_machine_that_started(words: str) -> None:
    assert meaning(words) is Event.STARTED
    assert meaning(words, is_over=True) is None


@pytest.mark.parametrize("words", NEITHER)
def test_words_of_something_else(words: str) -> None:
    assert meaning(words) is None
    assert meaning(words, is_over=True) is None


AT = int(NOW.timestamp())


def a_record(sensor: int, offset: int, *, seconds: int = AT, how: int = 0x6F, kind: int = 0x02) -> bytes:
    head = (7).to_bytes(2, "little") + bytes((kind,)) + seconds.to_bytes(4, "little")
    return head + bytes((0x20, 0, 4, sensor, 1, how, 0xA0 | offset, 0xFF, 0xFF))


@pytest.mark.parametrize(
    ("sensor", "offset", "event", "text"),
    [
        (0x09, 0, Event.STOPPED, "power off"),
        (0x09, 4, Event.STOPPED, "AC lost"),
        (0x20, 1, Event.STOPPED, "critical stop of its OS"),
        (0x22, 5, Event.STOPPED, "soft off"),
        (0x23, 1, Event.STOPPED, "hard reset by watchdog"),
        (0x1D, 0, Event.STARTED, "start was begun"),
        (0x1F, 6, Event.STARTED, "OS was started"),
        (0x22, 0, Event.STARTED, "working"),
    ],
)
def test_records_of_ipmi_that_tell_that_a_machine_stopped_or_started(
    sensor: int, offset: int, event: Event, text: str
) -> None:
    record = a_record(sensor, offset)
    assert entry_of(record) == Entry(NOW, event, text)
    assert number_of(record) == 7
    over = entry_of(a_record(sensor, offset, how=0xEF))
    assert over == (Entry(NOW, Event.STARTED, f"{text} is over") if event is Event.STOPPED else None)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        a_record(0x20, 1)[:-1],
        a_record(0x01, 1),  # a temperature
        a_record(0x08, 3),  # one power supply of several
        a_record(0x23, 0),  # a watchdog that only tells that it ran out
        a_record(0x20, 1, kind=0xC0),  # of a vendor
        a_record(0x20, 1, how=0x01),  # of a threshold
        a_record(0x20, 1, seconds=0xFFFFFFFF),
        a_record(0x20, 1, seconds=90),  # since the BMC started, and nobody knows when that was
    ],
)
def test_records_of_anything_else_or_without_a_date_say_nothing(record: bytes) -> None:
    assert entry_of(record) is None
