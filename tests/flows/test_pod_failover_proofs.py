"""EV-13, EV-18, EV-19 and EV-20: what must not run twice, on hollow machines with disks and the controllers of Kubernetes.

A pod of a StatefulSet with a disk waits until its node is proved to be down, whoever selects it; then it runs elsewhere,
and no disk is ever written by two. Pods that may run twice do not wait for that.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from defib.hollow.machine import Machine
from defib.kube.client import Deletion
from defib.kube.kinds import NODE_HEALTH_CHECKS, Kind
from defib.model.node import OUT_OF_SERVICE
from defib.simulate.store import DELETED, Change
from defib.simulate.virtual_time import VirtualClock, run
from testbed.scenario.manifests import STATEFUL_SETS, manifest_of
from testbed.scenario.story import Deployment, NewName
from tests.failover_stage import POLICIES
from tests.failover_stage import TEMPLATES as FAILOVER_TEMPLATES
from tests.mortal_operator import Doom
from tests.power_cycle_crash import FAULTS, WORKLOADS, end
from tests.power_cycle_stage import HOME, POD, SHOP, TEMPLATES, VICTIM, WAYS, Stage, a_stage, ready_of, spec_of

pytestmark = pytest.mark.timeout(60)

FRONT = "front"
REPLICAS = 10
HOLLOW = WAYS["hollow"]
ATTACHMENTS = "volumeattachments.storage.k8s.io"

Scene = Callable[[Stage], Awaitable[None]]


def on_stage(scene: Scene, *, nodes: int = 3) -> None:
    async def main(clock: VirtualClock) -> None:
        machines = [Machine(f"n{number}", clock) for number in range(1, nodes + 1)]
        async with a_stage(clock, machines=machines) as stage:
            await scene(stage)

    run(main, limit=timedelta(hours=4))


async def a_policy(stage: Stage, namespace: str = SHOP, **spec: Any) -> None:
    body = {"metadata": {"name": "all"}, "spec": {"selector": {}} | spec}
    await stage.person.create(POLICIES, body, namespace=namespace)


async def deploy(stage: Stage) -> None:
    """Web servers on all nodes, in a namespace of their own."""
    stage.server.put("namespaces", {"metadata": {"name": FRONT}})
    made = manifest_of(Deployment(name=NewName("web"), replicas=REPLICAS))
    await stage.person.create(made.kind, made.body, namespace=FRONT)
    assert await stage.until(lambda: len(serving(stage)) == REPLICAS, 60)
    assert VICTIM in serving(stage).values()


def serving(stage: Stage) -> dict[str, str]:
    """Web servers that are ready and stay, and where."""
    found = {}
    for pod in stage.all("pods"):
        ready = [one["status"] for one in pod["status"].get("conditions", ()) if one["type"] == "Ready"]
        meta = pod["metadata"]
        if meta["namespace"] == FRONT and ready == ["True"] and "deletionTimestamp" not in meta:
            found[meta["name"]] = pod["spec"]["nodeName"]
    return found


def says(stage: Stage, namespace: str = SHOP) -> str:
    (policy,) = [one for one in stage.all(str(POLICIES)) if one["metadata"]["namespace"] == namespace]
    conditions = (policy.get("status") or {}).get("conditions") or ()
    return next((str(one["reason"]) for one in conditions if one["type"] == "Settled"), "")


# EV-13


@pytest.mark.parametrize("fault", FAULTS)
def test_ev_13_without_a_proof_it_waits_and_with_one_it_runs_elsewhere(fault: str) -> None:
    async def scene(stage: Stage) -> None:
        await a_policy(stage)
        async with stage.operator():
            stage.fail(fault)
            assert await stage.until(lambda: says(stage) == "WaitingForProof", 30)
            await stage.until(lambda: False, 400)
            assert stage.pod_runs_on in ("", VICTIM)
            assert stage.wrongs == []
            await stage.order(HOLLOW, "OutOfServiceTaint")
            assert await stage.until(lambda: stage.pod_runs_on not in ("", VICTIM), 120)
            assert await end(stage) == []
            assert says(stage) == "Quiet"
        assert stage.leftovers() == []

    on_stage(scene)


def test_ev_13_who_says_in_so_many_words_that_no_proof_is_needed_gets_what_comes_of_it() -> None:
    """Containers on a node that is cut off go on writing. This is how it shows that the tests above can fail."""

    async def scene(stage: Stage) -> None:
        await a_policy(stage, acceptedProofs=["None"])
        async with stage.operator():
            stage.fail("is cut off")
            assert await stage.until(lambda: stage.pod_runs_on not in ("", VICTIM), 1200)
            await stage.until(lambda: False, 60)
        assert [wrong for wrong in stage.wrongs if f"DELETE /api/v1/namespaces/{SHOP}/pods/{POD}" in wrong]
        assert list(stage.hollow.disks.corrupted())

    on_stage(scene)


# EV-18, EV-19


class Diary:
    """What happened to the node that failed and to what it held, in order."""

    def __init__(self, stage: Stage) -> None:
        self.entries: list[str] = []
        self.read_before_taint: list[str] = []
        self._stage = stage
        self._boot = ""
        self._is_tainted = False
        stage.server.reactions.append(self._noticed)

    def _noticed(self, change: Change) -> None:
        item = change.now.object
        name, is_gone = item["metadata"]["name"], change.kind == DELETED
        if is_gone and change.resource == ATTACHMENTS and item["spec"]["nodeName"] == VICTIM:
            self.entries.append("detached")
        elif is_gone and (change.resource, name) == ("pods", POD):
            self.entries.append("pod gone")
        elif not is_gone and (change.resource, name) == ("nodes", VICTIM):
            self._look_at(item)

    def _look_at(self, node: dict[str, Any]) -> None:
        is_tainted = any(taint["key"] == OUT_OF_SERVICE for taint in node["spec"].get("taints") or ())
        if is_tainted == self._is_tainted:
            return
        self._is_tainted = is_tainted
        if not is_tainted:
            boot = "the same boot" if boot_of(node) == self._boot else "a new boot"
            self.entries.append(f"taint gone, ready is {ready_of(node)}, {boot}")
        else:
            self._boot = boot_of(node)
            self.entries.append("tainted")
            asked = [one for one in self._stage.server.audit if one.client == "defib"]
            now = self._stage.clock.now()
            self.read_before_taint = [one.path for one in asked if one.verb == "get" and one.time == now]


def boot_of(node: dict[str, Any]) -> str:
    return str(node["status"]["nodeInfo"]["bootID"])


@pytest.mark.parametrize("fault", FAULTS)
def test_ev_18_after_the_proof_the_taint_comes_pods_and_volumes_go_and_then_the_taint(fault: str) -> None:
    async def scene(stage: Stage) -> None:
        await a_policy(stage)
        diary = Diary(stage)
        async with stage.operator():
            stage.fail(fault)
            assert await stage.until(lambda: says(stage) == "WaitingForProof", 30)
            assert diary.entries == []
            await stage.order(HOLLOW, "OutOfServiceTaint")
            assert await end(stage) == []
        first, *between, last = diary.entries
        assert (first, last) == ("tainted", "taint gone, ready is True, a new boot")
        assert sorted(between) == ["detached", "pod gone"]
        assert stage.leftovers() == []

    on_stage(scene)


def test_ev_19_the_proof_and_the_node_are_read_right_before_the_taint_is_placed() -> None:
    async def scene(stage: Stage) -> None:
        diary = Diary(stage)
        async with stage.operator():
            stage.fail("hangs")
            await stage.until(lambda: ready_of(stage.node) != "True", 30)
            await stage.order(HOLLOW, "OutOfServiceTaint")
            assert await end(stage) == []
        assert f"/apis/defib.dev/v1alpha1/nodeincidents/{VICTIM}" in diary.read_before_taint
        assert f"/api/v1/nodes/{VICTIM}" in diary.read_before_taint
        assert stage.wrongs == []

    on_stage(scene)


@pytest.mark.parametrize("workloads", WORKLOADS)
@pytest.mark.parametrize("fault", FAULTS)
def test_ev_19_without_a_proof_no_taint_is_placed_whoever_asks(fault: str, workloads: str) -> None:
    """A policy, and a power cycle of a machine that nobody can switch."""

    async def scene(stage: Stage) -> None:
        await a_policy(stage)
        diary = Diary(stage)
        async with stage.operator():
            stage.fail(fault)
            await stage.until(lambda: says(stage) == "WaitingForProof", 30)
            for machine in stage.machines.values():
                machine.bmc.password = "changed by somebody"
            await stage.order(HOLLOW, workloads)
            await stage.until(lambda: False, 300)
        assert (diary.entries, stage.wrongs) == ([], [])
        assert stage.node is not None

    on_stage(scene)


# EV-20


@pytest.mark.parametrize("fault", FAULTS)
def test_ev_20_on_five_nodes_everything_that_ran_on_the_failed_one_runs_elsewhere(fault: str) -> None:
    async def scene(stage: Stage) -> None:
        await deploy(stage)
        for namespace in (SHOP, FRONT):
            await a_policy(stage, namespace)
        async with stage.operator():
            stage.fail(fault)
            assert await stage.until(lambda: ready_of(stage.node) != "True", 30)
            assert await stage.until(lambda: len(serving(stage)) == REPLICAS, 15)
            assert VICTIM not in serving(stage).values()
            assert stage.pod_runs_on in ("", VICTIM)
            await stage.order(HOLLOW, "OutOfServiceTaint")
            assert await stage.until(lambda: stage.pod_runs_on not in ("", VICTIM), 60)
            assert await end(stage) == []
        assert len(serving(stage)) == REPLICAS
        assert stage.leftovers() == []

    on_stage(scene, nodes=5)


# A step of an escalation.


def a_step(template: Kind[Any], order: int, timeout: str) -> dict[str, Any]:
    named = {"apiVersion": template.api_version, "kind": template.name, "name": "step", "namespace": HOME}
    return {"remediationTemplate": named, "order": order, "timeout": timeout}


async def escalate(stage: Stage) -> None:
    """First pods leave, then the machine is power-cycled."""
    for kind, spec in ((FAILOVER_TEMPLATES, {}), (TEMPLATES, spec_of(HOLLOW, "OutOfServiceTaint"))):
        await stage.person.create(
            kind, {"metadata": {"name": "step"}, "spec": {"template": {"spec": spec}}}, namespace=HOME
        )
    spec = {
        "selector": {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "Exists"}]},
        "minHealthy": "51%",
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "duration": "1s"}],
        "escalatingRemediations": [a_step(FAILOVER_TEMPLATES, 1, "5m"), a_step(TEMPLATES, 2, "10m")],
    }
    await stage.person.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "all"}, "spec": spec})


def failover(stage: Stage) -> str:
    """`False ProofNeeded`; empty when there is none."""
    conditions = [
        one
        for item in stage.all("podfailoverremediations.defib.dev")
        for one in (item.get("status") or {}).get("conditions") or ()
        if one["type"] == "Succeeded"
    ]
    return " ".join(f"{one['status']} {one['reason']}" for one in conditions)


def test_an_escalation_goes_on_at_once_when_nothing_is_left_but_pods_that_need_a_proof() -> None:
    async def scene(stage: Stage) -> None:
        await deploy(stage)
        await escalate(stage)
        async with stage.operator():
            stage.fail("hangs")
            assert await stage.until(lambda: ready_of(stage.node) != "True", 30)
            assert await stage.until(lambda: failover(stage) == "False ProofNeeded", 5)
            assert not [
                pod
                for pod in stage.all("pods")
                if pod["metadata"]["namespace"] == FRONT
                and pod["spec"].get("nodeName") == VICTIM
                and "deletionTimestamp" not in pod["metadata"]
            ]
            assert await stage.until(lambda: stage.remediations != [], 5)
            assert await stage.until(lambda: stage.pod_runs_on not in ("", VICTIM), 60)
            assert await stage.until(lambda: stage.is_over)
            assert await stage.until(lambda: not stage.remediations and failover(stage) == "", 60)
            await stage.calm()
        assert stage.leftovers() == []

    on_stage(scene)


@pytest.mark.parametrize("after", [False, True])
def test_an_escalation_gets_there_whoever_dies_on_the_way(after: bool) -> None:
    """At every ninth write and power command, beginning with another one before it than after it."""
    struck = []

    async def scene(stage: Stage, doom: Doom) -> None:
        await escalate(stage)
        stage.fail("hangs")
        async with stage.operator(doom) as life:
            await stage.until(lambda: life.is_dead or stage.is_over)
        async with stage.operator():
            assert await stage.until(lambda: stage.is_over)
            assert await stage.until(lambda: not stage.remediations and failover(stage) == "", 60)
            await stage.calm()
        struck.append(life.was_struck)
        assert (doom.at, stage.leftovers()) == (doom.at, [])

    for deed in range(5 if after else 1, 60, 9):
        on_stage(partial(scene, doom=Doom(at=deed, after=after)))
        if not struck[-1]:
            break
    assert len(struck) > 3


def test_an_escalation_waits_for_its_time_when_no_pod_needs_a_proof() -> None:
    async def scene(stage: Stage) -> None:
        await deploy(stage)
        database = await stage.person.get(STATEFUL_SETS.at("db", SHOP))
        await stage.person.delete(STATEFUL_SETS.of(database), Deletion(uid=database.uid))
        assert await stage.until(lambda: stage.one("pods", POD) is None, 60)
        await escalate(stage)
        async with stage.operator():
            stage.fail("hangs")
            assert await stage.until(lambda: failover(stage) == "True RemediationFinished", 30)
            assert not await stage.until(lambda: stage.remediations != [], 290)
            assert await stage.until(lambda: stage.remediations != [], 15)

    on_stage(scene)
