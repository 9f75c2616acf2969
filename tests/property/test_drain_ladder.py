"""Whatever pods a drain meets, and however they behave: nobody is forced too early or without need, nobody who must not
run twice is lost sight of while it may run, and every pod either leaves or it is said why it does not.
"""

from datetime import datetime, timedelta
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.drains.ladder import Case, Step, next_step
from defib.decide.drains.schedule import schedule_of
from defib.model.drain_action import BLOCKED
from defib.model.drain_policy import ALL_STRATEGIES, Policy, Source, Strategy, Times
from defib.model.failure import Failure
from defib.model.node_drain import PodEntry, Rung
from defib.model.pod import Pod
from tests.builders import MINUTE, SECOND
from tests.unit.decide.drains.drains import A_BUDGET, HOLD, OTHER, START, a_drained_node, an_intent, with_grace
from tests.unit.decide.failover.failovers import REPLICA_SET, RWO, RWX, STATEFUL_SET, a_pod, change

T = TypeVar("T")

MODES = {"apps/many": RWX, "apps/once": RWO}
PASSES_MAX = 400
OFTEN = settings(max_examples=400, deadline=None)  # what matters here is rare
ORDER = list(Rung)  # the mildest first


def whole(most: int, unit: timedelta) -> st.SearchStrategy[timedelta]:
    return st.integers(0, most).map(lambda number: number * unit)


def mostly(usual: st.SearchStrategy[T], odd: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    return st.one_of(usual, usual, usual, odd)


DEADLINES = mostly(st.none(), st.integers(0, 120).map(lambda number: START + number * MINUTE))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    times = Times(
        timeout=draw(whole(60, MINUTE)),
        expected=draw(whole(15, MINUTE)),
        pdb_timeout=draw(whole(60, MINUTE)),
        extra_grace=draw(whole(90, SECOND)),
    )
    return Policy(
        times=times,
        strategies=draw(mostly(st.just(ALL_STRATEGIES), st.frozensets(st.sampled_from(Strategy)))),
        finalizers=draw(st.sampled_from([frozenset[str](), frozenset({HOLD}), frozenset({"*"})])),
        needs_proof=draw(mostly(st.just(True), st.just(False))),
    )


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    owner = draw(st.sampled_from([REPLICA_SET, STATEFUL_SET, None]))
    claims = draw(st.lists(st.sampled_from(["many", "once"]), max_size=2, unique=True))
    pod = with_grace(a_pod("web-1", owner=owner, claims=claims), draw(st.sampled_from([0, 1, 30, 3600])))
    meta = change(pod.metadata, finalizers=draw(st.sampled_from([[], [], [HOLD], [OTHER], [OTHER, HOLD]])))
    if draw(st.sampled_from([True, True, False])):
        ends = START + timedelta(minutes=draw(mostly(st.integers(-10, 30), st.integers(30, 100))))
        grace = draw(st.sampled_from([None, 0, 1, 30, 30]))
        meta = change(meta, deletion_timestamp=ends, deletion_grace_period_seconds=grace)
        pod = change(pod, status=change(pod.status, phase=draw(st.sampled_from(["Running", "Pending", "Failed"]))))
    gone = meta.deletion_timestamp is not None and not meta.deletion_grace_period_seconds and not meta.finalizers
    return change(pod, metadata=change(meta, finalizers=[OTHER]) if gone else meta)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Anything that can be seen at one moment, whether or not it could come about."""
    policy = draw(policies())
    deadline = draw(DEADLINES)
    source = draw(st.sampled_from([Source.KUBECTL, Source.DEFIB]))
    times = draw(st.integers(1, 3))
    failure = Failure(why=draw(st.sampled_from([BLOCKED, "500"])), times=times, again_in=SECOND)
    now = START + draw(mostly(whole(90 * 60, SECOND), whole(150, MINUTE)))
    pod = draw(pods())
    entry = PodEntry(
        namespace="apps", name="web-1", uid=pod.uid, rung=draw(st.sampled_from(Rung)), at=now - draw(whole(300, SECOND))
    )
    return Case(
        pod=pod,
        node=a_drained_node(ready=draw(st.sampled_from(["True", "True", "False", "Unknown"]))),
        policy=policy,
        schedule=schedule_of(policy, an_intent(source, deadline=deadline), START),
        budgets=draw(st.sampled_from([(), (A_BUDGET,)])),
        knows_budgets=draw(mostly(st.just(True), st.just(False))),
        claims={key: MODES[key] for key in draw(st.sets(st.sampled_from(sorted(MODES))))},
        unreadable=draw(st.frozensets(st.sampled_from(sorted(MODES)))),
        entry=draw(st.sampled_from([None, entry])),
        eviction=draw(st.sampled_from([None, failure])),
        now=now,
    )


def must_not_run_twice(pod: Pod, claims: Any) -> bool:
    """As far as anybody knows."""
    controller = pod.controller
    stateful = controller is not None and controller.kind == "StatefulSet"
    return stateful or any(claims.get(f"{pod.namespace}/{claim}") != RWX for claim in pod.claims)


def protected(case: Case) -> bool:
    blocked = case.eviction is not None and case.eviction.why == BLOCKED
    return blocked or bool(case.budgets) or not case.knows_budgets


def is_done(step: Step, now: datetime) -> bool:
    return step.is_due(now) and not step.to_read


@OFTEN
@given(cases())
def test_nobody_is_deleted_by_force_without_need(case: Case) -> None:
    step = next_step(case)
    if step.rung is not Rung.FORCE or not step.is_due(case.now):
        return
    meta = case.pod.metadata
    assert meta.deletion_timestamp is not None
    assert meta.deletion_timestamp + case.policy.times.extra_grace < case.now
    assert not meta.finalizers
    is_deaf = case.node.ready != "True"
    assert is_deaf or meta.deletion_grace_period_seconds in (None, 0, 1)
    if case.entry is not None and case.entry.rung is not Rung.FORCE:
        assert case.entry.at + case.policy.times.extra_grace < case.now


@OFTEN
@given(cases())
def test_nobody_who_must_not_run_twice_is_forced_or_freed_of_what_keeps_it(case: Case) -> None:
    step = next_step(case)
    if not is_done(step, case.now) or not case.policy.needs_proof or not must_not_run_twice(case.pod, case.claims):
        return
    assert step.rung is not Rung.FORCE
    if step.rung is Rung.FINALIZERS and not case.pod.is_finished:
        assert case.pod.metadata.deletion_grace_period_seconds  # its kubelet has a say still


@OFTEN
@given(cases())
def test_nothing_is_done_before_its_time(case: Case) -> None:
    step, times = next_step(case), case.policy.times
    if not step.is_due(case.now):
        return
    by_default, by_budgets = START + times.timeout, START + times.expected + times.pdb_timeout
    moments = [by_budgets if protected(case) else by_default]
    if step.rung is Rung.EVICT:
        moments += [START] if case.schedule.evicts else [by_default]
    if step.rung is Rung.DELETE and case.entry is not None and case.entry.rung is Rung.DELETE and not protected(case):
        moments.append(by_budgets)
    moment = min(moments)
    peer = case.schedule.peer_deadline
    if peer is not None and not (step.rung is Rung.EVICT and case.schedule.evicts):
        moment = max(moment, peer + times.expected)
    assert moment < case.now


@OFTEN
@given(cases())
def test_only_what_the_policy_switches_on_and_allows_is_done(case: Case) -> None:
    step, on = next_step(case), case.policy.strategies
    if step.rung is None:
        assert step.why
        return
    assert on
    assert step.strategy in on or (step.rung is Rung.EVICT and case.schedule.evicts)
    assert all(case.policy.may_remove(one) for one in step.finalizers)
    assert set(step.finalizers) <= set(case.pod.metadata.finalizers or ())
    assert bool(step.finalizers) is (step.rung is Rung.FINALIZERS)
    assert case.pod.is_leaving is (step.rung not in (Rung.EVICT, Rung.DELETE))
    assert step.rung is not Rung.KILL or case.node.ready == "True"


@OFTEN
@given(cases(), st.integers(0, 100))
def test_between_two_turns_of_its_schedule_the_same_comes_next_for_a_pod(case: Case, share: int) -> None:
    """So whoever remembers what comes next need look again only when something happens, or at such a turn."""
    turn = case.schedule.turns_at(case.now)
    later = case.now + (timedelta(days=1) if turn is None else turn - case.now) * share / 100
    assert next_step(change(case, now=later)) == next_step(case)


# A whole life.


class World:
    """One pod on a node that is being drained, as the API server, its kubelet and the others treat it.

    And what we remember: what is written down is done in the next pass; a failure that nobody asks about is forgotten.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self.policy = draw(policies())
        pod = draw(pods())
        self.pod: Pod | None = pod  # None: it is gone
        self.must_not_run_twice = must_not_run_twice(pod, MODES)
        self.source = draw(st.sampled_from([Source.KUBECTL, Source.DEFIB]))
        self.deadline = draw(DEADLINES)
        self.now = START
        # What its containers end by: being told to, the end of their grace, a kill that we ask for, or nothing at all.
        self.ends_by = draw(st.sampled_from(["SIGTERM", "grace", "kill", "nothing"]))
        self.runs = not pod.is_finished
        self.kubelet_dies_at = START + draw(st.sampled_from([-1, 20, 50, 80, *[10_000] * 4])) * MINUTE
        self.budget_ends_at = START + draw(st.sampled_from([-1, 30, 60, 100_000])) * MINUTE
        self.budget_is_seen = draw(st.booleans())
        self.evictions_break = draw(st.sampled_from([0, 0, 1, 5, 10_000]))
        self.other_ends_at = START + draw(st.sampled_from([30, 70, 100_000])) * MINUTE
        self.readable = draw(st.booleans())
        self.knows_budgets = draw(mostly(st.just(True), st.just(False)))
        self.entry: PodEntry | None = None
        self.eviction: Failure | None = None
        self.unreadable: frozenset[str] = frozenset()
        self.claims: dict[str, frozenset[str]] = {}
        self.done: list[Rung] = []

    @property
    def hears(self) -> bool:
        return self.now < self.kubelet_dies_at

    def case(self) -> Case:
        assert self.pod is not None
        blocks = self.now < self.budget_ends_at
        return Case(
            pod=self.pod,
            node=a_drained_node(ready="True" if self.hears else "Unknown"),
            policy=self.policy,
            schedule=schedule_of(self.policy, an_intent(self.source, deadline=self.deadline), START),
            budgets=(A_BUDGET,) if blocks and self.budget_is_seen else (),
            knows_budgets=self.knows_budgets,
            claims=self.claims,
            unreadable=self.unreadable,
            entry=self.entry,
            eviction=self.eviction,
            now=self.now,
        )

    # What we do.

    def take(self, step: Step) -> None:
        """One pass."""
        asked = self.entry is not None and self.entry.rung is step.rung
        if step.to_read and (step.is_due(self.now) or step.rung is None):
            self.read(step)
            return
        self.unreadable = frozenset()
        if not step.is_due(self.now) or not (asked and step.rung is Rung.EVICT):
            self.eviction = None
        if step.is_due(self.now) and asked:
            self.do(step)
        elif step.is_due(self.now) and step.rung is not None:
            self.entry = PodEntry(namespace="apps", name="web-1", uid="uid-web-1", rung=step.rung, at=self.now)

    def read(self, step: Step) -> None:
        keys = [f"{one.namespace}/{one.name}" for one in step.to_read]
        if self.readable:
            self.claims |= {key: MODES[key] for key in keys}
        self.unreadable = frozenset() if self.readable else frozenset(keys)

    def do(self, step: Step) -> None:
        assert self.pod is not None
        assert step.rung is not None
        match step.rung:
            case Rung.EVICT:
                if why := self.refusal():
                    times = self.eviction.times + 1 if self.eviction is not None else 1
                    self.eviction = Failure(why=why, times=times, again_in=SECOND)
                    return
                self.delete(None)
            case Rung.DELETE:
                self.delete(None)
            case Rung.KILL:
                self.delete(1)
            case Rung.FORCE:
                self.delete(0)
            case Rung.FINALIZERS:
                kept = [one for one in self.pod.metadata.finalizers or () if one not in step.finalizers]
                self.set(finalizers=kept)
        self.done.append(step.rung)
        if self.pod is None:
            assert not (self.runs and self.policy.needs_proof and self.must_not_run_twice), "it may run twice now"

    # What the API server does.

    def refusal(self) -> str:
        if self.now < self.budget_ends_at:
            return BLOCKED
        self.evictions_break -= 1
        return "500" if self.evictions_break >= 0 else ""

    def delete(self, grace: int | None) -> None:
        assert self.pod is not None
        meta = self.pod.metadata
        planned = meta.deletion_grace_period_seconds
        if meta.deletion_timestamp is not None:
            assert grace is not None, "a pod that is terminating is not asked to leave once more"
            assert not planned or grace < planned, "that changes nothing"
            begun = meta.deletion_timestamp - (planned or 0) * SECOND
            length = grace if planned else 0
        else:
            own = self.pod.spec.termination_grace_period_seconds or 1  # a second for who has none: so we ask for it
            begun, length = self.now, own if grace is None else grace
        self.set(deletion_timestamp=begun + length * SECOND, deletion_grace_period_seconds=length)

    def set(self, **meta: Any) -> None:
        """What is terminating, and held by nobody, is gone."""
        assert self.pod is not None
        now = self.pod = change(self.pod, metadata=change(self.pod.metadata, **meta))
        if now.is_leaving and not now.metadata.deletion_grace_period_seconds and not now.metadata.finalizers:
            self.pod = None

    # What the others do.

    def goes_on(self) -> None:
        """Its kubelet ends it, and says so; whoever holds it lets it go."""
        if self.pod is not None and self.pod.is_leaving and self.other_ends_at <= self.now:
            self.set(finalizers=[one for one in self.pod.metadata.finalizers or () if one != OTHER])
        if self.pod is None or not self.pod.is_leaving or not self.hears:
            return
        meta = self.pod.metadata
        assert meta.deletion_timestamp is not None
        is_over = meta.deletion_timestamp <= self.now
        is_killed = Rung.KILL in self.done
        if {"SIGTERM": True, "grace": is_over, "kill": is_killed, "nothing": False}[self.ends_by]:
            self.runs = False
        if not self.runs and meta.deletion_grace_period_seconds:
            self.pod = change(self.pod, status=change(self.pod.status, phase="Succeeded"))
            self.set(deletion_grace_period_seconds=0)

    def waits_for_somebody(self, step: Step) -> bool:
        """Nothing more happens, or only what others decide about."""
        if step.rung is None:
            return not (step.to_read and self.readable)
        is_refused = step.rung is Rung.EVICT and self.eviction is not None
        return is_refused and self.case().schedule.turns_at(self.now) is None


@st.composite
def worlds(draw: st.DrawFn) -> World:
    return World(draw)


@OFTEN
@given(worlds(), st.integers(20, 600))
def test_every_pod_leaves_or_it_is_said_why_it_does_not(world: World, pause: int) -> None:
    quiet = 0
    for _ in range(PASSES_MAX):
        world.goes_on()
        if world.pod is None:
            break
        step = next_step(world.case())
        world.take(step)
        quiet = quiet + 1 if world.pod is not None and world.waits_for_somebody(step) else 0
        if quiet > 2 and world.now > START + 105 * MINUTE:  # nobody else will do anything after that
            assert step.why
            break
        ahead = step.at if step.at is not None and not step.is_due(world.now) else world.now
        world.now = max(ahead, world.now) + (pause * SECOND if not quiet else 10 * MINUTE)
    else:
        raise AssertionError(f"nothing comes of it: {step}")
    done = world.done
    assert all(done.count(rung) <= 1 for rung in Rung), "nothing that took effect is done again"
    assert done == sorted(done, key=ORDER.index), "nothing milder comes after what was harsher"
