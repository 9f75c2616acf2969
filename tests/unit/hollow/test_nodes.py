"""What can be wrong with a hollow node, and what the API server sees of it."""

import asyncio

import pytest

from defib.hollow.objects import CSI_NODES, KNOWN_NODES
from defib.hollow.site import DRIVER, Blueprint, in_zones, numbered
from defib.hollow.timers import Timers
from defib.kube.client import Deletion, Merge
from defib.kube.errors import NotFound
from defib.kube.kinds import LEASES, NODES
from defib.simulate.faults import Fault, Hang
from tests.unit.hollow.day import HEARD_SECONDS, TIMERS, Day, blueprints, live, pass_seconds

BOOTED_SECONDS = TIMERS.boot_seconds + HEARD_SECONDS


def test_a_node_registers_with_its_labels_roles_and_taints() -> None:
    async def story(day: Day) -> None:
        node = await day.node("big")
        assert node.labels == {
            "kubernetes.io/hostname": "big",
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": "zone-b",
            "node-role.kubernetes.io/control-plane": "",
            "example.com/rack": "7",
        }
        assert [taint.key for taint in node.spec.taints or ()] == ["example.com/dedicated"]
        assert node.ready == "True"

    taint = {"key": "example.com/dedicated", "effect": "NoSchedule"}
    shape = Blueprint(
        name="big",
        zone="zone-b",
        address="10.0.0.9",
        roles=("control-plane",),
        labels={"example.com/rack": "7"},
        taints=(taint,),
    )
    live(story, nodes=[shape])


def test_a_node_offers_the_hollow_driver_and_owns_its_records() -> None:
    async def story(day: Day) -> None:
        node = await day.node("n1")
        csi_node = await day.person.get(CSI_NODES.at("n1"))
        lease = await day.person.get(LEASES.at("n1", "kube-node-lease"))
        assert csi_node.spec
        assert [driver["name"] for driver in csi_node.spec["drivers"]] == [DRIVER]
        for record in (csi_node, lease):
            assert [owner.uid for owner in record.metadata.owner_references or ()] == [node.uid]

    live(story)


def test_every_node_beats_once_in_ten_seconds_and_not_all_at_once() -> None:
    async def story(day: Day) -> None:
        await pass_seconds(100)
        before = day.beats("n1")
        await pass_seconds(600)
        assert day.beats("n1") - before == 60
        renewed = {(await day.person.get(LEASES.at(name, "kube-node-lease"))).spec.renew_time for name in day.nodes}
        assert len(renewed) == len(day.nodes)

    live(story)


def test_a_status_in_which_nothing_changes_is_posted_every_five_minutes() -> None:
    async def story(day: Day) -> None:
        await pass_seconds(3600)
        posts = [one for one in day.server.audit.writes("kubelet") if one.path == "/api/v1/nodes/n1/status"]
        assert 10 <= len(posts) <= 12

    live(story)


def test_a_condition_of_a_problem_detector_is_posted_at_once() -> None:
    async def story(day: Day) -> None:
        day.nodes["n1"].set_condition("KernelDeadlock", "True", "DockerHung", "task blocked for 120 s")
        await pass_seconds(1)
        condition = (await day.node("n1")).condition("KernelDeadlock")
        assert condition
        assert (condition.status, condition.reason) == ("True", "DockerHung")

    live(story)


def test_a_kubelet_can_say_that_it_is_not_ready() -> None:
    async def story(day: Day) -> None:
        day.nodes["n1"].set_condition("Ready", "False", "KubeletNotReady", "container runtime is down")
        await pass_seconds(1)
        assert (await day.node("n1")).ready == "False"
        await pass_seconds(600)
        assert (await day.node("n1")).ready == "False"

    live(story)


def test_conditions_of_others_stay() -> None:
    async def story(day: Day) -> None:
        known = await day.known_node("n1")
        foreign = {"type": "example.com/Fan", "status": "True"}
        changed = {"conditions": [*(known.status.conditions or ()), foreign]}
        await day.person.patch(NODES.at("n1"), Merge({"status": changed}), subresource="status")
        await pass_seconds(3 * TIMERS.status_seconds)
        fan = (await day.node("n1")).condition("example.com/Fan")
        assert fan
        assert fan.status == "True"

    live(story)


def test_a_node_that_was_given_up_says_that_it_is_ready_with_its_next_beat() -> None:
    async def story(day: Day) -> None:
        await pass_seconds(30)
        given_up = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
        await day.person.patch(NODES.at("n1"), Merge({"status": {"conditions": given_up}}), subresource="status")
        await pass_seconds(TIMERS.renew_seconds + 1)
        assert (await day.node("n1")).ready == "True"

    live(story)


def test_a_node_without_power_says_nothing_and_its_containers_are_gone() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("web", "n1")
        await pass_seconds(33)
        day.nodes["n1"].machine.set_power(False)
        before = day.beats("n1")
        assert day.nodes["n1"].containers() == {}
        await pass_seconds(300)
        assert day.beats("n1") == before
        assert await day.phase("web") == "Running", "nobody was there to say otherwise"

    live(story)


def test_a_node_that_loses_power_in_the_middle_of_a_beat_does_not_end_it() -> None:
    async def story(day: Day) -> None:
        day.server.faults.inject(Fault(effect=Hang(), name="n1", client="kubelet", times=1))
        await pass_seconds(12)
        day.nodes["n1"].machine.set_power(False)
        before = day.beats("n1")
        await pass_seconds(60)
        assert day.beats("n1") == before

    live(story)


def test_a_node_that_boots_again_restarts_its_pods_and_has_a_new_boot() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("web", "n1")
        await day.make_pod("once", "n1", restartPolicy="Never")
        doomed = await day.make_pod("doomed", "n1")
        await pass_seconds(HEARD_SECONDS)
        first = await day.node("n1")
        day.nodes["n1"].machine.set_power(False)
        await pass_seconds(100)
        await day.delete(doomed)
        day.nodes["n1"].machine.set_power(True)
        await pass_seconds(TIMERS.boot_seconds - 1)
        assert await day.phase("doomed") == "Running"
        await pass_seconds(1 + 2 * HEARD_SECONDS)
        again = await day.node("n1")
        assert (again.ready, again.uid) == ("True", first.uid)
        assert again.status.node_info.boot_id != first.status.node_info.boot_id
        assert await day.phase("doomed") == "gone"
        assert await day.phase("once") == "Failed"
        web = await day.pod("web")
        assert web
        assert web.status
        assert (web.phase, web.status["containerStatuses"][0]["restartCount"]) == ("Running", 1)

    live(story)


def test_a_machine_that_is_switched_on_again_before_anybody_noticed_still_booted() -> None:
    async def story(day: Day) -> None:
        boot = day.nodes["n1"].boot_id
        day.nodes["n1"].machine.set_power(False)
        day.nodes["n1"].machine.set_power(True)
        await pass_seconds(BOOTED_SECONDS)
        assert (await day.node("n1")).status.node_info.boot_id == day.nodes["n1"].boot_id != boot

    live(story)


@pytest.mark.parametrize("turns", range(24))
def test_power_that_goes_at_any_moment_of_a_pod_s_start_leaves_nothing_behind(turns: int) -> None:
    async def story(day: Day) -> None:
        await day.make_pod("web", "n1", annotations={"start-seconds": "0"})
        for _ in range(turns):
            await asyncio.sleep(0)
        day.nodes["n1"].machine.set_power(False)
        before = len(list(day.server.audit.writes("kubelet")))
        await pass_seconds(5)
        assert day.nodes["n1"].containers() == {}
        after = list(day.server.audit.writes("kubelet"))[before:]
        assert [one for one in after if "n1" in one.path or "/pods/" in one.path] == []

    live(story)


def test_a_hung_kubelet_says_nothing_and_its_containers_run_on() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1")
        await pass_seconds(HEARD_SECONDS)
        day.nodes["n1"].hang()
        before = day.beats("n1")
        await day.delete(pod)
        await pass_seconds(600)
        assert day.beats("n1") == before
        assert day.nodes["n1"].containers() == {pod.uid: "running"}
        assert await day.phase("web") == "Running"
        day.nodes["n1"].resume()
        await pass_seconds(HEARD_SECONDS)
        assert await day.phase("web") == "gone"
        assert day.beats("n1") > before

    live(story)


def test_a_partitioned_node_runs_on_and_learns_what_was_deleted_when_it_is_healed() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1")
        asked = await day.make_pod("asked", "n1", annotations={"stop-seconds": "20"})
        await pass_seconds(HEARD_SECONDS)
        await day.delete(asked)
        await pass_seconds(5)
        day.nodes["n1"].partition()
        before = day.beats("n1")
        await day.delete(pod, grace_seconds=0)
        await pass_seconds(600)
        assert day.beats("n1") == before
        assert day.nodes["n1"].containers() == {pod.uid: "running", asked.uid: "stopped"}, "it had heard of one of them"
        day.nodes["n1"].heal()
        await pass_seconds(HEARD_SECONDS)
        assert day.nodes["n1"].containers() == {}
        assert await day.phase("asked") == "gone"

    live(story)


def test_a_container_that_was_about_to_start_starts_in_a_partition_too() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1", annotations={"start-seconds": "10"})
        await pass_seconds(5)
        day.nodes["n1"].partition()
        await pass_seconds(10)
        assert day.nodes["n1"].containers() == {pod.uid: "running"}
        assert await day.phase("web") == "Pending"

    live(story)


def test_a_node_that_boots_behind_a_partition_knows_no_pods() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("web", "n1")
        await pass_seconds(HEARD_SECONDS)
        day.nodes["n1"].partition()
        day.nodes["n1"].machine.set_power(False)
        day.nodes["n1"].machine.set_power(True)
        await pass_seconds(300)
        assert day.nodes["n1"].containers() == {}
        day.nodes["n1"].heal()
        await pass_seconds(HEARD_SECONDS)
        assert list(day.nodes["n1"].containers().values()) == ["running"]

    live(story)


def test_a_slow_node_does_everything_later() -> None:
    async def story(day: Day) -> None:
        day.nodes["n1"].slow(7)
        await day.make_pod("web", "n1")
        await pass_seconds(7 + TIMERS.start_seconds)
        assert await day.phase("web") == "Pending"
        await pass_seconds(10)
        assert await day.phase("web") == "Running"

    live(story)


def test_a_flapping_node_is_silent_and_alive_in_turn() -> None:
    async def story(day: Day) -> None:
        await pass_seconds(60)
        day.nodes["n1"].flap(silent_seconds=100, alive_seconds=50)
        counts = []
        for _ in range(4):
            before = day.beats("n1")
            await pass_seconds(99)
            counts.append(day.beats("n1") - before)
            await pass_seconds(51)
        assert counts == [0, 0, 0, 0]
        assert day.beats("n1") > before
        day.nodes["n1"].steady()
        before = day.beats("n1")
        await pass_seconds(200)
        assert day.beats("n1") - before >= 20

    live(story)


def test_a_deleted_node_comes_back_only_with_its_next_boot() -> None:
    async def story(day: Day) -> None:
        first = await day.node("n1")
        await day.person.delete(NODES.of(first), Deletion(uid=first.uid))
        await pass_seconds(2 * TIMERS.status_seconds)
        with pytest.raises(NotFound):
            await day.node("n1")
        day.nodes["n1"].machine.set_power(False)
        day.nodes["n1"].machine.set_power(True)
        await pass_seconds(BOOTED_SECONDS)
        assert (await day.node("n1")).uid != first.uid

    live(story)


def test_a_lease_that_went_with_its_node_comes_back_with_it() -> None:
    async def story(day: Day) -> None:
        lease = LEASES.at("n1", "kube-node-lease")
        await day.person.delete(KNOWN_NODES.at("n1"), Deletion(uid=(await day.known_node("n1")).uid))
        await day.person.delete(lease, Deletion(uid=(await day.person.get(lease)).uid))
        await day.person.delete(CSI_NODES.at("n1"), Deletion(uid=(await day.person.get(CSI_NODES.at("n1"))).uid))
        await pass_seconds(60)
        with pytest.raises(NotFound):
            await day.person.get(lease)
        day.nodes["n1"].machine.set_power(False)
        day.nodes["n1"].machine.set_power(True)
        await pass_seconds(BOOTED_SECONDS)
        node = await day.node("n1")
        assert [owner.uid for owner in (await day.person.get(lease)).metadata.owner_references or ()] == [node.uid]

    live(story)


def test_an_api_server_that_is_away_for_a_while_costs_no_node_its_life() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("web", "n1")
        await pass_seconds(HEARD_SECONDS)
        day.server.stop()
        await pass_seconds(200)
        day.server.start()
        await pass_seconds(60)
        other = await day.make_pod("other", "n1")
        await pass_seconds(60)
        assert [(await day.node(name)).ready for name in day.nodes] == ["True"] * 3
        assert await day.phase("other") == "Running"
        await day.delete(other)
        await pass_seconds(HEARD_SECONDS)
        assert await day.phase("other") == "gone"

    live(story)


def test_an_answer_that_one_node_waits_for_delays_no_other() -> None:
    async def story(day: Day) -> None:
        await pass_seconds(20)
        day.server.faults.inject(Fault(effect=Hang(), name="n1", client="kubelet"))
        before = day.beats("n1"), day.beats("n2")
        await pass_seconds(600)
        assert day.beats("n2") - before[1] == 60
        assert day.beats("n1") == before[0]

    live(story)


def test_the_same_seed_gives_the_same_history_byte_for_byte() -> None:
    histories: list[list[str]] = []

    async def story(day: Day) -> None:
        await day.make_pod("web", "n1")
        day.nodes["n2"].machine.set_power(False)
        await pass_seconds(100)
        day.nodes["n2"].machine.set_power(True)
        await pass_seconds(100)
        histories.append([str(asked) for asked in day.server.audit] + [day.nodes["n2"].boot_id])

    for seed in (1, 1, 2):
        live(story, seed=seed)
    assert histories[0] == histories[1] != histories[2]


def test_a_faster_cluster_has_the_same_proportions() -> None:
    fast = Timers().faster(10)
    assert (fast.renew_seconds, fast.lease_seconds, fast.boot_seconds, fast.grace_seconds) == (1.0, 4, 4.0, 5.0)


def test_blueprints_come_in_rows() -> None:
    assert [shape.name for shape in in_zones("ab", 2)] == ["zone-a-1", "zone-a-2", "zone-b-1", "zone-b-2"]
    many = numbered(1000)
    assert len({shape.name for shape in many}) == len({shape.address for shape in many}) == 1000
    assert blueprints()[0].zone == "zone-a"
