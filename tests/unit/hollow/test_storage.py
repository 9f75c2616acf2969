"""Volumes of hollow storage: made, attached, mounted, written to, given back; and who wrote to a disk when."""

import pytest

from defib.hollow.attacher import FINALIZER, StorageTimers
from defib.hollow.objects import ATTACHMENTS, CLAIMS, STORAGE_CLASSES, VOLUMES, Attachment
from defib.hollow.provisioner import ASKED_ANNOTATION
from defib.hollow.site import DRIVER
from defib.hollow.storage import CLASS, IMMEDIATE_CLASS
from defib.kube.client import Deletion, Merge
from defib.kube.errors import NotFound
from defib.kube.kinds import unstructured
from defib.simulate.faults import Fault, Refuse
from tests.unit.hollow.day import HEARD_SECONDS, TIMERS, Day, live, pass_seconds

ATTACH_SECONDS = 2 * StorageTimers().attach_seconds
DETACH_SECONDS = 2 * StorageTimers().detach_seconds
IN_USE_SECONDS = TIMERS.renew_seconds + HEARD_SECONDS  # what is in use goes with the next heartbeat
RAW_ATTACHMENTS = unstructured("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
UNIQUE = f"kubernetes.io/csi/{DRIVER}^disk-data"


async def run_db(day: Day, node: str, **spec: object) -> str:
    """A pod with the volume `data` on a node, until it writes; its UID."""
    pod = await day.make_pod(f"db-{node}", node, "data", **spec)
    await day.attach("data", node)
    await pass_seconds(IN_USE_SECONDS)
    assert await day.phase(f"db-{node}") == "Running"
    return pod.uid


def test_the_driver_and_its_classes_are_installed_and_can_be_installed_again() -> None:
    async def story(day: Day) -> None:
        await day.storage.install()
        await day.storage.install()
        for name in (CLASS, IMMEDIATE_CLASS):
            assert (await day.person.get(STORAGE_CLASSES.at(name))).name == name

    live(story)


def test_a_pod_waits_for_its_volume_in_every_step() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("db", "n1", "data")
        await pass_seconds(60)
        assert await day.phase("db") == "Pending", "its claim does not exist"
        disk = await day.make_volume("data")
        await pass_seconds(IN_USE_SECONDS)
        assert (await day.known_node("n1")).status.volumes_in_use == [UNIQUE]
        await pass_seconds(60)
        assert await day.phase("db") == "Pending", "its volume is not attached"
        assert disk.writers() == []
        await day.attach("data", "n1")
        await pass_seconds(HEARD_SECONDS)
        assert await day.phase("db") == "Running"
        assert [(writer.node, writer.pod) for writer in disk.writers()] == [("n1", "default/db")]

    live(story)


def test_a_volume_that_is_attached_elsewhere_does_not_let_a_pod_start() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data")
        await day.make_pod("db", "n1", "data")
        await day.attach("data", "n2")
        await pass_seconds(60)
        assert await day.phase("db") == "Pending"
        assert disk.holds() == []

    live(story)


def test_a_volume_is_mounted_only_when_the_node_s_status_calls_it_attached() -> None:
    async def story(day: Day) -> None:
        await day.make_volume("data")
        spec = {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "data"}}
        await day.person.create(ATTACHMENTS, {"metadata": {"name": "data-n1"}, "spec": spec})
        await day.make_pod("db", "n1", "data")
        await pass_seconds(60)
        attachment = await day.attachment("data", "n1")
        assert attachment
        assert (attachment.status.attached, await day.phase("db")) == (True, "Pending")

    live(story)


def test_a_volume_is_mounted_only_when_the_node_s_status_calls_it_in_use() -> None:
    async def story(day: Day) -> None:
        await day.make_volume("data")
        await day.attach("data", "n1")
        await pass_seconds(60)
        await day.make_pod("db", "n1", "data", annotations={"start-seconds": "0"})
        while not (await day.known_node("n1")).status.volumes_in_use:
            assert await day.phase("db") != "Running"
            await pass_seconds(0.1)
        await pass_seconds(HEARD_SECONDS)
        assert await day.phase("db") == "Running"

    live(story)


def test_a_volume_on_its_way_out_is_not_mounted() -> None:
    async def story(day: Day) -> None:
        await day.make_volume("data")
        made = await day.attach("data", "n1")
        kept = Merge({"metadata": {"finalizers": [FINALIZER, "example.com/keep"]}})
        await day.person.patch(ATTACHMENTS.of(made), kept)
        await day.detach("data", "n1")
        await day.make_pod("db", "n1", "data")
        await pass_seconds(120)
        attachment = await day.attachment("data", "n1")
        assert attachment
        assert (attachment.is_deleted, attachment.status.attached) == (True, True)
        assert await day.phase("db") == "Pending"

    live(story)


def test_a_volume_is_in_use_until_its_pod_has_stopped_and_free_with_the_next_beat() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data")
        await run_db(day, "n1", annotations={"stop-seconds": "20"})
        pod = await day.pod("db-n1")
        assert pod
        await day.delete(pod)
        await pass_seconds(19)
        assert (await day.known_node("n1")).status.volumes_in_use == [UNIQUE]
        assert [writer.node for writer in disk.writers()] == ["n1"]
        await pass_seconds(2)
        assert disk.writers() == []
        await pass_seconds(TIMERS.renew_seconds)
        assert not (await day.known_node("n1")).status.volumes_in_use

    live(story)


def test_a_pod_that_is_done_gives_its_volume_back() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data")
        pod = await day.make_pod("job", "n1", "data", annotations={"run-seconds": "100"}, restartPolicy="Never")
        await day.attach("data", "n1")
        await pass_seconds(100 + 2 * IN_USE_SECONDS)
        assert await day.phase("job") == "Succeeded"
        assert disk.writers() == []
        assert not (await day.known_node("n1")).status.volumes_in_use
        assert pod.uid in day.nodes["n1"].containers()

    live(story)


def test_a_read_only_mount_writes_nothing() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data")
        source = {"claimName": "data", "readOnly": True}
        volumes = [{"name": "data", "persistentVolumeClaim": source}]
        await day.make_pod("reader", "n1", volumes=volumes)
        await day.attach("data", "n1")
        await pass_seconds(IN_USE_SECONDS)
        assert await day.phase("reader") == "Running"
        assert disk.holds() == []

    live(story)


async def move_by_force(day: Day, uid: str) -> None:
    """What somebody in a hurry does: the pod is deleted by force, the attachment with it, and both are made elsewhere."""
    pod = await day.pod("db-n1")
    assert pod
    assert pod.uid == uid
    await day.delete(pod, grace_seconds=0)
    await day.detach("data", "n1")
    await pass_seconds(DETACH_SECONDS + 1)
    await run_db(day, "n2")


def test_a_naive_move_from_a_partitioned_node_corrupts_the_disk() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data")
        uid = await run_db(day, "n1")
        day.nodes["n1"].partition()
        await pass_seconds(60)
        await move_by_force(day, uid)
        verdict = disk.verdict()
        assert verdict.corrupted
        assert {verdict.clashes[0].earlier.writer.node, verdict.clashes[0].later.writer.node} == {"n1", "n2"}

    live(story)


def test_a_naive_move_from_a_hung_node_corrupts_the_disk() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data")
        uid = await run_db(day, "n1")
        day.nodes["n1"].hang()
        await pass_seconds(60)
        await move_by_force(day, uid)
        assert disk.verdict().corrupted

    live(story)


def test_a_move_from_a_node_without_power_leaves_the_disk_intact() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data")
        uid = await run_db(day, "n1")
        day.nodes["n1"].machine.set_power(False)
        assert disk.writers() == []
        await pass_seconds(60)
        await move_by_force(day, uid)
        day.nodes["n1"].machine.set_power(True)
        await pass_seconds(600)
        assert [writer.node for writer in disk.writers()] == ["n2"]
        assert not disk.verdict().corrupted

    live(story)


def test_a_move_from_a_partitioned_node_whose_writes_are_fenced_leaves_the_disk_intact() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data")
        uid = await run_db(day, "n1")
        day.nodes["n1"].partition()
        disk.fence("n1")
        await move_by_force(day, uid)
        await pass_seconds(600)
        assert not disk.verdict().corrupted
        day.nodes["n1"].heal()
        await pass_seconds(HEARD_SECONDS)
        assert day.nodes["n1"].containers() == {}
        disk.unfence("n1")
        await pass_seconds(600)
        assert not disk.verdict().corrupted, "it stopped before it was let in again"

    live(story)


def test_a_move_in_good_order_leaves_the_disk_intact() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data")
        await run_db(day, "n1")
        pod = await day.pod("db-n1")
        assert pod
        await day.delete(pod)
        await pass_seconds(IN_USE_SECONDS)
        await day.detach("data", "n1")
        await pass_seconds(DETACH_SECONDS + 1)
        await run_db(day, "n2")
        assert [hold.writer.node for hold in disk.holds()] == ["n1", "n2"]
        assert not disk.verdict().corrupted

    live(story)


def test_a_job_on_a_hung_node_ends_on_time_and_its_disk_knows() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data")
        await run_db(day, "n1", annotations={"run-seconds": "100"}, restartPolicy="Never")
        day.nodes["n1"].hang()
        await pass_seconds(200)
        assert disk.writers() == []
        start, end = disk.holds()[0].spans[0]
        assert end - start == 100

    live(story)


def test_an_attachment_is_answered_after_a_while_with_a_finalizer() -> None:
    async def story(day: Day) -> None:
        await day.make_volume("data")
        spec = {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "data"}}
        made = await day.person.create(ATTACHMENTS, {"metadata": {"name": "a"}, "spec": spec})
        await pass_seconds(StorageTimers().attach_seconds - 0.5)
        assert not (await day.person.get(ATTACHMENTS.of(made))).status.attached
        await pass_seconds(ATTACH_SECONDS)
        known = await day.person.get(ATTACHMENTS.of(made))
        assert known.status.attached
        assert known.metadata.finalizers == [FINALIZER]
        await day.person.delete(ATTACHMENTS.of(known), Deletion(uid=known.uid))
        await pass_seconds(StorageTimers().detach_seconds - 0.5)
        assert (await day.person.get(ATTACHMENTS.of(made))).is_deleted
        await pass_seconds(DETACH_SECONDS)
        with pytest.raises(NotFound):
            await day.person.get(ATTACHMENTS.of(made))

    live(story)


def test_a_volume_of_one_node_is_refused_elsewhere_until_it_is_detached() -> None:
    async def story(day: Day) -> None:
        await day.make_volume("data")
        await day.attach("data", "n1")
        await day.attach("data", "n2")
        refused = await day.person.get(RAW_ATTACHMENTS.at("data-n2"))
        assert refused.status
        assert not refused.status["attached"]
        assert "attached to n1" in refused.status["attachError"]["message"]
        await day.detach("data", "n1")
        await pass_seconds(60)
        second = await day.attachment("data", "n2")
        assert second
        assert second.status.attached

    live(story)


def test_a_shared_volume_is_attached_everywhere_and_written_by_all() -> None:
    async def story(day: Day) -> None:
        disk = await day.make_volume("data", "ReadWriteMany")
        await run_db(day, "n1")
        await run_db(day, "n2")
        assert sorted(writer.node for writer in disk.writers()) == ["n1", "n2"]
        assert not disk.verdict().corrupted

    live(story)


def test_an_attachment_that_is_deleted_while_it_is_made_goes_too() -> None:
    async def story(day: Day) -> None:
        await day.make_volume("data")
        spec = {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "data"}}
        made = await day.person.create(ATTACHMENTS, {"metadata": {"name": "a"}, "spec": spec})
        await pass_seconds(StorageTimers().attach_seconds / 2)
        await day.person.delete(ATTACHMENTS.of(made), Deletion(uid=made.uid))
        await pass_seconds(ATTACH_SECONDS + DETACH_SECONDS)
        with pytest.raises(NotFound):
            await day.person.get(ATTACHMENTS.of(made))
        await day.attach("data", "n2")
        second: Attachment | None = await day.attachment("data", "n2")
        assert second
        assert second.status.attached

    live(story)


def test_attachments_of_other_drivers_are_left_alone() -> None:
    async def story(day: Day) -> None:
        spec = {"attacher": "csi.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "theirs"}}
        made = await day.person.create(ATTACHMENTS, {"metadata": {"name": "theirs"}, "spec": spec})
        await pass_seconds(600)
        known = await day.person.get(ATTACHMENTS.of(made))
        assert known.metadata.resource_version == made.metadata.resource_version

    live(story)


def test_an_attacher_that_is_refused_tries_again() -> None:
    async def story(day: Day) -> None:
        await day.make_volume("data")
        fault = Fault(effect=Refuse(code=500), client="storage", resource="volumeattachments.storage.k8s.io", times=4)
        day.server.faults.inject(fault)
        await day.attach("data", "n1")
        await pass_seconds(60)
        known = await day.attachment("data", "n1")
        assert known
        assert known.status.attached
        assert day.server.faults.struck(fault) == 4

    live(story)


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"])
def test_a_claim_that_waits_for_our_driver_gets_a_volume(mode: str) -> None:
    async def story(day: Day) -> None:
        spec = {"accessModes": [mode], "storageClassName": CLASS, "resources": {"requests": {"storage": "5Gi"}}}
        meta = {"name": "data", "annotations": {ASKED_ANNOTATION: DRIVER}}
        claim = await day.person.create(CLAIMS, {"metadata": meta, "spec": spec}, namespace="default")
        await day.person.create(
            CLAIMS, {"metadata": {"name": "other"}, "spec": spec | {"storageClassName": "x"}}, namespace="default"
        )
        await pass_seconds(2 * StorageTimers().provision_seconds + 1)
        volumes = (await day.person.list_all(VOLUMES)).items
        assert [(volume.name, volume.mode) for volume in volumes] == [(f"pvc-{claim.uid}", mode)]
        assert volumes[0].spec.csi
        assert volumes[0].spec.csi.volume_handle == f"disk-{claim.uid}"

    live(story)


def test_a_released_volume_goes_when_nobody_has_it_attached() -> None:
    async def story(day: Day) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
        meta = {"name": "data", "annotations": {ASKED_ANNOTATION: DRIVER}}
        claim = await day.person.create(CLAIMS, {"metadata": meta, "spec": spec}, namespace="default")
        await pass_seconds(5)
        name = f"pvc-{claim.uid}"
        await day.attach(name, "n1")
        await day.person.patch(VOLUMES.at(name), Merge({"status": {"phase": "Released"}}), subresource="status")
        await pass_seconds(60)
        assert (await day.person.get(VOLUMES.at(name))).name == name
        await day.detach(name, "n1")
        await pass_seconds(DETACH_SECONDS + 1)
        with pytest.raises(NotFound):
            await day.person.get(VOLUMES.at(name))

    live(story)
