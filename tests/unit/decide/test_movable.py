"""Only pods of which there may be any number leave at once; every other one stays, with a reason."""

from datetime import timedelta
from typing import Any

import pytest

from defib.decide.movable import sort_pods, why_it_stays
from defib.model.meta import Meta, OwnerReference
from defib.model.pod import MIRROR, Pod
from defib.model.pod_failover import KEEP
from tests.builders import SECOND, T0
from tests.unit.decide.failovers import FAILED_AT, LONG_AGO, REPLICA_SET, a_pod

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


@pytest.mark.parametrize("owner", [REPLICA_SET, ("v1", "ReplicationController")])
def test_a_pod_that_its_controller_replaces_by_a_copy_may_go(owner: tuple[str, str]) -> None:
    assert why_it_stays(a_pod("web-1", owner=owner), FAILED_AT) == ""


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (a_pod("db-0", owner=("apps/v1", "StatefulSet")), "of a StatefulSet"),
        (a_pod("proxy-1", owner=("apps/v1", "DaemonSet")), "of a DaemonSet"),
        (a_pod("import-1", owner=("batch/v1", "Job")), "of a Job"),
        (a_pod("mongo-1", owner=("example.com/v1", "ReplicaSet")), "of a ReplicaSet"),
        (a_pod("by-hand", owner=None), "without a controller"),
        (a_pod("etcd-n1", owner=("v1", "Node"), annotations={MIRROR: "x"}), "static"),
        (a_pod("wiki-1", volumes=[CLAIM]), "with volumes"),
        (a_pod("cache-1", volumes=[{"name": "scratch", "ephemeral": {}}]), "with volumes"),
        (a_pod("old-1", volumes=[{"name": "lun", "iscsi": {"lun": 0}}]), "with volumes"),
        (a_pod("odd-1", volumes=[{"name": "new", "somethingOfNextYear": {}}]), "with volumes"),
        (a_pod("web-1", annotations={KEEP: ""}), "kept by the annotation defib.dev/keep"),
        (a_pod("web-1", created=FAILED_AT), "placed there since the node failed"),
        (a_pod("web-1", created=T0), "placed there since the node failed"),
        (a_pod("web-1", created=None), "placed there since the node failed"),
    ],
    ids=lambda value: value.name if isinstance(value, Pod) else None,
)
def test_every_other_pod_stays_and_why(pod: Pod, why: str) -> None:
    assert why_it_stays(pod, FAILED_AT) == why
    assert sort_pods([pod], failed_at=FAILED_AT).movable == ()


@pytest.mark.parametrize("source", ["configMap", "secret", "projected", "downwardAPI", "emptyDir", "hostPath", "csi"])
def test_volumes_that_every_copy_may_have_hold_no_pod_back(source: str) -> None:
    volumes: list[dict[str, Any]] = [{"name": "v", source: {}}, {"name": "w", "emptyDir": {}}]
    assert why_it_stays(a_pod("web-1", volumes=volumes), FAILED_AT) == ""
    assert why_it_stays(a_pod("web-1", volumes=[*volumes, CLAIM]), FAILED_AT) == "with volumes"


def test_a_pod_that_was_there_a_second_before_the_failure_may_go() -> None:
    assert why_it_stays(a_pod("web-1", created=FAILED_AT - SECOND), FAILED_AT) == ""


@pytest.mark.parametrize("controller", [False, None])
def test_an_owner_that_is_not_the_controller_does_not_count(controller: bool | None) -> None:
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", controller=controller)
    pod = Pod(metadata=Meta(name="web-1", creation_timestamp=LONG_AGO, owner_references=[owner]))
    assert why_it_stays(pod, FAILED_AT) == "without a controller"


@pytest.mark.parametrize("pod", [a_pod("a", leaving=True), a_pod("b", phase="Succeeded"), a_pod("c", phase="Failed")])
def test_what_leaves_already_or_is_finished_is_neither_moved_nor_counted(pod: Pod) -> None:
    found = sort_pods([pod], failed_at=FAILED_AT)
    assert (found.movable, found.left, found.why_left) == ((), 0, "")


def test_those_that_stay_are_counted_by_reason_the_commonest_first() -> None:
    owners = [("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("apps/v1", "StatefulSet")]
    staying = [a_pod(f"p{place}", owner=owner) for place, owner in enumerate(owners)]
    found = sort_pods([*staying, a_pod("web-1")], failed_at=T0 - timedelta(minutes=1))
    assert [pod.name for pod in found.movable] == ["web-1"]
    assert (found.left, found.why_left) == (3, "2 of a StatefulSet, 1 of a DaemonSet")
