"""Whether the machines could be fenced if they had to be, found out before they fail.

Covered is every node that a NodeHealthCheck selects which uses a template of ours that fences. Each is tried once in a
while: its credentials work, its power can be read; or its agent lives and has armed a watchdog. Trying changes nothing, so neither the brake nor doubt hold it back.

A cluster of thousands is mostly as it was a moment ago, and so is this: `before` holds what was concluded, and only what
has changed since is looked at again. What came of earlier tries is remembered there too.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

import msgspec

from defib.decide.fencing.coverage import NOBODY, Coverage, carried, coverage_of, key_of, stale, uses_in
from defib.decide.fencing.covered import Covered, Machine, answered, begin, failed, machine_of, sharers_of, told_shared
from defib.decide.fencing.fence_status import INVALID, by_node, changes_answer, report, sum_up
from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.ours import BY_TEMPLATE, OURS, Ours
from defib.decide.fencing.paths import NO_WAY, path_in
from defib.decide.plan import Plan
from defib.decide.rules import Rules
from defib.model.action import Action, CheckPower, ReportRemediation
from defib.model.cluster import Cluster, Served
from defib.model.incident import NodeIncident
from defib.model.meta import Unstructured
from defib.model.node import Node
from defib.model.power import FenceCheck, PowerPath

SHARED = "SharedPowerPath"
AT_ONCE = 16
TOLD_PAUSE = timedelta(seconds=5)  # a status whose answer stays the same is not written more often
PUT_OFF = timedelta(seconds=15)
FAILURES_COUNT = 3  # so often in a row may a try fail on our own side before that is said of the node
FEW = 64

Due = tuple[datetime, str, str]  # when, by which template, which node
User = tuple[str, str]  # of a machine: a template and a node


class Asked(msgspec.Struct, frozen=True):
    """A node is being tried by this template; `known` is what was there before."""

    template: str
    known: FenceCheck | None


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, when to look again, which nodes could be fenced; and what the next pass need not find out anew."""

    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    ready: Mapping[str, bool] = {}  # by node; those that nobody has tried are left out
    checked_at: datetime | None = None  # the latest, of any node; None while there is none to try
    nodes: Mapping[str, Node] = {}
    incidents: Mapping[str, NodeIncident] = {}
    out: frozenset[str] = NOBODY  # nodes whose machine is being switched
    coverages: Mapping[str, Coverage] = {}
    machines: Mapping[Machine, frozenset[User]] = {}
    queue: Sequence[Due] = ()  # a heap; what no longer fits its node is passed over
    asked: Mapping[str, Asked] = {}  # by node


NOTHING = Readiness()


def why_shared(readiness: Readiness, node: str, path: PowerPath | Obstacle) -> Obstacle | None:
    """That other nodes have the same path to their power, and so which machine it switches is anybody's guess."""
    machine = machine_of(path)
    if machine is None or isinstance(path, Obstacle):
        return None
    users = sorted({user for _, user in readiness.machines.get(machine, frozenset())} | {node})
    sharers = sharers_of(node, users)
    return Obstacle(SHARED, told_shared(path, sharers)) if sharers else None


def plan_readiness(cluster: Cluster, rules: Rules, plan: Plan, before: Readiness = NOTHING) -> Readiness:
    if not any(isinstance(cluster.kinds.get(kind), Served) for kind in BY_TEMPLATE):
        return NOTHING
    this = _Pass(cluster, rules, before)
    templates = {
        key_of(ours.template, item.key): (ours, item) for ours in OURS for item in cluster.every(ours.template)
    }
    this.cover(templates, uses_in(plan))
    this.hear()
    this.hurry(plan.asked_after)
    this.ask()
    this.tell()
    return this.conclude()


class _Pass:
    """What was known, changed step by step into what is known now. Whatever stays the same is shared, not copied."""

    def __init__(self, cluster: Cluster, rules: Rules, before: Readiness) -> None:
        self._cluster = cluster
        self._now = cluster.now
        self._pause = rules.fence_check_pause
        self._before = before
        self._coverages: dict[str, Coverage] = {}
        self._fresh: dict[str, dict[str, Covered]] = {}  # by template, where something has changed
        self._visible: set[str] = set()  # templates of which a person would see a difference
        self._machines: dict[Machine, set[User]] = {}  # those that have other users than before
        self._due: list[Due] = []
        self._queue = before.queue
        self._asked: dict[str, Asked] = {}
        self._checked_at = before.checked_at
        self._reports: list[ReportRemediation] = []
        self._moments: list[datetime] = []
        incidents = cluster.incidents()
        self._out = before.out if before.incidents is incidents else _out(incidents)

    # Which nodes, and the way to their power

    def cover(self, templates: Mapping[str, tuple[Ours, Unstructured]], uses: Mapping[str, frozenset[str]]) -> None:
        changed = _changed(self._before.nodes, self._cluster.nodes) if uses else NOBODY
        for key, (ours, item) in templates.items():
            was = self._before.coverages.get(key)
            now = self._coverages[key] = coverage_of(ours, item, uses.get(key), was)
            if was is None or now.policy is not was.policy or now.is_used != was.is_used:
                self._visible.add(key)
            moved = stale(now, was, changed)
            known = carried(item) if moved else {}
            for name in sorted(moved):
                self._look(key, name, known.get(name) or Covered(node=name, path=Obstacle(NO_WAY, "")))
        for key in self._before.coverages.keys() - templates.keys():
            self._visible.add(key)
            for one in self._before.coverages[key].covered.values():
                self._lead((key, one.node), one.machine, None)
        self._share()

    def _look(self, key: str, name: str, new: Covered) -> None:
        """Find the way to its power anew; if it is the old one, nothing happens."""
        coverage, known = self._coverages[key], self._of(key, name)
        if name not in coverage.nodes:
            if known is not None:
                del self._fresh_of(key)[name]
                self._visible.add(key)
                self._lead((key, name), known.machine, None)
            return
        path = self._path(coverage, name)
        if known is not None and known.path == path:
            return
        known = known or new
        machine = machine_of(path)
        self._lead((key, name), known.machine, machine)
        fresh = msgspec.structs.replace(known, path=path, machine=machine, check=None, times=0)
        self._put(key, begin(fresh, "", self._now))

    def _path(self, coverage: Coverage, name: str) -> PowerPath | Obstacle:
        if coverage.problems:
            return Obstacle(INVALID, "; ".join(coverage.problems))
        return path_in(self._cluster, coverage.policy, name, coverage.item.namespace)

    def _lead(self, user: User, old: Machine | None, new: Machine | None) -> None:
        """The path of a node leads to another machine than before."""
        if old is not None:
            self._users(old).discard(user)
        if new is not None:
            self._users(new).add(user)

    def _users(self, machine: Machine) -> set[User]:
        if machine not in self._machines:
            self._machines[machine] = set(self._before.machines.get(machine, ()))
        return self._machines[machine]

    def _share(self) -> None:
        """Two nodes with one machine: neither can be fenced, since nobody knows which of them would go off."""
        for machine, users in self._machines.items():
            before = self._before.machines.get(machine, frozenset())
            names = sorted({name for _, name in users})
            was_alone = len({name for _, name in before}) <= 1
            if len(names) <= 1 and was_alone:
                continue
            for key, name in sorted(users):
                known = self._of(key, name)
                assert known is not None, "whoever uses a machine is covered"
                self._put(key, begin(known, sharers_of(name, names), self._now))

    # Trying them

    def hear(self) -> None:
        """What came of those that were being tried."""
        for name, asked in self._before.asked.items():
            known = self._of(asked.template, name)
            if known is None or known.due is None:
                continue
            heard = self._heard(known, asked)
            if heard is not None:
                self._put(asked.template, heard)
            else:
                self._asked[name] = asked

    def _heard(self, known: Covered, asked: Asked) -> Covered | None:
        """None when there is nothing to hear yet."""
        cluster, node = self._cluster, known.node
        if node in self._out:
            return msgspec.structs.replace(known, due=self._now + PUT_OFF)
        check = cluster.fences.get(node)
        if check is not None and check is not asked.known and check.path == known.path:
            self._checked_at = check.at if self._checked_at is None else max(self._checked_at, check.at)
            return answered(known, check, self._coverages[asked.template].policy, cluster, self._pause)
        failure = cluster.failures.get(_action(known, asked).key)
        if failure is None or failure.times < FAILURES_COUNT or cluster.blind or cluster.doubts:
            return None
        return failed(known, failure.why, known.check, self._now, self._pause)

    def hurry(self, silent: Mapping[str, datetime]) -> None:
        """Who has fallen silent is tried now, unless that was done since."""
        for key, coverage in self._coverages.items():
            for name in silent.keys() & coverage.nodes:
                known = self._of(key, name)
                if known is None or known.due is None or known.due <= self._now or name in self._asked:
                    continue
                if known.check is None or known.check.at < silent[name]:
                    self._put(key, msgspec.structs.replace(known, due=self._now))

    def ask(self) -> None:
        """Whoever is due, in turn, as long as there is a place."""
        is_due = bool(self._queue) and self._queue[0][0] <= self._now and len(self._asked) < AT_ONCE
        if not self._due and not is_due:
            return
        heap = self._queue = _with(self._queue, self._due)
        while heap and heap[0][0] <= self._now and len(self._asked) < AT_ONCE:
            due, key, name = heappop(heap)
            known, asked = self._of(key, name), self._asked.get(name)
            if known is None or known.due != due or (asked is not None and asked.template == key):
                continue
            if asked is not None or name in self._out:
                later = self._fresh_of(key)[name] = msgspec.structs.replace(known, due=self._now + PUT_OFF)
                heappush(heap, (later.due or due, key, name))
            else:
                self._asked[name] = Asked(key, self._cluster.fences.get(name))

    # Saying it

    def tell(self) -> None:
        for key, covered in self._fresh.items():
            self._coverages[key] = msgspec.structs.replace(self._coverages[key], covered=covered)
        for key, coverage in self._coverages.items():
            if key in self._visible:
                summary = sum_up(coverage.covered, coverage.problems, is_used=coverage.is_used)
                self._coverages[key] = self._told(msgspec.structs.replace(coverage, summary=summary))
            elif not coverage.is_told:
                self._coverages[key] = self._told(coverage)

    def _told(self, coverage: Coverage) -> Coverage:
        wanted = report(coverage.ours.template, coverage.item, coverage.summary, self._now)
        if wanted is None:
            return msgspec.structs.replace(coverage, is_told=True)
        next_at = (coverage.told_at or self._now - TOLD_PAUSE) + TOLD_PAUSE
        if self._now < next_at and not changes_answer(coverage.item, wanted):
            self._moments.append(next_at)
            return msgspec.structs.replace(coverage, is_told=False)
        self._reports.append(wanted)
        return msgspec.structs.replace(coverage, is_told=False, told_at=self._now)

    def conclude(self) -> Readiness:
        before = self._before
        if self._queue and len(self._asked) < AT_ONCE:
            self._moments.append(self._queue[0][0])
        covered = [coverage.covered for coverage in self._coverages.values()]
        checks = [self._check(name, asked) for name, asked in self._asked.items()]
        return Readiness(
            actions=(*checks, *self._reports),
            wake_at=min(self._moments, default=None),
            ready=by_node(covered) if self._visible else before.ready,
            checked_at=self._checked_at if self._queue or self._asked else None,
            nodes=self._cluster.nodes,
            incidents=self._cluster.incidents(),
            out=self._out,
            coverages=self._coverages,
            machines=_replaced(before.machines, self._machines) if self._machines else before.machines,
            queue=self._queue,
            asked=self._asked,
        )

    def _check(self, name: str, asked: Asked) -> CheckPower:
        known = self._of(asked.template, name)
        assert known is not None, "whoever is tried is covered"
        return _action(known, asked)

    # What is known of one node by one template

    def _of(self, key: str, name: str) -> Covered | None:
        if key in self._fresh:
            return self._fresh[key].get(name)
        coverage = self._coverages.get(key)
        return coverage.covered.get(name) if coverage is not None else None

    def _fresh_of(self, key: str) -> dict[str, Covered]:
        if key not in self._fresh:
            self._fresh[key] = dict(self._coverages[key].covered)
        return self._fresh[key]

    def _put(self, key: str, one: Covered) -> None:
        known = self._of(key, one.node)
        if known is None or not one.looks_the_same(known):
            self._visible.add(key)
        if one.due is not None and (known is None or known.due != one.due):
            self._due.append((one.due, key, one.node))
        self._fresh_of(key)[one.node] = one


def _out(incidents: Mapping[str, NodeIncident]) -> frozenset[str]:
    return frozenset(incident.spec.node for incident in incidents.values() if incident.is_out)


def _changed(before: Mapping[str, Node], after: Mapping[str, Node]) -> frozenset[str]:
    """Names of nodes that are other objects than before. Whichever are new or gone, the checks tell."""
    if before is after:
        return NOBODY
    known = before.get
    return frozenset([name for name, node in after.items() if known(name) is not node])


def _action(known: Covered, asked: Asked) -> CheckPower:
    assert isinstance(known.path, PowerPath), "what leads nowhere is not tried"
    return CheckPower(node=known.node, path=known.path, after=asked.known.at if asked.known is not None else None)


def _with(queue: Sequence[Due], more: list[Due]) -> list[Due]:
    """Another heap."""
    heap = list(queue)
    if len(more) > FEW:
        heap += more
        heapify(heap)
        return heap
    for one in more:
        heappush(heap, one)
    return heap


def _replaced(
    before: Mapping[Machine, frozenset[User]], now: Mapping[Machine, set[User]]
) -> dict[Machine, frozenset[User]]:
    after = dict(before) | {machine: frozenset(users) for machine, users in now.items()}
    return {machine: users for machine, users in after.items() if users}
