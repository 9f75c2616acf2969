"""What is the matter with a drain is read live, and what could not be read is said."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import yaml

from defib.console.drain import PAGE_SIZE, examine, foresee
from defib.console.session import NotDone
from defib.decide.drains.doctor import Diagnosis, PodDiagnosis, State
from defib.decide.drains.forecast import Forecast
from defib.model.node_drain import WATCH_MARK
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import START
from tests.unit.console.desk import (
    DEFINITIONS,
    MINUTE,
    ROOT,
    Desk,
    T,
    add_incident,
    add_lock,
    add_node,
    at_the_desk,
    put_config,
    stamp,
)

Body = dict[str, Any]

DEFINED_IN = ("deploy/crds/defib.dev_drainpolicies.yaml", "deploy/crds/defib.dev_nodedrains.yaml")
BUDGETS = "poddisruptionbudgets.policy"
POLICIES = "drainpolicies.defib.dev"
DRAINS = "nodedrains.defib.dev"
CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"


def at_the_ward(scene: Callable[[Desk], Coroutine[Any, Any, T]], *, with_kinds: bool = True) -> T:
    """Node n1 is cordoned and marked as being drained for ten minutes; n2 and n3 are in service."""

    async def drained(desk: Desk) -> T:
        for path in DEFINED_IN if with_kinds else ():
            for definition in yaml.safe_load_all((ROOT / path).read_text()):
                desk.server.put(DEFINITIONS, definition)
        add_drained_node(desk.server, "n1")
        for name in ("n2", "n3"):
            add_node(desk.server, name)
        return await scene(desk)

    return at_the_desk(drained, with_checks=False)


def add_drained_node(server: ApiServer, name: str) -> None:
    add_node(server, name, labels={WATCH_MARK: "true"})
    stored = server.store.get("nodes", name)
    assert stored is not None
    at = stamp(server.clock.now() - 10 * MINUTE)
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": at}
    server.store.put("nodes", {**stored.object, "spec": {"unschedulable": True, "taints": [taint]}})


def add_pod(server: ApiServer, name: str, node: str = "n1", *, meta: Body | None = None, **spec: Any) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    metadata = {"name": name, "namespace": "ns", "labels": {"app": "web"}, "ownerReferences": [owner]} | (meta or {})
    container = {"name": "main", "image": "registry.example.com/app:1"} | spec.pop("container", {})
    body = {"metadata": metadata, "spec": {"nodeName": node, "containers": [container], **spec}}
    made = server.put("pods", body)
    conditions = [{"type": "Ready", "status": "True"}]
    phase = "Running" if node else "Pending"
    server.store.put("pods", {**made.object, "status": {"phase": phase, "conditions": conditions}})


def add_budget(server: ApiServer, name: str = "web", *, healthy: int = 3, desired: int = 3, expected: int = 3) -> None:
    spec = {"minAvailable": desired, "selector": {"matchLabels": {"app": "web"}}}
    made = server.put(BUDGETS, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})
    status = {
        "disruptionsAllowed": max(healthy - desired, 0),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "observedGeneration": made.object["metadata"].get("generation", 1),
    }
    server.store.put(BUDGETS, {**made.object, "status": status})


def add_claim(server: ApiServer, name: str, *, volume: str = "") -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
    server.put(CLAIMS, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


async def examined(desk: Desk, node: str = "n1") -> Diagnosis:
    return await examine(node, desk.client, desk.clock, desk.rules)


async def foreseen(desk: Desk, selector: str = "") -> Forecast:
    return await foresee(selector, desk.client, desk.clock)


def reasons(told: PodDiagnosis) -> list[str]:
    return [finding.reason.value for finding in told.findings]


def test_a_drain_that_a_budget_blocks_is_explained_with_what_comes_next() -> None:
    async def scene(desk: Desk) -> Diagnosis:
        desk.server.put(POLICIES, {"metadata": {"name": "workers"}, "spec": {}})
        add_pod(desk.server, "web-1")
        add_budget(desk.server)
        return await examined(desk)

    told = at_the_ward(scene)
    assert (told.state, told.source, told.policy, told.unknown) == (State.DRAINING, "Kubectl", "workers", ())
    assert told.since == START - 10 * MINUTE
    (pod,) = told.pods
    assert (pod.pod, pod.owner, reasons(pod)) == ("ns/web-1", "ReplicaSet web", ["BudgetNeverAllows"])
    assert pod.next is not None
    assert pod.next.at == START + 35 * MINUTE


def test_looking_writes_nothing() -> None:
    async def scene(desk: Desk) -> list[object]:
        add_pod(desk.server, "web-1")
        await examined(desk)
        await foreseen(desk)
        return list(desk.server.audit.writes("ann"))

    assert at_the_ward(scene) == []


def test_only_pods_of_the_node_are_read() -> None:
    async def scene(desk: Desk) -> Diagnosis:
        add_pod(desk.server, "here")
        add_pod(desk.server, "there", "n2")
        return await examined(desk)

    assert [pod.pod for pod in at_the_ward(scene).pods] == ["ns/here"]


def test_pre_stop_hooks_claims_and_local_volumes_are_read_closely() -> None:
    async def scene(desk: Desk) -> Diagnosis:
        server = desk.server
        hook = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", "600"]}}}}
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("near", "far")]
        add_pod(server, "web-1", container=hook, terminationGracePeriodSeconds=600, volumes=volumes)
        local = {"local": {"path": "/disk"}, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        server.put(VOLUMES, {"metadata": {"name": "pv-near"}, "spec": local})
        server.put(VOLUMES, {"metadata": {"name": "pv-far"}, "spec": local | {"local": None, "csi": {"driver": "x"}}})
        add_claim(server, "near", volume="pv-near")
        add_claim(server, "far", volume="pv-far")
        return await examined(desk)

    (pod,) = at_the_ward(scene).pods
    assert reasons(pod) == ["PreStopHook", "ExclusiveVolume", "LocalData"]
    assert pod.findings[2].message.startswith("claim near is on a volume of this node")


def test_a_replacement_that_waits_for_a_node_is_found() -> None:
    async def scene(desk: Desk) -> Diagnosis:
        add_pod(desk.server, "web-1")
        add_pod(desk.server, "web-9", "")
        add_budget(desk.server, healthy=2, desired=2)
        return await examined(desk)

    (pod,) = at_the_ward(scene).pods
    assert reasons(pod) == ["BudgetAllowsNone", "ReplacementPending"]


def test_record_brake_lock_and_incident_are_told() -> None:
    async def scene(desk: Desk) -> Diagnosis:
        server = desk.server
        server.put(POLICIES, {"metadata": {"name": "workers"}, "spec": {}})
        made = server.put(DRAINS, {"metadata": {"name": "n1"}, "spec": {"policy": "workers"}})
        server.store.put(DRAINS, {**made.object, "status": {"phase": "Held", "reason": "Lock", "message": "by bob"}})
        put_config(server, "defib-brake", reason="storage")
        add_lock(server, "n1", "bob")
        add_incident(server, "n1", "Open")
        return await examined(desk)

    told = at_the_ward(scene)
    assert told.record is not None
    assert (told.record.phase, told.record.reason) == ("Held", "Lock")
    assert told.holds == (
        "the brake is on: storage",
        "bob works on the node and holds its lock",
        "the node is being remediated: its NodeIncident is in phase Open",
    )


def test_a_cluster_without_our_kinds_gets_an_answer() -> None:
    async def scene(desk: Desk) -> Diagnosis:
        add_pod(desk.server, "web-1")
        add_budget(desk.server)
        return await examined(desk)

    told = at_the_ward(scene, with_kinds=False)
    assert (told.defib, told.unknown) == ("does nothing: the cluster has no DrainPolicy", ())
    assert reasons(told.pods[0]) == ["BudgetNeverAllows"]


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (BUDGETS, "disruption budgets are out of sight"),
        (POLICIES, "drainpolicies.defib.dev could not be read here"),
        (DRAINS, "nodedrains.defib.dev could not be read here"),
        ("pods", "the pods of node n1 are out of sight"),
        (CLAIMS, "claim ns/data could not be read here"),
        ("configmaps", "configmaps defib-system/defib-brake could not be read here"),
        ("leases.coordination.k8s.io", "could not be read here"),
    ],
)
def test_what_may_not_be_read_is_not_known(resource: str, words: str) -> None:
    async def scene(desk: Desk) -> Diagnosis:
        add_claim(desk.server, "data")
        add_pod(desk.server, "web-1", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
        desk.refuse(resource)
        return await examined(desk)

    told = at_the_ward(scene)
    assert any(words in note for note in told.unknown), told.unknown
    assert told.state is State.DRAINING
    assert told.is_sure is (resource not in (BUDGETS, "pods"))


def test_policies_that_may_not_be_read_are_not_said_to_be_none() -> None:
    async def scene(desk: Desk) -> Diagnosis:
        desk.refuse(POLICIES)
        return await examined(desk)

    assert at_the_ward(scene).defib == "is not known to do anything: DrainPolicies cannot be read"


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("n4", "there is no node n4; did you mean n3 or n2 or n1?"),
        ("zebra", "there is no node zebra among the 3 of the cluster (kubectl get nodes)"),
        ("../pods", "there is no node ../pods among the 3 of the cluster (kubectl get nodes)"),
    ],
)
def test_an_unknown_node_is_told_in_one_line_with_those_that_are_alike(asked: str, line: str) -> None:
    async def scene(desk: Desk) -> Diagnosis:
        return await examined(desk, asked)

    with pytest.raises(NotDone) as caught:
        at_the_ward(scene)
    assert str(caught.value) == line


def test_who_may_not_see_the_node_is_told_what_to_ask_for() -> None:
    async def scene(desk: Desk) -> Diagnosis:
        desk.refuse("nodes")
        return await examined(desk)

    with pytest.raises(NotDone, match="kubectl auth can-i get nodes"):
        at_the_ward(scene)


# The forecast.


def test_a_forecast_names_the_budget_and_the_nodes() -> None:
    async def scene(desk: Desk) -> Forecast:
        add_pod(desk.server, "web-1")
        add_pod(desk.server, "web-2", "n2")
        add_budget(desk.server)
        return await foreseen(desk)

    told = at_the_ward(scene)
    assert (told.nodes, told.blocked, told.unknown) == (3, ("n1", "n2"), ())
    assert [(one.budget, one.nodes) for one in told.budgets] == [("ns/web", ("n1", "n2"))]


def test_a_selector_says_which_nodes() -> None:
    async def scene(desk: Desk) -> Forecast:
        add_pod(desk.server, "web-1")
        add_pod(desk.server, "web-2", "n2")
        add_budget(desk.server)
        return await foreseen(desk, f"{WATCH_MARK}=true")

    told = at_the_ward(scene)
    assert (told.nodes, told.blocked) == (1, ("n1",))


def test_pods_are_read_page_by_page() -> None:
    async def scene(desk: Desk) -> Forecast:
        for number in range(PAGE_SIZE + 1):
            add_pod(desk.server, f"p{number}", "n2")
        return await foreseen(desk)

    assert at_the_ward(scene).pods == PAGE_SIZE + 1


def test_without_pods_there_is_no_forecast_and_without_budgets_half_of_one() -> None:
    async def blind(desk: Desk) -> Forecast:
        desk.refuse("pods")
        return await foreseen(desk)

    with pytest.raises(NotDone, match="kubectl auth can-i list pods"):
        at_the_ward(blind)

    async def without_budgets(desk: Desk) -> Forecast:
        add_pod(desk.server, "web-1", meta={"ownerReferences": []})
        desk.refuse(BUDGETS)
        return await foreseen(desk)

    told = at_the_ward(without_budgets)
    assert [one.pod for one in told.bare] == ["ns/web-1"]
    assert "so nobody can say what they block" in told.unknown[0]
    assert not told.is_sure
