"""In place of Nodekeeper: an upgrade of OpenShift as the managed-upgrade-operator runs it, by what stands in its own objects."""

from typing import Any

from defib.decide.drains.compatibility import CONFIG_KEY, NAMESPACE
from defib.decide.drains.intents.openshift import STATE
from defib.kube.client import Merge
from defib.kube.kinds import CONFIG_MAPS, Kind
from defib.model.meta import Unstructured
from tests.drain_stage import DELETE, DRAIN_POLICIES, EVICT, FINALIZERS, NEVER, Stage, play

VERSION = "4.20.1"
CONFIG = """
configManager: {source: OCM}
nodeDrain:
  timeOut: 15
  expectedNodeDrainTime: 5
  ignoredNamespacePatterns: [^openshift-]
"""


class Upgrade:
    """What the managed-upgrade-operator and the Machine Config Operator leave in the cluster."""

    def __init__(self, stage: Stage) -> None:
        self._person = stage.person
        group = "upgrade.managed.openshift.io"
        self._configs: Kind[Unstructured] = stage.foreign(group, "v1alpha1", "UpgradeConfig", namespaced=True)
        self._pools = stage.foreign("machineconfiguration.openshift.io", "v1", "MachineConfigPool")
        stage.server.put("namespaces", {"metadata": {"name": NAMESPACE}})

    async def begin(self, stage: Stage, config: str = CONFIG, **policy: Any) -> None:
        settings: dict[str, Any] = {
            "metadata": {"name": "managed-upgrade-operator-config"},
            "data": {CONFIG_KEY: config},
        }
        await self._person.create(CONFIG_MAPS, settings, namespace=NAMESPACE)
        spec = {"desired": {"version": VERSION}, "PDBForceDrainTimeout": 20}
        body = {"metadata": {"name": "managed-upgrade-config"}, "spec": spec, "status": self._status("Upgrading")}
        await self._person.create(self._configs, body, namespace=NAMESPACE)
        selector = {"matchLabels": {"node-role.kubernetes.io/worker": ""}}
        counts = {"machineCount": 2, "updatedMachineCount": 0}
        pool = {"metadata": {"name": "worker"}, "spec": {"nodeSelector": selector}, "status": counts}
        await self._person.create(self._pools, pool)
        await stage.label("n1", {"node-role.kubernetes.io/worker": ""})
        written = {"compatibility": "ManagedUpgradeOperator"} | policy
        await self._person.create(DRAIN_POLICIES, {"metadata": {"name": "workers"}, "spec": written})

    async def end(self) -> None:
        done = Merge({"status": self._status("Upgraded")})
        await self._person.patch(self._configs.at("managed-upgrade-config", NAMESPACE), done)

    async def configure(self, config: str) -> None:
        at = CONFIG_MAPS.at("managed-upgrade-operator-config", NAMESPACE)
        await self._person.patch(at, Merge({"data": {CONFIG_KEY: config}}))

    @staticmethod
    def _status(phase: str) -> dict[str, Any]:
        return {"history": [{"version": VERSION, "phase": phase}]}


def test_dk_21_and_dk_22_the_minutes_switch_and_namespaces_of_nodekeeper_are_in_force() -> None:
    async def story(stage: Stage) -> None:
        upgrade = Upgrade(stage)
        stage.pod("web-1")
        stage.pod("api-1", labels={"app": "api"}, finalizers=["example.com/x"])
        stage.server.put("namespaces", {"metadata": {"name": "openshift-ingress"}})
        stage.pod("router-1", namespace="openshift-ingress", labels={"app": "router"})
        await stage.budget()
        await upgrade.begin(stage)
        async with stage.operator():
            await stage.cordon("n1", mark=STATE, value="Working")
            await stage.until(60)
            assert stage.first() == [
                (EVICT, "api-1", 15),
                (EVICT, "web-1", 15),
                (FINALIZERS, "api-1", 15),
                (DELETE, "web-1", 25),
            ]
            assert stage.there() == ["openshift-ingress/router-1"]

    play(story)


def test_dk_16_at_the_end_of_an_upgrade_no_drain_has_failed_any_more() -> None:
    async def story(stage: Stage) -> None:
        upgrade = Upgrade(stage)
        stage.pod("db-0", habit=NEVER)
        await upgrade.begin(stage)
        async with stage.operator():
            await stage.cordon("n1", mark=STATE, value="Working")
            await stage.until(30)
            assert (stage.has_failed(), stage.policy_status()["failed"]) == (True, 1)
            await upgrade.end()
            await stage.seconds(5)
            assert (stage.has_failed(), stage.policy_status()["failed"], stage.stands()) == (False, 0, "Paused")

    play(story)


def test_dk_13_with_the_strategies_of_nodekeeper_disabled_nothing_is_touched_and_failure_is_detected() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await Upgrade(stage).begin(stage, f"{CONFIG}  disableDrainStrategies: true\n")
        async with stage.operator():
            await stage.cordon("n1", mark=STATE, value="Working")
            await stage.until(15)
            assert not stage.has_failed()
            await stage.until(100)
            assert (stage.done, stage.has_failed()) == ([], True)

    play(story)


def test_where_nodekeeper_is_switched_off_a_policy_with_strategies_of_its_own_takes_its_place() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.budget()
        await Upgrade(stage).begin(stage, f"{CONFIG}  disableDrainStrategies: true\n", strategies={"delete": True})
        async with stage.operator():
            await stage.cordon("n1", mark=STATE, value="Working")
            await stage.until(60)
            assert stage.first() == [(EVICT, "web-1", 15), (DELETE, "web-1", 25)]
            assert stage.stands() == "Drained"

    play(story)


def test_dk_09_a_configuration_that_makes_no_sense_in_the_middle_stops_everything_until_it_does() -> None:
    async def story(stage: Stage) -> None:
        upgrade = Upgrade(stage)
        stage.pod("web-1")
        await stage.budget()
        await upgrade.begin(stage)
        async with stage.operator():
            await stage.cordon("n1", mark=STATE, value="Working")
            await stage.until(20)
            assert stage.stands() == "Forcing"
            await upgrade.configure("nodeDrain: {timeOut: 15, ignoredNamespacePatterns: ['(']}")
            await stage.until(28)
            (valid,) = stage.policy_status()["conditions"]
            assert (valid["status"], stage.there()) == ("False", ["web-1"])
            assert "is no regular expression" in valid["message"]
            await upgrade.configure(CONFIG)
            await stage.minutes(2)
            assert stage.there() == []

    play(story)
