"""The commands by which a person asks and tells, on a server over HTTP: what they print and how they end."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from defib.cli.main import execute
from defib.clock import SystemClock
from defib.decide.admission import APPROVED_UNTIL
from defib.model.moment import read_moment
from defib.model.node_drain import APPROVED_UNTIL as DRAIN_APPROVED_UNTIL
from defib.simulate.server import ApiServer
from tests.unit.cli.at_the_prompt import Defib
from tests.unit.console.desk import a_server, add_check, add_nodes, annotations_of, config_of
from tests.unit.console.test_drain_approval import add_drain


@pytest.fixture
async def server() -> ApiServer:
    server = a_server(SystemClock())
    add_nodes(server, ill=["n1"])
    return server


async def test_why_answers_in_text(server: ApiServer, defib: Defib) -> None:
    add_check(server)
    code, out, err = await defib("why", "n1")
    assert (code, err) == (0, "")
    assert out.startswith("Node n1\n")
    assert "the operator creates FooRemediation ns/n1 at once" in " ".join(out.split())
    assert not any(line != line.rstrip() for line in out.splitlines())


async def test_why_answers_in_json(server: ApiServer, defib: Defib) -> None:
    add_check(server)
    code, out, err = await defib("why", "n1", "-o", "json")
    assert (code, err) == (0, "")
    read = msgspec.json.decode(out)
    assert (read["node"], read["checks"][0]["state"]) == ("n1", "Unhealthy")


async def test_why_decides_by_the_settings_that_it_is_given(server: ApiServer, defib: Defib) -> None:
    add_check(server)
    _, out, _ = await defib("why", "n1", "--brake", "on")
    assert "the brake is on: the setting brake is on" in out
    _, out, _ = await defib("why", "n1", "--namespace", "elsewhere")
    assert "kubectl -n elsewhere get pods" in " ".join(out.split())


async def test_a_node_that_does_not_exist_is_one_line_and_exit_code_1(server: ApiServer, defib: Defib) -> None:
    add_check(server)
    assert await defib("why", "n55") == (1, "", "defib: there is no node n55; did you mean n5?\n")


async def test_a_cluster_that_has_no_checks_at_all_is_one_line(defib: Defib) -> None:
    code, out, _ = await defib("why", "n1")
    assert code == 0
    assert "the cluster has no NodeHealthCheck" in out


async def test_the_brake_is_pulled_and_let_go(server: ApiServer, defib: Defib) -> None:
    code, out, err = await defib("pause", "--reason", "storage\n  maintenance")
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert out.startswith("Defib is paused since ")
    assert config_of(server, "defib-brake")["reason"] == "storage maintenance"
    code, out, _ = await defib("pause")
    assert (code, out.startswith("Defib was paused already since ")) == (0, True)
    code, out, _ = await defib("resume")
    assert (code, out.startswith("Defib goes on; it was paused since ")) == (0, True)
    assert config_of(server, "defib-brake")["paused"] == "false"
    code, out, _ = await defib("resume")
    assert (code, out.startswith("Defib was not paused: ")) == (0, True)


async def test_pausing_where_defib_is_not_is_one_line(defib: Defib) -> None:
    code, out, err = await defib("pause", "--namespace", "nowhere")
    assert (code, out) == (1, "")
    assert err == (
        "defib: there is no namespace nowhere: is Defib installed in another? then name it with --namespace\n"
    )


async def test_an_approval_holds_for_as_long_as_it_is_given(server: ApiServer, defib: Defib) -> None:
    add_check(server, mode="Approve")
    for length, seconds in ((None, 3600), ("90s", 90), ("24h", 86400)):
        before = SystemClock().now()
        code, out, err = await defib("approve", "n1", *(("--for", length) if length else ()))
        assert (code, err, out.count("\n")) == (0, "", 1)
        until = read_moment(annotations_of(server, "n1")[APPROVED_UNTIL])
        assert until is not None
        assert abs((until - before).total_seconds() - seconds) < 15
        assert "check workers (Unhealthy)" in out


@pytest.mark.parametrize("length", ["59s", "25h", "soon", "-1h", ""])
async def test_an_approval_without_an_end_in_sight_is_refused(server: ApiServer, defib: Defib, length: str) -> None:
    add_check(server, mode="Approve")
    code, out, err = await defib("approve", "n1", "--for", length)
    assert (code, out) == (2, "")
    assert "is not a duration from 1m to 24h" in err
    assert annotations_of(server, "n1") == {}


async def test_where_nothing_waits_for_approval_it_is_said(server: ApiServer, defib: Defib) -> None:
    add_check(server)
    code, out, err = await defib("approve", "n1")
    assert (code, out) == (1, "")
    assert err == "defib: nothing waits for approval on node n1: no NodeHealthCheck in mode Approve selects it\n"


async def test_a_drain_is_approved_by_a_flag(server: ApiServer, defib: Defib) -> None:
    add_drain(server, phase="WaitingForApproval", next="evict 2 pods")
    code, out, err = await defib("approve", "n1", "--drain", "--for", "15m")
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert out.startswith("pods of node n1 may be made to leave until ")
    assert list(annotations_of(server, "n1")) == [DRAIN_APPROVED_UNTIL]


async def test_where_no_drain_waits_for_approval_it_is_said(server: ApiServer, defib: Defib) -> None:
    add_drain(server, mode="Observe", phase="Observed")
    code, out, err = await defib("approve", "n1", "--drain")
    assert (code, out) == (1, "")
    assert err == (
        "defib: no drain waits for approval on node n1: its DrainPolicy all is in mode Observe, which asks nobody\n"
    )


async def test_a_server_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["why", "n1"], ["pause"], ["resume"], ["approve", "n1"]):
        arguments = [*command, "--kubeconfig", str(tmp_path / "nowhere")]
        assert await asyncio.to_thread(execute, arguments, program="defib") == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.endswith("does not exist; name another with --kubeconfig\n")
