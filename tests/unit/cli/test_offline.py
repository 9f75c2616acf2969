"""`defib check`, `plan`, `dump`, `replay` and `simulate` as a person types them: texts, exit codes, and what goes wrong."""

import asyncio
import gzip
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import yaml

from defib.cli.main import execute
from defib.clock import SystemClock
from defib.console.replay import replay
from defib.simulate.faults import Fault, Refuse
from defib.simulate.http import serving
from defib.simulate.server import ApiServer
from tests.unit.cli.test_errors import UNREACHABLE
from tests.unit.console.desk import a_server, add_check, add_node, add_nodes

Defib = Callable[..., Awaitable[tuple[int, str, str]]]

LIVE = (("plan",), ("dump", "FILE"), ("simulate", "--kill-node", "n1"))
ON_A_DUMP = (("plan", "--dump", "FILE"), ("replay", "FILE"), ("simulate", "--kill-node", "n1", "--dump", "FILE"))
FORMATS = ("text", "json", "yaml")


def spelled(command: tuple[str, ...]) -> str:
    return " ".join(command)


@pytest.fixture
async def server() -> ApiServer:
    """n1 is ill; n2 of five is in a zone of its own."""
    server = a_server(SystemClock())
    add_nodes(server, ill=["n1"])
    add_node(server, "n6", labels={"topology.kubernetes.io/zone": "eu-1a"})
    add_check(server)
    return server


@pytest.fixture
async def defib(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Defib]:
    """FILE in a command is a file that is not there yet."""
    monkeypatch.delenv("COLUMNS", raising=False)  # of whoever runs the tests
    async with serving(server) as front:
        kubeconfig = await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig")

        async def said(*arguments: str) -> tuple[int, str, str]:
            is_live = arguments[0] not in ("replay", "check")
            more = ["--kubeconfig", str(kubeconfig)] if is_live else []
            command = [word.replace("FILE", str(tmp_path / "d.json.gz")) for word in arguments]
            code = await asyncio.to_thread(execute, [*command, *more], program="defib")
            captured = capsys.readouterr()
            return code, captured.out.replace(str(tmp_path), "."), captured.err.replace(str(tmp_path), ".")

        yield said


def with_file(command: tuple[str, ...], path: Path) -> list[str]:
    return [str(path) if word == "FILE" else word for word in command]


# What is told


async def test_a_plan_says_what_would_be_done_and_why(defib: Defib) -> None:
    code, out, err = await defib("plan")
    assert (code, err) == (0, "")
    assert "in short     1 change would be made now" in out
    assert "would now    remediate node n1: create FooRemediation ns/n1, because Ready is Unknown since" in out
    assert "nodes        n1: Unhealthy: nothing holds its remediation back" in out
    assert "gates        all open" in out
    assert out.endswith("This only says what would be done. Nothing was changed.\n")


async def test_a_dump_says_what_is_in_it_and_what_can_be_done_with_it(defib: Defib) -> None:
    code, out, err = await defib("dump", "FILE")
    assert (code, err) == (0, "")
    assert out.startswith("./d.json.gz is written\n  holds        1 look at 6 nodes, 0 pods\n")
    joined = " ".join(out.split())
    assert "zcat ./d.json.gz | less" in joined
    assert "defib plan --dump ./d.json.gz defib simulate --dump ./d.json.gz --kill-node NAME" in joined
    assert (await defib("plan", "--dump", "FILE"))[1].startswith("Plan for dump ./d.json.gz\n")
    code, out, err = await defib("replay", "FILE")
    assert (code, err) == (0, "")
    assert "result       the same is decided at every look" in out
    assert "decided: remediate n1 for workers by FooRemediation n1, status workers" in out


async def test_a_what_if_tells_the_story_and_how_it_ends(defib: Defib) -> None:
    code, out, err = await defib("simulate", "--kill-zone", "eu-1a", "--kill-node", "n2", "--for", "10m")
    assert (code, err) == (0, "")
    assert out.startswith("What if 2 nodes died? (the cluster as it is now)\n")
    assert "dead         n2, n6" in out
    assert "+50s         Kubernetes notices: Ready becomes Unknown on 2 nodes" in out
    assert "+5m50s       check workers: remediated: FooRemediation is created [n2, n6]" in out
    assert "2 nodes      being remediated, by check workers: its remediation began after 5m50s [n2, n6]" in out
    assert "budget       3 being remediated, never more than 3 at once" in out
    assert out.endswith("Tried on a copy in memory. Nothing was done to the cluster.\n")


@pytest.mark.parametrize("command", [*LIVE, *ON_A_DUMP], ids=spelled)
async def test_every_answer_is_there_for_machines_too_and_says_the_same(defib: Defib, command: tuple[str, ...]) -> None:
    await defib("dump", "FILE")
    told = [await defib(*command, "-o", output) for output in FORMATS]
    assert [code for code, _, _ in told] == [0, 0, 0]
    as_json, as_yaml = msgspec.json.decode(told[1][1]), yaml.safe_load(told[2][1])
    assert as_json.keys() == as_yaml.keys()


async def test_nothing_is_written_to_the_cluster(defib: Defib, server: ApiServer) -> None:
    before = len(server.audit.writes())
    for command in LIVE:
        await defib(*command)
    assert len(server.audit.writes()) == before


def test_check_reads_what_comes_in() -> None:
    text = "apiVersion: defib.dev/v1alpha1\nkind: DrainPolicy\nmetadata: {name: p}\nspec: {mode: x}\n"
    command = [sys.executable, "-m", "defib", "check", "-"]
    ended = subprocess.run(command, input=text, capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stderr) == (3, "")
    assert ended.stdout == (
        "-:4: DrainPolicy p: spec.mode: must be one of Automatic, Approve, Observe, not 'x'\n"
        "1 problem in 1 object in 1 file\n"
    )


def test_check_says_when_all_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("apiVersion: defib.dev/v1alpha1\nkind: DrainPolicy\nmetadata: {name: p}\nspec: {}\n")
    assert execute(["check", str(path), str(path)], program="defib") == 0
    assert capsys.readouterr() == ("2 objects in 2 files: all is well\n", "")
    assert execute(["check", str(path), "-o", "json"], program="defib") == 0
    assert msgspec.json.decode(capsys.readouterr().out)["problems"] == []


def test_what_is_hostile_in_a_file_is_shown_and_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        'apiVersion: defib.dev/v1alpha1\nkind: DrainPolicy\nmetadata: {name: "\\e[2J"}\nspec: {"\\e[1m": 1}\n'
    )
    assert execute(["check", str(path)], program="defib") == 3
    assert "\x1b" not in capsys.readouterr().out


# What goes wrong


@pytest.mark.parametrize("command", LIVE, ids=spelled)
def test_no_kubeconfig(command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nowhere"
    assert execute([*with_file(command, tmp_path / "d"), "--kubeconfig", str(path)], program="defib") == 1
    assert capsys.readouterr() == ("", f"defib: kubeconfig {path} does not exist; name another with --kubeconfig\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", LIVE, ids=spelled)
def test_no_cluster(command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "unreachable.yaml"
    path.write_text(UNREACHABLE)
    assert execute([*with_file(command, tmp_path / "d"), "--kubeconfig", str(path)], program="defib") == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "cannot reach https://127.0.0.1:1: connection refused; is the API server running" in err


@pytest.mark.parametrize("command", LIVE, ids=spelled)
async def test_no_permission(defib: Defib, server: ApiServer, command: tuple[str, ...]) -> None:
    server.faults.inject(
        Fault(effect=Refuse(code=403, message="nodes is forbidden"), resource="nodes", verbs=("list",))
    )
    code, out, err = await defib(*command)
    assert (code, out) == (1, "")
    assert "nodes is forbidden" in err
    assert err.endswith("ask for the right to list it (kubectl auth can-i list nodes)\n")


@pytest.mark.parametrize("command", ON_A_DUMP, ids=spelled)
def test_a_file_that_is_not_there(command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nope"
    assert execute(with_file(command, path), program="defib") == 1
    assert capsys.readouterr() == ("", f"defib: {path} cannot be read: No such file or directory\n")


@pytest.mark.parametrize("command", ON_A_DUMP, ids=spelled)
async def test_half_a_file_and_a_dump_of_another_version(
    defib: Defib, tmp_path: Path, command: tuple[str, ...]
) -> None:
    await defib("dump", "FILE")
    path = tmp_path / "d.json.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    code, out, err = await defib(*command)
    assert (code, out) == (1, "")
    assert err.startswith("defib: ./d.json.gz is only a part of a dump: ")
    path.write_bytes(gzip.compress(b'{"line":"header","format":2,"defib":"7.0.0"}\n'))
    code, out, err = await defib(*command)
    assert (code, out) == (1, "")
    assert err == (
        "defib: ./d.json.gz was made by Defib 7.0.0 in format 2, and this is Defib 0.1.0, which reads format 1: "
        "use Defib 7.0.0 for it\n"
    )


async def test_a_replay_that_decides_otherwise_ends_with_3(defib: Defib, tmp_path: Path) -> None:
    await defib("dump", "FILE")
    path = tmp_path / "d.json.gz"
    content = gzip.decompress(path.read_bytes()).replace(
        b'"remediate n1 for workers by', b'"remediate n9 for workers by'
    )
    path.write_bytes(gzip.compress(content.replace(b'"defib":"0.1.0"', b'"defib":"0.0.9"')))
    code, out, err = await defib("replay", "FILE")
    assert (code, err) == (3, "")
    assert "made by      Defib 0.0.9; this is 0.1.0, of which the rules may differ" in out
    assert "result       decided OTHERWISE at 1 of 1 look" in out
    assert "no longer done: remediate n9 for workers by FooRemediation n1" in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--kill-node", "n"), "there is no node n; did you mean n1 or n2 or n3?"),
        (("--kill-zone", "eu-1"), "there is no zone eu-1; did you mean eu-1a?"),
        (("--kill-zone", "mars"), "there is no zone mars; the zones are eu-1a"),
    ],
)
async def test_what_is_not_there_cannot_be_killed(defib: Defib, flags: tuple[str, ...], message: str) -> None:
    assert await defib("simulate", *flags) == (1, "", f"defib: {message}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simulate",), "say what fails: --kill-node, --kill-zone or --api-down (see defib simulate --help)"),
        (("simulate", "--api-down", "--for", "soon"), "'soon' is not"),
        (("dump",), "Missing argument 'FILE'"),
        (("dump", "x", "--for", "48h"), "'48h' is not"),
        (("replay",), "Missing argument 'FILE'"),
        (("check",), "Missing argument 'FILE...'"),
        (("plan", "--as-group", "x"), "give --as with a name too"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert execute(list(arguments), program="defib") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_a_file_to_check_that_cannot_be_read_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nope.yaml"
    assert execute(["check", str(path)], program="defib") == 1
    assert capsys.readouterr() == ("", f"defib: {path} cannot be read: No such file or directory\n")
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
    assert execute(["check", str(path)], program="defib") == 1
    assert "there is nothing to check: no object is of a kind that Defib knows (DrainPolicy" in capsys.readouterr().err


def test_a_dump_into_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "no" / "d"
    kubeconfig = tmp_path / "k"
    kubeconfig.write_text(UNREACHABLE)
    assert execute(["dump", str(path), "--kubeconfig", str(kubeconfig)], program="defib") == 1
    assert capsys.readouterr().err == f"defib: {path} cannot be written: No such file or directory\n"


# Whoever starts us in the background may have had Ctrl-C ignored, and that is handed down.
HEARS_CTRL_C = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_module('defib', run_name='__main__')"


@pytest.mark.timeout(60)
async def test_a_recording_that_is_ended_by_ctrl_c_says_where_it_is(server: ApiServer, tmp_path: Path) -> None:
    file = tmp_path / "d.json.gz"
    async with serving(server) as front, asyncio.timeout(45):
        kubeconfig = await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig")
        command = ("-c", HEARS_CTRL_C, "dump", str(file), "--for", "1h", "--kubeconfig", str(kubeconfig))
        recording = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
        # Whoever looks a second time has kept what it saw the first time.
        while sum(one.path.endswith("/nodes") and one.verb == "list" for one in server.audit) < 2:  # noqa: ASYNC110  the audit does not call
            await asyncio.sleep(0.05)
        recording.send_signal(signal.SIGINT)
        out, _ = await recording.communicate()
        code = recording.returncode
    assert (code, out.decode()) == (
        0,
        f"ended by Ctrl-C; what was seen until then is in {file}: defib replay {file}\n",
    )
    assert replay(file).is_same
