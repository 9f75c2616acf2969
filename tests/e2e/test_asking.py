"""What the command line says of a real cluster with a real operator: the same words as the status, the events, the records."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from defib.kube.kinds import CONFIG_MAPS
from testbed.programs import Programs
from tests.contract.api_server.steps import eventually
from tests.e2e.check_cluster import CheckCluster, Pool, check_cluster
from tests.e2e.running_operator import RunningOperator, defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

PATIENCE_SECONDS = 20.0
PREFIX = "[remediation] "


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CheckCluster]:
    async with check_cluster(programs, tmp_path_factory.mktemp("audit") / "policy.yaml") as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: CheckCluster) -> AsyncIterator[RunningOperator]:
    async with defib_run(cluster) as operator:
        yield operator


async def said(kubeconfig: Path, *arguments: str) -> tuple[int | None, str, str]:
    command = (sys.executable, "-m", "defib", *arguments, "--kubeconfig", str(kubeconfig))
    environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(kubeconfig.parent)}
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def defib(cluster: CheckCluster, *arguments: str, code: int = 0) -> str:
    ended, out, err = await said(cluster.plane.kubeconfig, *arguments)
    assert (ended, err) == (code, "")
    return out


async def read(cluster: CheckCluster, *arguments: str, code: int = 0) -> dict[str, Any]:
    return dict(msgspec.json.decode(await defib(cluster, *arguments, "-o", "json", code=code)))


@pytest.mark.usefixtures("operator")
async def test_the_text_of_why_equals_the_status_and_the_event(cluster: CheckCluster) -> None:
    pool = await cluster.pool("held", mode="Approve")
    await pool.fails("held-1")
    by_status = await pool.expect_held("held-1", "Approval")
    event = await pool.expect_event("RemediationSkipped", "held-1")
    (told,) = (await read(cluster, "why", "held-1"))["checks"]
    assert told["message"] == by_status == "waits for a person's approval: defib approve held-1"
    assert event.message == f"{PREFIX}node held-1: {told['message']}"
    text = " ".join((await defib(cluster, "why", "held-1")).split())
    assert told["message"] in text
    await pool.recovers("held-1")


@pytest.mark.usefixtures("operator")
async def test_whoever_says_no_is_heard_by_the_operator_and_named(cluster: CheckCluster) -> None:
    pool = await cluster.pool("no", mode="Approve")
    await pool.fails("no-1")
    await pool.expect_held("no-1", "Approval")
    out = await defib(cluster, "reject", "no-1", "--reason", "the disk is being copied")
    assert "defib approve no-1 says yes" in out

    async def is_heard() -> bool:
        told = (await pool.status()).node("no-1")
        return told is not None and "admin has said no until" in told.message

    await pool.eventually("the status says who said no", is_heard)
    (told,) = (await read(cluster, "why", "no-1"))["checks"]
    assert "(the disk is being copied)" in told["message"]
    await defib(cluster, "approve", "no-1")
    await pool.expect_remedy("no-1")
    await pool.recovers("no-1")
    await pool.expect_at_rest()


@pytest.mark.usefixtures("operator")
async def test_an_incident_is_listed_told_and_closed(cluster: CheckCluster) -> None:
    pool = await cluster.pool("story")
    await pool.fails("story-1")
    await pool.expect_remedy("story-1")
    incident = await the_incident(cluster, pool, "story-1")
    status = await read(cluster, "status", code=3)
    assert any("story-1" in one["message"] for one in status["first"])
    assert status["operator"]["leader"]
    timeline = await read(cluster, "timeline", "story-1")
    kinds = [one["kind"] for one in timeline["happenings"]]
    assert {"evidence", "decision", "action"} <= set(kinds)
    assert [one["at"] for one in timeline["happenings"]] == sorted(one["at"] for one in timeline["happenings"])
    await pool.recovers("story-1")
    await pool.expect_at_rest()

    async def is_closed() -> bool:
        listed = await read(cluster, "incidents", "--all", "--node", "story-1")
        return [one["outcome"] for one in listed["incidents"]] == ["Recovered"]

    await eventually(is_closed, within=PATIENCE_SECONDS)
    text = await defib(cluster, "timeline", incident)
    assert text.startswith(f"Incident {incident} of node story-1: Recovered\n")
    assert incident in await defib(cluster, "incidents", "--all")
    assert incident not in await defib(cluster, "incidents")


async def the_incident(cluster: CheckCluster, pool: Pool, node: str) -> str:
    found: list[str] = []

    async def is_open() -> bool:
        found[:] = [one["name"] for one in (await read(cluster, "incidents", "--node", node))["incidents"]]
        return bool(found)

    await pool.eventually(f"an incident of {node} is written down", is_open)
    return found[0]


@pytest.mark.usefixtures("operator")
async def test_yaml_tells_what_json_does(cluster: CheckCluster) -> None:
    await cluster.pool("forms")
    as_yaml = yaml.safe_load(await defib(cluster, "why", "forms-1", "-o", "yaml"))
    as_json = await read(cluster, "why", "forms-1")
    assert as_yaml.keys() == as_json.keys()
    assert as_yaml["checks"] == as_json["checks"]


async def test_in_somebody_elses_name_their_rights_count(cluster: CheckCluster) -> None:
    code, out, err = await said(cluster.plane.kubeconfig, "status", "--as", "bob")
    assert (code, out) == (1, "")
    assert 'User "bob" cannot list resource "nodes"' in err
    assert "kubectl auth can-i list nodes" in err
    await defib(cluster, "pause", "--as", "bob", "--as-group", "system:masters", "--reason", "trial")
    brake = CONFIG_MAPS.at("defib-brake", "defib-system")
    assert ((await cluster.client.get(brake)).data or {})["by"] == "bob"
    out = await defib(cluster, "resume")
    assert "by bob: trial" in out


async def test_who_may_not_speak_for_others_is_told_so(cluster: CheckCluster) -> None:
    code, out, err = await said(cluster.plane.restricted_kubeconfig, "status", "--as", "bob")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert 'User "restricted" cannot impersonate' in err
    assert "ask for the right to impersonate, or leave --as out (kubectl auth can-i impersonate users)" in err


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        (("status",), "list nodes"),
        (("incidents",), "list nodeincidents.defib.dev"),
        (("timeline", "x"), "list nodes"),
        (("reject", "x"), "list nodes"),
        (("reject", "x", "--drain"), "get nodes/x"),
        (("shards",), "list leases -n defib-system"),
        (("drain", "x"), "get nodes"),
        (("confirm-down", "x"), "get nodeincidents/x"),
    ],
)
async def test_who_may_not_is_told_what_to_ask_for(
    cluster: CheckCluster, arguments: tuple[str, ...], right: str
) -> None:
    code, out, err = await said(cluster.plane.restricted_kubeconfig, *arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert 'User "restricted" cannot' in err
    assert f"(kubectl auth can-i {right})" in err


async def test_the_shell_completes_nodes_as_the_cluster_has_them(cluster: CheckCluster) -> None:
    await cluster.add_node("tabbed-1")
    kubeconfig = str(cluster.plane.kubeconfig)
    environ = {
        "PATH": os.environ["PATH"],
        "_DEFIB_COMPLETE": "bash_complete",
        "COMP_WORDS": f"defib why --kubeconfig {kubeconfig} tabb",
        "COMP_CWORD": "4",
    }
    program = Path(sys.executable).parent / "defib"
    process = await asyncio.create_subprocess_exec(program, env=environ, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, err = await process.communicate()
    assert (out.decode(), err) == ("plain,tabbed-1\n", b"")
