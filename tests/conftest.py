"""What many tests share: the real control plane's programs and those of Debian's packages, or one loud line that they are missing."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from testbed.packages import NotInstalled, ensure
from testbed.programs import NoControlPlane, Program, Programs, control_plane_programs, helm_program

_MISSING: dict[str, str] = {}  # why, by the tests that did not run


@pytest.fixture(scope="session")
def programs() -> Programs:
    """`make test` builds them before; a test that has to build them itself may run into its own time limit."""
    try:
        return control_plane_programs()
    except NoControlPlane as error:
        _do_without("the tests on a real control plane", str(error))


@pytest.fixture(scope="session")
def kubectl(programs: Programs) -> Path:
    return programs[Program.KUBECTL]


@pytest.fixture(scope="session")
def helm() -> Path:
    """`make test` builds it before, as it does the control plane."""
    try:
        return helm_program()
    except NoControlPlane as error:
        _do_without("the tests with Helm", str(error))


@pytest.fixture(scope="session")
def ipmitool() -> Path:
    try:
        return ensure("ipmitool")
    except NotInstalled as error:
        _do_without("the tests with ipmitool", str(error))


@pytest.fixture(scope="session")
def chromium() -> Path:
    try:
        return ensure("chromium")
    except NotInstalled as error:
        _do_without("the tests of the page in a browser", str(error))


@pytest.fixture(scope="session")
def fence_agents() -> Path:
    """The directory that holds Debian's agents, which need ipmitool for IPMI."""
    try:
        ensure("ipmitool")
        return ensure("fence-agents", "fence_ipmilan").parent
    except NotInstalled as error:
        _do_without("the tests with Debian's fence agents", str(error))


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return _of_prometheus("prometheus")


@pytest.fixture(scope="session")
def promtool() -> Path:
    return _of_prometheus("promtool")


def _of_prometheus(program: str) -> Path:
    try:
        return ensure("prometheus", program)
    except NotInstalled as error:
        _do_without("the tests with Prometheus", str(error))


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One program of Debian's under another name. The package that has it under this one would start a service, too."""
    if found := shutil.which("redis-server"):
        return Path(found)
    try:
        program = ensure("redis-tools", "redis-check-rdb")
    except NotInstalled as error:
        _do_without("the tests with Redis", str(error))
    server = tmp_path_factory.mktemp("redis") / "redis-server"
    server.symlink_to(program)
    return server


@pytest.fixture(scope="session")
def zookeeper() -> Path:
    """The library that is the server, too. It comes with a Java to run it."""
    try:
        return ensure("zookeeper", "/usr/share/zookeeper/bin/zkServer.sh")
    except NotInstalled as error:
        _do_without("the tests with ZooKeeper", str(error))


@pytest.fixture(scope="session")
def tunnels() -> None:
    """What networks of nodes are made of."""
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists():
        _do_without("the tests with networks of nodes", "they need root and /dev/net/tun")


def _do_without(tests: str, why: str) -> NoReturn:
    _MISSING[tests] = why
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where several processes run the tests, only one of them speaks."""
    if (told := getattr(session.config, "workeroutput", None)) is not None:
        told["missing"] = _MISSING


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    _MISSING.update(getattr(node, "workeroutput", {}).get("missing", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for tests, why in _MISSING.items():
        terminalreporter.write_sep("!", f"{tests} did not run", red=True, bold=True)
        terminalreporter.write_line(why, red=True)
