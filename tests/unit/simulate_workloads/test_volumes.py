"""Volumes: claims find them, nodes get them, and they are taken away only when that is safe or somebody says so."""

import pytest

from defib.kube.errors import NotFound
from defib.simulate.workloads import WorkloadTimers
from tests.unit.simulate_workloads.stage import (
    ATTACHMENTS,
    CLAIMS,
    CLASSES,
    EVENTS,
    NODES,
    OUT_OF_SERVICE,
    PODS,
    STATEFUL_SETS,
    VOLUMES,
    a_claim,
    a_class,
    a_pod,
    a_stateful_set_with_disks,
    a_volume,
    node_of,
    ready,
)
from tests.unit.simulate_workloads.virtual import VirtualStage, play


async def two_nodes_with_disks(stage: VirtualStage) -> None:
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await stage.make(CLASSES, a_class())


async def running(stage: VirtualStage, *names: str) -> None:
    async def all_ready() -> bool:
        pods = await stage.pods()
        return all(name in pods and ready(pods[name]) for name in names)

    await stage.until(all_ready)


async def a_pod_with_a_disk_on(stage: VirtualStage, node: str) -> None:
    """`old`, with the claim `disk`."""
    await stage.make(VOLUMES, a_volume("disk"))
    await stage.make(CLAIMS, a_claim("disk"))
    await stage.make(PODS, a_pod("old", claim="disk", nodeSelector={"kubernetes.io/hostname": node}))
    await running(stage, "old")


async def attached_to(stage: VirtualStage) -> list[str]:
    return sorted((attachment.spec or {})["nodeName"] for attachment in await stage.all(ATTACHMENTS))


async def phase_of_claim(stage: VirtualStage, name: str) -> str:
    return str(((await stage.get(CLAIMS, name)).status or {}).get("phase"))


def test_a_claim_is_bound_to_the_smallest_volume_that_will_do() -> None:
    async def story(stage: VirtualStage) -> None:
        for name, size in (("big", "5Gi"), ("small", "500Mi"), ("fitting", "2Gi")):
            volume = a_volume(name)
            volume["spec"]["capacity"]["storage"] = size
            await stage.make(VOLUMES, volume)
        await stage.make(CLAIMS, a_claim("disk"))
        await stage.pass_time(1)
        claim = await stage.get(CLAIMS, "disk")
        assert (claim.spec or {})["volumeName"] == "fitting"
        assert await phase_of_claim(stage, "disk") == "Bound"
        phases = {v.name: (v.status or {})["phase"] for v in await stage.all(VOLUMES)}
        assert phases == {"big": "Available", "small": "Available", "fitting": "Bound"}

    play(story)


def test_a_claim_without_a_volume_waits_for_one() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.make(CLAIMS, a_claim("disk"))
        await stage.pass_time(60)
        assert await phase_of_claim(stage, "disk") == "Pending"
        await stage.make(VOLUMES, a_volume("late"))
        await stage.pass_time(1)
        assert await phase_of_claim(stage, "disk") == "Bound"

    play(story)


def test_a_volume_is_left_behind_by_its_claim_and_a_claim_by_its_volume() -> None:
    async def story(stage: VirtualStage) -> None:
        for name in ("one", "two"):
            await stage.make(VOLUMES, a_volume(name))
            await stage.make(CLAIMS, a_claim(name))
            await stage.pass_time(1)
        await stage.delete(CLAIMS, "one")
        await stage.delete(VOLUMES, "two")
        await stage.pass_time(1)
        assert ((await stage.get(VOLUMES, "one")).status or {})["phase"] == "Released"
        assert await phase_of_claim(stage, "two") == "Lost"

    play(story)


def test_the_first_consumer_decides_where_a_volume_is_made() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await stage.make(CLAIMS, a_claim("disk", "disks"))
        await stage.pass_time(60)
        assert "volume.kubernetes.io/storage-provisioner" not in (await stage.get(CLAIMS, "disk")).annotations
        await stage.make(PODS, a_pod("p", claim="disk", nodeSelector={"kubernetes.io/hostname": "n2"}))
        await stage.pass_time(1)
        annotations = (await stage.get(CLAIMS, "disk")).annotations
        assert annotations["volume.kubernetes.io/selected-node"] == "n2"
        assert not node_of((await stage.pods())["p"]), "a pod is placed after its volumes"
        await running(stage, "p")
        assert node_of((await stage.pods())["p"]) == "n2"

    play(story)


def test_at_once_means_without_a_consumer() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.make(CLASSES, a_class(mode="Immediate"))
        await stage.make(CLAIMS, a_claim("disk", "disks"))
        await stage.rest()
        assert await phase_of_claim(stage, "disk") == "Bound"

    play(story)


def test_a_pod_goes_only_where_its_volume_can_be() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        volume = a_volume("local")
        here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [here]}}
        await stage.make(VOLUMES, volume)
        await stage.make(CLAIMS, a_claim("disk"))
        await stage.make(PODS, a_pod("p", claim="disk"))
        await running(stage, "p")
        assert node_of((await stage.pods())["p"]) == "n2"

    play(story)


def test_a_volume_is_attached_where_its_pod_is_and_the_node_is_told() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await a_pod_with_a_disk_on(stage, "n1")
        (attachment,) = await stage.all(ATTACHMENTS)
        source = {"persistentVolumeName": "disk"}
        assert attachment.spec == {"attacher": "disks.example.com", "nodeName": "n1", "source": source}
        node = await stage.get(NODES, "n1")
        told = [volume["name"] for volume in (node.status or {})["volumesAttached"]]
        assert told == ["kubernetes.io/csi/disks.example.com^disk-disk"]

    play(story)


def test_a_node_whose_kubelet_attaches_itself_is_left_alone() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.change(NODES, "n1", {"metadata": {"annotations": None}})
        await stage.make(VOLUMES, a_volume("disk"))
        await stage.make(CLAIMS, a_claim("disk"))
        await stage.make(PODS, a_pod("p", claim="disk"))
        await stage.rest()
        assert node_of((await stage.pods())["p"]) == "n1"
        assert await attached_to(stage) == []

    play(story)


def test_a_volume_leaves_when_its_node_no_longer_uses_it() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await a_pod_with_a_disk_on(stage, "n1")
        await stage.delete(PODS, "old", grace_seconds=0)
        await stage.pass_time(3600)
        assert await attached_to(stage) == ["n1"], "the node is ready and still lists it as in use"
        await stage.rest()
        assert await attached_to(stage) == []
        assert "volumesAttached" not in ((await stage.get(NODES, "n1")).status or {})

    play(story)


def test_an_exclusive_volume_is_never_attached_twice() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await a_pod_with_a_disk_on(stage, "n1")
        await stage.make(PODS, a_pod("new", claim="disk", nodeSelector={"kubernetes.io/hostname": "n2"}))
        await stage.rest(10)
        assert await attached_to(stage) == ["n1"]
        assert not ready((await stage.pods())["new"])
        (event,) = await stage.all(EVENTS)
        assert event.name.startswith("new.")
        await stage.delete(PODS, "old")
        await running(stage, "new")
        assert await attached_to(stage) == ["n2"]

    play(story)


def test_a_shared_volume_is_attached_wherever_it_is_wanted() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await stage.make(VOLUMES, a_volume("share", modes=("ReadWriteOnce", "ReadWriteMany")))
        await stage.make(CLAIMS, a_claim("share"))
        for node in ("n1", "n2"):
            await stage.make(PODS, a_pod(f"on-{node}", claim="share", nodeSelector={"kubernetes.io/hostname": node}))
        await running(stage, "on-n1", "on-n2")
        assert await attached_to(stage) == ["n1", "n2"]

    play(story)


def test_a_lost_node_keeps_its_volume_for_six_minutes_after_its_pod_is_gone() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await a_pod_with_a_disk_on(stage, "n1")
        await stage.lose_node("n1")
        await stage.delete(PODS, "old")
        await stage.pass_time(3600)
        assert await attached_to(stage) == ["n1"], "the pod's object is still there, and its container may run"
        await stage.delete(PODS, "old", grace_seconds=0)
        await stage.pass_time(359)
        assert await attached_to(stage) == ["n1"]
        await stage.pass_time(2)
        await stage.play()
        assert await attached_to(stage) == []

    play(story)


def test_a_deleted_node_keeps_its_volume_for_six_minutes_too() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await a_pod_with_a_disk_on(stage, "n1")
        await stage.delete(NODES, "n1")
        await stage.delete(PODS, "old", grace_seconds=0)
        await stage.pass_time(359)
        assert await attached_to(stage) == ["n1"]
        await stage.pass_time(2)
        await stage.play()
        assert await attached_to(stage) == []

    play(story)


def test_what_somebody_else_has_detached_is_attached_elsewhere_after_the_next_look_only() -> None:
    """Kubernetes does not follow attachments: what it attached is attached, until it looks, once a minute."""

    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await a_pod_with_a_disk_on(stage, "n1")
        await stage.delete(NODES, "n1")
        await stage.delete(PODS, "old", grace_seconds=0)
        await stage.make(PODS, a_pod("new", claim="disk"))
        await stage.pass_time(60 - stage.clock.monotonic() % 60 + 1)  # right after a look
        (attachment,) = await stage.all(ATTACHMENTS)
        await stage.delete(ATTACHMENTS, attachment.name)
        await stage.play()
        await stage.pass_time(50)
        assert await attached_to(stage) == []
        await stage.pass_time(10)
        assert await attached_to(stage) == ["n2"]

    play(story)


def test_what_somebody_else_has_detached_is_missed_at_once_where_we_would_detach_it_anyway() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await a_pod_with_a_disk_on(stage, "n1")
        await stage.lose_node("n1")
        await stage.delete(PODS, "old", grace_seconds=0)
        await stage.make(PODS, a_pod("new", claim="disk", nodeSelector={"kubernetes.io/hostname": "n2"}))
        (attachment,) = await stage.all(ATTACHMENTS)
        await stage.delete(ATTACHMENTS, attachment.name)
        await stage.play()
        assert await attached_to(stage) == []
        await stage.taint("n1", OUT_OF_SERVICE)
        await stage.pass_time(1)
        assert await attached_to(stage) == ["n2"]

    play(story)


def test_a_node_out_of_service_gives_its_volume_up_at_once_when_the_pod_is_gone() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await a_pod_with_a_disk_on(stage, "n1")
        await stage.lose_node("n1")
        await stage.taint("n1", OUT_OF_SERVICE)
        await stage.delete(PODS, "old", grace_seconds=0)
        await stage.pass_time(1)
        await stage.play()
        assert await attached_to(stage) == []

    play(story)


def test_a_pod_that_failed_wants_no_volume_any_more() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await a_pod_with_a_disk_on(stage, "n1")
        await stage.lose_node("n1")
        await stage.taint("n1", OUT_OF_SERVICE)
        await stage.change(PODS, "old", {"status": {"phase": "Failed"}}, "status")
        await stage.pass_time(1)
        await stage.play()
        assert await attached_to(stage) == []

    play(story)


def test_an_attachment_on_its_way_is_not_called_back() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        stage.slow_driver = True
        await stage.make(VOLUMES, a_volume("disk"))
        await stage.make(CLAIMS, a_claim("disk"))
        await stage.make(PODS, a_pod("p", claim="disk"))
        await stage.pass_time(1)
        await stage.delete(PODS, "p", grace_seconds=0)
        await stage.pass_time(118)
        assert await attached_to(stage) == ["n1"]
        await stage.pass_time(3)
        assert await attached_to(stage) == []

    play(story)


def test_a_stateful_pod_with_a_disk_never_leaves_a_lost_node_by_itself() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await stage.make(STATEFUL_SETS, a_stateful_set_with_disks("db", 1))
        await running(stage, "db-0")
        before = (await stage.pods())["db-0"]
        await stage.lose_node(node_of(before))
        await stage.taint(node_of(before), {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"})
        await stage.pass_time(7200)
        pod = (await stage.pods())["db-0"]
        assert (pod.uid, bool(pod.metadata.deletion_timestamp)) == (before.uid, True)
        assert await attached_to(stage) == [node_of(before)]

    play(story)


def test_out_of_service_brings_a_stateful_pod_with_a_disk_to_another_node_within_a_round_of_collection() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_disks(stage)
        await stage.make(STATEFUL_SETS, a_stateful_set_with_disks("db", 1))
        await running(stage, "db-0")
        before = (await stage.pods())["db-0"]
        await stage.lose_node(node_of(before))
        await stage.taint(node_of(before), OUT_OF_SERVICE)
        started = stage.clock.monotonic()
        await stage.pass_time(0.5)
        await stage.until(lambda: moved(stage, before.uid), within=30)
        assert stage.clock.monotonic() - started < 22

    async def moved(stage: VirtualStage, uid: str) -> bool:
        try:
            pod = await stage.get(PODS, "db-0")
        except NotFound:
            return False
        return pod.uid != uid and ready(pod)

    play(story)


@pytest.mark.parametrize("speed", [1.0, 10.0])
def test_compressed_timers_have_the_same_proportions(speed: float) -> None:
    timers = WorkloadTimers().faster(speed)
    assert timers.unmount_seconds == 360 / speed
    assert timers.toleration_seconds == 300 / speed
    assert timers.pod_gc_seconds == 20 / speed
    assert timers.react_seconds == WorkloadTimers().react_seconds
    assert WorkloadTimers().faster(1000).toleration_seconds == 1
