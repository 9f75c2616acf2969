"""NodeHealthChecks at work on a real API server, the operator with the rights of its own manifest and no others.

After each test the operator is asked how many of its requests were answered with 403: a missing right is a failure.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.kube.client import Client, Merge
from defib.kube.errors import Refused
from defib.kube.kinds import CONFIG_MAPS, LEASES, NODES, Ref
from defib.model import medik8s
from defib.model.meta import Unstructured
from testbed.programs import Programs
from tests.contract.api_server.steps import delete, is_gone, raw
from tests.e2e.check_cluster import (
    GROUP,
    PLACE,
    CheckCluster,
    Pool,
    check_cluster,
    remediations,
    step,
    template_ref,
    templates,
)
from tests.e2e.running_operator import RunningOperator, defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

HELD = "test.defib.dev/held"
APPROVED_UNTIL = "defib.dev/approved-until"
PROHIBITED = "prohibited due to running remediation"
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}
MENDED_SECONDS = 30.0  # what a person mends works again within this


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CheckCluster]:
    async with check_cluster(programs, tmp_path_factory.mktemp("audit") / "policy.yaml") as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: CheckCluster) -> AsyncIterator[RunningOperator]:
    async with defib_run(cluster) as operator:
        yield operator


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _nothing_is_refused(cluster: CheckCluster, operator: RunningOperator) -> AsyncIterator[None]:
    yield
    await operator.expect_nothing_refused(cluster)


def ref_of(remedy: Unstructured, remediator: str = "Foo") -> Ref[Unstructured]:
    return remediations(remediator).of(remedy)


async def says_failed(client: Client, ref: Ref[Unstructured]) -> None:
    """As its remediator would."""
    conditions = [{"type": "Succeeded", "status": "False"}]
    await client.patch(ref, Merge({"status": {"conditions": conditions}}), subresource="status")


async def complaint(client: Client, pool: Pool, **spec: Any) -> str:
    """Why the check may not be changed so; empty when it may."""
    try:
        await client.patch(pool.ref, Merge({"spec": spec}))
    except Refused as error:
        return str(error)
    return ""


async def test_a_failed_node_is_locked_and_remediated_as_every_remediator_expects(cluster: CheckCluster) -> None:
    spec = {"strategy": "reboot", "retries": 3, "more": [{"deep": ["x"]}]}
    await cluster.add_template("foo-spec", spec={"template": {"spec": spec}})
    pool = await cluster.pool("one", remediationTemplate=template_ref("foo-spec"))
    await pool.fails("one-1")
    remedy = await pool.expect_remedy("one-1")
    check = await cluster.client.get(pool.ref)
    made = await raw(cluster.client, "GET", ref_of(remedy).path())
    assert made["spec"] == spec
    meta = made["metadata"]
    assert (meta["name"], meta["namespace"], meta.get("generateName")) == ("one-1", PLACE, None)
    assert meta["annotations"] == {medik8s.NODE_NAME: "one-1", medik8s.TEMPLATE_NAME: "foo-spec"}
    assert meta["labels"] == {"app.kubernetes.io/part-of": "node-healthcheck-controller"}
    assert meta["ownerReferences"] == [
        {
            "apiVersion": "remediation.medik8s.io/v1alpha1",
            "kind": "NodeHealthCheck",
            "name": "one",
            "uid": check.uid,
            "controller": False,
        }
    ]
    assert "finalizers" not in meta


async def test_the_lock_of_a_node_is_one_that_others_honour(cluster: CheckCluster) -> None:
    pool = await cluster.pool("locked")
    await pool.fails("locked-1")
    await pool.expect_remedy("locked-1")
    node = await cluster.client.get(NODES.at("locked-1"))
    lock = await raw(cluster.client, "GET", LEASES.at("node-locked-1", "medik8s-leases").path())
    owner = {"apiVersion": "v1", "kind": "Node", "name": "locked-1", "uid": node.uid}
    assert lock["metadata"]["ownerReferences"] == [owner]
    spec = lock["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("NodeHealthCheck-locked", 660)
    assert spec["acquireTime"] == spec["renewTime"]
    assert spec["leaseTransitions"] == 0
    assert await pool.holder("locked-2") == ""


async def test_status_and_events_say_what_happened(cluster: CheckCluster) -> None:
    pool = await cluster.pool("told")
    await pool.fails("told-1", "False")
    remedy = await pool.expect_remedy("told-1")
    made = await raw(cluster.client, "GET", ref_of(remedy).path())
    status = await pool.raw_status()
    assert (status["phase"], status["observedNodes"], status["healthyNodes"]) == ("Remediating", 3, 2)
    (node,) = status["unhealthyNodes"]
    assert node["name"] == "told-1"
    resource = {
        "apiVersion": "test.defib.dev/v1alpha1",
        "kind": "FooRemediation",
        "namespace": PLACE,
        "name": "told-1",
        "uid": remedy.uid,
    }
    started = made["metadata"]["creationTimestamp"]
    assert node["remediations"] == [{"resource": resource, "started": started, "templateName": "foo"}]
    conditions = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    assert conditions["Disabled"] == ("False", "NodeHealthCheckEnabled")
    for reason in ("Enabled", "DetectedUnhealthy", "RemediationCreated"):
        event = await pool.expect_event(reason)
        assert event.message.startswith("[remediation] ")
        assert (event.type, event.source) == ("Normal", {"component": "NodeHealthCheck"})
        assert (event.involved_object["kind"], event.involved_object["name"]) == ("NodeHealthCheck", "told")
    reasons = [one.reason for one in await pool.events()]
    assert len(reasons) == len(set(reasons)), reasons


async def test_a_finalizer_keeps_its_node_unhealthy_and_recovery_leaves_nothing(cluster: CheckCluster) -> None:
    pool = await cluster.pool("held")
    await pool.fails("held-1")
    ref = ref_of(await pool.expect_remedy("held-1"))
    await cluster.client.patch(ref, Merge({"metadata": {"finalizers": [HELD]}}))
    await pool.recovers("held-1")

    async def is_leaving() -> bool:
        node = (await pool.status()).node("held-1")
        remedy = await cluster.client.get(ref)
        healthy_since = node.conditions_healthy_timestamp if node else None
        return healthy_since is not None and remedy.metadata.deletion_timestamp is not None

    await pool.eventually("its remediation is being deleted", is_leaving)
    status = await pool.status()
    assert (status.phase, status.healthy_nodes) == ("Remediating", 2)
    assert await pool.holder("held-1") == "NodeHealthCheck-held"
    await cluster.client.patch(ref, Merge({"metadata": {"finalizers": None}}))
    await pool.expect_at_rest()
    assert (await pool.status()).phase == "Enabled"
    await pool.expect_event("RemediationRemoved", "held-1")


async def test_what_fails_is_followed_by_the_next_step_and_all_of_them_go_in_the_end(cluster: CheckCluster) -> None:
    steps = [step("foo-a", 1, "5m"), step("foo-b", 2, "10m"), step("bar", 3, "15m")]
    pool = await cluster.pool("stairs", escalatingRemediations=steps)
    await pool.fails("stairs-1")
    locked = []
    for name, remediator in (("foo-a", "Foo"), ("foo-b", "Foo"), ("bar", "Bar")):
        remedy = await pool.expect_remedy("stairs-1", remediator, template=name)
        assert remedy.name.startswith("stairs-1-") is (remediator == "Foo"), "a generated name where the kind repeats"
        lock = await pool.lock("stairs-1")
        locked.append(lock and lock.spec.lease_duration_seconds)
        await says_failed(cluster.client, ref_of(remedy, remediator))
        await pool.expect_event("RemediationTimedOut", remedy.name)
    assert locked == [360, 660, 960]
    await pool.expect_event("NoTemplateLeft", "stairs-1")
    node = (await pool.status()).node("stairs-1")
    assert node is not None
    assert [one.template_name for one in node.remediations or () if one.timed_out] == ["foo-a", "foo-b", "bar"]
    remedies = [*(await pool.remedies("Foo")), *(await pool.remedies("Bar"))]
    assert [one.name for one in remedies if medik8s.TIMED_OUT not in one.annotations] == []
    await pool.recovers("stairs-1")
    await pool.expect_at_rest()


async def test_a_person_confirms_that_a_node_is_healthy(cluster: CheckCluster) -> None:
    pool = await cluster.pool("confirmed", healthyDelay="-1s")
    await pool.fails("confirmed-1")
    remedy = await pool.expect_remedy("confirmed-1")
    await pool.recovers("confirmed-1")

    async def waits_for_a_person() -> bool:
        node = (await pool.status()).node("confirmed-1")
        return node is not None and node.healthy_delayed is True

    await pool.eventually("it waits for a person", waits_for_a_person)
    assert (await cluster.client.get(ref_of(remedy))).metadata.deletion_timestamp is None
    await pool.write_on("confirmed-1", medik8s.CONFIRMED_HEALTHY, "yes")
    await pool.expect_at_rest()
    await pool.expect_word_taken_off("confirmed-1", medik8s.CONFIRMED_HEALTHY)


async def test_a_person_approves(cluster: CheckCluster) -> None:
    pool = await cluster.pool("approved", mode="Approve")
    await pool.fails("approved-1")
    assert "defib approve approved-1" in await pool.expect_held("approved-1", "Approval")
    await pool.write_on("approved-1", APPROVED_UNTIL, f"{SystemClock().now() + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}")
    await pool.expect_remedy("approved-1")
    await pool.recovers("approved-1")
    await pool.expect_at_rest()
    await pool.expect_word_taken_off("approved-1", APPROVED_UNTIL)


async def test_a_check_is_guarded_while_it_remediates(cluster: CheckCluster) -> None:
    pool = await cluster.pool("guarded")
    await pool.fails("guarded-1")
    await pool.expect_remedy("guarded-1")
    client = cluster.client
    assert PROHIBITED in await complaint(client, pool, selector={"matchLabels": {"pool": "other"}})
    assert PROHIBITED in await complaint(client, pool, remediationTemplate=template_ref("bar"))
    with pytest.raises(Refused, match=PROHIBITED):
        await delete(client, pool.ref)
    assert await complaint(client, pool, maxUnhealthy=2, healthyDelay="0s") == ""
    await pool.recovers("guarded-1")
    await pool.expect_at_rest()
    assert await complaint(client, pool, remediationTemplate=template_ref("bar")) == ""
    await delete(client, pool.ref)
    assert await is_gone(client, pool.ref)


async def test_a_pause_holds_new_remediations_and_nothing_else(cluster: CheckCluster) -> None:
    pool = await cluster.pool("paused", nodes=5)
    await pool.fails("paused-1")
    await pool.expect_remedy("paused-1")
    await pool.change(pauseRequests=["maintenance of the rack"])
    await pool.fails("paused-2")
    assert "maintenance of the rack" in await pool.expect_held("paused-2", "Paused")
    status = await pool.status()
    assert (status.phase, status.observed_nodes, status.healthy_nodes) == ("Paused", 5, 3)
    await pool.recovers("paused-1")
    await pool.expect_cleared("paused-1")
    await pool.change(pauseRequests=[])
    await pool.expect_remedy("paused-2")


async def test_the_brake_stops_everything_new_and_nothing_else(cluster: CheckCluster) -> None:
    pool = await cluster.pool("braked", nodes=5)
    await pool.fails("braked-1")
    await pool.expect_remedy("braked-1")
    brake = {"metadata": {"name": "defib-brake"}, "data": {"paused": "true", "reason": "storage moves", "by": "ann"}}
    await cluster.client.create(CONFIG_MAPS, brake, namespace="defib-system")
    try:
        await pool.fails("braked-2")
        assert "storage moves (ann)" in await pool.expect_held("braked-2", "Brake")
        await pool.recovers("braked-1")
        await pool.expect_cleared("braked-1")
        await pool.expect_event("RemediationSkipped", "storage moves")
    finally:
        await delete(cluster.client, CONFIG_MAPS.at("defib-brake", "defib-system"))
    await pool.expect_remedy("braked-2")


async def test_a_kind_that_is_missing_is_told_and_found_when_it_comes(cluster: CheckCluster) -> None:
    await cluster.grant("Baz")
    await cluster.wait_for("delete", f"{remediations('Baz').plural}.{GROUP}", PLACE)
    pool = await cluster.pool("kindless", remediationTemplate=template_ref("baz"))
    await pool.fails("kindless-1")
    assert "BazRemediationTemplate" in await pool.expect_disabled("RemediationTemplateNotFound")
    assert (await pool.expect_event("Disabled")).type == "Warning"
    await cluster.install_remediator("Baz")
    await cluster.add_template("baz")
    await pool.expect_remedy("kindless-1", "Baz", within=MENDED_SECONDS)
    assert (await pool.status()).phase == "Remediating"


async def test_a_right_that_is_missing_is_told_and_used_when_it_comes(
    cluster: CheckCluster, operator: RunningOperator
) -> None:
    await cluster.install_remediator("Qux")
    await cluster.add_template("qux")
    async with operator.provoking():
        pool = await cluster.pool("rightless", remediationTemplate=template_ref("qux"))
        await pool.fails("rightless-1")
        assert "is forbidden" in await pool.expect_disabled("MissingPermission")
        await cluster.grant("Qux")
        await pool.expect_remedy("rightless-1", "Qux", within=MENDED_SECONDS)
    await pool.expect_event("Enabled")


async def test_a_right_to_look_alone_is_told_for_the_node_and_the_lock_is_given_back(
    cluster: CheckCluster, operator: RunningOperator
) -> None:
    await cluster.install_remediator("Zap")
    await cluster.add_template("zap")
    await cluster.grant("Zap", only_look=True)
    for kind in (templates("Zap"), remediations("Zap")):
        await cluster.wait_for("watch", f"{kind.plural}.{GROUP}", PLACE)
    async with operator.provoking():
        pool = await cluster.pool("looking", remediationTemplate=template_ref("zap"))
        await pool.fails("looking-1")
        assert 'cannot create resource "zapremediations"' in await pool.expect_held("looking-1", "CreationFailed")
        assert (await pool.expect_event("RemediationFailed", "looking-1")).type == "Warning"
        await pool.expect_cleared("looking-1")
        await cluster.grant("Zap")
        await pool.expect_remedy("looking-1", "Zap", within=MENDED_SECONDS)


async def test_a_template_that_is_missing_or_broken_is_told_and_used_when_it_is_mended(cluster: CheckCluster) -> None:
    pool = await cluster.pool("formless", remediationTemplate=template_ref("foo-late"))
    await pool.fails("formless-1")
    assert "FooRemediationTemplate remedies/foo-late" in await pool.expect_disabled("RemediationTemplateNotFound")
    await cluster.add_template("foo-late", spec={})
    assert "spec.template" in await pool.expect_disabled("RemediationTemplateInvalid")
    ref = templates("Foo").at("foo-late", PLACE)
    await cluster.client.patch(ref, Merge({"spec": {"template": {"spec": {"from": "mended"}}}}))
    remedy = await pool.expect_remedy("formless-1")
    assert remedy.spec == {"from": "mended"}
    await pool.expect_event("Enabled")


async def test_a_lock_of_somebody_else_is_honoured(cluster: CheckCluster) -> None:
    now = f"{SystemClock().now():%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": "node-maintenance", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    body = {"metadata": {"name": "node-serviced-1"}, "spec": spec}
    await cluster.client.create(LEASES, body, namespace="medik8s-leases")
    pool = await cluster.pool("serviced")
    await pool.fails("serviced-1")
    assert "node-maintenance" in await pool.expect_held("serviced-1", "Lock")
    assert (await pool.expect_event("RemediationSkipped", "node-maintenance")).type == "Warning"
    assert await pool.holder("serviced-1") == "node-maintenance"
    await delete(cluster.client, LEASES.at("node-serviced-1", "medik8s-leases"))
    await pool.expect_remedy("serviced-1")
    assert await pool.holder("serviced-1") == "NodeHealthCheck-serviced"


async def test_control_plane_nodes_are_remediated_one_at_a_time(cluster: CheckCluster) -> None:
    pool = await cluster.pool("masters", nodes=5)
    for node in pool.nodes:
        await cluster.client.patch(NODES.at(node), Merge({"metadata": {"labels": CONTROL_PLANE}}))
    await pool.fails("masters-1")
    remedy = await pool.expect_remedy("masters-1")
    assert remedy.labels["remediation.medik8s.io/isControlPlaneNode"] == ""
    await pool.fails("masters-2")
    assert "masters-1" in await pool.expect_held("masters-2", "ControlPlane")
    await pool.expect_event("RemediationSkipped", "masters-2")
    await pool.recovers("masters-1")
    await pool.expect_remedy("masters-2")
    await pool.recovers("masters-2")
    await pool.expect_at_rest()


async def test_an_observing_check_writes_its_status_and_events_alone(cluster: CheckCluster) -> None:
    pool = await cluster.pool("observed", mode="Observe")
    await pool.fails("observed-1")
    await pool.expect_held("observed-1", "ModeObserve")
    await pool.write_on("observed-2", medik8s.CONFIRMED_HEALTHY, "yes")
    await pool.expect_event("DetectedUnhealthy", "observed-1")
    await pool.expect_event("RemediationSkipped", "Observe")
    await pool.recovers("observed-1")
    await pool.expect_at_rest()
    writes = [request for request in await cluster.requests() if request.is_write and "observed" in request.key]
    assert {(write.verb, write.what) for write in writes} == {
        ("patch", "nodehealthchecks.remediation.medik8s.io/status"),
        ("create", "events"),
    }


async def test_two_checks_on_one_node_do_not_both_remediate_it(cluster: CheckCluster) -> None:
    first = await cluster.pool("shared")
    await first.fails("shared-1")
    await first.expect_remedy("shared-1")
    selector = {"matchLabels": {"pool": "shared"}}
    second = await cluster.pool("second", nodes=0, selector=selector, remediationTemplate=template_ref("bar"))
    assert "NodeHealthCheck-shared" in await second.expect_held("shared-1", "Lock")
    third = await cluster.pool("third", nodes=0, selector=selector)
    assert "NodeHealthCheck-shared" in await third.expect_held("shared-1", "Lock")
    assert await first.remedies("Bar") == []
    await first.recovers("shared-1")
    await first.expect_at_rest()
    await second.expect_at_rest()
    await third.expect_at_rest()


async def test_a_deleted_node_takes_its_remediation_along(cluster: CheckCluster) -> None:
    pool = await cluster.pool("removed")
    await pool.fails("removed-1")
    remedy = await pool.expect_remedy("removed-1")
    await delete(cluster.client, NODES.at("removed-1"))
    await pool.expect_at_rest()
    assert await is_gone(cluster.client, ref_of(remedy))
    assert (await pool.status()).observed_nodes == 2
