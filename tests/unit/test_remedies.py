"""What is switched off is as if it were not installed: it is not asked for, not touched, and whoever names it is told."""

from defib.config import REMEDIES, Settings
from defib.decide.remedies import KINDS, switched_off
from defib.kube.kinds import NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES, unstructured
from defib.simulate.server import ApiServer
from tests.drain_corpus import NODEKEEPERS, a_drain, a_policy
from tests.unit import test_fence_readiness as power
from tests.unit import three_nodes as pods
from tests.unit.test_drain_metrics import POLICIES, cordon, make_policy

DRAINS = unstructured("defib.dev", "v1alpha1", "nodedrains", "NodeDrain", namespaced=False)
FORCING = {"phase": "Forcing", "policy": "all", "begun": True, "startedAt": "2030-01-01T00:00:00Z"}


def left_out(*names: str) -> tuple[str, ...]:
    return tuple(name for name in REMEDIES if name not in names)


def asked_about(server: ApiServer, *plurals: str) -> list[str]:
    """Of these kinds, by the operator."""
    paths = (one.path for one in server.audit if one.client == "operator")
    return [path for path in paths if set(plurals) & set(path.split("/"))]


def test_every_remedy_has_kinds_and_all_are_on_from_the_start() -> None:
    assert set(KINDS) == set(REMEDIES)
    assert switched_off(Settings().remedies) == {}
    assert set(switched_off(())) == {kind for kinds in KINDS.values() for kind in kinds}


def test_without_drains_a_node_that_is_drained_is_left_alone() -> None:
    async def scenario(stage: pods.Cluster3) -> None:
        await make_policy(stage)
        await cordon(stage)
        async with pods.operating(stage, default_check="off", remedies=left_out("drains")):
            await pods.seconds(1800)
        assert asked_about(stage.server, "drainpolicies", "nodedrains") == []
        assert stage.server.audit.writes("operator") == []
        assert await stage.names(DRAINS) == []

    pods.play(scenario)


def test_without_drains_nodes_are_remediated_and_an_old_record_holds_nobody_back() -> None:
    async def scenario(stage: pods.Cluster3) -> None:
        stage.server.put("nodedrains.defib.dev", a_drain("all", "n2") | {"status": FORCING})
        await stage.make_check()
        async with pods.operating(stage, default_check="off", remedies=left_out("drains")):
            await pods.seconds(5)
            await stage.turn("Unknown")
            await pods.seconds(60)
            assert stage.leaving() == ["web-1", "web-2"]
        assert asked_about(stage.server, "drainpolicies", "nodedrains") == []

    pods.play(scenario)


def test_without_power_cycles_nobody_is_switched_off_and_the_check_says_why() -> None:
    async def scenario(room: power.Room) -> None:
        await room.make_template()
        await room.make_check()
        body = {"metadata": {"name": "n2"}, "spec": {"power": power.POWER}}
        await room.admin.create(power.POWER_CYCLES, body, namespace=power.HOME)
        async with power.operating(room, remedies=left_out("power-cycle")):
            room.hollow.nodes["n1"].hang()
            await power.seconds(1800)
        assert {name: one.is_on for name, one in room.machines.items()} == {"n1": True, "n2": True, "n3": True}
        plurals = ("powercycleremediations", "powercycleremediationtemplates", "secrets")
        assert asked_about(room.server, *plurals) == []
        check = await room.admin.get(NODE_HEALTH_CHECKS.at("all"))
        (disabled,) = (one for one in (check.status or {})["conditions"] if one["type"] == "Disabled")
        assert disabled["status"] == "True"
        assert (
            "power-cycle is switched off in this cluster (setting remedies; in the chart, features)"
            in disabled["message"]
        )

    power.play(scenario)


def test_a_power_cycle_in_the_middle_waits_until_it_is_switched_on_again() -> None:
    """Whoever has no right to read the credentials cannot bring the machine back either."""

    async def scenario(room: power.Room) -> None:
        await room.make_template()
        await room.make_check()
        room.hollow.nodes["n1"].hang()
        async with power.operating(room):
            while room.machines["n1"].is_on:
                await power.seconds(0.1)
        before = (await room.admin.get(NODE_INCIDENTS.at("n1"))).status
        async with power.operating(room, remedies=left_out("power-cycle")):
            await power.seconds(900)
        assert (await room.admin.get(NODE_INCIDENTS.at("n1"))).status == before
        async with power.operating(room):
            await power.seconds(300)
        assert (await room.admin.get(NODE_INCIDENTS.at("n1"))).status.outcome == "Recovered"
        assert (await room.admin.get(NODES.at("n1"))).ready == "True"

    power.play(scenario)


def test_without_pod_failover_there_is_no_default_check_and_no_pod_is_moved() -> None:
    async def scenario(stage: pods.Cluster3) -> None:
        await stage.admin.create(pods.FAILOVERS, {"metadata": {"name": "n1"}}, namespace=pods.HOME)
        await stage.turn("Unknown")
        async with pods.operating(stage, remedies=left_out("pod-failover"), pod_failover_policies="off"):
            await pods.seconds(900)
        assert stage.leaving() == []
        assert await stage.names(NODE_HEALTH_CHECKS) == []
        assert asked_about(stage.server, "podfailoverremediations", "podfailoverremediationtemplates") == []

    pods.play(scenario)


def test_without_metal3_a_template_that_needs_it_is_not_ready_and_no_host_is_looked_at() -> None:
    async def scenario(room: power.Room) -> None:
        await room.make_template(driver="metal3", address="default/{node}")
        await room.make_check()
        async with power.operating(room, remedies=left_out("metal3")):
            await power.seconds(60)
            status, _, message = await room.condition()
        assert (status, asked_about(room.server, "baremetalhosts")) == ("False", [])
        assert "metal3 is switched off" in message + str(await room.not_ready())

    power.play(scenario)


def test_without_nodekeeper_a_policy_in_its_place_says_so_and_its_configuration_is_not_looked_at() -> None:
    async def scenario(stage: pods.Cluster3) -> None:
        await stage.admin.create(POLICIES, a_policy(NODEKEEPERS, "all"))
        async with pods.operating(stage, default_check="off", remedies=left_out("nodekeeper")):
            await pods.seconds(60)
        status = (await stage.admin.get(POLICIES.at("all"))).status or {}
        assert "nodekeeper is switched off in this cluster (setting remedies; in the chart, features)" in str(
            status["conditions"]
        )
        assert asked_about(stage.server, "openshift-managed-upgrade-operator") == []

    pods.play(scenario)
