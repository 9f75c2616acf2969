"""I12: what is planned for drains does not depend on what was thought before, which only spares work."""

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from defib.decide.drains.intents.cluster_autoscaler import TO_BE_DELETED
from defib.decide.drains.plan import NOTHING, Drains
from defib.model.action import ReportRemediation
from defib.model.cluster import Blindness, Cluster
from defib.model.drain_action import BLOCKED, OpenDrain
from defib.model.failure import Failure
from defib.model.meta import Meta, Unstructured
from defib.model.node import Node, NodeSpec, Taint
from defib.model.node_drain import DRAIN
from defib.model.pod import Pod, pods_on
from tests.builders import MINUTE, T0, a_node
from tests.unit.decide.drains.ward import a_budget, a_drained_node, a_leaving_pod, a_web_pod
from tests.unit.decide.drains.wing import a_lock, a_wing, planned, policy
from tests.unit.decide.failover.failovers import REPLICA_SET, RWO, RWX, STATEFUL_SET

NODES = ("n1", "n2")
SECONDS = st.sampled_from([0, 1, 30, 60, 599, 600, 601, 1799, 1800, 1801, 3600, 7200])
DEEDS = st.one_of(
    st.tuples(st.just("wait"), SECONDS),
    st.tuples(st.just("obey"), st.just(0)),
    st.tuples(
        st.sampled_from(["cordon", "uncordon", "tell", "removed", "not ready", "pod", "leave", "evicted"]),
        st.sampled_from(NODES),
    ),
    st.tuples(st.sampled_from(["budget", "lock", "blind", "claim", "policy"]), st.integers(0, 1)),
)


def removed_by_autoscaler(name: str, cluster: Cluster) -> Node:
    taint = Taint(key=TO_BE_DELETED, value=f"{cluster.now.timestamp():.0f}", effect="NoSchedule")
    return msgspec.structs.replace(a_node(name), spec=NodeSpec(taints=[taint]))


def after(cluster: Cluster, **others: Any) -> Cluster:
    return msgspec.structs.replace(cluster, others={**cluster.others, **others})


def on_node(cluster: Cluster, what: str, name: str) -> Cluster:
    minutes = (T0 - cluster.now) / MINUTE
    pods = {**cluster.all_of(pods_on(name), Pod)}
    match what:
        case "pod":
            owner = STATEFUL_SET if len(pods) % 2 else REPLICA_SET
            pod = a_web_pod(f"web-{len(pods)}", node=name, claims=("c",), owner=owner)
            return after(cluster, **{pods_on(name): {**pods, pod.key: pod}})
        case "leave":
            leaving = [a_leaving_pod(pod.name, ended=cluster.now, node=name, claims=("c",)) for pod in pods.values()]
            return after(cluster, **{pods_on(name): {pod.key: pod for pod in leaving}})
        case "evicted":
            why = f"{BLOCKED}: no" if minutes % 2 else "webhook"
            failures = {f"evict {pod.uid}": Failure(why=why, times=2, again_in=MINUTE) for pod in pods.values()}
            return msgspec.structs.replace(cluster, failures=failures)
    made = {
        "cordon": lambda: a_drained_node(name, minutes=minutes),
        "uncordon": lambda: a_node(name),
        "not ready": lambda: a_drained_node(name, minutes=minutes, ready="Unknown"),
        "removed": lambda: removed_by_autoscaler(name, cluster),
        "tell": lambda: a_drained_node(name, minutes=minutes, annotations={"defib.dev/drain": "because"}),
    }[what]()
    return msgspec.structs.replace(cluster, nodes={**cluster.nodes, name: made})


def on_cluster(cluster: Cluster, what: str, number: int) -> Cluster:
    match what:
        case "budget":
            item = a_budget(allowed=number)
            return after(cluster, budgets={item.key: item})
        case "lock":
            lock = a_lock("n1", "somebody") if number else a_lock("n1")
            spec = msgspec.structs.replace(lock.spec, renew_time=cluster.now)
            lock = msgspec.structs.replace(lock, spec=spec)
            return msgspec.structs.replace(cluster, locks={f"{lock.namespace}/{lock.name}": lock})
        case "blind":
            lost = (Blindness(kind=pods_on("n1"), why="no answer", since=cluster.now),)
            return msgspec.structs.replace(cluster, blind=lost if number else ())
        case "claim":
            return msgspec.structs.replace(cluster, claims={"apps/c": RWX if number else RWO})
    item = policy(mode="Observe") if number else policy(maxForcedNodes=2, extraGrace="1m")
    return after(cluster, policies={item.key: item})


def obeyed(cluster: Cluster, drains: Drains) -> Cluster:
    """What was to be written stands there now."""
    records = {item.name: item for item in cluster.every(DRAIN)}
    for one in drains.actions:
        if isinstance(one, OpenDrain):
            meta = Meta(name=one.node, uid=f"uid-drain-{one.node}", creation_timestamp=cluster.now)
            records[one.node] = Unstructured(metadata=meta, spec={})
        if isinstance(one, ReportRemediation) and one.target.kind == DRAIN:
            status = {name: value for name, value in one.status.items() if value is not None}
            records[one.target.name] = msgspec.structs.replace(records[one.target.name], status=status)
    return after(cluster, drains=records)


def next_one(cluster: Cluster, drains: Drains, what: str, how: Any) -> Cluster:
    if what == "wait":
        return msgspec.structs.replace(cluster, now=cluster.now + timedelta(seconds=how))
    if what == "obey":
        return obeyed(cluster, drains)
    return on_node(cluster, what, how) if how in NODES else on_cluster(cluster, what, how)


@settings(max_examples=200, deadline=None)
@example(deeds=[("cordon", "n1"), ("wait", 601)])
@example(deeds=[("removed", "n1"), ("wait", 1), ("wait", 7200)])
@given(deeds=st.lists(DEEDS, max_size=25))
def test_i12_what_is_planned_for_drains_does_not_depend_on_what_was_planned_before(
    deeds: list[tuple[str, Any]],
) -> None:
    cluster, before = a_wing([a_node(name) for name in NODES]), NOTHING
    for what, how in deeds:
        cluster = next_one(cluster, before, what, how)
        fresh, before = planned(cluster), planned(cluster, before)
        for field in ("actions", "nodes", "wake_at", "kinds", "claims", "standings"):
            assert getattr(before, field) == getattr(fresh, field), (field, what, how)
