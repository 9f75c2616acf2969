"""Who holds what, as a person is told it: from the Leases alone, whatever stands in them."""

from datetime import timedelta

import msgspec
import pytest

from defib.config import Settings
from defib.console.session import NotDone, Session
from defib.console.shards import Sharing, look_at
from defib.coordinate.keys import ADMISSION
from defib.coordinate.lock import MARK
from defib.coordinate.seats import BUCKETS
from defib.coordinate.sharded import BUCKET_LEASE, MEMBER_LEASE
from defib.coordinate.shards import bucket_of, preferences
from defib.kube.kinds import LEASES
from defib.simulate.faults import Fault, Refuse
from tests.sharded_replicas import SETTLED_SECONDS, replicas_on, seconds
from tests.unit.console.desk import Desk, add_node, at_the_desk

THREE = ("defib-a", "defib-b", "defib-c")
HOME = "defib-system"
ADMITS = bucket_of(ADMISSION, BUCKETS)


async def told_at(desk: Desk, node: str = "") -> Sharing:
    return await look_at(Session(desk.client, desk.clock), Settings(), node)


def a_lease(desk: Desk, name: str, holder: str, *, ago: float = 1.0, marked: bool = True) -> None:
    renewed = f"{desk.clock.now() - timedelta(seconds=ago):%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    labels = MARK if marked else {}
    desk.server.put(str(LEASES), {"metadata": {"name": name, "namespace": HOME, "labels": labels}, "spec": spec})


def shared(desk: Desk, *, without: tuple[int, ...] = ()) -> None:
    for name in THREE:
        a_lease(desk, f"{MEMBER_LEASE}{name}", name)
    for number, holder in preferences(BUCKETS, THREE).items():
        if number not in without:
            a_lease(desk, f"{BUCKET_LEASE}{number}", holder)


def test_it_tells_who_holds_which_buckets_and_nodes() -> None:
    async def scene(desk: Desk) -> None:
        shared(desk)
        names = [f"worker-{number}" for number in range(40)]
        for name in names:
            add_node(desk.server, name)
        told = await told_at(desk)
        wanted = preferences(BUCKETS, THREE)
        assert told.is_shared
        assert told.is_well
        assert told.leader == wanted[ADMITS]
        for one in told.members:
            assert one.is_live
            assert one.buckets == tuple(number for number in range(BUCKETS) if wanted[number] == one.name)
            assert one.nodes == sum(wanted[bucket_of(name, BUCKETS)] == one.name for name in names)
        assert told.idle == ()

    at_the_desk(scene)


def test_what_running_replicas_hold_is_what_it_tells() -> None:
    async def scene(desk: Desk) -> None:
        async with replicas_on(desk.server, desk.clock) as replicas:
            replicas.start(*THREE)
            await seconds(SETTLED_SECONDS)
            told = await told_at(desk)
            assert {one.name: len(one.buckets) for one in told.members} == dict(replicas.holders.shares)
            assert told.is_well

    at_the_desk(scene)


def test_sh_04_a_bucket_that_nobody_has_is_told_with_since_when_and_whose_it_was() -> None:
    async def scene(desk: Desk) -> None:
        shared(desk, without=(3, 5, 6))
        a_lease(desk, f"{BUCKET_LEASE}3", "defib-b", ago=120)
        a_lease(desk, f"{BUCKET_LEASE}5", "", ago=2)
        told = await told_at(desk)
        assert not told.is_well
        idle = {one.bucket: (one.had_by, one.since) for one in told.idle}
        assert idle == {
            3: ("defib-b", told.now - timedelta(seconds=120)),
            5: ("", told.now - timedelta(seconds=2)),
            6: ("", None),
        }

    at_the_desk(scene)


def test_a_member_that_is_silent_is_told_as_such() -> None:
    async def scene(desk: Desk) -> None:
        shared(desk)
        a_lease(desk, f"{MEMBER_LEASE}defib-x", "defib-x", ago=60)
        a_lease(desk, f"{MEMBER_LEASE}defib-y", "", ago=60)  # has left in order
        told = await told_at(desk)
        assert {one.name: one.is_live for one in told.members} == dict.fromkeys(THREE, True) | {"defib-x": False}

    at_the_desk(scene)


@pytest.mark.parametrize(("node", "exists"), [("worker-7", True), ("worker-8", False)])
def test_it_says_in_which_bucket_a_node_is_and_whose_that_is(node: str, exists: bool) -> None:
    async def scene(desk: Desk) -> None:
        shared(desk)
        add_node(desk.server, "worker-7")
        told = (await told_at(desk, node)).node
        assert told is not None
        number = bucket_of(node, BUCKETS)
        assert (told.exists, told.bucket, told.holder) == (exists, number, preferences(BUCKETS, THREE)[number])

    at_the_desk(scene)


@pytest.mark.parametrize("marked", [True, False])
def test_without_buckets_it_says_who_leads(marked: bool) -> None:
    async def scene(desk: Desk) -> None:
        a_lease(desk, "defib-leader", "defib-a", marked=marked)
        told = await told_at(desk)
        assert (told.is_shared, told.leader, told.is_well) == (False, "defib-a", True)
        assert told.lock == f"{HOME}/defib-leader"

    at_the_desk(scene)


def test_where_one_leads_a_node_that_is_not_there_is_nobodys() -> None:
    async def scene(desk: Desk) -> None:
        a_lease(desk, "defib-leader", "defib-a")
        add_node(desk.server, "worker-7")
        assert (await told_at(desk, "worker-7")).leader == "defib-a"
        with pytest.raises(NotDone, match="there is no node worker-77; did you mean worker-7"):
            await told_at(desk, "worker-77")

    at_the_desk(scene)


def test_buckets_that_were_left_behind_do_not_hide_who_leads_now() -> None:
    async def scene(desk: Desk) -> None:
        for number in range(BUCKETS):
            a_lease(desk, f"{BUCKET_LEASE}{number}", "defib-old", ago=3600)
        assert (await told_at(desk)).is_shared
        a_lease(desk, "defib-leader", "defib-a")
        assert (await told_at(desk)).leader == "defib-a"

    at_the_desk(scene)


@pytest.mark.parametrize("ago", [16.0, None])
def test_nobody_leads_when_the_lock_is_silent_or_not_there(ago: float | None) -> None:
    async def scene(desk: Desk) -> None:
        if ago is not None:
            a_lease(desk, "defib-leader", "defib-a", ago=ago)
        told = await told_at(desk)
        assert (told.leader, told.is_well) == ("", False)

    at_the_desk(scene)


def test_whoever_may_not_list_nodes_is_told_the_rest() -> None:
    async def scene(desk: Desk) -> None:
        shared(desk)
        desk.server.faults.inject(Fault(effect=Refuse(code=403), resource="nodes"))
        told = await told_at(desk, "worker-7")
        assert [one.nodes for one in told.members] == [None, None, None]
        assert told.node is not None
        assert told.node.exists is None
        assert len(told.unknown) == 1

    at_the_desk(scene)


def test_whoever_may_not_list_leases_is_told_which_right_is_missing() -> None:
    async def scene(desk: Desk) -> None:
        desk.server.faults.inject(Fault(effect=Refuse(code=403), resource=str(LEASES)))
        with pytest.raises(NotDone, match="kubectl auth can-i list leases -n defib-system"):
            await told_at(desk)

    at_the_desk(scene)


def test_a_machine_reads_the_same() -> None:
    async def scene(desk: Desk) -> None:
        shared(desk, without=(6,))
        said = msgspec.json.decode(msgspec.json.encode(await told_at(desk, "worker-7")))
        assert said["shared"] is True
        assert [one["bucket"] for one in said["idle"]] == [6]
        assert {"name", "live", "renewed", "buckets", "nodes"} == said["members"][0].keys()
        assert said["node"]["name"] == "worker-7"

    at_the_desk(scene)
