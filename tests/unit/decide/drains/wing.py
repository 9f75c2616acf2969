"""Whole clusters in which nodes are drained, for tests of what is planned: `planned(a_wing(a_drained_node(), pods=[...]))`.

It is T0. Nodes were cordoned an hour ago where nothing else is said, and policies have the times of the table of seed
004: 30 minutes, 60 for budgets, 8 that are expected.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from defib.decide.check_plan import CheckPlan
from defib.decide.drains.intents import kinds_for
from defib.decide.drains.plan import NOTHING, Drains, plan_drains
from defib.decide.failover.plan import Failover
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import Action, ReportRemediation
from defib.model.cluster import Cluster, Missing
from defib.model.drain_action import PodStep
from defib.model.drain_policy import ALL_SOURCES, POLICY
from defib.model.meta import Meta, Unstructured
from defib.model.node import Lease, LeaseSpec, Node
from defib.model.node_drain import DRAIN, LOCK_HOLDER
from defib.model.pod import Pod, pods_on
from tests.builders import HOUR, MINUTE, T0
from tests.unit.decide.drains.ward import KINDS, a_drain_policy, a_drained_node, a_record

SPEC = {"timeout": "30m", "expectedDrainTime": "8m", "pdbForceDrainTimeout": "52m"}
NOT_THERE = dict.fromkeys(kinds_for(ALL_SOURCES), Missing("there is no such kind"))
LOCKS = medik8s.LOCK_NAMESPACE


def stamp(minutes_ago: float) -> str:
    return f"{T0 - minutes_ago * MINUTE:%Y-%m-%dT%H:%M:%SZ}"


def drained(*names: str, minutes: float = 60, **fields: Any) -> list[Node]:
    return [a_drained_node(name, minutes=minutes, **fields) for name in names or ("n1",)]


def policy(name: str = "workers", **spec: Any) -> Unstructured:
    return a_drain_policy(name, **SPEC | spec)


def record(node: str = "n1", *, minutes: float = 60, **status: Any) -> Unstructured:
    """Of a drain that began so many minutes ago."""
    item = a_record(node, policy="workers", startedAt=stamp(minutes), **status)
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, resource_version="7"))


def entry(pod: Pod, rung: str, minutes_ago: float = 1) -> dict[str, Any]:
    meta = pod.metadata
    return {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "rung": rung, "at": stamp(minutes_ago)}


def a_lock(node: str = "n1", holder: str = LOCK_HOLDER, *, seconds_left: float = 110) -> Lease:
    renewed = T0 - timedelta(seconds=120 - seconds_left)
    meta = Meta(name=medik8s.lock_of(node), namespace=LOCKS, uid=f"uid-lock-{node}", resource_version="3")
    return Lease(metadata=meta, spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=120, renew_time=renewed))


def a_wing(
    nodes: Iterable[Node],
    *pods: Pod,
    policies: Iterable[Unstructured] | None = None,
    records: Iterable[Unstructured] = (),
    budgets: Iterable[Unstructured] = (),
    locks: Iterable[Lease] = (),
    **changes: Any,
) -> Cluster:
    """The pods of all its nodes are in sight."""
    there = {node.name: node for node in nodes}
    pods_of: dict[str, dict[str, Pod]] = {pods_on(name): {} for name in there}
    for pod in pods:
        pods_of[pods_on(pod.spec.node_name)][pod.key] = pod
    cluster = Cluster(
        now=T0,
        nodes=there,
        kinds={**NOT_THERE, **KINDS},
        others={
            **pods_of,
            "budgets": {item.key: item for item in budgets},
            "policies": {item.key: item for item in (policies if policies is not None else [policy()])},
            "drains": {item.key: item for item in records},
        },
        locks={f"{LOCKS}/{lock.name}": lock for lock in locks},
    )
    return msgspec.structs.replace(cluster, **changes)


def planned(
    cluster: Cluster,
    before: Drains = NOTHING,
    *,
    checks: Mapping[str, CheckPlan] | None = None,
    failover: Failover | None = None,
    rules: Rules | None = None,
) -> Drains:
    return plan_drains(cluster, rules or Rules(), checks or {}, failover or Failover(), before)


def steps(actions: Iterable[Action]) -> list[PodStep]:
    return [one for one in actions if isinstance(one, PodStep)]


def written(drains: Drains, node: str = "n1") -> dict[str, Any] | None:
    """The status that is to be written into the record of a drain; None: nothing."""
    reports = [one for one in drains.actions if isinstance(one, ReportRemediation) and one.target.kind == DRAIN]
    return next((one.status for one in reports if one.target.name == node), None)


def said(drains: Drains, name: str = "workers") -> dict[str, Any] | None:
    """The same of a policy."""
    reports = [one for one in drains.actions if isinstance(one, ReportRemediation) and one.target.kind == POLICY]
    return next((one.status for one in reports if one.target.name == name), None)


def told(drains: Drains) -> list[str]:
    reports = [one for one in drains.actions if isinstance(one, ReportRemediation)]
    return [event.reason for one in reports for event in one.tells]


def stands(drains: Drains, node: str = "n1") -> str:
    status = drains.standings[node].status
    return f"{status.phase.value} {status.reason}".strip()


LONG_AGO = T0 - HOUR
