"""Redfish, as every BMC of this decade speaks it: a few resources in JSON, with Basic authentication.

The address is that of the BMC, `https://10.0.0.7`, or of one machine behind it, `https://10.0.0.7/redfish/v1/Systems/2`.
Without a path the BMC is asked, and must know exactly one machine. Why not sushy: docs/decisions/0010.
"""

import math
from base64 import b64encode
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

import msgspec

from defib.clock import Clock
from defib.power.base import Outcome, PowerState, Readiness, Reading, Target
from defib.power.calls import Calls, Denied, Doubtful, Seen, options_of
from defib.power.event_log import NEWEST, Entry, EventLog, meaning, newest
from defib.power.https import Answer, Https, Question, TlsOptions, decoded, is_path, origin_of, path_of

ROOT = "/redfish/v1/"
JUST_SECONDS = 30.0
REMEMBERED_MAX = 10_000
UNAUTHORIZED = 401
FORBIDDEN = 403
SERVER_FAILED = 500

_STATES = {"On": PowerState.ON, "Off": PowerState.OFF}
_OFF = ("ForceOff",)
_ON = ("On", "ForceOn")
_LOGS = ("sel", "eventlog", "event", "iml", "platformlog", "log1")  # the last word of their paths, the best first


class _Link(msgspec.Struct, frozen=True):
    path: str = msgspec.field(name="@odata.id", default="")


class _Root(msgspec.Struct, frozen=True):
    systems: _Link = msgspec.field(name="Systems", default=_Link())


class _Systems(msgspec.Struct, frozen=True):
    members: list[_Link] = msgspec.field(name="Members", default=[])


class _Reset(msgspec.Struct, frozen=True):
    target: str = ""
    allowed: list[str] | None = msgspec.field(name="ResetType@Redfish.AllowableValues", default=None)


class _Actions(msgspec.Struct, frozen=True):
    reset: _Reset = msgspec.field(name="#ComputerSystem.Reset", default=_Reset())


class _System(msgspec.Struct, frozen=True):
    power: str | None = msgspec.field(name="PowerState", default=None)
    actions: _Actions = msgspec.field(name="Actions", default=_Actions())


class _Links(msgspec.Struct, frozen=True):
    managers: list[_Link] = msgspec.field(name="ManagedBy", default=[])


class _Keeper(msgspec.Struct, frozen=True):
    """A machine or its BMC, as one that keeps logs. Apart from the above: who has odd logs can still be switched."""

    logs: _Link = msgspec.field(name="LogServices", default=_Link())
    links: _Links = msgspec.field(name="Links", default=_Links())


class _Log(msgspec.Struct, frozen=True):
    entries: _Link = msgspec.field(name="Entries", default=_Link())
    now: str | None = msgspec.field(name="DateTime", default=None)


class _Entries(msgspec.Struct, frozen=True):
    members: list[dict[str, Any]] = msgspec.field(name="Members", default=[])
    count: int = msgspec.field(name="Members@odata.count", default=0)
    next: str = msgspec.field(name="Members@odata.nextLink", default="")


class _Note(msgspec.Struct, frozen=True):
    message: str = msgspec.field(name="Message", default="")


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    more: list[_Note] = msgspec.field(name="@Message.ExtendedInfo", default=[])


class _Complaint(msgspec.Struct, frozen=True):
    error: _Error = _Error()


class Redfish:
    can_read_state: ClassVar[bool] = True

    def __init__(self, clock: Clock) -> None:
        self._calls = Calls(clock, place=_bmc)
        self._https = Https()
        self._found: dict[str, str] = {}  # by BMC, the path of its one machine: looking twice costs a slow BMC seconds
        self._logs: dict[str, str] = {}  # by address, the path of the log; the same
        self._seen: dict[str, tuple[float, _System]] = {}  # by address, what was just read; for where a reset is sent
        self._clock = clock

    async def state(self, target: Target, within_seconds: float) -> Reading:
        return await self._calls.read(target, within_seconds, self._read)

    async def off(self, target: Target, within_seconds: float) -> Outcome:
        return await self._calls.command(target, within_seconds, partial(self._reset, _OFF, PowerState.OFF))

    async def on(self, target: Target, within_seconds: float) -> Outcome:
        return await self._calls.command(target, within_seconds, partial(self._reset, _ON, PowerState.ON))

    async def check(self, target: Target, within_seconds: float) -> Readiness:
        return await self._calls.check(target, within_seconds, self._read_before_off)

    async def log(self, target: Target, within_seconds: float) -> EventLog:
        return await self._calls.log(target, within_seconds, self._read_log)

    async def _read_log(self, target: Target) -> EventLog:
        path = await self._log_path(target)
        ours = self._clock.now()
        try:
            log = decoded(await self._asked(target, path), _Log)
            members = await self._newest(target, log.entries.path)
        except Denied:
            self._logs.pop(target.address, None)
            raise
        entries = [entry for member in members if (entry := _entry(member))]
        return EventLog(entries=newest(entries), theirs=_moment(log.now), ours=ours)

    async def _log_path(self, target: Target) -> str:
        """Of its machine's own logs, else of its BMC's, the one that is most likely to tell of power."""
        if target.address not in self._logs:
            system = path_of(target.address) or await self._only_system(target)
            keeper = decoded(await self._asked(target, system), _Keeper)
            if not keeper.logs.path and keeper.links.managers:
                keeper = decoded(await self._asked(target, keeper.links.managers[0].path), _Keeper)
            if not keeper.logs.path:
                raise Denied("it keeps no event log")
            members = decoded(await self._asked(target, keeper.logs.path), _Systems).members
            if not members:
                raise Denied("it keeps no event log")
            if len(self._logs) >= REMEMBERED_MAX:
                self._logs.clear()
            self._logs[target.address] = min((member.path for member in members), key=_rank)
        return self._logs[target.address]

    async def _newest(self, target: Target, path: str) -> list[dict[str, Any]]:
        """Of a long log that begins with the oldest, the end."""
        page = decoded(await self._asked(target, path), _Entries)
        shown = [str(member.get("Created", "")) for member in page.members]
        if not page.next or page.count <= len(shown) or shown != sorted(shown):
            return page.members
        return decoded(await self._asked(target, f"{path}?$skip={page.count - NEWEST}"), _Entries).members

    async def _read(self, target: Target) -> Seen:
        return _seen(await self._system(target))

    async def _read_before_off(self, target: Target) -> Seen:
        system = await self._system(target)
        _chosen(system, _OFF)
        return _seen(system)

    async def _reset(self, kinds: tuple[str, ...], wanted: PowerState, target: Target) -> None:
        """Sent whatever the state is said to be: a BMC that shows an old one would otherwise keep a machine running."""
        system = self._just_seen(target) or await self._system(target)
        body = msgspec.json.encode({"ResetType": _chosen(system, kinds)})
        answer = await self._ask(target, "POST", system.actions.reset.target, body)
        if answer.is_good:
            return
        if answer.status >= SERVER_FAILED:
            raise Doubtful(_complaint(answer))
        # Many BMCs refuse to switch off what is off. Then all is as it was asked for.
        if answer.status in {UNAUTHORIZED, FORBIDDEN} or (await self._read(target)).state is not wanted:
            raise Denied(_complaint(answer))

    async def _system(self, target: Target) -> _System:
        try:
            path = path_of(target.address) or await self._only_system(target)
            answer = await self._ask(target, "GET", path)
            if not answer.is_good:
                self._found.pop(_bmc(target), None)
                raise Denied(_complaint(answer))
            return self._remembered(target, decoded(answer, _System))
        except Doubtful as trouble:
            raise Denied(str(trouble)) from None  # so far nothing was asked that changes anything

    def _remembered(self, target: Target, system: _System) -> _System:
        if len(self._seen) >= REMEMBERED_MAX:
            self._seen.clear()
        self._seen[target.address] = (self._clock.monotonic(), system)
        return system

    def _just_seen(self, target: Target) -> _System | None:
        """Where it is switched does not change between a look and the command that follows; its power may have."""
        at, system = self._seen.pop(target.address, (-math.inf, _System()))
        return system if self._clock.monotonic() - at < JUST_SECONDS else None

    async def _only_system(self, target: Target) -> str:
        bmc = _bmc(target)
        if bmc not in self._found:
            root = decoded(await self._asked(target, ROOT), _Root)
            members = decoded(await self._asked(target, root.systems.path), _Systems).members
            if len(members) != 1:
                raise Denied(f"it has {len(members)} machines: put the path of one into the address")
            if len(self._found) >= REMEMBERED_MAX:
                self._found.clear()
            self._found[bmc] = members[0].path
        return self._found[bmc]

    async def _asked(self, target: Target, path: str) -> Answer:
        answer = await self._ask(target, "GET", path)
        if not answer.is_good:
            raise Denied(_complaint(answer))
        return answer

    async def _ask(self, target: Target, method: str, path: str, body: bytes = b"") -> Answer:
        if not is_path(path):
            raise Denied("it names a place that is not on itself, or none")
        login = f"{target.credentials.username.reveal()}:{target.credentials.password.reveal()}"
        headers = {
            "Authorization": f"Basic {b64encode(login.encode()).decode()}",
            "Accept": "application/json",
            "OData-Version": "4.0",
            "Connection": "close",
        }
        if body:
            headers["Content-Type"] = "application/json"
        bmc = _bmc(target)
        question = Question(method=method, url=bmc + path, headers=headers, body=body)
        return await self._https.ask(question, options_of(target, TlsOptions), bmc)


def _bmc(target: Target) -> str:
    return origin_of(target.address)


def _seen(system: _System) -> Seen:
    said = system.power or "nothing"
    return Seen(_STATES.get(said, PowerState.UNKNOWN), f"it says {said}")


def _rank(path: str) -> int:
    name = path.rstrip("/").rpartition("/")[2].lower()
    return _LOGS.index(name) if name in _LOGS else len(_LOGS)


def _entry(member: dict[str, Any]) -> Entry | None:
    """None where it says nothing of what we look for, or not when."""
    said, kind, code = (str(member.get(field) or "") for field in ("Message", "SensorType", "EntryCode"))
    event = meaning(f"{kind} {member.get('MessageId') or ''} {said}", is_over=code.lower().startswith("deassert"))
    at = _moment(member.get("Created"))
    return Entry(at, event, said or kind) if event is not None and at is not None else None


def _moment(text: Any) -> datetime | None:
    try:
        moment = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return None
    return moment if moment.tzinfo is not None else None


def _chosen(system: _System, kinds: tuple[str, ...]) -> str:
    """The first of these kinds of reset that the machine offers; one that tells nothing is taken to offer the first."""
    reset = system.actions.reset
    if not reset.target:
        raise Denied("it offers no way to switch the machine")
    offered = [kind for kind in kinds if reset.allowed is None or kind in reset.allowed]
    if not offered:
        raise Denied(f"it does not offer {' or '.join(kinds)}")
    return offered[0]


def _complaint(answer: Answer) -> str:
    match answer.status:
        case 401:
            return "it does not accept the user name and the password"
        case 403:
            return "the user may not do this there"
    try:
        error = decoded(answer, _Complaint).error
    except Doubtful:
        error = _Error()
    said = next((note.message for note in error.more if note.message), error.message)
    return f"it answered {answer.status}" + (f": {said}" if said else "")
