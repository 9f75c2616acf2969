"""Accounts of remediations on a real API server, the operator with the rights of its own manifest and no others."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.kube.client import Merge
from defib.kube.errors import Invalid
from defib.kube.kinds import NODE_INCIDENTS
from defib.model.incident import NodeIncident, Phase, account_name
from testbed.programs import Programs
from tests.contract.api_server.steps import raw
from tests.e2e.check_cluster import PATIENCE_SECONDS, CheckCluster, Event, Pool, check_cluster, remediations, step
from tests.e2e.running_operator import RunningOperator, defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]


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


async def accounts(pool: Pool, node: str) -> list[NodeIncident]:
    known = (await pool.client.list_all(NODE_INCIDENTS)).items
    return sorted((one for one in known if one.spec.node == node), key=lambda one: str(one.spec.started))


async def expect_accounts(pool: Pool, node: str, *phases: Phase) -> list[NodeIncident]:
    """In the order in which their remediations began."""
    found: list[NodeIncident] = []

    async def are_so() -> bool:
        found[:] = await accounts(pool, node)
        return [one.status.phase for one in found] == list(phases)

    await pool.eventually(f"the accounts of {node} are {phases}", are_so, within=PATIENCE_SECONDS)
    return found


async def told_on(pool: Pool, node: str) -> list[Event]:
    query = {"fieldSelector": f"involvedObject.name={node},involvedObject.kind=Node"}
    listed = await raw(pool.client, "GET", "/api/v1/namespaces/default/events", **query)
    return [one for one in msgspec.convert(listed["items"], list[Event]) if one.source == {"component": "defib"}]


async def expect_told(pool: Pool, node: str, *reasons: str) -> None:
    async def are_told() -> bool:
        return sorted(one.reason for one in await told_on(pool, node)) == sorted(reasons)

    await pool.eventually(f"{reasons} are told on {node}", are_told)


async def kubectl(cluster: CheckCluster, *arguments: str) -> str:
    command = (str(cluster.plane.kubectl), f"--kubeconfig={cluster.plane.kubeconfig}", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


async def test_a_remediation_is_written_down_from_its_evidence_to_its_end(cluster: CheckCluster) -> None:
    pool = await cluster.pool("tale")
    await pool.fails("tale-1", "False")
    remedy = await pool.expect_remedy("tale-1")
    (account,) = await expect_accounts(pool, "tale-1", Phase.OPEN)
    spec = account.spec
    assert account.name == account_name("tale-1", remedy.uid)
    assert (spec.cause.kind, spec.cause.namespace, spec.cause.uid) == ("FooRemediation", "remedies", remedy.uid)
    assert (spec.check, spec.mode, spec.template) == ("tale", "Automatic", "foo")
    assert spec.by != ""
    assert (spec.evidence or [""])[0].startswith("Ready is False since ")
    gates = {gate.name: gate.open for gate in spec.gates or ()}
    assert gates["Threshold"]
    assert all(gates.values())
    await pool.recovers("tale-1")
    await pool.expect_at_rest()
    (closed,) = await expect_accounts(pool, "tale-1", Phase.CLOSED)
    assert (closed.status.outcome, closed.status.took != "") == ("Recovered", True)
    entries = closed.status.timeline or []
    assert [entry.kind for entry in entries][:3] == ["evidence", "decision", "action"]
    assert (entries[-1].kind, entries[-1].by) == ("end", spec.by)
    assert all(entry.kind and entry.message for entry in entries)
    await expect_told(pool, "tale-1", "IncidentOpened", "IncidentClosed")


async def test_each_step_has_its_own_and_the_last_one_says_that_a_person_is_needed(cluster: CheckCluster) -> None:
    pool = await cluster.pool("steps", escalatingRemediations=[step("foo", 1, "5m"), step("bar", 2, "5m")])
    await pool.fails("steps-1")
    for remediator in ("Foo", "Bar"):
        remedy = await pool.expect_remedy("steps-1", remediator)
        failed = Merge({"status": {"conditions": [{"type": "Succeeded", "status": "False"}]}})
        await cluster.client.patch(remediations(remediator).of(remedy), failed, subresource="status")
        await pool.expect_event("RemediationTimedOut", remedy.name)
    await expect_accounts(pool, "steps-1", Phase.OPEN, Phase.NEEDS_PERSON)
    await expect_told(pool, "steps-1", "IncidentOpened", "IncidentOpened", "NeedsPerson")
    await pool.recovers("steps-1")
    for account in await expect_accounts(pool, "steps-1", Phase.CLOSED, Phase.CLOSED):
        assert [entry.phase for entry in account.status.timeline or ()].count("TimedOut") == 1
        assert account.status.outcome == "Recovered"


async def test_of_those_that_are_closed_only_the_latest_stay(cluster: CheckCluster) -> None:
    pool = await cluster.pool("often")
    for number in range(7):
        uid = f"{number:08x}-0000-4000-8000-000000000000"
        cause = {"apiVersion": "test.defib.dev/v1alpha1", "kind": "FooRemediation", "name": "often-1", "uid": uid}
        name = account_name("often-1", uid)
        body = {"metadata": {"name": name}, "spec": {"node": "often-1", "cause": cause}}
        await cluster.client.create(NODE_INCIDENTS, body)
        status = {"phase": "Closed", "closedAt": f"2030-01-01T00:0{number}:00Z"}
        await cluster.client.patch(NODE_INCIDENTS.at(name), Merge({"status": status}), subresource="status")

    async def are_few() -> bool:
        return [one.name[-1] for one in sorted(await accounts(pool, "often-1"), key=lambda one: one.name)] == [*"23456"]

    await pool.eventually("the oldest two are gone", are_few)


async def test_kubectl_shows_and_explains_them(cluster: CheckCluster) -> None:
    heading, *rows = (await kubectl(cluster, "get", "ni")).splitlines()
    assert heading.split() == ["NAME", "NODE", "PHASE", "OUTCOME", "CAUSE", "AGE", "TOOK", "MESSAGE"]
    (row,) = (row for row in rows if row.startswith("tale-1."))
    assert row.split()[1:5] == ["tale-1", "Closed", "Recovered", "FooRemediation"]
    assert row.endswith("the node is healthy again")
    for field in ("spec.evidence", "spec.gates.limit", "spec.approvedBy", "status.timeline.kind", "status.outcome"):
        assert "<no description>" not in await kubectl(cluster, "explain", f"nodeincidents.{field}")


async def test_what_was_known_at_the_beginning_stays_and_nobody_confirms_anything_there(cluster: CheckCluster) -> None:
    pool = await cluster.pool("fixed")
    await pool.fails("fixed-1")
    await pool.expect_remedy("fixed-1")
    (account,) = await expect_accounts(pool, "fixed-1", Phase.OPEN)
    ref = NODE_INCIDENTS.of(account)
    with pytest.raises(Invalid, match="stay as they are"):
        await cluster.client.patch(ref, Merge({"spec": {"evidence": ["it was well"]}}))
    who = (await kubectl(cluster, "auth", "whoami", "--output=jsonpath={.status.userInfo.username}")).strip()
    said = {"by": who, "at": f"{SystemClock().now():%Y-%m-%dT%H:%M:%SZ}"}
    with pytest.raises(Invalid, match="nobody acts on a confirmation in it"):
        await cluster.client.patch(ref, Merge({"spec": {"confirmedOff": said}}))
    await pool.recovers("fixed-1")
    await expect_accounts(pool, "fixed-1", Phase.CLOSED)
