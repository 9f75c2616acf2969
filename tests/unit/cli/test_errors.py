"""Whatever goes wrong, every command says it in one line that says what to do, and ends with a code that is documented."""

import asyncio
from pathlib import Path

import pytest

from defib.cli.main import cli, execute
from defib.clock import SystemClock
from defib.simulate.faults import Fault, Refuse
from defib.simulate.http import serving
from defib.simulate.server import ApiServer
from tests.unit.cli.at_the_prompt import Defib
from tests.unit.console.desk import a_server, add_check, add_nodes

ABOUT_A_NODE = (
    ("why", "n1"),
    ("drain", "n1"),
    ("timeline", "n1"),
    ("approve", "n1"),
    ("approve", "n1", "--drain"),
    ("reject", "n1"),
    ("reject", "n1", "--drain"),
    ("confirm-down", "n1"),
)
COMMANDS = (
    *ABOUT_A_NODE,
    ("drain", "--forecast"),
    ("status",),
    ("incidents",),
    ("incidents", "--node", "n1"),
    ("shards",),
    ("pause",),
    ("resume",),
    ("version", "--server"),
)
UNREACHABLE = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: very-secret-token}}]
contexts: [{name: blue, context: {cluster: c, user: u}}]
current-context: blue
"""
# What each of them may not do, when it may do nothing; and how to see whether that has changed.
RIGHTS = {
    ("why", "n1"): "kubectl auth can-i list nodes",
    ("drain", "n1"): "kubectl auth can-i get nodes",
    ("drain", "--forecast"): "kubectl auth can-i list nodes",
    ("timeline", "n1"): "kubectl auth can-i list nodes",
    ("approve", "n1"): "kubectl auth can-i list nodes",
    ("approve", "n1", "--drain"): "kubectl auth can-i get nodes/n1",
    ("reject", "n1"): "kubectl auth can-i list nodes",
    ("reject", "n1", "--drain"): "kubectl auth can-i get nodes/n1",
    ("confirm-down", "n1"): "kubectl auth can-i get nodeincidents/n1",
    ("status",): "kubectl auth can-i list nodes",
    ("incidents",): "kubectl auth can-i list nodeincidents.defib.dev",
    ("incidents", "--node", "n1"): "kubectl auth can-i list nodeincidents.defib.dev",
    ("shards",): "kubectl auth can-i list leases -n defib-system",
    ("pause",): "kubectl auth can-i get configmaps/defib-brake -n defib-system",
    ("resume",): "kubectl auth can-i get configmaps/defib-brake -n defib-system",
}


def spelled(command: tuple[str, ...]) -> str:
    return " ".join(command)


@pytest.fixture
async def server() -> ApiServer:
    server = a_server(SystemClock())
    add_nodes(server, ill=["n1"])
    add_check(server)
    return server


@pytest.mark.parametrize("command", COMMANDS, ids=spelled)
def test_no_kubeconfig(command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nowhere"
    assert execute([*command, "--kubeconfig", str(path)], program="defib") == 1
    line = f"defib: kubeconfig {path} does not exist; name another with --kubeconfig\n"
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize("command", COMMANDS, ids=spelled)
def test_no_cluster(command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "unreachable.yaml"
    path.write_text(UNREACHABLE)
    assert execute([*command, "--kubeconfig", str(path)], program="defib") == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "cannot reach https://127.0.0.1:1: connection refused; is the API server running" in err
    assert "secret" not in err


@pytest.mark.parametrize("command", COMMANDS, ids=spelled)
def test_no_such_context(command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kubeconfig.yaml"
    path.write_text(UNREACHABLE)
    assert execute([*command, "--kubeconfig", str(path), "--context", "green"], program="defib") == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "no context 'green'" in err
    assert "'blue'" in err


@pytest.mark.parametrize("command", RIGHTS, ids=spelled)
async def test_no_permission(command: tuple[str, ...], server: ApiServer, defib: Defib) -> None:
    server.faults.inject(Fault(effect=Refuse(code=403, message='User "ann" cannot do this')))
    code, out, err = await defib(*command)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert 'User "ann" cannot do this' in err
    assert f"; ask for the right to {RIGHTS[command].split()[3]} it ({RIGHTS[command]})" in err


@pytest.mark.parametrize("command", COMMANDS[:-1], ids=spelled)  # the version is told to everybody
async def test_credentials_that_are_not_accepted(command: tuple[str, ...], server: ApiServer, defib: Defib) -> None:
    server.faults.inject(Fault(effect=Refuse(code=401, reason="Unauthorized", message="Unauthorized")))
    code, out, err = await defib(*command)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "there are no credentials; add a user" in err


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("why",), "there is no node n55; did you mean n5?"),
        (("drain",), "there is no node n55; did you mean n5?"),
        (
            ("timeline",),
            "there is no node n55; did you mean n5?; and there is no incident of that name (defib incidents --all)",
        ),
        (("approve",), "there is no node n55; did you mean n5?"),
        (("approve", "--drain"), "there is no node n55 (kubectl get nodes)"),
        (("reject",), "there is no node n55; did you mean n5?"),
        (("reject", "--drain"), "there is no node n55 (kubectl get nodes)"),
        (("incidents", "--node"), "there is no node n55; did you mean n5?"),
    ],
)
async def test_an_unknown_node(command: tuple[str, ...], line: str, defib: Defib) -> None:
    assert await defib(*command, "n55") == (1, "", f"defib: {line}\n")


async def test_an_unknown_node_cannot_be_confirmed_to_be_down(defib: Defib) -> None:
    code, out, err = await defib("confirm-down", "n55")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("defib: there is no incident of node n55 (kubectl get nodeincidents), so nobody asks ")


@pytest.mark.parametrize("command", COMMANDS, ids=spelled)
@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "--config: cannot read {path}: No such file or directory"),
        ("namespace: [", "{path}: this is not YAML: "),
        ("just words", "{path}: must be a mapping of settings to values, such as 'log_level: debug'"),
        ("namespaec: x", "{path} line 1: namespaec: no such setting; did you mean namespace?"),
    ],
)
def test_a_bad_file_of_settings(
    command: tuple[str, ...], content: str | None, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.yaml"
    if content is not None:
        path.write_text(content)
    assert execute([*command, "--config", str(path)], program="defib") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"defib: {line.format(path=path)}")


@pytest.mark.parametrize(
    "command", [("why",), ("timeline",), ("approve",), ("reject",), ("confirm-down",)], ids=spelled
)
def test_a_node_that_was_not_named(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*command], program="defib") == 2
    out, err = capsys.readouterr()
    what = "NODE|INCIDENT" if command == ("timeline",) else "NODE"
    assert (out, err) == ("", f"defib: Missing argument '{what}'. (see defib {command[0]} --help)\n")


@pytest.mark.parametrize("command", COMMANDS, ids=spelled)
def test_an_output_that_does_not_exist(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*command, "-o", "xml"], program="defib") == 2
    out, err = capsys.readouterr()
    said = "Invalid value for '-o' / '--output': 'xml' is not one of 'text', 'json', 'yaml'."
    assert (out, err) == ("", f"defib: {said} (see defib {command[0]} --help)\n")


@pytest.mark.parametrize("command", COMMANDS[:-1], ids=spelled)
def test_groups_without_a_user(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*command, "--as-group", "ops"], program="defib") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "--as-group says in which groups the user of --as is; give --as with a name too" in err


async def test_a_user_whom_no_header_can_name(defib: Defib) -> None:
    said = "--as or --as-group has characters that cannot be sent; give a name as the cluster knows it"
    assert await defib("why", "n1", "--as", "ann\nHost: x") == (1, "", f"defib: {said}\n")


async def test_a_cluster_without_our_kinds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = "their CRD is not installed (kubectl apply -f deploy/crds)"
    async with serving(ApiServer(SystemClock())) as front:
        kubeconfig = await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig")
        for command, kind in ((("status",), "NodeHealthChecks"), (("incidents",), "NodeIncidents")):
            arguments = [*command, "--kubeconfig", str(kubeconfig)]
            assert await asyncio.to_thread(execute, arguments, program="defib") == 1
            assert capsys.readouterr() == ("", f"defib: the cluster has no {kind}: {missing}\n")


@pytest.mark.parametrize("name", sorted({command[0] for command in COMMANDS} - {"version"}))
def test_the_help_says_what_the_exit_codes_mean(name: str) -> None:
    assert "Exit codes: 0 " in (cli.commands[name].help or "")
