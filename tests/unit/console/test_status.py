"""How the whole cluster stands: what is counted, what comes first, and what is well."""

from typing import Any

import pytest
import yaml

from defib.config import Settings
from defib.console.session import NotDone, Session
from defib.console.status import Status, stand
from defib.kube.kinds import LEASES
from defib.simulate.server import ApiServer
from tests.unit.console.desk import (
    DEFINITIONS,
    MINUTE,
    ROOT,
    Desk,
    add_check,
    add_foo,
    add_incident,
    add_node,
    add_nodes,
    at_the_desk,
    put_config,
    stamp,
)
from tests.unit.console.test_drain_approval import add_drain

FENCES = "powercycleremediationtemplates.defib.dev"


def add_leader(server: ApiServer, name: str = "defib-0") -> None:
    renewed = f"{server.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": name, "leaseDurationSeconds": 15, "renewTime": renewed}
    server.put(str(LEASES), {"metadata": {"name": "defib-leader", "namespace": "defib-system"}, "spec": spec})


def add_fences(server: ApiServer, **status: Any) -> None:
    crd = ROOT / "deploy/crds/defib.dev_powercycleremediationtemplates.yaml"
    server.put(DEFINITIONS, yaml.safe_load(crd.read_text()))
    spec = {"template": {"spec": {"power": {"driver": "manual"}}}}
    made = server.put(FENCES, {"metadata": {"name": "metal", "namespace": "ns"}, "spec": spec})
    server.store.put(FENCES, {**made.object, "status": status})


async def status(desk: Desk) -> Status:
    return await stand(Session(desk.client, desk.clock), Settings(), desk.rules)


async def first(desk: Desk) -> list[tuple[str, str]]:
    return [(one.message, one.command) for one in (await status(desk)).first]


def test_a_cluster_in_which_all_is_well() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_check(desk.server)
        add_leader(desk.server)
        told = await status(desk)
        assert (told.is_well, told.first, told.unknown) == (True, (), ())
        assert told.headline == "All is well: all 5 nodes are ready, 5 looked after"
        assert told.cluster.states == {"Healthy": 5}

    at_the_desk(scene)


def test_nodes_are_counted_once_by_their_worst_state() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, 7, ill=["n1", "n2"])
        add_node(desk.server, "n8", "Unknown", minutes=1)
        add_node(desk.server, "lonely", labels={"node-role.kubernetes.io/worker": "", "pool": "x"})
        add_check(desk.server)
        add_check(desk.server, "again", mode="Approve")
        add_foo(desk.server, "n1")
        cluster = (await status(desk)).cluster
        assert cluster.states == {"Unhealthy": 2, "Suspect": 1, "Healthy": 6}
        assert [(one.node, one.state) for one in cluster.ill] == [
            ("n1", "Unhealthy"),  # the other check still waits for approval
            ("n2", "Unhealthy"),
            ("n8", "Suspect"),
        ]
        assert [(one.name, one.nodes, one.healthy, one.unhealthy) for one in cluster.checks] == [
            ("again", 9, 6, 2),
            ("workers", 9, 6, 2),
        ]

    at_the_desk(scene)


def test_a_node_that_may_be_about_to_fail_is_looked_at_before_anything_is_done_about_it() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_node(desk.server, "n6", "Unknown", minutes=1)
        add_check(desk.server)
        add_leader(desk.server)
        told = await status(desk)
        assert told.headline == "1 of 6 nodes may be about to fail"
        (one,) = told.first
        assert one.message.startswith("node n6 is suspect: Ready=Unknown; unhealthy from ")
        assert one.command == "defib why n6"

    at_the_desk(scene)


def test_without_an_operator_that_comes_first() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_check(desk.server)
        assert await first(desk) == [
            (
                "no operator is at work: nobody holds the lock defib-system/defib-leader",
                "kubectl -n defib-system get pods",
            )
        ]

    at_the_desk(scene)


def test_what_is_wrong_is_told_with_the_command_that_says_more() -> None:
    async def scene(desk: Desk) -> None:
        add_leader(desk.server)
        add_nodes(desk.server, 12, ill=["n1", "n2", "n3", "n4", "n5"])
        add_check(desk.server, mode="Approve")
        add_foo(desk.server, "n5")
        add_incident(desk.server, "n4", "NeedsPerson", message="its BMC does not answer")
        add_drain(desk.server, "n9", phase="WaitingForApproval", message="evict 2 pods")
        add_drain_of(desk.server, "n10", phase="Held", message="the brake is on")
        add_drain_of(desk.server, "n11", phase="Forcing", failed=True, message="a pod stays")
        add_fences(desk.server, covered=3, ready=2, notReady=[{"node": "n7", "why": "no answer"}])
        assert await first(desk) == [
            ("the incident of node n4 needs a person: its BMC does not answer", "defib timeline n4"),
            (
                "3 nodes (n1, n2, n3) are unhealthy and held back: waits for a person's approval",
                "defib approve n1",
            ),
            ("node n5 is being remediated: FooRemediation ns/n5 is at work", "defib timeline n5"),
            ("the drain of node n10 is held back: the brake is on", "defib drain n10"),
            ("the drain of node n11 takes longer than it may: a pod stays", "defib drain n11"),
            ("the drain of node n9 waits for approval: evict 2 pods", "defib approve n9 --drain"),
            (
                "1 of 3 machines could not be switched off if they failed now (ns/metal); n7: no answer",
                "kubectl -n ns get powercycleremediationtemplate metal -o yaml",
            ),
        ]

    at_the_desk(scene)


def add_drain_of(server: ApiServer, node: str, **status: Any) -> None:
    made = server.put("nodedrains.defib.dev", {"metadata": {"name": node}, "spec": {"policy": "all"}})
    server.store.put("nodedrains.defib.dev", {**made.object, "status": {"policy": "all"} | status})


def test_many_that_are_held_back_alike_are_one_thing_to_look_at() -> None:
    async def scene(desk: Desk) -> None:
        add_leader(desk.server)
        add_nodes(desk.server, 9, ill=["n1", "n2", "n3", "n4"])
        add_check(desk.server, minHealthy="80%")
        why = "5 of 9 nodes are healthy, at least 8 must be"
        assert await first(desk) == [
            ("4 nodes (n1, n2, n3 and 1 more) are unhealthy and held back: " + why, "defib why n1"),
        ]

    at_the_desk(scene)


def test_the_brake_and_a_check_that_does_nothing_are_told() -> None:
    async def scene(desk: Desk) -> None:
        add_leader(desk.server)
        add_nodes(desk.server)
        add_check(desk.server, pauseRequests=["storage maintenance"])
        put_config(desk.server, "defib-brake", paused="true", reason="storage", by="ann")
        assert await first(desk) == [
            ("the brake is on, so no node is remediated: storage (ann)", "defib resume"),
            (
                "check workers does nothing (Paused): paused: storage maintenance",
                "kubectl describe nodehealthcheck workers",
            ),
        ]

    at_the_desk(scene)


def test_nodes_that_nobody_looks_after_are_told_when_they_are_not_ready() -> None:
    async def scene(desk: Desk) -> None:
        add_leader(desk.server)
        add_nodes(desk.server)
        add_check(desk.server, selector={"matchLabels": {"pool": "x"}})
        add_node(desk.server, "lost", "False", labels={"pool": "y"})
        assert await first(desk) == [("node lost is not ready, and no check looks after it", "defib why lost")]
        assert (await status(desk)).cluster.states == {"Unwatched": 6}

    at_the_desk(scene)


def test_a_cluster_without_a_check_is_not_well() -> None:
    async def scene(desk: Desk) -> None:
        add_leader(desk.server)
        add_nodes(desk.server, ill=["n1"])
        ((message, _),) = await first(desk)
        assert message.startswith("there is no NodeHealthCheck, so no node is looked after")

    at_the_desk(scene)


def test_what_cannot_be_read_is_said_and_the_rest_is_told() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_check(desk.server)
        desk.refuse(str(LEASES), "list", namespace="defib-system")
        desk.refuse("nodeincidents.defib.dev", "list")
        told = await status(desk)
        assert (told.is_well, told.operator) == (True, None)
        assert [note.split(":")[0] for note in told.unknown] == [
            "the NodeIncidents could not be read here, and the operator may see more",
            "which replica of the operator leads",
        ]

    at_the_desk(scene)


def test_without_nodes_in_sight_there_is_no_point() -> None:
    async def scene(desk: Desk) -> None:
        desk.refuse("nodes", "list")
        with pytest.raises(NotDone, match="kubectl auth can-i list nodes"):
            await status(desk)

    at_the_desk(scene)


def test_a_leader_that_is_silent_is_none() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_check(desk.server)
        renewed = stamp(desk.clock.now() - 5 * MINUTE).replace("Z", ".000000Z")
        spec = {"holderIdentity": "defib-0", "leaseDurationSeconds": 15, "renewTime": renewed}
        desk.server.put(str(LEASES), {"metadata": {"name": "defib-leader", "namespace": "defib-system"}, "spec": spec})
        ((message, _),) = await first(desk)
        assert message.startswith("no operator is at work")

    at_the_desk(scene)
