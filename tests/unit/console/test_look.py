"""A look at a live cluster sees what an operator would decide from, and says what it could not see."""

import pytest

from defib.console.look import Look, look
from defib.console.session import NotDone
from defib.decide.quorum import PODS
from defib.kube.kinds import CONFIG_MAPS, LEASES
from defib.model.budget import BUDGET
from defib.model.cluster import Missing, Served
from defib.model.health_check import KindRef
from tests.unit.console.desk import (
    API,
    CHECKS,
    DEFINITIONS,
    FOOS,
    Desk,
    add_check,
    add_foo,
    add_lock,
    add_nodes,
    at_the_desk,
    put_config,
    template_ref,
)

FOO = KindRef(API, "FooRemediation")


async def seen(desk: Desk) -> Look:
    return await look(desk.client, desk.clock, desk.rules)


def test_everything_that_decides_is_read() -> None:
    async def scene(desk: Desk) -> Look:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        add_foo(desk.server, "n1")
        add_lock(desk.server, "n1", "somebody")
        put_config(desk.server, "defib-brake", paused="false")
        return await seen(desk)

    found = at_the_desk(scene)
    cluster = found.cluster
    assert found.unknown == ()
    assert len(cluster.nodes) == len(cluster.heartbeats) == 5
    assert cluster.locks.keys() == {"medik8s-leases/node-n1"}
    assert cluster.others[CHECKS].keys() == {"workers"}
    assert "defib-system/defib-brake" in cluster.others["configmaps"]
    assert [item.name for item in cluster.every(FOO)] == ["n1"]
    assert [item.name for item in cluster.every(KindRef(API, "FooRemediationTemplate"))] == ["foo"]


def test_a_look_writes_nothing() -> None:
    async def scene(desk: Desk) -> list[object]:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        await seen(desk)
        return list(desk.server.audit.writes("ann"))

    assert at_the_desk(scene) == []


def test_kinds_that_nobody_has_are_missing_and_no_reason_to_worry() -> None:
    async def scene(desk: Desk) -> Look:
        add_nodes(desk.server)
        add_check(desk.server, remediationTemplate=template_ref() | {"kind": "BazRemediationTemplate"})
        return await seen(desk)

    found = at_the_desk(scene)
    assert isinstance(found.cluster.kinds[KindRef(API, "BazRemediationTemplate")], Missing)
    assert isinstance(found.cluster.kinds[KindRef("upgrade.cattle.io/v1", "Plan")], Missing)
    assert found.unknown == ()


def test_what_guards_etcd_is_read_where_openshift_is() -> None:
    async def scene(desk: Desk) -> Look:
        desk.server.put(DEFINITIONS, cluster_versions())
        add_nodes(desk.server)
        add_check(desk.server)
        return await seen(desk)

    kinds = at_the_desk(scene).cluster.kinds
    assert isinstance(kinds[BUDGET], Served)
    assert isinstance(kinds[PODS], Served)


def cluster_versions() -> dict[str, object]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": "clusterversions.config.openshift.io"},
        "spec": {
            "group": "config.openshift.io",
            "names": {"plural": "clusterversions", "kind": "ClusterVersion"},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def test_a_cluster_without_the_crd_is_told_what_to_do() -> None:
    async def scene(desk: Desk) -> Look:
        add_nodes(desk.server)
        return await seen(desk)

    with pytest.raises(NotDone, match="no NodeHealthChecks: their CRD is not installed"):
        at_the_desk(scene, with_checks=False)


@pytest.mark.parametrize("resource", ["nodes", CHECKS])
def test_without_nodes_or_checks_there_is_no_answer(resource: str) -> None:
    async def scene(desk: Desk) -> Look:
        desk.refuse(resource)
        return await seen(desk)

    with pytest.raises(NotDone) as caught:
        at_the_desk(scene)
    assert "you may not" in str(caught.value)
    assert f"kubectl auth can-i list {resource}" in str(caught.value)


def test_what_may_not_be_read_is_named_and_the_rest_is_seen() -> None:
    async def scene(desk: Desk) -> Look:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        desk.refuse(str(LEASES))
        desk.refuse(str(CONFIG_MAPS))
        desk.refuse(FOOS)
        return await seen(desk)

    found = at_the_desk(scene)
    said = " ".join(found.unknown)
    assert [words in said for words in ("heartbeats in kube-node-lease", "locks in medik8s-leases")] == [True, True]
    assert "ConfigMaps of defib-system could not be read here" in said
    assert f"{FOOS} could not be read" in said
    assert len(found.cluster.nodes) == 5
    assert "you may not" in found.cluster.absent[str(FOO)]


def test_what_cannot_be_read_for_another_reason_is_out_of_sight() -> None:
    async def scene(desk: Desk) -> Look:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        desk.refuse(FOOS, code=500)
        return await seen(desk)

    found = at_the_desk(scene)
    assert [blindness.kind for blindness in found.cluster.blind] == [str(FOO)]
    assert len(found.unknown) == 1
