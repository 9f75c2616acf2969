"""SHX-01, SHX-03: whoever remediates a node, moves pods of it or maintains it, and whoever forces a drain to its end,
never work on it at once; and they share how many nodes may be out.
"""

from typing import Any

import pytest

from defib.kube.client import Deletion, Merge
from defib.kube.kinds import NODE_INCIDENTS, NODES, unstructured
from tests.drain_stage import DELETE, EVICT, FORCE, Stage, play
from tests.failover_stage import FAILOVERS, HOME

DRAIN_HAS_IT = "defib-drain"
CHECK_HAS_IT = "NodeHealthCheck-all"
POWER_CYCLES = unstructured("defib.dev", "v1alpha1", "powercycleremediations", "PowerCycleRemediation", namespaced=True)


async def forcing(stage: Stage, pod: str = "db-0", **spec: Any) -> None:
    """A drain of n1 that is at work, and hangs on a budget until the hour is over. For a running operator."""
    stage.pod(pod)
    await stage.budget()
    await stage.drain_policy(**spec)
    await stage.cordon("n1")
    await stage.until(40)
    assert (stage.stands(), stage.holder()) == ("Forcing", DRAIN_HAS_IT)


async def fail_drained(stage: Stage, ready: str = "Unknown") -> None:
    """The kubelet of n1 is not heard of; the node stays cordoned."""
    since = f"{stage.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    said = [{"type": "Ready", "status": ready, "lastTransitionTime": since}]
    await stage.person.patch(NODES.at("n1"), Merge({"status": {"conditions": said}}), subresource="status")


def test_shx_01_a_lock_of_somebody_else_holds_the_drain_until_it_is_given_back() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.drain_policy()
        await stage.lock("n1", "node-maintenance-operator", seconds=24 * 3600)
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(90)
            assert (stage.stands(), stage.holder()) == ("Held Lock", "node-maintenance-operator")
            assert "node-maintenance-operator" in stage.drain()["message"]
            assert (stage.done, stage.has_failed()) == ([], True)
            await stage.unlock("n1")
            await stage.seconds(30)
            assert stage.told() == [(EVICT, "web-1", 90)]

    play(story)


def test_shx_01_a_lock_that_somebody_takes_from_us_stops_the_drain_at_once() -> None:
    async def story(stage: Stage) -> None:
        async with stage.operator():
            await forcing(stage)
            await stage.unlock("n1")
            await stage.lock("n1", "node-maintenance-operator", seconds=3600)
            await stage.seconds(2)
            before = len(stage.done)
            await stage.until(95)
            assert (stage.stands(), stage.holder()) == ("Held Lock", "node-maintenance-operator")
            assert len(stage.done) == before

    play(story)


def test_shx_01_a_drain_yields_to_an_open_incident_and_goes_on_when_it_is_closed() -> None:
    """A person has the machine power-cycled by hand in the middle of it."""

    async def story(stage: Stage) -> None:
        async with stage.operator():
            await forcing(stage)
            spec = {"power": {"driver": "metal3", "address": "hosts/n1"}}
            await stage.person.create(POWER_CYCLES, {"metadata": {"name": "n1"}, "spec": spec}, namespace=HOME)
            await stage.seconds(5)
            assert [one["status"]["phase"] for one in stage.all(str(NODE_INCIDENTS))] != ["Closed"]
            assert (stage.stands(), stage.holder()) == ("Held Remediation", "defib-power-cycle")
            before = len(stage.done)
            await stage.until(70)
            assert (len(stage.done), stage.there()) == (before, ["db-0"])
            item = await stage.person.get(POWER_CYCLES.at("n1", HOME))
            await stage.person.delete(POWER_CYCLES.of(item), Deletion(uid=item.uid))
            await stage.minutes(2)
            assert (stage.stands(), stage.there(), stage.holder()) == ("Drained", [], "")

    play(story)


def test_shx_01_a_drain_gives_the_lock_to_a_check_that_wants_to_remediate_its_node() -> None:
    async def story(stage: Stage) -> None:
        await stage.check()
        async with stage.operator():
            await forcing(stage)
            await fail_drained(stage)
            await stage.seconds(25)  # the check waits for ten of them
            assert [one["metadata"]["name"].partition("-")[0] for one in stage.all(str(FAILOVERS))] == ["n1"]
            assert (stage.stands(), stage.holder()) == ("Held Remediation", CHECK_HAS_IT)
            before = len(stage.done)
            await stage.until(70)
            assert (len(stage.done), stage.there()) == (before, ["db-0"])
            await fail_drained(stage, "True")
            await stage.minutes(3)
            assert stage.all(str(FAILOVERS)) == []
            assert (stage.stands(), stage.there(), stage.holder()) == ("Drained", [], "")

    play(story)


def test_shx_01_a_check_that_would_not_remediate_does_not_hold_the_drain() -> None:
    async def story(stage: Stage) -> None:
        await stage.check(pauseRequests=["a person"])
        async with stage.operator():
            await forcing(stage, "web-1")
            stage.dead.add("n1")
            await fail_drained(stage)
            await stage.until(62)
            assert [one[0] for one in stage.first()] == [EVICT, DELETE, FORCE]
            assert (stage.stands(), stage.there()) == ("Drained", [])

    play(story)


def test_shx_01_a_drain_gives_way_to_a_policy_that_moves_pods_of_a_failed_node() -> None:
    """Both want the same pods; that of a StatefulSet stays, since nothing proves that its machine is down."""

    async def story(stage: Stage) -> None:
        await stage.policy()
        async with stage.operator():
            stage.pod("web-1")
            await forcing(stage)
            stage.dead.add("n1")
            await fail_drained(stage)
            await stage.seconds(30)
            assert stage.pods() == ["db-0"]
            assert stage.told(FORCE) == [(FORCE, "web-1", 40)]
            assert stage.entry("n1")["moved"] == 1
            await stage.until(70)
            assert stage.there() == ["db-0"]

    play(story)


def test_shx_01_a_drain_that_is_about_to_begin_waits_for_a_remediation() -> None:
    async def story(stage: Stage) -> None:
        await stage.check()
        stage.pod("db-0")
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.until(20)
            await fail_drained(stage)
            await stage.until(60)
            assert (stage.stands(), stage.done) == ("Held Remediation", [])

    play(story)


@pytest.mark.parametrize("most", [1, 2])
def test_shx_03_nodes_that_are_remediated_count_among_those_that_may_be_forced(most: int) -> None:
    async def story(stage: Stage) -> None:
        await stage.check()
        stage.pod("db-0")
        await stage.drain_policy(maxForcedNodes=most)
        async with stage.operator():
            await stage.turn("n2", ready="Unknown")
            await stage.cordon("n1")
            await stage.until(35)
            assert len(stage.all(str(FAILOVERS))) == 1
            assert stage.stands() == ("Held Budget" if most == 1 else "Drained")
            assert most > 1 or "n2" in stage.drain()["message"]
            await stage.turn("n2", ready="True")
            await stage.minutes(2)
            assert stage.stands() == "Drained"

    play(story)


def test_shx_03_nodes_of_other_policies_that_are_remediated_do_not_count() -> None:
    async def story(stage: Stage) -> None:
        await stage.check()
        stage.pod("db-0")
        await stage.label("n1", {"tier": "a"})
        await stage.drain_policy(nodeSelector={"matchLabels": {"tier": "a"}})
        async with stage.operator():
            await stage.turn("n2", ready="Unknown")
            await stage.cordon("n1")
            await stage.until(35)
            assert stage.stands() == "Drained"

    play(story)


def test_shx_03_a_forced_drain_counts_among_the_nodes_that_a_check_may_remediate() -> None:
    async def story(stage: Stage) -> None:
        await stage.check(guards={"maxInFlight": 1})
        async with stage.operator():
            await forcing(stage)
            await stage.turn("n2", ready="Unknown")
            await stage.until(59)
            assert stage.all(str(FAILOVERS)) == []
            await stage.until(63)
            assert (stage.stands(), len(stage.all(str(FAILOVERS)))) == ("Drained", 1)

    play(story)


def test_shx_03_its_own_forced_drain_does_not_keep_a_node_from_being_remediated() -> None:
    async def story(stage: Stage) -> None:
        await stage.check(guards={"maxInFlight": 1})
        async with stage.operator():
            await forcing(stage)
            await fail_drained(stage)
            await stage.seconds(25)
            assert (stage.stands(), len(stage.all(str(FAILOVERS)))) == ("Held Remediation", 1)

    play(story)


def test_shx_03_a_forced_drain_counts_among_the_nodes_of_which_pods_may_be_moved() -> None:
    async def story(stage: Stage) -> None:
        await stage.policy()
        stage.pod("web-2", "n2")
        async with stage.operator(failover_max_unhealthy="1"):
            await forcing(stage)
            await stage.turn("n2", ready="Unknown")
            await stage.until(59)
            assert (stage.there("n2"), stage.states()) == (["web-2"], {"n2": "Held"})
            await stage.until(63)
            assert (stage.stands(), stage.there("n2")) == ("Drained", [])

    play(story)
