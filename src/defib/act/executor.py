"""Carries out what was decided: at once, side by side, within bounds, and only while the mandate lasts.

What fails is remembered and waits, longer each time; it never holds up anything else. A bug of ours ends the executor,
and with it the operator: the next leader starts from what stands in the cluster.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import msgspec
import structlog

from defib.act.apply import apply
from defib.act.deadline import StepByStep, within
from defib.act.ledger import Ledger
from defib.act.means import Means, Note
from defib.act.news import News
from defib.act.outcome import (
    Done,
    Failed,
    Outcome,
    Withheld,
)
from defib.act.places import Places, in_turn
from defib.act.said import log_end, log_failure, why_again
from defib.act.status_pace import StatusPace
from defib.clock import Clock
from defib.kube.client import Client
from defib.kube.discovery import Discovery
from defib.kube.errors import Forbidden, KubeError, Refused, ServerFailed, Throttled, Unreachable
from defib.model import medik8s
from defib.model.account_action import MANY_AT_ONCE, AccountAction
from defib.model.action import (
    Action,
    CheckPower,
    DeleteAttachment,
    DeleteMachine,
    DeleteNode,
    EndRemediation,
    FreePod,
    GatherEvidence,
    MovePod,
    ReadClaim,
    ReadPower,
    StartRemediation,
    TaintNode,
    TellEvent,
    WriteStatus,
)
from defib.model.agents import HearAgents
from defib.model.drain_action import PodStep
from defib.model.failure import Failure
from defib.model.leftover import ReadMembers
from defib.model.machine_action import MachineAction
from defib.model.mandate import Mandate, Permit
from defib.power.registry import Drivers

log = structlog.get_logger("act")

TELLERS = 4  # Event objects must not take the place of remediations, however many there are
UNTOLD_MAX = 1000
TELLING_TRIES = 5
NEWS_SECONDS = 1.0
# Nobody decides by what these leave behind, so whoever comes next need not wait for them.
HARMLESS = ReadPower | CheckPower | ReadClaim | ReadMembers | HearAgents | GatherEvidence | TellEvent | AccountAction
HELD_BY_THE_BRAKE = (
    StartRemediation
    | MovePod
    | TaintNode
    | DeleteNode
    | FreePod
    | DeleteAttachment
    | DeleteMachine
    | MachineAction
    | PodStep
)


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """`stop` says why nothing new may be started, or nothing; `note` hears of what we wrote; `on_ended` of each end.

    `drivers` switch the power of machines.
    """

    stop: Callable[[], str]
    note: Note
    on_ended: Callable[[Action, Outcome, Mandate], None]
    drivers: Drivers


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    lock_namespace: str = medik8s.LOCK_NAMESPACE
    namespace: str = "defib-system"
    at_once: int = 128
    starts_per_kind: int = 16  # a kind whose creation hangs must not take the places of the others
    deadline_seconds: float = 30.0


class Executor:
    def __init__(self, client: Client, discovery: Discovery, clock: Clock, hooks: Hooks, terms: Terms) -> None:
        self._means = Means(
            client=client,
            discovery=discovery,
            clock=clock,
            lock_namespace=terms.lock_namespace,
            namespace=terms.namespace,
            stop=hooks.stop,
            note=hooks.note,
            drivers=hooks.drivers,
        )
        self._clock = clock
        self._on_ended = hooks.on_ended
        self._terms = terms
        self._ledger = Ledger()
        self._last_pass = clock.monotonic()
        self._news = News()
        self._underway: dict[str, Action] = {}
        self._mandates: dict[str, Mandate] = {}  # by which each of them is done
        self._status_pace = StatusPace()
        self._waiting: deque[tuple[Action, Mandate]] = deque()  # of the last plan, those for which there was no place
        self._untold: dict[str, tuple[TellEvent, Mandate]] = {}
        self._tellers = 0
        self.others_start = False  # remediations that are wanted, as far as the last plan knows
        self._is_ending = False
        self._knows_how_all_ended = True
        self._ended_one = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Work until cancelled. Whatever is under way then is given up; the cluster shows how far it came."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    def carry_out(self, actions: Iterable[Action], permit: Permit) -> None:
        """Begin what can begin now and is ours to do, and come back at once.

        `actions` is all that is wanted now: what failed or waits and is not among them is forgotten. What does not fit
        begins when something else has ended. What rests after a failure is left to a later pass; `next_retry` says when
        one makes sense.
        """
        assert self._group is not None, "nothing can be carried out before run() and after it"
        wanted = list(actions)
        now = self._last_pass = self._clock.monotonic()
        self._ledger.keep_only({action.key for action in wanted} | self._underway.keys(), now)
        self._waiting.clear()
        if self._is_ending:
            return
        mandates = {action.key: mandate for action in wanted if (mandate := permit.of(action)) and mandate.holds(now)}
        others_do = [action for action in wanted if action.key not in mandates]
        self.others_start = any(isinstance(action, StartRemediation) for action in others_do)
        self._status_pace.begin((*self._underway.values(), *others_do))
        ready = self._ready([action for action in wanted if action.key in mandates], now)
        places = self._places()
        news: dict[Mandate, list[TellEvent]] = {}
        for action in in_turn(ready, self._underway.values()):
            if action.key in self._underway:  # two of a plan may have one key
                continue
            if isinstance(action, TellEvent):
                news.setdefault(mandates[action.key], []).append(action)
            elif places.take(action):
                self._begin(action, mandates[action.key])
            else:
                self._waiting.append((action, mandates[action.key]))
        for mandate, events in news.items():
            self.tell(events, mandate)
        self._call_tellers()

    async def finish(self, seconds: float) -> bool:
        """Begin nothing more, and wait for what is under way, but not for longer than this; whether all has ended for sure."""
        self._is_ending = True
        self._waiting.clear()
        self._call_tellers()
        try:
            async with asyncio.timeout(seconds):
                await self._until_ended(self._deeds)
        except TimeoutError:
            log.warning("not all that was begun has ended", underway=sorted(self._deeds())[:10])
            return False
        with suppress(TimeoutError):  # what has ended may have something to tell, but nobody waits long for that
            async with asyncio.timeout(NEWS_SECONDS):
                await self._until_ended(lambda: [*self._untold, *self._news_underway()])
        return self._knows_how_all_ended

    async def _until_ended(self, what: Callable[[], list[str]]) -> None:
        while what():
            self._ended_one.clear()
            await self._ended_one.wait()

    def _deeds(self) -> list[str]:
        return [key for key, action in self._underway.items() if not isinstance(action, HARMLESS)]

    def _news_underway(self) -> list[str]:
        return [key for key, action in self._underway.items() if isinstance(action, TellEvent)]

    def is_busy(self, mandate: Mandate) -> bool:
        """Whether anything that changes something is under way by this mandate, or waits to be."""
        waiting = (by for action, by in self._waiting if not isinstance(action, HARMLESS))
        return any(by is mandate for by in (*(self._mandates[key] for key in self._deeds()), *waiting))

    def _begin(self, action: Action, mandate: Mandate) -> None:
        assert self._group is not None
        self._enter(action, mandate)
        if isinstance(action, WriteStatus):
            self._status_pace.writes(action, self._clock.monotonic())
        self._group.create_task(self._perform(action, mandate), name=action.key)

    def _enter(self, action: Action, mandate: Mandate) -> None:
        self._underway[action.key] = action
        self._mandates[action.key] = mandate

    def _leave(self, action: Action) -> None:
        del self._underway[action.key], self._mandates[action.key]
        self._ended_one.set()

    def _begin_waiting(self) -> None:
        """A place has become free. Whoever is first in line takes it, or everybody waits for the next pass."""
        places = self._places()
        while self._waiting and self._group is not None:
            action, mandate = self._waiting[0]
            if action.key not in self._underway and not places.take(action):
                return
            self._waiting.popleft()
            if action.key not in self._underway:
                self._begin(action, mandate)
        self._call_tellers()

    def _ready(self, wanted: list[Action], now: float) -> list[Action]:
        rested = [
            action
            for action in wanted
            if action.key not in self._underway
            and not self._ledger.must_wait(action, now)
            and not self._status_pace.is_too_soon(action, now)
        ]
        if not self._means.stop():
            return rested
        return [action for action in rested if not isinstance(action, HELD_BY_THE_BRAKE)]

    def _places(self) -> Places:
        return Places(self._terms.at_once, self._terms.starts_per_kind, self._underway.values())

    def tell(self, events: Iterable[TellEvent], mandate: Mandate) -> None:
        """Tell what is worth it, in its own time. Each is asked for once, so none is left to a later pass."""
        assert self._group is not None, "nothing can be told before run() and after it"
        for event in self._news.worth_telling(events, self._clock.monotonic()):
            if event.key in self._underway:
                continue
            if len(self._untold) >= UNTOLD_MAX:
                oldest, _ = self._untold.pop(next(iter(self._untold)))
                self._news.not_told(oldest)
                log.warning("too much to tell at once", check=oldest.check, dropped=oldest.message)
            self._untold[event.key] = (event, mandate)
        self._call_tellers()

    def _call_tellers(self) -> None:
        while self._group is not None and self._tellers < min(TELLERS, len(self._untold)) and self._may_tell:
            self._tellers += 1
            self._group.create_task(self._tell_all(), name="tell events")

    @property
    def _may_tell(self) -> bool:
        """The API server's time goes to remediations first, while there are many of them, unless there is too much to tell."""
        if len(self._untold) > UNTOLD_MAX // 2:
            return True
        moving = sum(isinstance(action, StartRemediation | EndRemediation) for action in self._underway.values())
        return not self.has_a_line and moving <= MANY_AT_ONCE

    @property
    def underway(self) -> tuple[Action, ...]:
        """Begun and not ended, and news that waits to be told."""
        return (*self._underway.values(), *(event for event, _ in self._untold.values()))

    @property
    def has_a_line(self) -> bool:
        """Whether remediations wait for others to be started. They take their places without another plan."""
        return any(isinstance(action, StartRemediation) for action, _ in self._waiting)

    @property
    def failures(self) -> Mapping[str, Failure]:
        """What did not work when it was last tried, by key. `again_in` counts from then."""
        return self._ledger.failures

    @property
    def next_retry(self) -> float | None:
        """The moment (monotonic) from which something that is held back may be tried again.

        What could have begun at the last pass and did not, for want of a place, waits for an end and not for a moment.
        """
        if self._places().are_full:
            return None
        retry = self._ledger.next_retry(self._underway.keys(), after=self._last_pass)
        return min(filter(None, (retry, self._status_pace.due)), default=None)

    async def _perform(self, action: Action, mandate: Mandate) -> None:
        try:
            outcome = await self._attempt(action, mandate)
        finally:
            self._leave(action)
        self._ended(action, outcome, mandate)
        self._begin_waiting()

    async def _attempt(self, action: Action, mandate: Mandate) -> Outcome:
        if not mandate.holds(self._clock.monotonic()):
            return Withheld("our mandate has ended")
        try:
            async with within(self._terms.deadline_seconds, mandate, self._clock) as deadline:
                return await StepByStep(apply(self._means, action, mandate), mandate, self._clock)
        except KubeError as error:
            passing = isinstance(error, (Unreachable, ServerFailed, Throttled))
            asked = (error.retry_after if isinstance(error, Refused) else None) or 0.0
            forbidden = isinstance(error, Forbidden)
            return Failed(str(error), may_pass=passing, retry_after_seconds=asked, forbidden=forbidden)
        except TimeoutError:
            if not mandate.holds(self._clock.monotonic()):
                return Failed("not done when our mandate ended", may_pass=True)
            if not deadline.expired():
                raise
            return Failed(f"not done within {self._terms.deadline_seconds:g} s", may_pass=True)

    def _ended(self, action: Action, outcome: Outcome, mandate: Mandate) -> None:
        now = self._clock.monotonic()
        if self._is_ending and isinstance(outcome, Failed) and outcome.may_pass and not isinstance(action, HARMLESS):
            self._knows_how_all_ended = False  # its last request was given up, and may be done all the same
        if isinstance(action, TellEvent) and isinstance(outcome, Failed | Withheld):
            self._news.not_told(action)
        if isinstance(outcome, Failed):
            log_failure(action, self._ledger.failed(action, outcome, now))
        elif isinstance(outcome, Withheld):
            self._ledger.withheld(action)
            log_end(action, outcome)
        elif failure := self._ledger.ended(action, why_again(outcome), now, is_done=isinstance(outcome, Done)):
            log_failure(action, failure)
        else:
            log_end(action, outcome)
        self._on_ended(action, outcome, mandate)

    async def _tell_all(self) -> None:
        while self._untold and self._may_tell:
            event, mandate = self._untold.pop(next(iter(self._untold)))
            self._enter(event, mandate)
            try:
                outcome = await self._tell_one(event, mandate)
            finally:
                self._leave(event)
            self._ended(event, outcome, mandate)
        self._tellers -= 1

    async def _tell_one(self, event: TellEvent, mandate: Mandate) -> Outcome:
        pause = 1.0
        for _ in range(TELLING_TRIES - 1):
            outcome = await self._attempt(event, mandate)
            if not isinstance(outcome, Failed) or not outcome.may_pass:
                return outcome
            await asyncio.sleep(max(pause, outcome.retry_after_seconds))
            pause *= 2
        return await self._attempt(event, mandate)
