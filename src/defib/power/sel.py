"""Records of IPMI's system event log, as far as they tell that a machine stopped or started. Numbers are of IPMI 2.0, 32 and 42."""

from datetime import UTC, datetime

from defib.power.event_log import Entry, Event

LAST = 0xFFFF  # by this number, the newest one
RECORD_BYTES = 16

_OF_SYSTEM_EVENTS = 0x02
_BY_SENSOR_TYPE = 0x6F  # what an offset means, the type of the sensor says
_FIRST_DATE = 0x20000000  # below are seconds since the BMC started
_NO_DATE = 0xFFFFFFFF
_IS_OVER = 0x80

_STOPS = {
    0x09: {0: "power off", 1: "power cycle", 2: "power down", 3: "power down by interlock", 4: "AC lost"},
    0x20: {
        0: "critical stop while its OS started",
        1: "critical stop of its OS",
        2: "OS stopped in order",
        3: "OS shut down in order",
        4: "soft shutdown",
    },
    0x22: {5: "soft off", 6: "soft off", 7: "mechanical off"},
    0x23: {1: "hard reset by watchdog", 2: "power down by watchdog", 3: "power cycle by watchdog"},
}
_STARTS = {
    0x1D: dict.fromkeys(range(8), "start was begun"),
    0x1F: dict.fromkeys(range(7), "OS was started"),
    0x22: {0: "working"},
}


def number_of(record: bytes) -> int:
    return int.from_bytes(record[:2], "little")


def entry_of(record: bytes) -> Entry | None:
    """None where it is of something else, has no date, or is cut short."""
    if len(record) < RECORD_BYTES or record[2] != _OF_SYSTEM_EVENTS or record[12] & ~_IS_OVER != _BY_SENSOR_TYPE:
        return None
    seconds = int.from_bytes(record[3:7], "little")
    if not _FIRST_DATE <= seconds < _NO_DATE:
        return None
    at, sensor, offset = datetime.fromtimestamp(seconds, UTC), record[10], record[13] & 0x0F
    is_over = bool(record[12] & _IS_OVER)
    if stops := _STOPS.get(sensor, {}).get(offset):
        return Entry(at, Event.STARTED, f"{stops} is over") if is_over else Entry(at, Event.STOPPED, stops)
    starts = _STARTS.get(sensor, {}).get(offset)
    return Entry(at, Event.STARTED, starts) if starts and not is_over else None
