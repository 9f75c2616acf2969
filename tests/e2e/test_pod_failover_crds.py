"""The kinds of pod failover on a real API server: what they take, what they refuse and how, what people see of them."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.kube.client import Client, Merge
from defib.kube.errors import Invalid
from defib.kube.kinds import Kind, unstructured
from defib.model.failover_policy import MOST_NODES, FailedNode, PolicyStatus, State
from defib.model.health_check import StatusCondition
from defib.model.meta import Unstructured
from defib.model.pod_failover import FailoverStatus
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from tests.builders import T0
from tests.check_corpus import Case, wanted
from tests.contract.api_server.steps import raw
from tests.e2e.crd_cluster import client_of, kubectl, told, with_crds
from tests.failover_corpus import (
    BAD_POLICIES,
    BAD_REMEDIATIONS,
    EV_12,
    EVERY_POD,
    EVERYTHING,
    EVERYTHING_OF_A_REMEDIATION,
    GOOD_POLICIES,
    GOOD_REMEDIATIONS,
    SEED,
    a_policy,
    a_remediation,
    a_template,
    deleted,
    excluding,
    proven,
    tainted,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

PLACE = "default"


def ours(plural: str, name: str) -> Kind[Unstructured]:
    return unstructured("defib.dev", "v1alpha1", plural, name, namespaced=True)


POLICIES = ours("podfailoverpolicies", "PodFailoverPolicy")
REMEDIATIONS = ours("podfailoverremediations", "PodFailoverRemediation")
TEMPLATES = ours("podfailoverremediationtemplates", "PodFailoverRemediationTemplate")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with with_crds(programs) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    async with client_of(cluster, (kind.collection(PLACE) for kind in (POLICIES, REMEDIATIONS, TEMPLATES))) as client:
        yield client


async def refusal(client: Client, kind: Kind[Unstructured], body: dict[str, Any]) -> str:
    """Why it is refused; empty when it would be taken. Numbers are sent as they are, however large."""
    try:
        await raw(client, "POST", kind.collection(PLACE), json.dumps(body).encode(), dryRun="All")
    except Invalid as error:
        return str(error)
    return ""


KINDS = [
    pytest.param(POLICIES, a_policy, GOOD_POLICIES, BAD_POLICIES, id="policy"),
    pytest.param(REMEDIATIONS, a_remediation, GOOD_REMEDIATIONS, BAD_REMEDIATIONS, id="remediation"),
    pytest.param(TEMPLATES, a_template, GOOD_REMEDIATIONS, BAD_REMEDIATIONS, id="template"),
]


@pytest.mark.parametrize(("kind", "made", "good", "bad"), KINDS)
async def test_every_spec_that_makes_sense_is_taken_and_no_other(
    client: Client,
    kind: Kind[Unstructured],
    made: Callable[[Any], dict[str, Any]],
    good: tuple[Case, ...],
    bad: tuple[Case, ...],
) -> None:
    """A refusal names the field."""
    complaints = [(case, await refusal(client, kind, made(case.spec))) for case in good]
    assert [(case.name, why[:300]) for case, why in complaints if why] == []
    complaints = [(case, await refusal(client, kind, made(case.spec))) for case in bad]
    assert [(case.name, why[:300]) for case, why in complaints if case.field not in why or not why] == []


LABEL_SENTENCE = "must be a label's value, made of letters, digits, '-', '_' and '.', and end in a letter or digit"
PATTERN_SENTENCE = "must be a name, or a pattern with * and ?, of lowercase letters, digits, '-' and '.'"


@pytest.mark.parametrize(
    ("spec", "place", "sentence"),
    [
        ({}, "spec.selector", "Required value"),
        (EVERY_POD | {"dwell": "soon"}, "spec.dwell", "must be a duration, such as 30s, 5m or 1h30m, of at most 24h"),
        (EVERY_POD | {"dwell": "25h"}, "spec.dwell", "must be a duration, such as 30s, 5m or 1h30m, of at most 24h"),
        (deleted(mode="Evict"), "spec.deletion.mode", 'supported values: "Force", "Graceful"'),
        (
            deleted(mode="Force", gracePeriodSeconds=5),
            "spec.deletion.gracePeriodSeconds",
            "gracePeriodSeconds goes only with mode Graceful",
        ),
        (
            deleted(mode="Graceful", gracePeriodSeconds=3601),
            "spec.deletion.gracePeriodSeconds",
            "should be less than or equal to 3600",
        ),
        (proven("None", "A"), "spec.acceptedProofs", "None must stand alone: it means that no proof is needed"),
        (proven("A", "A"), "spec.acceptedProofs[1]", 'Duplicate value: "A"'),
        (proven(), "spec.acceptedProofs", "should have at least 1 items"),
        (proven("none"), "spec.acceptedProofs[0]", 'supported values: "A", "B", "C", "D", "None"'),
        (excluding(names=["Web-*"]), "spec.exclude.names[0]", PATTERN_SENTENCE),
        (excluding(claims=["a_b"]), "spec.exclude.claims[0]", PATTERN_SENTENCE),
        (excluding(owners=[{"kind": "Job", "name": "a b"}]), "spec.exclude.owners[0].name", PATTERN_SENTENCE),
        (excluding(owners=[{"name": "pg-*"}]), "spec.exclude.owners[0].kind", "Required value"),
        (excluding(owners=[{"kind": "a-b"}]), "spec.exclude.owners[0].kind", "must be a kind, such as StatefulSet"),
        (excluding(names=["a"] * 65), "spec.exclude.names", "must have at most 64 items"),
        (
            tainted("a*"),
            "spec.taints[0]",
            "must be the key of a taint, such as example.com/maintenance, or * for any",
        ),
        (
            {"selector": {"matchLabels": {"app": None}}},
            "spec.selector.matchLabels",
            'matchLabels has a label without a value; write "" for an empty one',
        ),
        ({"selector": {"matchLabels": {"app": "a b"}}}, "spec.selector.matchLabels[app]", LABEL_SENTENCE),
        (
            {"selector": {"matchLabels": {"a b": "c"}}},
            "spec.selector.matchLabels",
            "matchLabels has a key that is not a label's name, such as app or app.kubernetes.io/name",
        ),
        (
            EVERY_POD | {"nodeSelector": {"matchExpressions": [wanted("In")]}},
            "spec.nodeSelector.matchExpressions[0].values",
            "values must be specified when operator is In or NotIn",
        ),
        (
            excluding(selector={"matchExpressions": [wanted("Exists", "a")]}),
            "spec.exclude.selector.matchExpressions[0].values",
            "values may not be specified when operator is Exists or DoesNotExist",
        ),
    ],
)
async def test_a_refusal_says_where_and_what_to_write_instead(
    client: Client, spec: Any, place: str, sentence: str
) -> None:
    why = await refusal(client, POLICIES, a_policy(spec))
    assert f"{place}: " in why
    assert sentence in why


async def test_nothing_is_filled_in_and_nothing_that_is_known_is_dropped(client: Client) -> None:
    bare = await client.create(POLICIES, a_policy(SEED | {"color": "red"}, "bare"), namespace=PLACE)
    assert bare.spec == SEED
    whole = await client.create(POLICIES, a_policy(EVERYTHING, "whole"), namespace=PLACE)
    assert whole.spec == EVERYTHING
    spec = EVERYTHING_OF_A_REMEDIATION
    one = await client.create(REMEDIATIONS, a_remediation(EVERYTHING, "whole"), namespace=PLACE)
    assert one.spec == spec, "what only a policy has is dropped"
    template = await client.create(TEMPLATES, a_template(spec, "whole"), namespace=PLACE)
    assert template.spec == {"template": {"spec": spec}}


async def test_a_remediation_without_a_wish_is_what_it_always_was(client: Client) -> None:
    for name, spec in (("empty", {}), ("none", None)):
        item = await client.create(REMEDIATIONS, a_remediation(spec, name), namespace=PLACE)
        assert not item.spec
        status = Merge({"status": {"node": "n1", "waiting": 0}})
        assert (await client.patch(REMEDIATIONS.of(item), status, subresource="status")).status is not None


async def test_kubectl_refuses_a_field_that_does_not_exist(cluster: ControlPlane, client: Client) -> None:
    """Else a selector with a slip of the pen would be an empty one, and all pods would be meant."""
    assert client, "the kinds are served"
    slip = a_policy({"selector": {"matchLabel": {"app": "noobaa"}}}, "slip")
    code, said = await told(cluster, "apply", "-f", "-", text=json.dumps(slip))
    assert code != 0
    assert 'unknown field "spec.selector.matchLabel"' in said


LONG = "a sentence that says a lot " * 37
CONDITION = StatusCondition(
    type="Settled", status="False", reason="R", message=LONG, last_transition_time=T0, observed_generation=3
)


FAILED = FailedNode(
    name="n" * 253,
    uid="u" * 36,
    not_ready_since=T0,
    taint=f"{'t' * 253}/{'t' * 63}",
    state=State.WAITING,
    found=250,
    moved=200,
    waiting=40,
    kept=10,
    begun=True,
    reason="Budget",
    message=LONG,
)
OF_A_POLICY = PolicyStatus(
    observed_generation=3,
    proofs="A, B, C or D",
    failed_nodes=5000,
    moved=2**40,
    waiting=20_000,
    nodes=[FAILED] * MOST_NODES,
    conditions=[CONDITION, msgspec.structs.replace(CONDITION, type="Valid")],
)
OF_A_NODE = FailoverStatus(
    node="n" * 253,
    node_uid="u" * 36,
    not_ready_since=T0,
    found=250,
    moved=200,
    waiting=40,
    left=10,
    conditions=[CONDITION],
)


async def test_the_largest_statuses_are_kept_to_the_letter(client: Client) -> None:
    for struct in (FAILED, OF_A_POLICY, OF_A_NODE):
        for field in msgspec.structs.fields(struct):
            assert getattr(struct, field.name) != field.default, f"{field.name} is tried, too"
    for kind, body, status in (
        (POLICIES, a_policy(SEED, "told"), OF_A_POLICY),
        (REMEDIATIONS, a_remediation({}, "told"), OF_A_NODE),
    ):
        item = await client.create(kind, body, namespace=PLACE)
        patch = Merge({"status": msgspec.to_builtins(status)})
        shown = await client.patch(kind.of(item), patch, subresource="status")
        assert msgspec.convert(shown.status, type(status)) == status


async def test_every_state_of_a_node_can_be_told(client: Client) -> None:
    nodes = [msgspec.structs.replace(FAILED, name=state.lower(), state=state) for state in State]
    item = await client.create(POLICIES, a_policy(SEED, "states"), namespace=PLACE)
    patch = Merge({"status": msgspec.to_builtins(PolicyStatus(nodes=nodes))})
    shown = await client.patch(POLICIES.of(item), patch, subresource="status")
    assert msgspec.convert(shown.status, PolicyStatus).nodes == nodes


async def test_whoever_writes_a_policy_does_not_write_its_status(client: Client) -> None:
    made = await client.create(POLICIES, a_policy(SEED, "boast") | {"status": {"moved": 7}}, namespace=PLACE)
    assert not made.status
    changed = await client.patch(POLICIES.of(made), Merge({"spec": EV_12, "status": {"moved": 7}}))
    assert (changed.spec, changed.status) == (EV_12, made.status)


async def rows(cluster: ControlPlane, *what: str) -> list[list[str]]:
    """Heading and row, by column: there are always several spaces between two."""
    said = await kubectl(cluster, "get", *what)
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in said.splitlines()]


async def test_kubectl_shows_at_a_glance_how_it_stands(cluster: ControlPlane, client: Client) -> None:
    await client.create(POLICIES, a_policy(SEED, "noobaa"), namespace=PLACE)
    settled = {"type": "Settled", "status": "False", "reason": "WaitingForProof"}
    valid = {"type": "Valid", "status": "True", "reason": "Valid"}
    status = {"failedNodes": 2, "moved": 31, "waiting": 3, "proofs": "A or B", "conditions": [valid, settled]}
    await client.patch(POLICIES.at("noobaa", PLACE), Merge({"status": status}), subresource="status")
    heading, row = await rows(cluster, "pfp", "noobaa")
    assert heading == ["NAME", "SETTLED", "REASON", "FAILED NODES", "MOVED", "WAITING", "PROOFS", "AGE"]
    assert row[:-1] == ["noobaa", "False", "WaitingForProof", "2", "31", "3", "A or B"]
    assert "podfailoverpolicy.defib.dev/noobaa" in await kubectl(cluster, "get", "defib", "--output=name")
    await client.create(REMEDIATIONS, a_remediation({}, "w7"), namespace=PLACE)
    succeeded = {"type": "Succeeded", "status": "False", "reason": "ProofNeeded"}
    of_node = {"node": "w7", "moved": 12, "waiting": 3, "left": 4, "conditions": [succeeded]}
    await client.patch(REMEDIATIONS.at("w7", PLACE), Merge({"status": of_node}), subresource="status")
    heading, row = await rows(cluster, "pfr", "w7")
    assert heading == ["NAME", "NODE", "SUCCEEDED", "REASON", "MOVED", "WAITING", "AGE"]
    assert row[:-1] == ["w7", "w7", "False", "ProofNeeded", "12", "3"]


async def test_kubectl_explains_every_field(cluster: ControlPlane, client: Client) -> None:
    assert client, "the kinds are served"
    for kind in (
        *("pfp.spec", "pfp.spec.selector", "pfp.spec.selector.matchExpressions", "pfp.spec.deletion"),
        *("pfp.spec.exclude", "pfp.spec.exclude.owners", "pfp.status", "pfp.status.nodes", "pfp.status.conditions"),
        *("pfr.spec", "pfr.spec.exclude", "pfr.status", "pfrt.spec.template.spec", "pfrt.spec.template.spec.exclude"),
    ):
        assert "<no description>" not in await kubectl(cluster, "explain", kind)
