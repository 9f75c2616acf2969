"""The composition root: builds everything, runs it in one TaskGroup, and makes the passes.

Observing, deciding and acting know nothing of each other; they meet here.
"""

import asyncio
from collections import deque
from typing import Any, NoReturn

import msgspec
import structlog

from defib.act.executor import Executor, Hooks, Terms
from defib.act.outcome import Done, Outcome, Stale
from defib.announcements import Announcements
from defib.clock import Clock
from defib.config import Settings
from defib.coordinate.leadership import Alone, Leadership
from defib.decide.changes import Change, What, changes, silences
from defib.decide.defaults import DEFAULTS, NotNeeded, NotPossible, default_check, news_of
from defib.decide.doubt import brake_reason
from defib.decide.fencing.obstacles import waits_for_another
from defib.decide.plan import NOTHING, Plan, decide
from defib.decide.remediators import NO_WORK, plan_own_work
from defib.decide.remedies import switched_off
from defib.decide.settling import Settling, settle
from defib.decide.wanted import wanted_kinds, widest
from defib.gauges import Gauges, series_of
from defib.kube.client import Answer, Client, Scope
from defib.kube.discovery import Discovery
from defib.kube.errors import Forbidden, KubeError
from defib.kube.kinds import CONFIG_MAPS, LEASES, NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES, Kind
from defib.kube.limits import Limits
from defib.kube.transport import Request, Transport
from defib.memory import Memory
from defib.model import medik8s
from defib.model.account_action import AccountAction, OpenAccount, WriteAccount
from defib.model.action import (
    Action,
    AddDefaultCheck,
    FreePod,
    MarkRemediation,
    MovePod,
    OpenIncident,
    ReportRemediation,
    StartRemediation,
    TellEvent,
    WriteStatus,
)
from defib.model.cluster import HEARTBEAT_NAMESPACE, HEARTBEATS, Cluster
from defib.model.incident import INCIDENTS
from defib.model.mandate import Mandate
from defib.model.meta import Resource
from defib.model.pod import PODS_ON
from defib.model.version import read_version
from defib.observe.answers import ApiHealth
from defib.observe.cache import LOCKS_NAME, Cache, catch_up_seconds
from defib.observe.node_pods import NodePods
from defib.observe.remediators import Remediators
from defib.observe.steadiness import Steadiness
from defib.observe.trigger import SETTLE_MAX_SECONDS, Trigger
from defib.observe.watch import Patience
from defib.picture import STORY_LENGTH, Picture, Told
from defib.power.registry import Drivers
from defib.rules_of import rules_of
from defib.telemetry.metrics import Metrics
from defib.web.server import Probes, overdue, unseen

log = structlog.get_logger("app")

FIRST_CONTACT_SECONDS = 10.0
FINISH_SECONDS = 10.0  # what was begun has this long to end before the lock is given back
ACCOUNTS_SECONDS = 1.0  # so late what is written down of remediations may be seen
ASIDE_PAUSE_SECONDS = 600.0
ASIDE_BLIND_SECONDS = 60.0  # whoever leads and sees nothing is in the way of those who do
SETTLE_PASSES = 3.0  # after a change others get so many times the length of a pass: it is a quarter of the time at most
DEFAULT_CHECK_ADVICE = "kubectl apply -f deploy/install.yaml, start Defib again, or write a NodeHealthCheck"


class StartFailed(Exception):
    """The operator cannot start. `str()` is one line that says why and what to do."""


class Operator:
    """One replica. Everything it needs is handed in, so that it runs the same on any server and any clock."""

    def __init__(
        self, transport: Transport, clock: Clock, settings: Settings, metrics: Metrics, drivers: Drivers | None = None
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._metrics = metrics
        self._trigger = Trigger(clock, resync_seconds=settings.resync_seconds)
        limits = Limits(in_flight=settings.requests_in_flight, per_second=settings.requests_per_second)
        self._client = Client(transport, clock, limits=limits, on_answer=self._answered)
        self._cache = Cache(self._client, clock, self, Patience(stall_seconds=settings.watch_stall_seconds))
        self._cache.follow(NODE_HEALTH_CHECKS, optional=True)
        self._cache.follow(NODE_INCIDENTS, optional=True)
        self._cache.follow(LEASES, Scope(namespace=settings.lock_namespace), name=LOCKS_NAME, optional=True)
        self._cache.follow(CONFIG_MAPS, Scope(namespace=settings.namespace), optional=True)
        # On its own client: that somebody's aggregated API is broken is no reason to doubt the API server.
        discovery = Discovery(Client(transport, clock, limits=limits, on_answer=self.counted))
        off = switched_off(settings.remedies)
        self._remediators = Remediators(self._cache, discovery, clock, self._trigger.changed, off)
        self._node_pods = NodePods(self._cache)
        hooks = Hooks(stop=self._braked, note=self._wrote, on_ended=self._ended, drivers=drivers or Drivers(clock))
        terms = Terms(lock_namespace=settings.lock_namespace, namespace=settings.namespace)
        self._executor = Executor(self._client, discovery, clock, hooks, terms)
        self._api_health = ApiHealth()
        self._steadiness = Steadiness(clock.now(), clock.monotonic())
        self._settling = Settling()
        self._rules = rules_of(settings)
        self.leadership: Leadership = Alone()
        self._aside_due = clock.monotonic()
        self._has_seen_all = False
        self._own = NO_WORK
        self._default = DEFAULTS.get(settings.default_check)  # until that is settled, once
        self.announcements = Announcements(clock)
        self._story: deque[Told] = deque(maxlen=STORY_LENGTH)
        self._last_pass = clock.monotonic()
        self._pass_seconds = 0.0
        self._gauges = Gauges(metrics, hooks.drivers)
        self._memory = Memory(self._cache, clock)
        self._server = (0, 0)
        self.picture = Picture(self._cache.snapshot(clock.now()))

    async def first_contact(self) -> None:
        """Ask once for what we are going to watch, so that what can be told now is not found out later from a log."""
        self._last_pass = self._clock.monotonic()  # whoever has to ask again is alive
        for kind, namespace in ((NODES, ""), (LEASES, HEARTBEAT_NAMESPACE)):
            request = Request(method="GET", path=kind.collection(namespace), query={"limit": "1"})
            try:
                await self._client.ask(request, deadline=FIRST_CONTACT_SECONDS)
            except Forbidden as error:
                where = f" -n {namespace}" if namespace else ""
                raise StartFailed(
                    f"{error}; grant get, list and watch on it to our account "
                    f"(kubectl auth can-i list {kind}{where} shows when that is done)"
                ) from error
            except KubeError as error:
                raise StartFailed(str(error)) from error
        self._server = await self._ask_version()

    async def _ask_version(self) -> tuple[int, int]:
        """Some things Kubernetes learned late. A server that does not tell its version counts as a new one."""
        try:
            answer = await self._client.ask(Request(method="GET", path="/version"), deadline=FIRST_CONTACT_SECONDS)
            return read_version(answer)
        except (KubeError, msgspec.DecodeError) as error:
            log.warning("server's version not known", why=str(error))
            return (0, 0)

    async def run(self) -> None:
        """Watch and make passes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cache.run(), name="cache")
            group.create_task(self._remediators.run(), name="remediators")
            group.create_task(self._executor.run(), name="executor")
            group.create_task(self.leadership.run(), name="leadership")
            group.create_task(self._passes(), name="passes")
            group.create_task(self.announcements.run(), name="announcements")

    async def finish(self) -> bool:
        """Begin nothing more, and end what was begun, so that another replica can go on; whether all has ended."""
        return await self._executor.finish(FINISH_SECONDS)

    async def close(self) -> None:
        await self._client.close()

    # What is led: who leads it, and what it must know before it acts.

    def notice(self) -> None:
        self._trigger.settle(0.0)  # who has just been told to act does not let others finish first
        self._trigger.changed()

    async def catch_up(self) -> None:
        started = self._clock.monotonic()
        try:
            await self._cache.refresh(catch_up_seconds(self._cache.snapshot(self._clock.now())))
        finally:
            self._metrics.caught_up(self._clock.monotonic() - started)

    def is_busy(self, mandate: Mandate) -> bool:
        return self._executor.is_busy(mandate)

    def probes(self) -> Probes:
        return Probes(
            not_alive=self._not_alive,
            not_ready=self._not_ready,
            before_scrape=self._show,
            scrape=self._metrics.render,
        )

    async def _passes(self) -> NoReturn:
        while True:
            self._one_pass()
            await self._trigger.wait()

    def _one_pass(self) -> None:
        started = self._clock.monotonic()
        cluster = self._look()
        self._has_seen_all = self._has_seen_all or cluster.complete
        was = self.picture
        plan = self._decide(cluster) if self._has_seen_all else NOTHING
        self._tell(*changes(was.cluster, cluster), *silences(was.plan.suspicion, plan.suspicion, cluster))
        self._step_aside(cluster)
        self.picture = Picture(cluster, plan, self._own, tuple(self._story))
        self._stand()
        self._last_pass = self._clock.monotonic()
        seconds, before = self._last_pass - started, self._pass_seconds
        self._pass_seconds = seconds
        self._metrics.passed(seconds)
        # The shorter of two: one that the rest of the machine held up says nothing about the next.
        self._settle(SETTLE_PASSES * min(seconds, before))

    def _tell(self, *news: Change) -> None:
        now = self._clock.now()
        for change in news:
            if change.subject.startswith(PODS_ON):
                continue  # they come and go with every remediation, which tells more about them
            self._story.append(Told(now, change))
            # Every node joins once at each start: that is for a table, not for a log of 5,000 lines.
            tell = log.debug if change.what is What.JOINED else log.info
            tell("cluster changed", subject=change.subject, what=change.what, why=change.why)

    def _settle(self, usual: float) -> None:
        """How long others get after a change: long where nothing is ours to do, or a pass would begin nothing more.

        While another replica starts remediations, what changes is mostly its work, and it has need of the machine.
        """
        standing, executor = self.leadership.standing, self._executor
        is_idle = not standing.leads and not standing.held and not executor.underway
        must_wait = is_idle or executor.has_a_line or (executor.others_start and not executor.underway)
        self._trigger.settle(SETTLE_MAX_SECONDS if must_wait else usual)

    def _stand(self) -> None:
        """Whoever only watches is no part of any election."""
        if self._settings.watch_only == "off":
            self._gauges.stand(self.leadership.standing)

    def _show(self) -> None:
        """When somebody asks for numbers, and not in every pass: most of them nobody would ever see."""
        self._stand()
        self._gauges.show(self.picture.cluster, self.picture.plan, self._own)

    def _look(self) -> Cluster:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        seen, trouble = self._cache.snapshot(now), self._api_health.doubt(monotonic)
        self._settling = settle(self._settling, seen, trouble, monotonic)
        doubts = (trouble, self._steadiness.doubt(now, monotonic), self._settling.doubt)
        return msgspec.structs.replace(
            seen,
            kinds=self._remediators.kinds,
            doubts=tuple(doubt for doubt in doubts if doubt),
            underway=self._executor.underway,
            failures=self._executor.failures,
            power=self._memory.power.seen,
            fences=self._memory.power.checks,
            evidence=self._memory.evidence,
            claims=self._memory.claims.modes,
            members=self._memory.members,
            agents=self._memory.agents.seen(now, self._clock.monotonic()),
            server=self._server,
        )

    def _decide(self, cluster: Cluster) -> Plan:
        started = self._clock.monotonic()
        plan = decide(cluster, self._rules, self.picture.plan)
        self.announcements.look(cluster, self._rules)
        self._metrics.decided(self._clock.monotonic() - started)
        own = self._own = plan_own_work(cluster, self._rules, plan, self._own)
        self._remediators.want(widest(wanted_kinds(plan, cluster, self._rules), own.kinds))
        self._node_pods.want(frozenset(node for node in own.nodes if self.leadership.looks_after(node)))
        self._memory.keep_only(own, cluster)
        ours: tuple[Action, ...] = ()
        if self._settings.health_checks == "on":
            ours = (*plan.actions, *self._default_check(cluster), *own.accounts.actions)
        actions = (*ours, *own.actions)
        if self._settings.watch_only == "off":
            self._executor.carry_out(actions, self.leadership.permit)
        for moment in filter(None, (plan.wake_at, *own.moments)):
            self._trigger.wake_at(started + max((moment - cluster.now).total_seconds(), 0.0))
        self._trigger.wake_at(self._executor.next_retry)
        return plan

    def _step_aside(self, cluster: Cluster) -> None:
        """Now and then: if there is nobody else, we come back, and have not been away for long."""
        now, node = self._clock.monotonic(), waits_for_another(cluster, self._rules)
        why = f"something has to be done about {node}, on which this one runs" if node else ""
        if lost := self._cache.lost():
            why = why or ", ".join(unseen(lost, cluster.now, ASIDE_BLIND_SECONDS))
            self._trigger.wake_at(now + ASIDE_BLIND_SECONDS / 2)
        if self.leadership.step_aside(why if now >= self._aside_due else "", node):
            self._aside_due = now + ASIDE_PAUSE_SECONDS

    def _default_check(self, cluster: Cluster) -> tuple[Action, ...]:
        """Wanted until it is there, or was told once that it is not needed or cannot be."""
        default = self._default
        match default_check(cluster, self._settings.namespace, default) if default is not None else None:
            case AddDefaultCheck() as action:
                return (action,)
            case NotPossible(why):
                self._default = None
                log.info("no default check", why=why, advice=DEFAULT_CHECK_ADVICE)
            case NotNeeded():
                self._default = None
        return ()

    # What the executor asks and tells on the way.

    def _braked(self) -> str:
        """As it is at this very moment: the plan may be a second old when its last action begins."""
        return brake_reason(self._cache.glance(str(CONFIG_MAPS), self._clock.now()), self._rules)

    def _wrote(self, kind: Kind[Any], item: Resource) -> None:
        if self._cache.note(kind, item):
            self.changed(str(kind))

    def _ended(self, action: Action, outcome: Outcome, mandate: Mandate) -> None:
        match action, outcome:
            case WriteStatus() | ReportRemediation() | OpenIncident() | OpenAccount() | WriteAccount(), Done():
                self._written(action, mandate)
            case StartRemediation(), Done():
                self._metrics.started(action.check)
            case AddDefaultCheck(), Done() | Stale():
                self._settled_default(outcome, mandate)
            case MarkRemediation(), Done() if medik8s.OLD_REMEDIATION in action.annotations:
                self._metrics.old(action.node)
            case MovePod() | FreePod(), Done():
                self._moved(action)
        self._gauges.ended(action, outcome)
        self.announcements.ended(action, outcome)
        self._memory.remember(action, outcome)
        if isinstance(action, AccountAction):
            self._trigger.wake_at(self._clock.monotonic() + ACCOUNTS_SECONDS)
        elif not isinstance(action, TellEvent):
            self._trigger.changed()

    def _written(
        self, action: WriteStatus | ReportRemediation | OpenIncident | OpenAccount | WriteAccount, mandate: Mandate
    ) -> None:
        self._executor.tell(action.tells, mandate)
        if isinstance(action, WriteStatus):
            for one in action.ended:
                self._metrics.ended(one.node, one.namespace, one.kind, one.seconds, action.check)

    def _moved(self, action: MovePod | FreePod) -> None:
        if isinstance(action, FreePod):
            self._metrics.pod_moved("freed")
            return
        seconds = max((self._clock.now() - action.since).total_seconds(), 0.0) if action.since is not None else None
        self._metrics.pod_moved("forced" if action.grace_seconds == 0 else "graceful", seconds)

    def _settled_default(self, outcome: Done | Stale, mandate: Mandate) -> None:
        default, self._default = self._default, None
        if default is not None and isinstance(outcome, Done) and outcome.result is not None:
            self._executor.tell([news_of(default, outcome.result, self._clock.now())], mandate)

    def _not_alive(self) -> tuple[str, ...]:
        limit = 2 * self._settings.resync_seconds + FIRST_CONTACT_SECONDS
        late = overdue(self._last_pass, self._clock.monotonic(), limit)
        blind = unseen(self._cache.lost(), self._clock.now(), self._settings.blind_limit_seconds)
        return (*late, *blind, *self.leadership.not_alive())

    def _not_ready(self) -> tuple[str, ...]:
        return tuple(
            f"{blindness.kind}: blind since {blindness.since:%H:%M:%S}: {blindness.why}"
            for blindness in self._cache.snapshot(self._clock.now()).blind
        )

    def _answered(self, answer: Answer) -> None:
        self._api_health.answered(answer, self._clock.monotonic())
        self.counted(answer)

    def counted(self, answer: Answer) -> None:
        self._metrics.answered(answer.verb, answer.code, answer.seconds)

    # The cache's witness: what it sees is counted, and wakes the next pass.

    def heard(self, name: str, events: int, news: int) -> None:  # noqa: ARG002  what is news, `changed` says
        self._metrics.watched(series_of(name), events)

    def changed(self, name: str) -> None:
        if name == INCIDENTS and self._only_accounts_changed():
            self._trigger.wake_at(self._clock.monotonic() + ACCOUNTS_SECONDS)
        elif name != HEARTBEATS:  # hundreds a second, and each only says that nothing happened
            self._trigger.changed()

    def _only_accounts_changed(self) -> bool:
        """Nothing is decided by them, and where many nodes fail there are many."""
        return self._cache.glance(INCIDENTS, self._clock.now()).incidents() == self.picture.cluster.incidents()

    def relisted(self, name: str, reason: str) -> None:
        self._metrics.relisted(series_of(name), reason)
        self._trigger.changed()

    def sight_changed(self, name: str) -> None:  # noqa: ARG002  whichever it was, the next pass looks at all
        self._trigger.changed()
