"""Sentences for tests of drains: `a_case(terminating(a_pod("web-1"), ended=5))`, and what comes next at which minute.

Every drain here began at `START`. Unless a test says otherwise its times are those that a policy has by itself: timeout
45 min, expected drain time 8 min, budgets 60 min on top of that, and half a minute until a pod counts as stuck.
"""

from datetime import datetime, timedelta
from typing import Any

from defib.decide.drains.intent import UNSCHEDULABLE, Intent
from defib.decide.drains.ladder import Case, Step, next_step
from defib.decide.drains.schedule import Schedule, schedule_of
from defib.model.budget import BUDGET, Budget
from defib.model.cluster import Cluster, Served, Unread
from defib.model.drain_action import BLOCKED
from defib.model.drain_policy import ALL_STRATEGIES, Policy, Source, Strategy, Times
from defib.model.failure import Failure
from defib.model.meta import Meta, Unstructured
from defib.model.node import Node, Taint
from defib.model.node_drain import PodEntry, Rung
from defib.model.pod import Pod
from tests.builders import MINUTE, SECOND, T0, a_node
from tests.unit.decide.failover.failovers import RWO, STATEFUL_SET, a_pod, change

START = T0
NODE = "n1"
HOLD, OTHER = "example.com/hold", "example.com/other"
OWN_GRACE = 30  # seconds, of every pod here that says nothing else
BUDGET_WAIT = 68  # minutes: expected + pdbForceDrainTimeout
TIMEOUT = 45
A_BUDGET = Budget(namespace="apps", name="web")
BUDGETS = "poddisruptionbudgets"


def minute(number: float) -> datetime:
    """Of the drain."""
    return START + number * MINUTE


def minutes(**times: float) -> Times:
    """`extra_grace` is in seconds."""
    extra = {"extra_grace": times.pop("extra_grace") * SECOND} if "extra_grace" in times else {}
    return Times(**{name: number * MINUTE for name, number in times.items()}, **extra)


def a_policy(*off: Strategy, finalizers: tuple[str, ...] = (HOLD,), **fields: Any) -> Policy:
    """All strategies but these."""
    return Policy(strategies=ALL_STRATEGIES - frozenset(off), finalizers=frozenset(finalizers), **fields)


def an_intent(source: Source = Source.KUBECTL, **fields: Any) -> Intent:
    return Intent(source=source, why="node n1 is cordoned and marked", evicts=source is Source.DEFIB, **fields)


def a_schedule(policy: Policy | None = None, **intent: Any) -> Schedule:
    return schedule_of(policy or a_policy(), an_intent(**intent), START)


def a_drained_node(*taints: Taint, ready: str = "True", cordoned: bool = True, **fields: Any) -> Node:
    node = a_node(NODE, ready=ready, cordoned=cordoned, **fields)
    return change(node, spec=change(node.spec, taints=list(taints) or None))


def a_cordon(*, added: datetime | None = None, effect: str = "NoSchedule") -> Taint:
    return Taint(key=UNSCHEDULABLE, effect=effect, time_added=added)


def with_grace(pod: Pod, seconds: int | None) -> Pod:
    """As its spec says."""
    return change(pod, spec=change(pod.spec, termination_grace_period_seconds=seconds))


def terminating(pod: Pod, *, ended: float, grace: int | None = OWN_GRACE, finalizers: tuple[str, ...] = ()) -> Pod:
    """`ended` is the minute at which it was to be gone."""
    meta = change(
        pod.metadata,
        deletion_timestamp=minute(ended),
        deletion_grace_period_seconds=grace,
        finalizers=list(finalizers) or None,
    )
    return change(pod, metadata=meta)


def a_case(pod: Pod | None = None, at: float = 0, **fields: Any) -> Case:
    """Seen at this minute. What is not said of the drain is as usual."""
    policy = fields.pop("policy", None) or a_policy()
    intent = {name: fields.pop(name) for name in ("source", "deadline") if name in fields}
    return Case(
        pod=pod if pod is not None else with_grace(a_pod("web-1"), OWN_GRACE),
        node=fields.pop("node", None) or a_drained_node(),
        policy=policy,
        schedule=a_schedule(policy, **intent),
        now=minute(at),
        **fields,
    )


def step_at(case: Case, at: float) -> Step:
    return next_step(change(case, now=minute(at)))


def due(case: Case, at: float) -> Rung | None:
    """What is done at this minute; None: nothing."""
    step = step_at(case, at)
    return step.rung if step.is_due(minute(at)) else None


def first_due(case: Case, rung: Rung) -> float | None:
    """The minute after which this rung is due, whatever comes before it."""
    step = step_at(case, 10_000)
    return (step.at - START) / MINUTE if step.rung is rung and step.at is not None else None


def an_entry(rung: Rung, at: float = 0, why: str = "it was time") -> PodEntry:
    return PodEntry(namespace="apps", name="web-1", uid="uid-web-1", rung=rung, at=minute(at), why=why)


def refused(times: int = 1) -> Failure:
    """By a budget."""
    return Failure(why=f"{BLOCKED}: Cannot evict pod", times=times, again_in=timedelta(minutes=1))


def broke(times: int = 2) -> Failure:
    """For another reason."""
    return Failure(why="the server answered 500", times=times, again_in=timedelta(seconds=1))


def a_budget(name: str = "web", *, namespace: str = "apps", **spec: Any) -> Unstructured:
    return Unstructured(
        metadata=Meta(name=name, namespace=namespace, uid=f"uid-{namespace}-{name}", generation=1),
        spec=spec or None,
        status={"disruptionsAllowed": 0},
    )


def by_key(*items: Unstructured) -> dict[str, Unstructured]:
    return {item.key: item for item in items}


def unread(key: str) -> Unread:
    return Unread(BUDGETS, key, "it is not JSON")


def seen(*items: Unstructured, **fields: Any) -> Cluster:
    """A cluster whose disruption budgets are these."""
    return Cluster(
        now=START, kinds={BUDGET: Served(BUDGETS, namespaced=True)}, others={BUDGETS: by_key(*items)}, **fields
    )


PROTECTED: dict[str, Any] = {"budgets": (A_BUDGET,)}
DEAD = a_drained_node(ready="Unknown")
STUCK = terminating(a_pod("web-1"), ended=1)
EXCLUSIVE = [
    a_pod("db-0", owner=STATEFUL_SET),
    a_pod("db-0", owner=("apps.kruise.io/v1", "StatefulSet")),
    a_pod("web-1", volumes=[{"name": "v", "iscsi": {}}]),
    a_pod("web-1", owner=None, claims=["data"]),
]
ONE = {"apps/data": RWO}  # what is known of the claim


def nothing_comes(case: Case) -> bool:
    """However long anybody waits."""
    return all(step_at(case, at).rung is None for at in (0, 46, 69, 10_000))
