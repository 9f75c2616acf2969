"""Tours of the whole operator in virtual time that together touch every right the chart gives.

Most are flows that other tests tell anyway; those below are for what happens on few clusters: an API server that cannot
stream lists, other projects' kinds, a namespace of locks that is gone, an election by Endpoints.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from defib.agent.lease import Leases
from defib.app import Operator
from defib.config import Settings
from defib.kube.client import Client, Deletion, Merge
from defib.kube.kinds import NAMESPACES, NODE_HEALTH_CHECKS, NODES, unstructured
from defib.model import medik8s
from defib.model.incident import Phase
from defib.replica import leadership_of
from defib.simulate.faults import Fault, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.routing import Call
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests import drain_stage, failover_stage
from tests.contract.api_server.steps import raw
from tests.drain_stage import DRAIN_POLICIES, Stage
from tests.flows import (
    test_drain_flows,
    test_drain_nodekeeper,
    test_leftovers,
    test_metal3_flows,
    test_metal3_remediation_flows,
    test_pod_failover_flows,
)
from tests.power_cycle_stage import HOME, HOSTS_HOME, NODE_NAMES, VICTIM, WAYS, a_stage
from tests.power_cycle_stage import Stage as PowerStage
from tests.unit import test_machine_health, test_sharded_operators
from tests.unit.decide.self_fence.test_safe_time import REPORTED
from tests.unit.metal3_scene import Scene

Tour = Callable[[], None]

MINUTE = 60.0
SERVES = ("machine-annotation", "metal3-remediation", "machine-health-check")
OF_CLUSTER = {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/cluster-namespace": HOSTS_HOME}
CAPI_CHECKS = unstructured("cluster.x-k8s.io", "v1beta2", "machinehealthchecks", "MachineHealthCheck", namespaced=True)
CAPI_MACHINES = unstructured("cluster.x-k8s.io", "v1beta1", "machines", "Machine", namespaced=True)
METAL3_TEMPLATES = unstructured(
    "infrastructure.cluster.x-k8s.io",
    "v1beta1",
    "metal3remediationtemplates",
    "Metal3RemediationTemplate",
    namespaced=True,
)
# Kinds of other projects that tell who else works on nodes: group, version, name, and whether it is in namespaces.
FOREIGN = (
    ("config.openshift.io", "v1", "ClusterVersion", False),
    ("config.openshift.io", "v1", "Infrastructure", False),
    ("machine.openshift.io", "v1beta1", "Machine", True),
    ("machine.openshift.io", "v1beta1", "MachineHealthCheck", True),
    ("machineconfiguration.openshift.io", "v1", "MachineConfigPool", False),
    ("upgrade.managed.openshift.io", "v1alpha1", "UpgradeConfig", True),
    ("karpenter.sh", "v1", "NodeClaim", False),
    ("upgrade.cattle.io", "v1", "Plan", True),
    ("cluster.x-k8s.io", "v1beta1", "MachineDeployment", True),
    ("cluster.x-k8s.io", "v1beta1", "Machine", True),
    ("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck", True),
    ("controlplane.cluster.x-k8s.io", "v1beta1", "KubeadmControlPlane", True),
    ("metal3.io", "v1alpha1", "BareMetalHost", True),
    ("infrastructure.cluster.x-k8s.io", "v1beta1", "Metal3Machine", True),
    ("infrastructure.cluster.x-k8s.io", "v1beta1", "Metal3Remediation", True),
    ("infrastructure.cluster.x-k8s.io", "v1beta1", "Metal3RemediationTemplate", True),
)


class CannotStreamLists(Fault, frozen=True, kw_only=True, eq=False):
    """As API servers before Kubernetes 1.32 are: who wants to begin with a list asks for one."""

    effect: Refuse = Refuse(code=422, reason="Invalid", message="sendInitialEvents is forbidden for watch")

    def meets(self, call: Call) -> bool:
        return call.verb == "watch" and "sendInitialEvents" in call.request.query


def an_old_server_with_every_kind(**settings: Any) -> None:
    async def story(stage: Stage) -> None:
        stage.server.faults.inject(CannotStreamLists())
        for group, version, name, namespaced in FOREIGN:
            stage.foreign(group, version, name, namespaced=namespaced)
        stage.server.put("namespaces", {"metadata": {"name": "openshift-managed-upgrade-operator"}})
        stage.pod("web-1")
        await stage.check(remediationTemplate=None, escalatingRemediations=_both_templates())
        await stage.policy()
        await stage.drain_policy()
        await stage.person.create(
            DRAIN_POLICIES, {"metadata": {"name": "openshift"}, "spec": {"compatibility": "ManagedUpgradeOperator"}}
        )
        await _want_metal3(stage)
        async with stage.operator(**({"serves": SERVES} | settings)):
            await stage.minutes(5)
            await stage.fail("n1")
            await stage.cordon("n2")
            await stage.minutes(10)

    drain_stage.play(story)


def _both_templates() -> list[dict[str, Any]]:
    return [
        {
            "order": order,
            "timeout": "5m",
            "remediationTemplate": {
                "apiVersion": "defib.dev/v1alpha1",
                "kind": kind,
                "name": "t",
                "namespace": "defib-system",
            },
        }
        for order, kind in enumerate(("PodFailoverRemediationTemplate", "PowerCycleRemediationTemplate"))
    ]


async def _want_metal3(stage: Stage) -> None:
    template = {"apiVersion": METAL3_TEMPLATES.api_version, "kind": METAL3_TEMPLATES.name, "name": "t"}
    spec = {"clusterName": "c", "selector": {}, "remediation": {"templateRef": template}}
    await stage.person.create(CAPI_CHECKS, {"metadata": {"name": "all"}, "spec": spec}, namespace="default")


def a_first_start() -> None:
    """No NodeHealthCheck is there, and the namespace of the locks is not either."""

    async def story(stage: failover_stage.Stage) -> None:
        await remove_namespace(stage.person, medik8s.LOCK_NAMESPACE)
        async with operating(stage, default_check="on"):
            await stage.seconds(5 * MINUTE)
            await stage.fail("n1")
            await stage.seconds(10 * MINUTE)
        assert [check["metadata"]["name"] for check in stage.all(str(NODE_HEALTH_CHECKS))] == ["nhc-worker-default"]
        assert [lock["metadata"]["name"] for lock in stage.all("leases.coordination.k8s.io")] == ["node-n1"]

    failover_stage.play(story)


async def remove_namespace(person: Client, name: str) -> None:
    """With what Kubernetes' own controller would do: nothing is in there."""
    namespace = await person.get(NAMESPACES.at(name))
    await person.delete(NAMESPACES.of(namespace), Deletion(uid=namespace.uid))
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}}
    await raw(person, "PUT", NAMESPACES.at(name).path("finalize"), body)


def an_election_by(election: str) -> None:
    async def story(stage: failover_stage.Stage) -> None:
        async with operating(stage, election=election, replica_name="r1", default_check="off"):
            await stage.seconds(2 * MINUTE)

    failover_stage.play(story)


def a_replica_that_is_long_gone() -> None:
    async def story(stage: failover_stage.Stage) -> None:
        test_leftovers.put_member(stage, "defib-member-dead")
        async with operating(
            stage, election="shards", replica_name="r1", default_check="off", leftover_age_seconds=600
        ):
            await stage.seconds(20 * MINUTE)
        assert "defib-member-dead" not in test_leftovers.members(stage)

    failover_stage.play(story)


@asynccontextmanager
async def operating(stage: failover_stage.Stage, **settings: Any) -> AsyncIterator[Operator]:
    """With the election that the settings say, and the default check if they say so."""
    line = InProcess(stage.server, "defib")
    chosen = Settings(**settings)
    operator = Operator(line, stage.clock, chosen, Metrics())
    if "election" in settings:
        operator.leadership = leadership_of(chosen, line, stage.clock, operator)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(operator.run())
        yield operator
        running.cancel()


def a_drain_that_ends() -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-1")
        await stage.drain_policy()
        async with stage.operator():
            await stage.cordon("n1")
            await stage.minutes(1)
            assert stage.drains() == ["n1"]
            await stage.uncordon("n1")
            await stage.minutes(3 * 60)
        assert stage.drains() == []

    drain_stage.play(story)


def a_check_of_cluster_api_with_a_template_of_metal3() -> None:
    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock, metal3=True) as stage:
            scene = Scene(stage, CAPI_MACHINES)
            await scene.make(owned=True)
            await stage.person.patch(CAPI_MACHINES.at("m1", HOSTS_HOME), Merge({"spec": {"clusterName": "c"}}))
            await stage.person.patch(NODES.at(VICTIM), Merge({"metadata": {"annotations": OF_CLUSTER}}))
            template = {"spec": {"template": {"spec": {"strategy": {"type": "Reboot", "retryLimit": 1}}}}}
            await stage.person.create(METAL3_TEMPLATES, {"metadata": {"name": "t"}} | template, namespace=HOSTS_HOME)
            ref = {"apiVersion": METAL3_TEMPLATES.api_version, "kind": METAL3_TEMPLATES.name, "name": "t"}
            unhealthy = [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 30}]
            spec = {"checks": {"unhealthyNodeConditions": unhealthy}, "remediation": {"templateRef": ref}}
            body = {"metadata": {"name": "all"}, "spec": {"clusterName": "c", "selector": {}, **spec}}
            await stage.person.create(CAPI_CHECKS, body, namespace=HOSTS_HOME)
            async with stage.operator(serves=SERVES):
                await scene.later(2 * MINUTE)
                await scene.fail()
                assert await stage.until(lambda: scene.cycles == 1, 10 * MINUTE)
                assert await stage.until(lambda: stage.phase == Phase.CLOSED, 20 * MINUTE)
                await scene.later(10 * MINUTE)

    run(main, limit=timedelta(hours=4))


def a_node_that_is_deleted_on_an_old_server() -> None:
    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock) as stage:
            stage.server.faults.inject(CannotStreamLists())
            async with stage.operator():
                await stage.check(WAYS["hollow"], "DeleteNode")
                await asyncio.sleep(2 * MINUTE)  # virtual
                stage.fail("hangs")
                assert await stage.until(lambda: stage.is_over, 20 * MINUTE)

    run(main, limit=timedelta(hours=4))


def a_first_start_with_agents() -> None:
    """The default check orders a node that has lost its power to take itself down, and frees what it had."""

    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock) as stage, asyncio.TaskGroup() as group:
            agents = [group.create_task(an_agent(stage, node)) for node in NODE_NAMES]
            await asyncio.sleep(15 * MINUTE)  # virtual: until the agents are long known
            async with stage.operator(default_check="self-fence"):
                await asyncio.sleep(15 * MINUTE)  # virtual: until it was tried whether they could
                stage.fail("loses power")
                assert await stage.until(lambda: stage.phase == Phase.RETURNING, 20 * MINUTE)
                stage.mend()
                assert await stage.until(lambda: stage.phase == Phase.CLOSED, 20 * MINUTE)
                assert await stage.until(lambda: not stage.all("selffenceremediations.defib.dev"), 20 * MINUTE)
            for agent in agents:
                agent.cancel()

    run(main, limit=timedelta(hours=4))


async def an_agent(stage: PowerStage, node: str) -> None:
    """All that an operator sees of one: it reports while its machine has power."""
    leases = Leases(stage.person, HOME, node, REPORTED.pace.request_seconds, stage.clock)
    while True:
        if stage.machines[node].is_on and (there := stage.one("nodes", node)):
            boot = there["status"]["nodeInfo"]["bootID"]
            changes = {"domain": node, "boot_id": boot, "known": dict.fromkeys(NODE_NAMES, 1)}
            await leases.renew(msgspec.structs.replace(REPORTED, **changes))
        await asyncio.sleep(REPORTED.pace.interval_seconds)


TOURS: dict[str, Tour] = {
    "an old API server with every kind that is known": an_old_server_with_every_kind,
    "a first start": a_first_start,
    "a first start with agents": a_first_start_with_agents,
    "an election by Leases": partial(an_election_by, "lease"),
    "an election by Endpoints": partial(an_election_by, "endpoints"),
    "shards, and machines that are power-cycled": (
        test_sharded_operators.test_sh_07_every_machine_is_cycled_once_and_by_the_holder_of_its_bucket_alone
    ),
    "a node is deleted on an old API server": a_node_that_is_deleted_on_an_old_server,
    "pods leave by a policy": partial(
        test_pod_failover_flows.test_ev_07_a_node_that_fails_just_before_the_first_watch_is_handled, False
    ),
    "a drain that ends": a_drain_that_ends,
    "a drain in which everything is tried": (
        test_drain_flows.test_dk_07_the_strategies_run_in_their_order_and_only_when_they_are_due
    ),
    "a drain of a pod with a volume": partial(
        test_drain_flows.test_dk_14_a_drain_has_failed_when_the_last_strategy_had_its_time_and_the_timeout_is_over,
        *test_drain_flows.FAILURES[0],
    ),
    "an upgrade of OpenShift": (
        test_drain_nodekeeper.test_dk_21_and_dk_22_the_minutes_switch_and_namespaces_of_nodekeeper_are_in_force
    ),
    "leftovers of a check": (
        test_leftovers.test_gc_03_a_check_that_was_deleted_while_nobody_led_leaves_no_lock_and_no_remediation
    ),
    "leftovers of a replica": a_replica_that_is_long_gone,
    "leftovers on a host": partial(
        test_leftovers.test_a_host_stays_off_while_its_node_is_freed_on_the_word_of_a_person_that_it_is_off, -5
    ),
    "a MachineHealthCheck of OpenShift": (
        test_machine_health.test_from_a_node_that_fails_over_the_trigger_to_a_power_cycle_and_no_second_one
    ),
    "a MachineHealthCheck of Cluster API": a_check_of_cluster_api_with_a_template_of_metal3,
    "a Metal3Remediation": partial(
        test_metal3_remediation_flows.test_a_machine_that_does_not_come_back_is_restarted_so_often_and_then_handed_over,
        1,
        owned=True,
    ),
    "a Machine of Cluster API": (
        test_metal3_flows.test_a_machine_of_cluster_api_leads_over_its_metal3_machine_to_the_host
    ),
    "a Machine that is replaced": partial(
        test_metal3_flows.test_a_machine_that_does_not_come_back_is_deleted_only_where_it_can_be_replaced,
        is_master=False,
    ),
    "a power cycle that is withdrawn": partial(
        test_metal3_flows.test_who_withdraws_at_any_step_finds_the_host_on_and_nothing_left_and_may_ask_again,
        Phase.FREEING,
    ),
}
