"""The NodeHealthCheck kind on a real API server: what it takes, what it refuses and how, what people see of it."""

import asyncio
import json
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from defib.clock import SystemClock
from defib.kube.client import Client, Merge
from defib.kube.errors import Invalid, KubeError, NotFound, Refused
from defib.kube.http import connect
from defib.kube.kinds import NODE_HEALTH_CHECKS, Kind, unstructured
from defib.model.health_check import (
    SPELLS_MAX,
    Began,
    CheckStatus,
    NodeHealthCheck,
    ObjectRef,
    Spell,
    StartedRemediation,
    StatusCondition,
    UnhealthyNode,
)
from defib.model.meta import Unstructured
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.builders import T0
from tests.check_corpus import BAD, GOOD, ONLY_WHEN_READ, a_check, a_condition, a_step, a_template, escalating, simple
from tests.contract.api_server.objects import CRDS
from tests.contract.api_server.steps import delete, eventually, is_gone, raw

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

DEPLOY = Path(__file__).parents[2] / "deploy"
CRD = DEPLOY / "crds/remediation.medik8s.io_nodehealthchecks.yaml"
PATIENCE_SECONDS = 20.0
PROHIBITED = "prohibited due to running remediation"
Checks = Kind[Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs, Settings(api_only=True)) as cluster:
        await kubectl(cluster, "apply", "-f", str(DEPLOY / "install.yaml"))
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    clock = SystemClock()
    client = Client(await connect(cluster.kubeconfig, None, {}, clock), clock)
    try:
        await wait_until_guarded(client)
        yield client
    finally:
        await client.close()


async def wait_until_guarded(client: Client) -> None:
    """The API server learns of kinds and of policies by watches of its own, so a moment after they are written."""

    async def is_served() -> bool:
        try:
            await client.list_all(NODE_HEALTH_CHECKS)
        except NotFound:
            return False
        return True

    async def is_refused() -> bool:
        try:
            await client.patch(NODE_HEALTH_CHECKS.at("first"), Merge({"spec": {"selector": {}}}))
        except Refused as error:
            return PROHIBITED in str(error)
        await client.patch(NODE_HEALTH_CHECKS.at("first"), Merge({"spec": {"selector": None}}))
        return False

    await eventually(is_served)
    await remediating(client, "first", simple())
    await eventually(is_refused)
    await at_rest(client, "first")
    await delete(client, NODE_HEALTH_CHECKS.at("first"))


async def kubectl(cluster: ControlPlane, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", *arguments, stdout=PIPE, stderr=STDOUT
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


async def complaint(client: Client, spec: Any) -> str:
    """Why such a check is refused; empty when it would be taken. Numbers are sent as they are, however large."""
    body = json.dumps(a_check(spec)).encode()
    try:
        await raw(client, "POST", NODE_HEALTH_CHECKS.collection(), body, dryRun="All")
    except Invalid as error:
        return str(error)
    return ""


async def made(client: Client, name: str, spec: Any) -> NodeHealthCheck:
    return await client.create(NODE_HEALTH_CHECKS, a_check(spec, name))


async def told(client: Client, name: str, status: dict[str, Any] | None) -> NodeHealthCheck:
    ref = NODE_HEALTH_CHECKS.at(name)
    return await client.patch(ref, Merge({"status": status}), subresource="status")


async def remediating(client: Client, name: str, spec: Any, *more: str) -> NodeHealthCheck:
    """A check under which nodes are being remediated, and one is not."""
    nodes = [{"name": node, "remediations": [{"resource": {"name": node}}]} for node in ("n1", *more)]
    await made(client, name, spec)
    return await told(client, name, {"unhealthyNodes": [{"name": "n0"}, *nodes]})


async def at_rest(client: Client, name: str) -> None:
    """Nodes may still be unhealthy; none is being remediated."""
    await told(client, name, {"unhealthyNodes": [{"name": "n0"}, {"name": "n1", "remediations": []}]})


async def test_every_check_that_makes_sense_is_taken(client: Client) -> None:
    said = {case.name: await complaint(client, case.spec) for case in GOOD}
    assert {name: why for name, why in said.items() if why} == {}


async def test_every_check_that_makes_no_sense_is_refused_and_its_field_named(client: Client) -> None:
    said = {case.name: await complaint(client, case.spec) for case in BAD}
    assert {name for name, why in said.items() if not why} == ONLY_WHEN_READ
    refused = [case for case in BAD if said[case.name]]
    assert {case.name: said[case.name] for case in refused if case.field not in said[case.name]} == {}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (simple(minHealthy=-1), "minHealthy must not be negative"),
        (simple(maxUnhealthy=-1), "maxUnhealthy must not be negative"),
        (simple(minHealthy=1, maxUnhealthy=1), "minHealthy and maxUnhealthy cannot be specified at the same time"),
        ({}, "one of remediationTemplate and escalatingRemediations must be specified"),
        (escalating(a_step(timeout="59s")), "timeout must be at least 60s"),
        (escalating(a_step(1), a_step(1)), "each order may be used only once"),
        ({"remediationTemplate": a_template(kind="Pod")}, "must be a kind that ends in Template"),
        ({"remediationTemplate": {"kind": "ATemplate", "apiVersion": "a/v1"}}, "a template needs a name"),
        (simple(unhealthyConditions=[a_condition(duration="soon")]), "must be a duration, such as 300s, 5m or 1h30m"),
        (simple(selector={"matchLabels": {"worker": None}}), 'a label without a value; write "" for an empty one'),
    ],
)
async def test_a_refusal_says_what_to_write_instead(client: Client, spec: Any, sentence: str) -> None:
    assert sentence in await complaint(client, spec)


async def test_what_was_left_out_gets_the_defaults_that_people_know(client: Client) -> None:
    check = await made(client, "defaults", simple())
    assert check.spec == simple(
        mode="Automatic",
        unhealthyConditions=[a_condition("Ready", "False", "300s"), a_condition("Ready", "Unknown", "300s")],
    )


async def test_what_nobody_knows_is_dropped(client: Client) -> None:
    check = await made(client, "unknown", simple(color="red", guards={"maxInFlight": 1, "shape": "round"}))
    assert check.spec["guards"] == {"alwaysAllowOne": False, "maxInFlight": 1}
    assert "color" not in check.spec


async def test_an_empty_list_of_conditions_stays_empty(client: Client) -> None:
    check = await made(client, "no-conditions", simple(unhealthyConditions=[]))
    assert check.spec["unhealthyConditions"] == []


async def test_all_that_the_operator_writes_into_a_status_is_kept(client: Client) -> None:
    resource = ObjectRef(api_version="a/v1", kind="A", namespace="s", name="n1", uid="u")
    node = UnhealthyNode(
        name="n1",
        remediations=[StartedRemediation(resource=resource, started=T0, timed_out=T0, template_name="t")],
        conditions_healthy_timestamp=T0,
        healthy_delayed=True,
        reason="Escalated",
        message="a sentence",
        since=T0,
    )
    condition = StatusCondition(
        type="Disabled", status="False", reason="R", message="m", last_transition_time=T0, observed_generation=3
    )
    spell = Spell(
        node="n1",
        type="Ready",
        status="Unknown",
        began=T0,
        ended=T0,
        healed=True,
        silent_since=T0,
        remediated=T0,
        upgrade="kured",
    )
    status = CheckStatus(
        observed_generation=3,
        observed_nodes=5,
        healthy_nodes=3,
        unhealthy_count=2,
        unhealthy_nodes=[node, UnhealthyNode(name="n2")],
        conditions=[condition, StatusCondition(type="StormActive", status="True")],
        history=[Began(node="n1", started=T0)] * 1000,
        spells=[spell] * SPELLS_MAX,
        phase="Remediating",
        reason="a sentence",
        last_update_time=T0,
    )
    await made(client, "status", simple())
    check = await told(client, "status", msgspec.to_builtins(status))
    assert msgspec.convert(check.status, CheckStatus) == status


async def test_a_status_of_long_ago_is_kept(client: Client) -> None:
    await made(client, "old", simple())
    old = {"inFlightRemediations": {"n1": "2022-01-01T00:00:00Z"}, "phase": "Enabled"}
    assert (await told(client, "old", old)).status == old


async def test_kubectl_shows_at_a_glance_how_the_nodes_are(cluster: ControlPlane, client: Client) -> None:
    await made(client, "workers", simple(mode="Observe"))
    counts = {"observedNodes": 50, "healthyNodes": 48, "unhealthyCount": 2}
    await told(client, "workers", counts | {"phase": "Paused", "reason": "NHC is paused"})
    for kind in ("nhc", "defib"):
        heading, row = (await kubectl(cluster, "get", kind, "--field-selector=metadata.name=workers")).splitlines()
        assert heading.split() == ["NAME", "NODES", "HEALTHY", "UNHEALTHY", "PHASE", "REASON", "AGE"]
        shown = row.rpartition("/")[2].split()  # a category has several kinds, so names come with theirs
        assert shown[:-1] == ["workers", "50", "48", "2", "Paused", "NHC", "is", "paused"]
    heading, row = (await kubectl(cluster, "get", "nhc", "workers", "--output=wide")).splitlines()
    assert heading.split()[4:6] == ["PHASE", "MODE"]
    assert row.split()[4:6] == ["Paused", "Observe"]


async def test_kubectl_explains_every_field(cluster: ControlPlane, client: Client) -> None:
    assert client, "the kind is served"
    for field in ("spec", "spec.guards", "spec.escalatingRemediations", "status", "status.unhealthyNodes"):
        assert "<no description>" not in await kubectl(cluster, "explain", f"nodehealthchecks.{field}")


CHANGES: dict[str, Any] = {
    "selector": {"selector": {"matchLabels": {"zone": "a"}}},
    "remediationTemplate": {"remediationTemplate": {"name": "other"}},
    "escalatingRemediations": {"remediationTemplate": None, "escalatingRemediations": [a_step()]},
}


@pytest.mark.parametrize("field", CHANGES)
async def test_while_a_node_is_remediated_its_way_cannot_change(client: Client, field: str) -> None:
    name = f"changing-{field.lower()}"
    await remediating(client, name, simple())
    with pytest.raises(Invalid, match=f"update {PROHIBITED} of n1; wait until"):
        await client.patch(NODE_HEALTH_CHECKS.at(name), Merge({"spec": CHANGES[field]}))
    await at_rest(client, name)
    await client.patch(NODE_HEALTH_CHECKS.at(name), Merge({"spec": CHANGES[field]}))


async def test_the_refusal_names_the_field_that_was_changed(client: Client) -> None:
    await remediating(client, "steps", escalating(a_step(1), a_step(2)))
    longer = escalating(a_step(1), a_step(2, timeout="10m"))
    with pytest.raises(Invalid, match=f"escalatingRemediations update {PROHIBITED}"):
        await client.patch(NODE_HEALTH_CHECKS.at("steps"), Merge({"spec": longer}))


async def test_while_a_node_is_remediated_its_check_cannot_be_deleted(client: Client) -> None:
    ref = NODE_HEALTH_CHECKS.at("wanted")
    await remediating(client, "wanted", simple(), "n2", "n3")
    with pytest.raises(Invalid, match=f"deletion {PROHIBITED} of n1 and 2 more; wait until"):
        await delete(client, ref)
    with pytest.raises(Invalid, match=f"deletion {PROHIBITED}"):
        await raw(client, "DELETE", NODE_HEALTH_CHECKS.collection(), fieldSelector="metadata.name=wanted")
    await at_rest(client, "wanted")
    await delete(client, ref)
    assert await is_gone(client, ref)


async def test_while_a_node_is_remediated_all_else_can_change(client: Client) -> None:
    ref = NODE_HEALTH_CHECKS.at("changing")
    await remediating(client, "changing", simple(selector={}))
    spec = {"minHealthy": 1, "pauseRequests": ["storage"], "mode": "Approve", "healthyDelay": "1h"}
    spec |= {"unhealthyConditions": [], "guards": {"alwaysAllowOne": True}, "stormCooldownDuration": "5m"}
    check = await client.patch(ref, Merge({"metadata": {"labels": {"team": "a"}}, "spec": spec}))
    assert {field: check.spec[field] for field in spec} == spec
    check = await told(client, "changing", {"observedNodes": 7})
    assert check.status["observedNodes"] == 7
    assert len(check.status["unhealthyNodes"]) == 2


async def test_a_status_that_somebody_sends_along_opens_nothing(client: Client) -> None:
    await remediating(client, "sly", simple())
    change = {"spec": CHANGES["selector"], "status": {"unhealthyNodes": None}}
    with pytest.raises(Invalid, match=PROHIBITED):
        await client.patch(NODE_HEALTH_CHECKS.at("sly"), Merge(change))


async def test_the_guard_holds_when_five_thousand_nodes_are_remediated(client: Client) -> None:
    await remediating(client, "storm", simple(), *(f"node-{number}" for number in range(4999)))
    with pytest.raises(Invalid, match=f"{PROHIBITED} of n1 and 4999 more"):
        await delete(client, NODE_HEALTH_CHECKS.at("storm"))
    with pytest.raises(Invalid, match=f"{PROHIBITED} of n1 and 4999 more"):
        await client.patch(NODE_HEALTH_CHECKS.at("storm"), Merge({"spec": CHANGES["selector"]}))


def as_before(group: str) -> dict[str, Any]:
    """The kind as an operator without rules leaves it behind: anything goes."""
    crd: dict[str, Any] = yaml.safe_load(CRD.read_text())
    crd["metadata"]["name"] = f"nodehealthchecks.{group}"
    crd["spec"]["group"] = group
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return crd


STORED_BEFORE = (
    "neither template nor escalation",
    "template and escalation",
    "an empty template",
    "minHealthy and maxUnhealthy",
    "minHealthy is 'half'",
    "an order twice",
    "In without values",
    "escalatingRemediations.0.timeout is '59s'",
    "33 conditions",
    "pauseRequests.0 is 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...",
)


async def test_a_check_that_was_stored_before_these_rules_can_still_be_told_what_is_wrong(client: Client) -> None:
    group = "before.example.com"
    checks = unstructured(group, "v1alpha1", "nodehealthchecks", "NodeHealthCheck", namespaced=False)
    await client.create(CRDS, as_before(group))
    specs = {f"c{number}": case.spec for number, case in enumerate(BAD) if case.name in STORED_BEFORE}
    assert len(specs) == len(STORED_BEFORE)
    await eventually(lambda: can_create(client, checks, "first"))
    for name, spec in specs.items():
        await client.create(checks, {"metadata": {"name": name}, "spec": spec})
    versions = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    await client.patch(CRDS.at(f"nodehealthchecks.{group}"), Merge({"spec": {"versions": versions}}))
    await eventually(lambda: is_refused(client, checks))
    for name in specs:
        status = {"status": {"phase": "Disabled", "reason": "the specification makes no sense"}}
        check = await client.patch(checks.at(name), Merge(status), subresource="status")
        assert (check.status or {})["phase"] == "Disabled"


async def can_create(client: Client, checks: Kind[Unstructured], name: str) -> bool:
    try:
        await client.create(checks, {"metadata": {"name": name}, "spec": {}})
    except KubeError:
        return False
    return True


async def is_refused(client: Client, checks: Kind[Unstructured]) -> bool:
    body = a_check({}) | {"apiVersion": checks.api_version}
    try:
        await raw(client, "POST", checks.collection(), body, dryRun="All")
    except Invalid:
        return True
    return False
