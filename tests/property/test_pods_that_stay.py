"""Whatever pods a failed node has: none is deleted that could do harm by running twice, and none of the others stays."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from defib.decide.pod_failover import plan_failover
from defib.decide.rules import Rules
from defib.model.pod import MIRROR, Pod
from defib.model.pod_failover import KEEP
from tests.builders import T0
from tests.unit.decide.failovers import FAILED_AT, a_failover, a_pod, after, moved, plan_of, the_cluster

OWNERS = [
    *(("apps/v1", kind) for kind in ("ReplicaSet", "StatefulSet", "DaemonSet")),
    *(("batch/v1", "Job"), ("v1", "ReplicationController"), ("example.com/v1", "ReplicaSet")),
    None,
]
VOLUMES: list[Mapping[str, Any]] = [
    *({"name": "v", source: {}} for source in ("configMap", "emptyDir", "projected", "csi")),
    *({"name": "v", source: {}} for source in ("persistentVolumeClaim", "ephemeral", "iscsi", "nfs", "unheardOf")),
]
HARMLESS = {"configMap", "emptyDir", "projected", "csi"}


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


def may_run_twice(pod: Pod) -> bool:
    """As simply as it can be said, and not as it is done."""
    owners = [f"{owner.api_version} {owner.kind}" for owner in pod.metadata.owner_references or ()]
    return owners in (["apps/v1 ReplicaSet"], ["v1 ReplicationController"]) and all(
        source in HARMLESS for volume in pod.spec.volumes or () for source in volume.keys() - {"name"}
    )


def is_wanted_elsewhere(pod: Pod) -> bool:
    created = pod.metadata.creation_timestamp
    is_alive = pod.metadata.deletion_timestamp is None and pod.status.phase in ("Pending", "Running")
    is_old = created is not None and created < T0  # when the remediation was created, later than the failure
    return is_alive and is_old and not {KEEP, MIRROR} & pod.annotations.keys()


@given(pods())
def test_those_and_only_those_leave_that_may_run_twice_and_want_to(found: list[Pod]) -> None:
    assert FAILED_AT < T0
    cluster = the_cluster(a_failover(), pods=found)
    cluster = after(cluster, plan_of(cluster))
    wanted = [pod.name for pod in found if may_run_twice(pod) and is_wanted_elsewhere(pod)]
    assert sorted(moved(plan_of(cluster))) == sorted(wanted)


@given(pods(), pods())
def test_remembering_what_was_judged_before_changes_no_plan(first: list[Pod], second: list[Pod]) -> None:
    cluster = the_cluster(a_failover(), pods=first)
    before = plan_of(cluster)
    for other in (cluster, after(cluster, before), after(cluster, before, pods=second)):
        assert plan_failover(other, Rules(), before) == plan_of(other)
