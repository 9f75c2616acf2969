"""An answer about a node tells what pod failover does about its pods, and what is missing for it."""

import pytest

from defib.decide.answers.failover import NOBODY_PROVES
from defib.decide.answers.told import Answer, FailoverTold
from defib.kube.client import Deletion
from defib.kube.kinds import unstructured
from tests.unit.console.desk import (
    FAILOVERS,
    POLICIES,
    Body,
    Desk,
    add_failover,
    add_incident,
    add_node,
    add_nodes,
    add_policy,
    at_the_desk,
)

CRDS = unstructured(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
WAITS: Body = {"name": "n1", "state": "WaitingForProof", "waiting": 1, "message": "1 pod waits for a proof: ns/db-0"}
HELD: Body = {"name": "n1", "state": "Held", "reason": "Budget", "message": "2 pods wait: at most 1 node at a time"}


def told(**fields: str) -> FailoverTold:
    usual = {"kind": "PodFailoverPolicy", "namespace": "ns", "reason": ""}
    return FailoverTold(**(usual | fields))


def test_what_each_policy_says_of_the_node_is_told() -> None:
    async def scene(desk: Desk) -> Answer:
        add_nodes(desk.server, ill=["n1"])
        add_policy(desk.server, "shop", HELD, {**WAITS, "name": "n2"})
        add_policy(desk.server, "quiet")
        add_policy(desk.server, "db", WAITS)
        return await desk.why("n1")

    answer = at_the_desk(scene)
    assert answer.failover == (
        told(name="db", state="WaitingForProof", message=WAITS["message"], advice=NOBODY_PROVES),
        told(name="shop", state="Held", reason="Budget", message=HELD["message"]),
    )
    assert (answer.unknown, answer.no_failover) == ((), ())


def test_what_a_remediation_of_the_node_says_is_told() -> None:
    async def scene(desk: Desk) -> Answer:
        add_nodes(desk.server, ill=["n1"])
        add_failover(desk.server, "n2", status="True", reason="RemediationFinished", message="3 pods moved")
        add_failover(desk.server, "n1-4711", "n1", status="False", reason="ProofNeeded", message="1 pod waits")
        add_failover(desk.server, "n1")
        return await desk.why("n1")

    kind = "PodFailoverRemediation"
    assert at_the_desk(scene).failover == (
        told(kind=kind, name="n1", state="New", message="no operator has said anything about it yet"),
        told(kind=kind, name="n1-4711", state="ProofNeeded", message="1 pod waits", advice=NOBODY_PROVES),
    )


@pytest.mark.parametrize(("phase", "advice"), [("PoweringOff", ""), ("Closed", NOBODY_PROVES)])
def test_who_waits_for_a_proof_hears_whether_one_is_on_its_way(phase: str, advice: str) -> None:
    async def scene(desk: Desk) -> Answer:
        add_nodes(desk.server, ill=["n1"])
        add_incident(desk.server, "n1", phase)
        add_policy(desk.server, "db", WAITS)
        return await desk.why("n1")

    (one,) = at_the_desk(scene).failover
    assert one.advice == advice


def test_a_status_that_makes_no_sense_is_no_reason_to_fail() -> None:
    async def scene(desk: Desk) -> Answer:
        add_nodes(desk.server, ill=["n1"])
        add_policy(desk.server, "odd", {"name": "n1", "state": "Dancing"})
        return await desk.why("n1")

    assert at_the_desk(scene).failover == ()


def test_what_may_not_be_read_is_told_and_the_rest_is_answered() -> None:
    async def scene(desk: Desk) -> Answer:
        add_nodes(desk.server, ill=["n1"])
        add_policy(desk.server, "db", WAITS)
        add_failover(desk.server, "n1", status="Unknown", reason="RemediationStarted", message="2 pods to be moved")
        desk.refuse(POLICIES)
        return await desk.why("n1")

    answer = at_the_desk(scene)
    assert [one.kind for one in answer.failover] == ["PodFailoverRemediation"]
    (note,) = answer.unknown
    assert note.startswith(f"{POLICIES} could not be read here, and the operator may see more")


@pytest.mark.parametrize("ready", ["Unknown", "True"])
def test_a_cluster_without_the_kinds_says_so_of_a_node_that_is_not_ready(ready: str) -> None:
    async def scene(desk: Desk) -> Answer:
        for resource in (POLICIES, FAILOVERS):
            crd = await desk.client.get(CRDS.at(resource))
            await desk.client.delete(CRDS.at(resource), Deletion(uid=crd.uid))
        add_nodes(desk.server)
        add_node(desk.server, "n9", ready)
        return await desk.why("n9")

    answer = at_the_desk(scene)
    assert (answer.failover, answer.unknown) == ((), ())
    kinds = () if ready == "True" else ("PodFailoverPolicy", "PodFailoverRemediation")
    missing = (
        f"the cluster has no kind {kind}: its CRD is not installed (kubectl apply -f deploy/crds)" for kind in kinds
    )
    assert answer.no_failover == tuple(missing)
