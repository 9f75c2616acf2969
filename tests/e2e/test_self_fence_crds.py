"""The kinds of self-fencing on a real API server: what they take, what they refuse and how, what people see of them."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.kube.client import Client, Merge
from defib.kube.kinds import unstructured
from defib.model.fence_readiness import NOT_READY_MAX, WHY_MAX, FenceStatus, NotReadyNode
from defib.model.health_check import StatusCondition
from defib.model.power_cycle import PowerCycleStatus
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from tests.builders import T0
from tests.e2e.crd_cluster import client_of, kubectl, with_crds
from tests.e2e.test_power_cycle_crds import LONG, PLACE, refusal, rows
from tests.self_fence_corpus import BAD, EVERYTHING, GOOD, a_remediation, a_template

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

PLURALS = ("selffenceremediations", "selffenceremediationtemplates")
REMEDIATIONS = unstructured("defib.dev", "v1alpha1", "selffenceremediations", "SelfFenceRemediation", namespaced=True)
TEMPLATES = unstructured(
    "defib.dev", "v1alpha1", "selffenceremediationtemplates", "SelfFenceRemediationTemplate", namespaced=True
)
CONDITION = StatusCondition(
    type="Succeeded", status="Unknown", reason="R", message=LONG, last_transition_time=T0, observed_generation=3
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with with_crds(programs) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    async with client_of(cluster, (f"/apis/defib.dev/v1alpha1/{plural}" for plural in PLURALS)) as client:
        yield client


async def complaint(client: Client, spec: Any) -> str:
    """Why such a remediation is refused; empty when it would be taken."""
    return await refusal(client, REMEDIATIONS.collection(PLACE), a_remediation(spec))


async def test_every_spec_that_makes_sense_is_taken(client: Client) -> None:
    complaints = [(case.name, await complaint(client, case.spec)) for case in GOOD]
    assert [one for one in complaints if one[1]] == []


async def test_every_spec_that_makes_no_sense_is_refused_and_its_field_named(client: Client) -> None:
    complaints = [(case, await complaint(client, case.spec)) for case in BAD]
    assert [(case.name, why[:300]) for case, why in complaints if case.field not in why or not why] == []


async def test_a_template_takes_and_refuses_the_same(client: Client) -> None:
    path = TEMPLATES.collection(PLACE)
    for case in (*GOOD, *BAD[::5]):
        assert bool(await refusal(client, path, a_template(case.spec))) == bool(case.field), case.name


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"timeouts": {"order": "25h"}}, "must be a duration, such as 300s, 5m or 1h30m, from 1s to 24h"),
        ({"acceptedProofs": ["Time"]}, 'supported values: "A", "B", "C", "D"'),
        ({"attempts": 11}, "should be less than or equal to 10"),
    ],
)
async def test_a_refusal_says_what_to_write_instead(client: Client, spec: Any, sentence: str) -> None:
    assert sentence in await complaint(client, spec)


async def test_nothing_is_filled_in_and_nothing_that_is_known_is_dropped(client: Client) -> None:
    bare = await client.create(REMEDIATIONS, a_remediation({"power": {"driver": "ipmi"}}, "bare"), namespace=PLACE)
    assert bare.spec == {}
    whole = await client.create(TEMPLATES, a_template(EVERYTHING, "whole"), namespace=PLACE)
    assert whole.spec == {"template": {"spec": EVERYTHING}}


async def test_the_largest_statuses_of_remediations_and_templates_are_kept(client: Client) -> None:
    told = PowerCycleStatus(node="n1", phase="Closed", reason=LONG, attempt=3, proof="C", conditions=[CONDITION])
    await client.create(REMEDIATIONS, a_remediation({}, "told"), namespace=PLACE)
    shown = await client.patch(
        REMEDIATIONS.at("told", PLACE), Merge({"status": msgspec.to_builtins(told)}), subresource="status"
    )
    assert msgspec.convert(shown.status, PowerCycleStatus) == told
    many = [NotReadyNode(node=f"n{n}", why="w" * WHY_MAX, since=T0) for n in range(NOT_READY_MAX)]
    ready = FenceStatus(covered=5000, ready=4900, not_ready=many, conditions=[CONDITION])
    await client.create(TEMPLATES, a_template({}, "told"), namespace=PLACE)
    covering = await client.patch(
        TEMPLATES.at("told", PLACE), Merge({"status": msgspec.to_builtins(ready)}), subresource="status"
    )
    assert msgspec.convert(covering.status, FenceStatus) == ready


async def test_kubectl_shows_at_a_glance_how_it_stands(cluster: ControlPlane, client: Client) -> None:
    why = "it must be dead in 31 s: 24 s renewals + 15 s peers + 15 s watchdog"
    await client.create(REMEDIATIONS, a_remediation({}, "w7"), namespace=PLACE)
    told = {"node": "w7", "phase": "PoweringOff", "attempt": 1, "reason": why, "proof": "C"}
    succeeded = {"conditions": [{"type": "Succeeded", "status": "Unknown"}]}
    await client.patch(REMEDIATIONS.at("w7", PLACE), Merge({"status": told | succeeded}), subresource="status")
    heading, row = await rows(cluster, "sfr", "w7")
    assert heading == ["NAME", "NODE", "PHASE", "ATTEMPT", "PROOF", "SUCCEEDED", "AGE", "WHY"]
    assert [*row[:6], row[-1]] == ["w7", "w7", "PoweringOff", "1", "C", "Unknown", why]


async def test_kubectl_shows_at_a_glance_who_could_not_be_fenced(cluster: ControlPlane, client: Client) -> None:
    await client.create(TEMPLATES, a_template({}, "workers"), namespace=PLACE)
    why = "1 of 50 nodes could not be fenced: w7 (its agent has not armed a watchdog)"
    status = {"covered": 50, "ready": 49, "conditions": [{"type": "FenceReady", "status": "False", "message": why}]}
    await client.patch(TEMPLATES.at("workers", PLACE), Merge({"status": status}), subresource="status")
    heading, row = await rows(cluster, "sfrt", "workers")
    assert heading == ["NAME", "NODES", "FENCEABLE", "READY", "AGE", "WHY"]
    assert [*row[:4], row[-1]] == ["workers", "50", "49", "False", why]
    assert "selffenceremediationtemplate.defib.dev/workers" in await kubectl(cluster, "get", "defib", "--output=name")


async def test_kubectl_explains_every_field(cluster: ControlPlane, client: Client) -> None:
    assert client, "the kinds are served"
    for kind in ("sfr.spec.timeouts", "sfr.status", "sfrt.spec.template.spec", "sfrt.status", "ni.status.safeTime"):
        assert "<no description>" not in await kubectl(cluster, "explain", kind)
