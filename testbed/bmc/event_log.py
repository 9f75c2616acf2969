"""The event log of a hollow machine's BMC: as Redfish shows it, which sushy-tools' emulator does not, and as records of IPMI."""

from datetime import datetime
from typing import Any

import msgspec

from defib.hollow.machine import Bmc, Happened, Logged
from testbed.bmc.emulator import Answered

_WORDS = {
    Happened.POWER_OFF: "The system is turning off.",
    Happened.POWER_ON: "The system is turning on.",
    Happened.OS_STOPPED: "A runtime critical stop occurred.",
    Happened.WATCHDOG_RESET: "The watchdog timer reset the system.",
}
# By IPMI 2.0, table 42-3: the type of the sensor, and the offset.
_CODES = {
    Happened.POWER_OFF: (0x09, 0),
    Happened.POWER_ON: (0x22, 0),
    Happened.OS_STOPPED: (0x20, 1),
    Happened.WATCHDOG_RESET: (0x23, 1),
}
_SYSTEM_EVENT, _SENSOR_SPECIFIC, _OS_CODES_FOLLOW = 0x02, 0x6F, 0xA0


def with_logs(answered: Answered, system: str) -> Answered:
    """The machine, and that it keeps logs."""
    body = msgspec.json.decode(answered.body) | {"LogServices": {"@odata.id": f"{system}/LogServices"}}
    return Answered(answered.status, answered.headers, msgspec.json.encode(body))


def page_of(bmc: Bmc, system: str, path: str) -> dict[str, Any] | None:
    """None where it is none of the log's pages. The oldest entry comes first."""
    services = f"{system}/LogServices"
    if path == services:
        return {"Members": [{"@odata.id": f"{services}/{name}"} for name in ("Audit", "Sel")]}
    if path == f"{services}/Sel":
        clock = {"DateTime": _stamp(bmc.now)} if bmc.tells_clock else {}
        return {"Id": "Sel", "Entries": {"@odata.id": f"{services}/Sel/Entries"}} | clock
    if path == f"{services}/Sel/Entries":
        entries = [_entry(number, logged) for number, logged in enumerate(bmc.log, start=1)]
        return {"Members@odata.count": len(entries), "Members": entries}
    return None


def _entry(number: int, logged: Logged) -> dict[str, Any]:
    return {
        "Id": str(number),
        "EntryType": "SEL",
        "Severity": "Critical",
        "Created": _stamp(logged.at),
        "Message": _WORDS[logged.what],
    }


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def record_of(number: int, logged: Logged) -> bytes:
    sensor, offset = _CODES[logged.what]
    head = number.to_bytes(2, "little") + bytes((_SYSTEM_EVENT,)) + int(logged.at.timestamp()).to_bytes(4, "little")
    return head + bytes((0x20, 0, 0x04, sensor, 1, _SENSOR_SPECIFIC, _OS_CODES_FOLLOW | offset, 0xFF, 0xFF))
