"""The kinds of drains on a real API server: what they take, what they refuse and how, what people see of them."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.decide.drains.standing import MOST_ENTRIES
from defib.kube.client import Client, Merge
from defib.kube.errors import Invalid
from defib.kube.kinds import Kind, unstructured
from defib.model.drain_policy import PolicyStatus, Source
from defib.model.health_check import StatusCondition
from defib.model.meta import Unstructured
from defib.model.node_drain import DrainStatus, Phase, PodEntry, Rung
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from tests.builders import T0
from tests.check_corpus import wanted
from tests.contract.api_server.steps import raw
from tests.drain_corpus import BAD, EVERYTHING, GOOD, NODEKEEPERS, a_drain, a_policy
from tests.e2e.crd_cluster import client_of, kubectl, told, with_crds

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]


def ours(plural: str, name: str) -> Kind[Unstructured]:
    return unstructured("defib.dev", "v1alpha1", plural, name, namespaced=False)


POLICIES = ours("drainpolicies", "DrainPolicy")
DRAINS = ours("nodedrains", "NodeDrain")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with with_crds(programs) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    async with client_of(cluster, (kind.collection() for kind in (POLICIES, DRAINS))) as client:
        yield client


async def refusal(client: Client, kind: Kind[Unstructured], body: dict[str, Any]) -> str:
    """Why it is refused; empty when it would be taken. Numbers are sent as they are, however large."""
    try:
        await raw(client, "POST", kind.collection(), json.dumps(body).encode(), dryRun="All")
    except Invalid as error:
        return str(error)
    return ""


async def test_every_policy_that_makes_sense_is_taken_and_no_other(client: Client) -> None:
    """The same that tests/unit/decide/drains/test_reading.py asks of whoever reads it. A refusal names the field."""
    complaints = [(case, await refusal(client, POLICIES, a_policy(case.spec))) for case in GOOD]
    assert [(case.name, why[:300]) for case, why in complaints if why] == []
    complaints = [(case, await refusal(client, POLICIES, a_policy(case.spec))) for case in BAD]
    assert [(case.name, why[:300]) for case, why in complaints if case.field not in why or not why] == []


DURATION_SENTENCE = "must be a duration, such as 30s, 5m or 1h30m, of at most 72h"
PATTERN_SENTENCE = "it is no regular expression: write openshift-*, not openshift-.*"
PROOF_SENTENCE = "must be [A, B], which is the default, or [None]"


@pytest.mark.parametrize(
    ("spec", "place", "sentence"),
    [
        (None, "spec", "Required value"),
        ({"mode": "Off"}, "spec.mode", 'supported values: "Automatic", "Approve", "Observe"'),
        ({"timeout": "soon"}, "spec.timeout", DURATION_SENTENCE),
        ({"pdbForceDrainTimeout": "73h"}, "spec.pdbForceDrainTimeout", DURATION_SENTENCE),
        ({"flapWindow": "-5m"}, "spec.flapWindow", DURATION_SENTENCE),
        ({"strategies": {"stuck": "no"}}, "spec.strategies.stuck", "must be of type boolean"),
        ({"ignoredNamespaces": ["openshift-.*"]}, "spec.ignoredNamespaces[0]", PATTERN_SENTENCE),
        ({"ignoredNamespaces": ["a"] * 65}, "spec.ignoredNamespaces", "must have at most 64 items"),
        (
            {"finalizers": ["a*"]},
            "spec.finalizers[0]",
            "must be the name of a finalizer, such as example.com/cleanup, or * for any",
        ),
        ({"maxForcedNodes": -1}, "spec.maxForcedNodes", "must not be negative"),
        ({"maxForcedNodes": 2**40}, "spec.maxForcedNodes", "must be a number of nodes, such as 2"),
        ({"sources": []}, "spec.sources", "should have at least 1 items"),
        ({"sources": ["kubectl"]}, "spec.sources[0]", 'supported values: "OpenShift", "Kubectl", "Kured"'),
        ({"sources": ["Kured", "Kured"]}, "spec.sources[1]", 'Duplicate value: "Kured"'),
        ({"acceptedProofs": ["A"]}, "spec.acceptedProofs", PROOF_SENTENCE),
        ({"acceptedProofs": ["A", "None"]}, "spec.acceptedProofs", PROOF_SENTENCE),
        ({"compatibility": "Nodekeeper"}, "spec.compatibility", 'supported values: "None", "ManagedUpgradeOperator"'),
        (
            NODEKEEPERS | {"timeout": "45m"},
            "spec.timeout",
            "it comes from managed-upgrade-operator-config (nodeDrain.timeOut); leave it out",
        ),
        (NODEKEEPERS | {"sources": ["Kured"]}, "spec.sources", "only drains of OpenShift are watched; leave it out"),
        (NODEKEEPERS | {"finalizers": []}, "spec.finalizers", "to remove none, switch off the strategies"),
        (
            {"nodeSelector": {"matchLabels": {"app": None}}},
            "spec.nodeSelector.matchLabels",
            'matchLabels has a label without a value; write "" for an empty one',
        ),
        (
            {"nodeSelector": {"matchExpressions": [wanted("In")]}},
            "spec.nodeSelector.matchExpressions[0].values",
            "values must be specified when operator is In or NotIn",
        ),
    ],
)
async def test_a_refusal_says_where_and_what_to_write_instead(
    client: Client, spec: Any, place: str, sentence: str
) -> None:
    why = await refusal(client, POLICIES, a_policy(spec))
    assert f"{place}: " in why
    assert sentence in why


async def test_only_the_mode_is_filled_in_and_nothing_that_is_known_is_dropped(client: Client) -> None:
    bare = await client.create(POLICIES, a_policy({"color": "red"}, "bare"))
    assert bare.spec == {"mode": "Automatic"}
    whole = await client.create(POLICIES, a_policy(EVERYTHING, "whole"))
    assert whole.spec == EVERYTHING


async def test_kubectl_refuses_a_field_that_does_not_exist(cluster: ControlPlane, client: Client) -> None:
    """Else a selector with a slip of the pen would be an empty one, and all nodes would be meant."""
    assert client, "the kinds are served"
    slip = a_policy({"nodeselector": {"matchLabels": {"tier": "a"}}}, "slip")
    code, said = await told(cluster, "apply", "-f", "-", text=json.dumps(slip))
    assert code != 0
    assert 'unknown field "spec.nodeselector"' in said


@pytest.mark.parametrize("spec", [None, {}, {"policy": ""}, {"policy": None}, {"policy": "x" * 254}, {"policy": 5}])
async def test_a_drain_belongs_to_a_policy(client: Client, spec: Any) -> None:
    assert await refusal(client, DRAINS, a_drain()) == ""
    assert "spec" in await refusal(client, DRAINS, a_drain() | {"spec": spec})


LONG = "a sentence that says a lot " * 37
CONDITION = StatusCondition(
    type="Failed", status="False", reason="R", message=LONG, last_transition_time=T0, observed_generation=3
)
ENTRY = PodEntry(namespace="s" * 63, name="p" * 253, uid="u" * 36, rung=Rung.FINALIZERS, at=T0, why=LONG)
OF_A_POLICY = PolicyStatus(
    observed_generation=3,
    draining=5000,
    forcing=7,
    failed=3,
    estimate_seconds=2**40,
    delayed="4.18.12",
    conditions=[CONDITION, msgspec.structs.replace(CONDITION, type="Valid")],
)
OF_A_DRAIN = DrainStatus(
    node_uid="u" * 36,
    policy="p" * 253,
    source=Source.SYSTEM_UPGRADE_CONTROLLER,
    why=LONG,
    started_at=T0,
    peer_deadline=T0,
    paused_at=T0,
    phase=Phase.APPROVAL,
    reason="Remediation",
    message=LONG,
    begun=True,
    failed=True,
    pods_left=250,
    next_at=T0,
    next=LONG,
    pods=[ENTRY] * MOST_ENTRIES,
    conditions=[CONDITION],
)


async def test_the_largest_statuses_are_kept_to_the_letter(client: Client) -> None:
    for struct in (ENTRY, OF_A_POLICY, OF_A_DRAIN):
        for field in msgspec.structs.fields(struct):
            assert getattr(struct, field.name) != field.default, f"{field.name} is tried, too"
    for kind, body, status in (
        (POLICIES, a_policy({}, "told"), OF_A_POLICY),
        (DRAINS, a_drain(name="told"), OF_A_DRAIN),
    ):
        item = await client.create(kind, body)
        patch = Merge({"status": msgspec.to_builtins(status)})
        shown = await client.patch(kind.of(item), patch, subresource="status")
        assert msgspec.convert(shown.status, type(status)) == status


async def test_every_phase_source_and_rung_can_be_told(client: Client) -> None:
    item = await client.create(DRAINS, a_drain(name="states"))
    pods = [msgspec.structs.replace(ENTRY, rung=rung) for rung in Rung]
    for source, phase in ((source, phase) for source in Source for phase in Phase):
        status = DrainStatus(source=source, phase=phase, pods=pods)
        # What is as it always is is left out when it is written, so a patch must say that it is gone.
        patch = Merge({"status": {"phase": None} | msgspec.to_builtins(status)})
        shown = await client.patch(DRAINS.of(item), patch, subresource="status")
        assert msgspec.convert(shown.status, DrainStatus) == status


async def test_whoever_writes_a_policy_does_not_write_its_status(client: Client) -> None:
    made = await client.create(POLICIES, a_policy({}, "boast") | {"status": {"draining": 7}})
    assert not made.status
    changed = await client.patch(POLICIES.of(made), Merge({"spec": {"timeout": "1h"}, "status": {"draining": 7}}))
    assert (changed.spec, changed.status) == ({"mode": "Automatic", "timeout": "1h"}, made.status)


async def rows(cluster: ControlPlane, *what: str) -> list[list[str]]:
    """Heading and row, by column: there are always several spaces between two."""
    said = await kubectl(cluster, "get", *what)
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in said.splitlines()]


async def test_kubectl_shows_at_a_glance_how_a_policy_stands(cluster: ControlPlane, client: Client) -> None:
    await client.create(POLICIES, a_policy({"mode": "Observe"}, "workers"))
    valid = {"type": "Valid", "status": "False", "reason": "NotValid"}
    status = {"draining": 5, "forcing": 1, "failed": 2, "conditions": [valid]}
    await client.patch(POLICIES.at("workers"), Merge({"status": status}), subresource="status")
    heading, row = await rows(cluster, "dp", "workers")
    assert heading == ["NAME", "MODE", "DRAINING", "FORCING", "FAILED", "VALID", "REASON", "AGE"]
    assert row[:-1] == ["workers", "Observe", "5", "1", "2", "False", "NotValid"]
    assert "drainpolicy.defib.dev/workers" in await kubectl(cluster, "get", "defib", "--output=name")


async def test_kubectl_shows_at_a_glance_how_a_drain_stands(cluster: ControlPlane, client: Client) -> None:
    await client.create(DRAINS, a_drain("workers", "w7"))
    status = {
        "source": "Kured",
        "phase": "Forcing",
        "podsLeft": 3,
        "next": "Delete shop/web-0",
        "nextAt": "2030-01-01T12:00:00Z",
        "failed": True,
        "startedAt": "2020-01-01T00:00:00Z",
    }
    await client.patch(DRAINS.at("w7"), Merge({"status": status}), subresource="status")
    heading, row = await rows(cluster, "nd", "w7")
    assert heading == ["NAME", "SOURCE", "PHASE", "PODS", "NEXT", "AT", "FAILED", "STARTED"]
    assert row[:-1] == ["w7", "Kured", "Forcing", "3", "Delete shop/web-0", "2030-01-01T12:00:00Z", "true"]
    assert row[-1].endswith(("y", "d"))
    assert "nodedrain.defib.dev/w7" in await kubectl(cluster, "get", "defib", "--output=name")


async def test_kubectl_explains_every_field(cluster: ControlPlane, client: Client) -> None:
    assert client, "the kinds are served"
    for kind in (
        *("dp.spec", "dp.spec.nodeSelector", "dp.spec.nodeSelector.matchExpressions", "dp.spec.strategies"),
        *("dp.status", "dp.status.conditions", "nd.spec", "nd.status", "nd.status.pods", "nd.status.conditions"),
    ):
        assert "<no description>" not in await kubectl(cluster, "explain", kind)
