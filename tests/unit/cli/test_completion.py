"""Shell completion: a script for each shell, and names of nodes as the cluster has them, or none."""

import asyncio
import subprocess
import sys
from pathlib import Path

import click
import pytest

from defib.cli.completion import node_names
from defib.cli.main import cli, execute
from defib.clock import SystemClock
from defib.simulate.faults import Fault, Slow
from defib.simulate.http import serving
from defib.simulate.server import ApiServer

WHY = cli.commands["why"]
NODE = WHY.params[0]


def completed(incomplete: str, **params: str) -> list[str]:
    context = click.Context(WHY)
    context.params.update(params)
    return node_names(context, NODE, incomplete)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["completion", shell], program="defib") == 0
    out = capsys.readouterr().out
    assert f"_DEFIB_COMPLETE={shell}_complete" in out
    assert "defib" in out


def test_a_shell_that_nobody_wrote_a_script_for_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["completion", "tcsh"], program="defib") == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err


async def test_names_of_nodes_come_from_the_cluster(tmp_path: Path) -> None:
    server = ApiServer(SystemClock())
    for name in ("worker-1", "worker-2", "control-1"):
        server.put("nodes", {"metadata": {"name": name}})
    async with serving(server) as front:
        kubeconfig = str(await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig"))
        assert await asyncio.to_thread(completed, "work", kubeconfig=kubeconfig) == ["worker-1", "worker-2"]
        assert await asyncio.to_thread(completed, "x", kubeconfig=kubeconfig) == []


async def test_a_cluster_that_does_not_answer_in_time_completes_nothing(tmp_path: Path) -> None:
    server = ApiServer(SystemClock())
    server.faults.inject(Fault(effect=Slow(seconds=30)))
    async with serving(server) as front:
        kubeconfig = str(await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig"))
        assert await asyncio.to_thread(completed, "", kubeconfig=kubeconfig) == []


def test_where_there_is_no_cluster_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert completed("", kubeconfig=str(tmp_path / "nowhere")) == []
    assert capsys.readouterr() == ("", "")


def test_kubectl_is_told_what_could_come_next() -> None:
    script = "import sys; from defib.cli.completion import kubectl_complete; kubectl_complete()"
    told = subprocess.run([sys.executable, "-c", script, "ti"], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "timeline\n:4\n"
