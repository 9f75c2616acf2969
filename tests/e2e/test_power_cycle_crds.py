"""The kinds of power cycling on a real API server: what they take, what they refuse and how, what people see of them."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.kube.client import Client, Merge
from defib.kube.errors import Invalid
from defib.kube.kinds import NODE_INCIDENTS, unstructured
from defib.model.fence_readiness import NOT_READY_MAX, WHY_MAX, FenceStatus, NotReadyNode
from defib.model.health_check import StatusCondition
from defib.model.incident import (
    EVIDENCE_MAX,
    GATES_MAX,
    MESSAGE_MAX,
    TIMELINE_MAX,
    Cause,
    Command,
    Confirmation,
    Entry,
    GateSeen,
    Grade,
    IncidentSpec,
    IncidentStatus,
    Outcome,
    Part,
    Phase,
    PowerReading,
    Proof,
    SafeTime,
)
from defib.model.node import Taint
from defib.model.power import PowerPath
from defib.model.power_cycle import PowerCycleStatus
from defib.model.saved import Saved
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from tests.builders import MINUTE, T0
from tests.contract.api_server.steps import raw
from tests.e2e.crd_cluster import client_of, kubectl, with_crds
from tests.power_cycle_corpus import BAD, EVERYTHING, GOOD, LOGINS, a_remediation, a_template, minimal, powered

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

PLURALS = ("powercycleremediations", "powercycleremediationtemplates", "nodeincidents")
PLACE = "default"
REMEDIATIONS = unstructured("defib.dev", "v1alpha1", "powercycleremediations", "PowerCycleRemediation", namespaced=True)
TEMPLATES = unstructured(
    "defib.dev", "v1alpha1", "powercycleremediationtemplates", "PowerCycleRemediationTemplate", namespaced=True
)
CAUSE = {
    "apiVersion": "defib.dev/v1alpha1",
    "kind": "PowerCycleRemediation",
    "namespace": PLACE,
    "name": "n",
    "uid": "u",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with with_crds(programs) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    async with client_of(cluster, (f"/apis/defib.dev/v1alpha1/{plural}" for plural in PLURALS)) as client:
        yield client


async def complaint(client: Client, spec: Any) -> str:
    """Why such a remediation is refused; empty when it would be taken. Numbers are sent as they are, however large."""
    return await refusal(client, REMEDIATIONS.collection(PLACE), a_remediation(spec))


async def refusal(client: Client, path: str, body: dict[str, Any]) -> str:
    try:
        await raw(client, "POST", path, json.dumps(body).encode(), dryRun="All")
    except Invalid as error:
        return str(error)
    return ""


async def incident(client: Client, name: str, status: dict[str, Any]) -> None:
    body = {"metadata": {"name": name}, "spec": {"node": name, "cause": CAUSE | {"name": name}}}
    await client.create(NODE_INCIDENTS, body)
    await client.patch(NODE_INCIDENTS.at(name), Merge({"status": status}), subresource="status")


async def test_every_spec_that_makes_sense_is_taken(client: Client) -> None:
    complaints = [(case.name, await complaint(client, case.spec)) for case in GOOD]
    assert [one for one in complaints if one[1]] == []


async def test_every_spec_that_makes_no_sense_is_refused_and_its_field_named(client: Client) -> None:
    complaints = [(case, await complaint(client, case.spec)) for case in BAD]
    assert [(case.name, why[:300]) for case, why in complaints if case.field not in why or not why] == []


async def test_a_template_takes_and_refuses_the_same(client: Client) -> None:
    path = TEMPLATES.collection(PLACE)
    for case in (*GOOD, *BAD[::7]):
        assert bool(await refusal(client, path, a_template(case.spec))) == bool(case.field), case.name


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (minimal(backoff="soon"), "must be a duration, such as 300s, 5m or 1h30m, from 1s to 24h"),
        (minimal(timeouts={"nodeReady": "25h"}), "must be a duration, such as 300s, 5m or 1h30m, from 1s to 24h"),
        (powered(address=LOGINS[0]), "must not hold a user name or a password: they belong into the Secret"),
        (minimal(workloads="Taint"), 'supported values: "Auto", "OutOfServiceTaint", "DeleteNode"'),
        (minimal(attempts=11), "should be less than or equal to 10"),
    ],
)
async def test_a_refusal_says_what_to_write_instead(client: Client, spec: Any, sentence: str) -> None:
    assert sentence in await complaint(client, spec)


async def test_nothing_is_filled_in_and_nothing_that_is_known_is_dropped(client: Client) -> None:
    bare = await client.create(REMEDIATIONS, a_remediation(minimal(color="red"), "bare"), namespace=PLACE)
    assert bare.spec == minimal()
    whole = await client.create(TEMPLATES, a_template(EVERYTHING, "whole"), namespace=PLACE)
    assert whole.spec == {"template": {"spec": EVERYTHING}}


READING = PowerReading(state="Off", at=T0, detail="x" * 300)
LONG = "a sentence of a driver that says a lot " * 20
LABELS = {f"example.com/{'x' * 50}-{number}": "y" * 63 for number in range(500)}
ANNOTATIONS = {"example.com/large": "z" * (256 * 1024 - 100)}  # all that a Node may have
LARGEST = IncidentStatus(
    phase=Phase.FREEING,
    since=T0,
    attempt=10,
    reason="FreeingWorkloads",
    message=LONG,
    outcome=Outcome.RECOVERED,
    closed_at=T0 + MINUTE,
    seconds=60.25,
    took="1m",
    node_uid="u" * 36,
    boot_id="b" * 36,
    power=PowerPath(driver="redfish", address="a" * 1024, secret=f"s/{'b' * 253}", options={"ca": "c" * 65536}),
    seen_on=PowerReading(state="On", at=T0, detail="x"),
    was_off=True,
    command=Command(power="Off", at=T0, attempt=10, token="t" * 253),
    safe_time=SafeTime(seconds=74.53, parts=[Part(name="watchdog", seconds=15.5, why=LONG)] * 6),
    proof=Proof(grade=Grade.POWER, at=T0, how=LONG, readings=[READING] * 2, by="somebody"),
    machine=Cause(api_version="machine.openshift.io/v1beta1", kind="Machine", name="m", uid="u", namespace="n"),
    tainted=True,
    saved=Saved(
        labels=LABELS, annotations=ANNOTATIONS, taints=[Taint(key=f"k{n}", effect="NoSchedule") for n in range(50)]
    ),
    timeline=[
        Entry(at=T0 + n * MINUTE, phase="PoweringOff", message=LONG, kind="action", by="r" * 253)
        for n in range(TIMELINE_MAX)
    ],
    conditions=[StatusCondition(type="NeedsPerson", status="True", reason="R", message=LONG, last_transition_time=T0)],
)


async def test_a_record_as_large_as_it_gets_is_kept_to_the_letter(client: Client) -> None:
    for field in msgspec.structs.fields(IncidentStatus):
        assert getattr(LARGEST, field.name) != field.default, f"{field.name} is tried, too"
    await incident(client, "largest", msgspec.to_builtins(LARGEST))
    assert (await client.get(NODE_INCIDENTS.at("largest"))).status == LARGEST


LARGEST_SPEC = IncidentSpec(
    node="n" * 253,
    cause=Cause(api_version="defib.dev/v1alpha1", kind="PodFailoverRemediation", name="m", uid="u", namespace="n"),
    control_plane=True,
    confirmed_off=Confirmation(by="somebody", at=T0),
    check="c" * 253,
    mode="Automatic",
    approved_by="p" * 253,
    by="r" * 253,
    template="t" * 253,
    unhealthy_since=T0,
    started=T0 + MINUTE,
    evidence=["e" * MESSAGE_MAX] * EVIDENCE_MAX,
    gates=[GateSeen(name="FailureDomain", open=False, value="v" * 253, limit="l" * 253, message="m" * MESSAGE_MAX)]
    * GATES_MAX,
)


async def test_what_was_known_at_the_beginning_is_kept_to_the_letter(client: Client) -> None:
    for field in msgspec.structs.fields(IncidentSpec):
        assert getattr(LARGEST_SPEC, field.name) != field.default, f"{field.name} is tried, too"
    await client.create(NODE_INCIDENTS, {"metadata": {"name": "known"}, "spec": msgspec.to_builtins(LARGEST_SPEC)})
    assert (await client.get(NODE_INCIDENTS.at("known"))).spec == LARGEST_SPEC


async def test_what_a_node_had_none_of_and_what_was_empty_are_told_apart(client: Client) -> None:
    for name, saved in (("nothing", Saved()), ("empty", Saved(labels={}, annotations={}, taints=[]))):
        await incident(client, name, {"phase": "FreeingWorkloads", "saved": msgspec.to_builtins(saved)})
        assert (await client.get(NODE_INCIDENTS.at(name))).status.saved == saved


async def test_a_person_confirms_with_name_and_time_or_not_at_all(client: Client) -> None:
    path = NODE_INCIDENTS.collection()
    head = {"apiVersion": "defib.dev/v1alpha1", "kind": "NodeIncident", "metadata": {"name": "n1"}}
    spec = {"node": "n1", "cause": CAUSE}
    at = "2030-01-01T00:00:00Z"
    for confirmed, field in (({"by": "ann"}, "at"), ({"at": at}, "by"), ({"by": "", "at": at}, "by"), ({}, "by")):
        assert f"confirmedOff.{field}" in await refusal(
            client, path, head | {"spec": spec | {"confirmedOff": confirmed}}
        )
    assert "confirmedOff.at" in await refusal(
        client, path, head | {"spec": spec | {"confirmedOff": {"by": "ann", "at": "yesterday"}}}
    )
    assert await refusal(client, path, head | {"spec": spec | {"confirmedOff": {"by": "ann", "at": at}}}) == ""


async def test_the_largest_statuses_of_remediations_and_templates_are_kept(client: Client) -> None:
    condition = StatusCondition(
        type="Succeeded", status="Unknown", reason="R", message=LONG, last_transition_time=T0, observed_generation=3
    )
    told = PowerCycleStatus(node="n1", phase="Closed", reason=LONG, attempt=3, proof="A", conditions=[condition])
    await client.create(REMEDIATIONS, a_remediation(minimal(), "told"), namespace=PLACE)
    shown = await client.patch(
        REMEDIATIONS.at("told", PLACE), Merge({"status": msgspec.to_builtins(told)}), subresource="status"
    )
    assert msgspec.convert(shown.status, PowerCycleStatus) == told
    many = [NotReadyNode(node=f"n{n}", why="w" * WHY_MAX, since=T0) for n in range(NOT_READY_MAX)]
    ready = FenceStatus(covered=5000, ready=4900, not_ready=many, conditions=[condition])
    await client.create(TEMPLATES, a_template(minimal(), "told"), namespace=PLACE)
    covering = await client.patch(
        TEMPLATES.at("told", PLACE), Merge({"status": msgspec.to_builtins(ready)}), subresource="status"
    )
    assert msgspec.convert(covering.status, FenceStatus) == ready


async def rows(cluster: ControlPlane, *what: str) -> list[list[str]]:
    """Heading and row, by column: there are always several spaces between two."""
    said = await kubectl(cluster, "get", *what)
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in said.splitlines()]


async def test_kubectl_shows_at_a_glance_how_it_stands(cluster: ControlPlane, client: Client) -> None:
    why = "the BMC does not accept our credentials; it is asked again in 20s"
    status = {"phase": "PoweringOff", "since": "2026-01-01T00:00:00Z", "attempt": 2, "message": why, "reason": "R"}
    await incident(client, "w7", status | {"power": {"driver": "redfish", "address": "https://w7"}})
    heading, row = await rows(cluster, "ni", "w7")
    assert heading == ["NAME", "NODE", "PHASE", "OUTCOME", "CAUSE", "AGE", "TOOK", "MESSAGE"]
    assert (*row[:4], row[-1]) == ("w7", "w7", "PoweringOff", "PowerCycleRemediation", why)
    heading, row = await rows(cluster, "ni", "w7", "--output=wide")
    assert heading[-7:] == ["CHECK", "FOR", "ATTEMPT", "PROOF", "DRIVER", "ADDRESS", "MESSAGE"]
    assert row[-4:] == ["2", "redfish", "https://w7", why]
    await client.create(REMEDIATIONS, a_remediation(minimal(), "w7"), namespace=PLACE)
    told = {"node": "w7", "phase": "PoweringOff", "attempt": 2, "reason": why, "proof": "A"}
    succeeded = {"conditions": [{"type": "Succeeded", "status": "Unknown"}]}
    await client.patch(REMEDIATIONS.at("w7", PLACE), Merge({"status": told | succeeded}), subresource="status")
    heading, row = await rows(cluster, "pcr", "w7")
    assert heading == ["NAME", "NODE", "PHASE", "ATTEMPT", "PROOF", "SUCCEEDED", "AGE", "WHY"]
    assert [*row[:6], row[-1]] == ["w7", "w7", "PoweringOff", "2", "A", "Unknown", why]


async def test_kubectl_shows_at_a_glance_who_could_not_be_fenced(cluster: ControlPlane, client: Client) -> None:
    await client.create(TEMPLATES, a_template(minimal(), "workers"), namespace=PLACE)
    why = "2 of 50 nodes could not be fenced: w7 (no answer within 8 s), w9 (there is no Secret default/bmc-w9)"
    condition = {"type": "FenceReady", "status": "False", "message": why}
    status = {"covered": 50, "ready": 48, "conditions": [condition]}
    await client.patch(TEMPLATES.at("workers", PLACE), Merge({"status": status}), subresource="status")
    heading, row = await rows(cluster, "pcrt", "workers")
    assert heading == ["NAME", "DRIVER", "NODES", "FENCEABLE", "READY", "AGE", "WHY"]
    assert [*row[:5], row[-1]] == ["workers", "redfish", "50", "48", "False", why]
    assert "powercycleremediationtemplate.defib.dev/workers" in await kubectl(cluster, "get", "defib", "--output=name")


async def test_kubectl_explains_every_field(cluster: ControlPlane, client: Client) -> None:
    assert client, "the kinds are served"
    for kind in (
        "pcr.spec.power.nodes",
        "pcr.status",
        "pcrt.spec.template.spec.timeouts",
        "ni.spec",
        "ni.status.proof",
    ):
        assert "<no description>" not in await kubectl(cluster, "explain", kind)
