"""What a person sees who asks on a terminal: colours, the width of it, and that something is under way when it is slow."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from defib.clock import SystemClock
from defib.simulate.faults import Fault, Slow
from defib.simulate.http import serving
from defib.simulate.server import ApiServer
from tests.e2e.test_command_line import Terminal
from tests.unit.console.desk import a_server, add_check, add_nodes

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ASKING = (("why", "n1"), ("status",), ("incidents",), ("timeline", "n1"), ("shards",), ("drain", "n1"))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8", "TERM": "xterm-256color"}


@pytest.fixture
def server() -> ApiServer:
    server = a_server(SystemClock())
    add_nodes(server, ill=["n1"])
    add_check(server, mode="Approve")
    return server


@pytest.fixture
async def kubeconfig(server: ApiServer, tmp_path: Path) -> AsyncIterator[Path]:
    async with serving(server) as front:
        yield await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig")


def seen_by(environ: dict[str, str], kubeconfig: Path, *command: str) -> str:
    terminal = Terminal(environ, *command, "--kubeconfig", str(kubeconfig))
    terminal.look_to_the_end()
    terminal.close()
    assert "Traceback" not in terminal.seen
    return terminal.seen


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
async def test_it_has_colours_and_fits(environ: dict[str, str], kubeconfig: Path, command: tuple[str, ...]) -> None:
    seen = await asyncio.to_thread(seen_by, environ, kubeconfig, *command)
    assert COLOURS.search(seen)
    assert max(len(COLOURS.sub("", line)) for line in seen.splitlines()) <= 80


async def test_who_wants_no_colours_gets_none(environ: dict[str, str], kubeconfig: Path) -> None:
    seen = await asyncio.to_thread(seen_by, environ | {"NO_COLOR": "1"}, kubeconfig, "status")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", seen)


async def test_what_takes_longer_than_two_seconds_says_what_it_does_and_leaves_no_trace(
    environ: dict[str, str], server: ApiServer, kubeconfig: Path
) -> None:
    server.faults.inject(Fault(effect=Slow(seconds=3), resource="nodes", verbs=("list",)))
    seen = await asyncio.to_thread(seen_by, environ, kubeconfig, "status")
    assert "looking at the whole cluster …" in seen
    shown, told = seen.rindex("looking at the whole cluster"), seen.index("Look at first")
    assert shown < told
    assert "\x1b[2K" in seen[shown:told], "the line is taken away again"


async def test_what_is_quick_says_nothing_of_itself(environ: dict[str, str], kubeconfig: Path) -> None:
    seen = await asyncio.to_thread(seen_by, environ, kubeconfig, "incidents")
    assert "reading the incidents" not in seen
