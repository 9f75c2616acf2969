"""Whatever pods a failed node has: none is deleted that could do harm by running twice, and none of the others stays."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from defib.model.cluster import Cluster
from defib.model.pod import MIRROR, Pod
from defib.model.pod_failover import KEEP
from tests.builders import T0
from tests.unit.decide.failover.failovers import (
    CLUSTER,
    FAILED_AT,
    JOB,
    RWO,
    RWX,
    a_failover,
    a_fleet,
    a_pod,
    a_policy,
    after,
    moved,
    outcome,
    plan_of,
    reported,
    the_cluster,
)

OWNERS = [
    *(("apps/v1", kind) for kind in ("ReplicaSet", "StatefulSet", "DaemonSet")),
    *(JOB, ("v1", "ReplicationController"), CLUSTER),
    *(("example.com/v1", kind) for kind in ("ReplicaSet", "StatefulSet", "DaemonSet")),
    None,
]
VOLUMES: list[Mapping[str, Any]] = [
    *({"name": "v", source: {}} for source in ("configMap", "emptyDir", "projected", "csi")),
    *({"name": "v", source: {}} for source in ("ephemeral", "iscsi", "nfs", "unheardOf")),
    *({"name": "v", "persistentVolumeClaim": {"claimName": claim}} for claim in ("many", "once")),
]
HARMLESS = {"configMap", "emptyDir", "projected", "csi"}
MODES = {"apps/many": RWX, "apps/once": RWO}


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    return [
        a_pod(
            f"pod-{place}",
            owner=draw(st.sampled_from(OWNERS)),
            volumes=draw(st.lists(st.sampled_from(VOLUMES), max_size=2)),
            annotations=dict.fromkeys(draw(st.sets(st.sampled_from([KEEP, MIRROR, "team"]), max_size=2)), ""),
            phase=draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])),
            leaving=draw(st.booleans()),
            created=T0 + timedelta(minutes=draw(st.integers(-20, 5))),
        )
        for place in range(draw(st.integers(0, 12)))
    ]


def has_harmless_volumes(pod: Pod) -> bool:
    """As simply as it can be said, and not as it is done."""
    return all(
        source in HARMLESS or (isinstance(what, dict) and what.get("claimName") == "many")
        for volume in pod.spec.volumes or ()
        for source, what in volume.items()
        if source != "name"
    )


def owner(pod: Pod) -> str:
    return "".join(f"{owner.api_version} {owner.kind}" for owner in pod.metadata.owner_references or ())


def may_run_twice(pod: Pod) -> bool:
    return owner(pod) in ("apps/v1 ReplicaSet", "v1 ReplicationController") and has_harmless_volumes(pod)


def is_wanted_elsewhere(pod: Pod, failed_at: Any = T0) -> bool:
    """By default, since the remediation was created, later than the failure."""
    is_alive = pod.metadata.deletion_timestamp is None and pod.status.phase in ("Pending", "Running")
    return is_alive and stays_for_no_reason(pod) and came_in_time(pod, failed_at)


def came_in_time(pod: Pod, failed_at: Any) -> bool:
    """None of them tolerates anything, so for some seconds it may happen to all."""
    created = pod.metadata.creation_timestamp
    return created is not None and created < failed_at + timedelta(seconds=5)


def stays_for_no_reason(pod: Pod) -> bool:
    return not {KEEP, MIRROR} & pod.annotations.keys() and not owner(pod).endswith("DaemonSet") and owner(pod) != ""


def begun(cluster: Cluster) -> Cluster:
    return after(cluster, plan_of(cluster))


@given(pods())
def test_those_and_only_those_leave_that_may_run_twice_and_want_to(found: list[Pod]) -> None:
    assert FAILED_AT < T0
    cluster = begun(the_cluster(a_failover(), pods=found, claims=MODES))
    wanted = [pod.name for pod in found if may_run_twice(pod) and is_wanted_elsewhere(pod)]
    assert sorted(moved(plan_of(cluster))) == sorted(wanted)


@given(pods())
def test_a_policy_moves_those_of_any_controller_but_what_must_not_run_twice(found: list[Pod]) -> None:
    graceful = a_policy(deletion={"mode": "Graceful"})
    cluster = begun(a_fleet(graceful, pods=found, claims=MODES))
    wanted = [
        pod.name
        for pod in found
        if not owner(pod).endswith("StatefulSet") and has_harmless_volumes(pod) and is_wanted_elsewhere(pod, FAILED_AT)
    ]
    assert sorted(moved(plan_of(cluster))) == sorted(wanted)


@given(pods())
def test_every_pod_that_is_not_finished_is_moved_waits_or_is_left_with_a_reason(found: list[Pod]) -> None:
    """None is lost silently: not even those that leave already, unless somebody may have them run twice."""
    said = reported(plan_of(the_cluster(a_failover(), pods=found, claims=MODES)))
    there = [pod for pod in found if pod.is_leaving or pod.status.phase in ("Pending", "Running")]
    gone = [
        pod
        for pod in there
        if pod.is_leaving and may_run_twice(pod) and stays_for_no_reason(pod) and came_in_time(pod, T0)
    ]
    assert (said["found"] or 0) + (said["waiting"] or 0) + (said["left"] or 0) == len(there) - len(gone)


@given(pods(), pods())
def test_remembering_what_was_judged_before_changes_no_plan(first: list[Pod], second: list[Pod]) -> None:
    for cluster in (
        the_cluster(a_failover(), pods=first, claims=MODES),
        a_fleet(a_policy(), pods=first, claims=MODES),
    ):
        before = plan_of(cluster)
        for other in (cluster, after(cluster, before), after(cluster, before, pods=second)):
            assert outcome(other, plan_of(other, before)) == outcome(other, plan_of(other))
