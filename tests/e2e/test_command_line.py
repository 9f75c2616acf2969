"""The command line as a person or a kubelet meets it: a process, its exit code, and what it says."""

import asyncio
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from defib import __version__
from defib.clock import SystemClock
from defib.simulate.faults import Fault, Refuse
from defib.simulate.http import serving
from defib.simulate.server import ApiServer

DEFIB = (sys.executable, "-m", "defib")
PATIENCE_SECONDS = 15.0
FREE_PORT = "--probes-address=127.0.0.1:0"

UNREACHABLE = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: very-secret-token}}]
contexts: [{name: blue, context: {cluster: c, user: u}}]
current-context: blue
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Nothing of the tester's own: no kubeconfig, no settings."""
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8", "TERM": "xterm-256color"}


@pytest.fixture
def unreachable(tmp_path: Path) -> Path:
    path = tmp_path / "unreachable.yaml"
    path.write_text(UNREACHABLE)
    return path


@pytest.fixture
async def server() -> ApiServer:
    return ApiServer(SystemClock())


@pytest.fixture
async def kubeconfig(server: ApiServer, tmp_path: Path) -> AsyncIterator[Path]:
    async with serving(server) as front:
        yield await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig")


@asynccontextmanager
async def started(environ: dict[str, str], *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """As from a terminal: whoever runs the tests may ignore signals, and a process inherits that."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "env", "--default-signal", *DEFIB, *arguments, env=environ, stdout=pipe, stderr=pipe
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield process
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.communicate()


async def said(environ: dict[str, str], *arguments: str) -> tuple[int | None, str, str]:
    async with started(environ, *arguments) as process:
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()


async def complaint(environ: dict[str, str], *arguments: str) -> str:
    """The one line after `defib: `; that there is only one, without a traceback, and that the exit code is 1."""
    code, _, err = await said(environ, *arguments)
    assert code == 1, err
    assert err.startswith("defib: ")
    assert err.count("\n") == 1
    return err.removeprefix("defib: ").rstrip("\n")


async def test_a_missing_kubeconfig_is_told_in_one_line(environ: dict[str, str]) -> None:
    line = await complaint(environ, "run", "--kubeconfig", "nowhere.yaml")
    assert line == "kubeconfig nowhere.yaml does not exist; name another with --kubeconfig"


async def test_no_kubeconfig_at_all_is_told_in_one_line(environ: dict[str, str]) -> None:
    assert "name one with --kubeconfig" in await complaint(environ, "run")


async def test_a_broken_kubeconfig_is_told_in_one_line(environ: dict[str, str], tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("clusters: [")
    line = await complaint(environ | {"KUBECONFIG": str(broken)}, "run")
    assert line.startswith(f"kubeconfig {broken} is not valid YAML")


async def test_an_unknown_context_is_told_in_one_line_with_those_that_exist(
    environ: dict[str, str], unreachable: Path
) -> None:
    line = await complaint(environ, "run", "--kubeconfig", str(unreachable), "--context", "green")
    assert "no context 'green'" in line
    assert "'blue'" in line


async def test_an_unreachable_server_is_told_in_one_line_without_secrets(
    environ: dict[str, str], unreachable: Path
) -> None:
    line = await complaint(environ, "run", "--kubeconfig", str(unreachable))
    assert "cannot reach https://127.0.0.1:1: connection refused" in line
    assert "secret" not in line


async def test_with_debug_the_traceback_is_in_the_log_and_the_complaint_is_still_one_line(
    environ: dict[str, str], unreachable: Path
) -> None:
    arguments = ("run", "--kubeconfig", str(unreachable))
    code, out, err = await said(environ | {"DEFIB_LOG_LEVEL": "debug"}, *arguments)
    assert (code, err.count("\n")) == (1, 1)
    assert "Traceback" in out
    assert "very-secret-token" not in out
    _, out, _ = await said(environ, *arguments)
    assert "Traceback" not in out


async def test_credentials_that_are_not_accepted_are_told_in_one_line(
    environ: dict[str, str], server: ApiServer, kubeconfig: Path
) -> None:
    server.faults.inject(Fault(effect=Refuse(code=401, reason="Unauthorized", message="Unauthorized")))
    line = await complaint(environ, "run", "--kubeconfig", str(kubeconfig), FREE_PORT)
    assert "there are no credentials; add a user" in line


async def test_a_missing_permission_is_told_in_one_line_that_names_it(
    environ: dict[str, str], server: ApiServer, kubeconfig: Path
) -> None:
    words = 'nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope'
    server.faults.inject(Fault(effect=Refuse(code=403, reason="Forbidden", message=words), resource="nodes"))
    line = await complaint(environ, "run", "--kubeconfig", str(kubeconfig), FREE_PORT)
    assert words in line
    assert "grant get, list and watch" in line
    assert "kubectl auth can-i list nodes" in line


async def test_a_port_in_use_is_told_in_one_line(environ: dict[str, str], kubeconfig: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = await complaint(environ, "run", "--kubeconfig", str(kubeconfig), f"--probes-address=127.0.0.1:{port}")
    assert line == f"port {port} is already in use; choose another with --probes-address"


async def test_wrong_settings_are_told_all_at_once_with_exit_code_2(environ: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("log_levle: debug\n")
    code, out, err = await said(environ | {"DEFIB_RESYNC": "soon"}, "run", "--config", str(file))
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first == f"defib: {file} line 1: log_levle: no such setting; did you mean log_level?"
    assert second.startswith("defib: DEFIB_RESYNC: 'soon' is not a duration")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_run_serves_its_probes_and_ends_clean_when_asked(
    environ: dict[str, str], kubeconfig: Path, stop: signal.Signals
) -> None:
    async with started(environ, "run", "--kubeconfig", str(kubeconfig), FREE_PORT) as process:
        url = await probes_of(process)
        async with aiohttp.ClientSession() as session:
            await expect_ready(session, url)
            async with session.get(f"{url}metrics") as response:
                assert "defib_cached_objects" in await response.text()
        process.send_signal(stop)
        _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")


async def probes_of(process: asyncio.subprocess.Process) -> str:
    """Its first lines tell where they are."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        fields = msgspec.json.decode(line)
        if fields["event"] == "operator started":
            return str(fields["probes"])
    pytest.fail("it ended before it started")


async def expect_ready(session: aiohttp.ClientSession, url: str) -> None:
    while True:
        async with session.get(f"{url}readyz") as response:
            if response.status == 200:
                return


async def test_version_can_ask_the_server(environ: dict[str, str], kubeconfig: Path) -> None:
    code, out, _ = await said(environ, "version", "--server", "--kubeconfig", str(kubeconfig))
    assert code == 0
    assert re.fullmatch(rf"defib {re.escape(__version__)}\npython 3\.\S+\nserver v1\.\S+\n", out)


async def test_help_and_version_do_not_load_what_is_heavy(environ: dict[str, str]) -> None:
    check = "import sys; from defib.cli.main import execute; execute(['version'], program='defib'); print(*sys.modules)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", check, env=environ, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, _ = await process.communicate()
    assert not {"aiohttp", "rich", "prometheus_client", "structlog", "asyncio", "yaml"} & set(out.decode().split())


@pytest.mark.real
async def test_kubectl_finds_it_as_a_plugin(environ: dict[str, str], kubectl: Path) -> None:
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        kubectl, "defib", "version", env=environ, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, _ = await process.communicate()
    assert out.decode().startswith(f"defib {__version__}\n")


async def heard_until(demo: asyncio.subprocess.Process, words: str) -> list[str]:
    """Its lines so far, up to the one with these words."""
    assert demo.stdout is not None
    lines = []
    while line := (await demo.stdout.readline()).decode():
        lines.append(line.rstrip("\n"))
        if words in line:
            return lines
    pytest.fail(f"it ended without {words!r}: {lines}")


async def test_the_demo_tells_its_story_in_lines_when_nobody_looks(environ: dict[str, str]) -> None:
    async with started(environ, "demo", "--speed", "50", "--seed", "3", "--port", "0") as demo:
        out = await heard_until(demo, "its remediation is removed")
    assert demo.returncode == 0
    assert not any("\x1b" in line for line in out)
    told = [line[10:] for line in out if re.match(r"\d\d:\d\d:\d\d  ", line)]
    victim = next(line.split()[1] for line in told if "hangs: it has power" in line)
    beginnings = [
        "kube   9 nodes joined",
        f"power  {victim} hangs",
        f"kube   {victim} not ready: Ready is Unknown (NodeStatusUnknown)",
        f"defib  {victim} is unhealthy, every gate is open: remediation begins",
        "demo   every pod runs again, ",
        f"kube   {victim} ready",
        f"defib  {victim} is well again: its remediation is removed",
    ]
    places = [next(n for n, line in enumerate(told) if line.startswith(begin)) for begin in beginnings]
    assert places == sorted(places)


async def test_the_demo_says_what_is_simulated_and_how_to_look_yourself(environ: dict[str, str]) -> None:
    code, out, _ = await said(environ, "demo", "--seconds", "3", "--port", "0")
    assert code == 0
    assert "9 simulated machines, 10x faster; the operator is the real one" in out
    assert re.search(r"In a browser: http://127\.0\.0\.1:\d+/\?demo", out)
    assert re.search(r"KUBECONFIG=\S+ kubectl get nodes,nhc,ni", out)


async def test_a_scene_of_the_demo_can_be_asked_for_over_http(environ: dict[str, str]) -> None:
    async with started(environ, "demo", "--speed", "20", "--port", "0") as demo, aiohttp.ClientSession() as session:
        opening = await heard_until(demo, "In a browser")
        page = next(found[1] for line in opening if (found := re.search(r"(http://\S+/)\?demo", line)))
        async with session.post(f"{page}api/demo/2", json={}) as answer:
            assert answer.status == 200
        await heard_until(demo, "the network of zone-c is cut")
        async with session.get(f"{page}api/demo") as answer:
            show = await answer.json()
        assert show["playing"] == "2"
        assert [scene["key"] for scene in show["scenes"]] == ["1", "2", "3", "4", "5"]
        async with session.get(f"{page}api/board") as answer:
            board = await answer.json()
        assert len(board["nodes"]) == 9


@pytest.mark.real
async def test_kubectl_can_look_at_the_demo(environ: dict[str, str], kubectl: Path) -> None:
    async with started(environ, "demo", "--seconds", "20", "--no-page") as demo:
        lines = await heard_until(demo, "hangs: it has power")
        hint = next(found for line in lines if (found := re.search(r"KUBECONFIG=(\S+) kubectl (get \S+)", line)))
        looking = await asyncio.create_subprocess_exec(
            kubectl,
            *hint[2].split(),
            "--no-headers",
            env=environ | {"KUBECONFIG": hint[1]},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await looking.communicate()
    rows = [line.split() for line in out.decode().splitlines() if line]
    nodes = [row[:2] for row in rows if row[0].startswith("node/")]
    assert nodes == [[f"node/zone-{zone}-{number}", "Ready"] for zone in "abc" for number in (1, 2, 3)]
    (check,) = [row for row in rows if row[0].startswith("nodehealthcheck")]
    assert check[:5] == ["nodehealthcheck.remediation.medik8s.io/workers", "9", "9", "0", "Enabled"]


async def test_the_demo_leaves_nothing_behind(environ: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    code, _, _ = await said(environ | {"TMPDIR": str(folder)}, "demo", "--seconds", "0.5", "--no-page")
    assert code == 0
    assert list(folder.iterdir()) == []


async def test_the_demo_ends_quietly_when_its_reader_goes_away(environ: dict[str, str]) -> None:
    command = f"{' '.join(DEFIB)} demo --seconds 10 --speed 100 --port 0 | head -n 1"
    process = await asyncio.create_subprocess_shell(
        f"{command}; echo ${{PIPESTATUS[0]}}",
        executable="/bin/bash",
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, err = await process.communicate()
    assert err == b""
    assert out.decode().splitlines()[1:] == ["0"]


# Makes the terminal that is its standard input the one that Ctrl-C is typed at.
IN_THE_FOREGROUND = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


class Terminal:
    """A process with a terminal of its own, which we type at and look at."""

    def __init__(self, environ: dict[str, str], *arguments: str) -> None:
        self._keyboard, screen = pty.openpty()
        size = {"COLUMNS": "80", "LINES": "24"}
        command = [sys.executable, "-c", IN_THE_FOREGROUND, "-m", "defib", *arguments]
        self.process = subprocess.Popen(
            command, env=environ | size, stdin=screen, stdout=screen, stderr=screen, start_new_session=True
        )
        os.close(screen)
        self.seen = ""

    def type(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())

    def look_until(self, words: str) -> None:
        for chunk in self._chunks():
            self.seen += chunk
            if words in self.seen:
                return
        pytest.fail(f"it ended without {words!r}: {self.seen!r}")

    def look_to_the_end(self) -> int:
        self.seen += "".join(self._chunks())
        return self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self.process.terminate()
        self.look_to_the_end()
        os.close(self._keyboard)

    def _chunks(self) -> Iterator[str]:
        while select.select([self._keyboard], [], [], PATIENCE_SECONDS)[0]:
            try:
                yield os.read(self._keyboard, 65536).decode(errors="replace")
            except OSError:  # how a terminal says that nobody is left at the other end
                return


@pytest.fixture
def terminal(environ: dict[str, str]) -> Iterator[Terminal]:
    terminal = Terminal(environ, "demo", "--seconds", "12", "--port", "0")
    yield terminal
    terminal.close()


def test_on_a_terminal_the_demo_is_a_live_table_and_ctrl_c_gives_the_terminal_back(terminal: Terminal) -> None:
    terminal.look_until("zone-c-3")
    terminal.type("\x03")
    assert terminal.look_to_the_end() == 0
    for enter, leave in (("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h")):
        assert terminal.seen.rindex(leave) > terminal.seen.rindex(enter)
    assert "DEFIB SEES" in terminal.seen
    assert "Traceback" not in terminal.seen
    assert "The demo is over" in terminal.seen


def test_a_key_asks_for_a_scene_and_q_ends_the_show(terminal: Terminal) -> None:
    terminal.look_until("All is well")
    terminal.type("2")
    terminal.look_until("A zone is lost: ")
    terminal.type("q")
    assert terminal.look_to_the_end() == 0
    assert "The demo is over" in terminal.seen


def test_a_frame_of_the_demo_fits_the_terminal(terminal: Terminal) -> None:
    terminal.look_until("kubectl get nodes,nhc,ni")
    frames = terminal.seen.split("\x1b[H")
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for frame in frames for line in frame.splitlines()]
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert max(frame.count("\n") for frame in frames) < 24
