"""How Nodekeeper is configured, seen as the operator sees it: found, followed, and judged by what it says now."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec

from defib.decide.drains.compatibility import CONFIG_KEY, KINDS, NAMESPACE, nodekeeper
from defib.kube.client import Client, Merge
from defib.kube.discovery import Discovery
from defib.kube.kinds import CONFIG_MAPS
from defib.model.drain_policy import Policy
from defib.observe.cache import Cache
from defib.observe.remediators import Remediators
from defib.observe.watch import Patience
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests.builders import MINUTE
from tests.unit.observe.following import seconds

GROUP = "upgrade.managed.openshift.io"
CONFIG = "managed-upgrade-operator-config"
OURS = Policy(is_nodekeepers=True)


class Onlooker:
    """A server with the managed-upgrade-operator, and the sight of it that an operator has."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.server = ApiServer(clock)
        self.admin = Client(InProcess(self.server, client="admin"), clock)
        client = Client(InProcess(self.server, client="operator"), clock)
        self.cache = Cache(client, clock, self, Patience())
        self.remediators = Remediators(self.cache, Discovery(client), clock, lambda: self.remediators.want(KINDS))
        self.remediators.want(KINDS)

    def changed(self, name: str) -> None: ...

    def heard(self, name: str, events: int, news: int) -> None: ...

    def relisted(self, name: str, reason: str) -> None: ...

    def sight_changed(self, name: str) -> None: ...

    def install(self) -> None:
        self.server.put("namespaces", {"metadata": {"name": NAMESPACE}})
        self.server.put("customresourcedefinitions.apiextensions.k8s.io", a_definition())
        meta = {"name": "managed-upgrade-config", "namespace": NAMESPACE}
        self.server.put(f"upgradeconfigs.{GROUP}", {"metadata": meta, "spec": {"PDBForceDrainTimeout": 15}})
        meta = {"name": CONFIG, "namespace": NAMESPACE}
        self.server.put("configmaps", {"metadata": meta, "data": {CONFIG_KEY: "nodeDrain: {timeOut: 45}"}})

    def policy(self) -> Policy | tuple[str, ...]:
        cluster = msgspec.structs.replace(self.cache.snapshot(self.clock.now()), kinds=self.remediators.kinds)
        return nodekeeper(OURS, cluster)

    def problems(self) -> tuple[str, ...]:
        policy = self.policy()
        assert isinstance(policy, tuple), policy
        return policy


def a_definition() -> dict[str, Any]:
    names = {"plural": "upgradeconfigs", "singular": "upgradeconfig", "kind": "UpgradeConfig"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": GROUP, "scope": "Namespaced", "names": names | {"listKind": "UpgradeConfigList"}}
    return {"metadata": {"name": f"upgradeconfigs.{GROUP}"}, "spec": spec | {"versions": versions}}


def test_dk_21_what_the_config_map_and_the_upgrade_config_say_is_in_force_as_soon_as_it_is_seen() -> None:
    async def scenario(onlooker: Onlooker) -> None:
        onlooker.install()
        await seconds(1)
        policy = onlooker.policy()
        assert isinstance(policy, Policy), policy
        times = policy.times
        assert (times.timeout, times.expected, times.pdb_timeout) == (45 * MINUTE, 8 * MINUTE, 15 * MINUTE)
        patch = Merge({"data": {CONFIG_KEY: "nodeDrain: {timeOut: -1}"}})
        await onlooker.admin.patch(CONFIG_MAPS.at(CONFIG, NAMESPACE), patch)
        await seconds(1)
        (problem,) = onlooker.problems()
        assert "nodeDrain.timeOut: must be from 0" in problem

    look(scenario)


def test_in_a_cluster_without_the_managed_upgrade_operator_there_is_no_policy_until_it_comes() -> None:
    async def scenario(onlooker: Onlooker) -> None:
        assert len(onlooker.problems()) == 2
        await seconds(10)
        assert len(onlooker.problems()) == 2
        onlooker.install()
        await seconds(120)
        assert isinstance(onlooker.policy(), Policy)

    look(scenario)


def look(scenario: Callable[[Onlooker], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        onlooker = Onlooker(clock)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(onlooker.cache.run()), group.create_task(onlooker.remediators.run())]
            await scenario(onlooker)
            for task in tasks:
                task.cancel()

    run(main, limit=timedelta(hours=1))
