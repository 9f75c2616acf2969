"""Programs as fence agents: what they are told and how, what their words are worth, and that none of them stays."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from defib.clock import SystemClock
from defib.model.secret import Secret
from defib.power.base import Accepted, Credentials, NotReady, PowerState, Ready, Refused, Target, Unknown
from defib.power.fence_agent import OUTPUT_BYTES_MAX, FenceAgent

ENOUGH = 10.0
OVERTIME = 0.7
PASSWORD = "open-sesame-and-more"


def agent(folder: Path, script: str, name: str = "fence_it") -> FenceAgent:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return FenceAgent(SystemClock(), directory=folder)


def a_target(name: str = "fence_it", /, **options: str) -> Target:
    login = Credentials(username=Secret("admin"), password=Secret(PASSWORD), more={"community": Secret("blue-lagoon")})
    return Target(node="n1", address="10.0.0.7", credentials=login, options={"agent": name} | options)


async def test_everything_is_told_on_standard_input_and_nothing_elsewhere(tmp_path: Path) -> None:
    script = f'cat > {tmp_path}/told; echo "$0" "$@" > {tmp_path}/argv; env > {tmp_path}/environment; echo Status: ON'
    os.environ["DEFIB_TEST_OF_FENCE_AGENTS"] = "inherited"
    try:
        reading = await agent(tmp_path, script).state(a_target(plug="3", ssl="1"), ENOUGH)
    finally:
        del os.environ["DEFIB_TEST_OF_FENCE_AGENTS"]
    assert reading.state is PowerState.ON
    assert (tmp_path / "told").read_text().splitlines() == [
        "plug=3",
        "ssl=1",
        "community=blue-lagoon",
        "ip=10.0.0.7",
        "username=admin",
        f"password={PASSWORD}",
        "action=status",
    ]
    assert (tmp_path / "argv").read_text() == f"{tmp_path}/fence_it\n"
    environment = (tmp_path / "environment").read_text()
    assert not [word for word in (PASSWORD, "admin", "blue-lagoon", "10.0.0.7", "inherited") if word in environment]


@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("echo Status: ON", PowerState.ON),
        ("echo Status: OFF; exit 2", PowerState.OFF),
        ("echo warning; echo 'Status: OFF '; exit 2", PowerState.OFF),
        ("exit 2", PowerState.UNKNOWN),  # so ends also a program that does not know its arguments
        ("exit 0", PowerState.UNKNOWN),
        ("echo Status: OFF", PowerState.UNKNOWN),
        ("echo Status: ON; exit 2", PowerState.UNKNOWN),
        ("echo Status: ON; echo Status: OFF; exit 2", PowerState.UNKNOWN),
        ("echo Status: OFF >&2; exit 2", PowerState.UNKNOWN),
        ("echo Status: OFFLINE; exit 2", PowerState.UNKNOWN),
        ("echo No Status: OFF; exit 2", PowerState.UNKNOWN),
        ("kill -9 $$", PowerState.UNKNOWN),
    ],
)
async def test_only_the_right_words_with_the_right_exit_code_are_a_state(
    tmp_path: Path, script: str, state: PowerState
) -> None:
    driver = agent(tmp_path, script)
    assert (await driver.state(a_target(), ENOUGH)).state is state
    assert isinstance(await driver.check(a_target(), ENOUGH), NotReady if state is PowerState.UNKNOWN else Ready)


async def test_an_agent_that_fails_leaves_it_open_whether_it_has_sent_the_command(tmp_path: Path) -> None:
    assert await agent(tmp_path, "echo 'Success: Powered OFF'").off(a_target(), ENOUGH) == Accepted()
    failed = await agent(tmp_path, "echo '2026 ERROR: Connection lost' >&2; exit 1").off(a_target(), ENOUGH)
    assert failed == Unknown("it ended with 1: Connection lost")
    refused = await agent(tmp_path, "echo 'ERROR: Unable to connect/login to fencing device' >&2; exit 1").off(
        a_target(), ENOUGH
    )
    assert isinstance(refused, Refused)


async def test_an_agent_that_repeats_its_secrets_does_not_make_us_show_them(tmp_path: Path) -> None:
    off = await agent(tmp_path, "cat >&2; exit 1").off(a_target(), ENOUGH)
    shown = repr((off, await agent(tmp_path, "cat; exit 1").check(a_target(), ENOUGH)))
    assert "it ended with 1" in shown
    assert PASSWORD not in shown
    assert "blue-lagoon" not in shown
    last = await agent(tmp_path, f"echo 'ERROR: {PASSWORD} is wrong' >&2; exit 1").off(a_target(), ENOUGH)
    assert last == Unknown("it ended with 1: [hidden] is wrong")


async def test_at_the_deadline_an_agent_is_killed_with_all_its_children(tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/parent; wait"
    clock = SystemClock()
    began = clock.monotonic()
    off = await agent(tmp_path, script).off(a_target(), 0.5)
    assert clock.monotonic() - began < 0.5 + OVERTIME
    assert off == Unknown("no answer within 0.5 s")
    for who in ("parent", "child"):
        await expect_dead(int((tmp_path / who).read_text()))


async def test_an_agent_ends_with_the_task_that_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    driver = agent(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 1000")
    async with asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(driver.off(a_target(), ENOUGH))
        async with asyncio.timeout(ENOUGH):
            pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
        calling.cancel()
    await expect_dead(pid)


async def test_what_a_finished_agent_left_running_is_killed(tmp_path: Path) -> None:
    script = f"sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > {tmp_path}/child; echo Status: ON"
    assert (await agent(tmp_path, script).state(a_target(), ENOUGH)).state is PowerState.ON
    await expect_dead(int((tmp_path / "child").read_text()))


async def expect_dead(pid: int) -> None:
    """Gone, or a zombie that whoever inherited it has not looked at yet."""
    async with asyncio.timeout(ENOUGH):
        while await asyncio.to_thread(_is_running, pid):
            pass


def _is_running(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    return False


async def test_output_without_end_is_cut_off(tmp_path: Path) -> None:
    for script in ("exec yes", "exec yes >&2"):
        reading = await agent(tmp_path, script).state(a_target(), ENOUGH)
        assert reading.state is PowerState.UNKNOWN
        assert reading.detail == f"it printed more than {OUTPUT_BYTES_MAX} bytes"


async def test_an_agent_that_does_not_listen_is_heard_all_the_same(tmp_path: Path) -> None:
    target = a_target(plug="x" * 60_000, region="y" * 60_000)
    reading = await agent(tmp_path, "exec <&-; echo Status: OFF; exit 2").state(target, ENOUGH)
    assert reading.state is PowerState.OFF


@pytest.mark.parametrize(
    "name", ["", "sh", "fence_", "../fence_it", "/bin/fence_it", "fence_it;id", "fence_it\n", "Fence_it", "fence_it/x"]
)
async def test_only_the_name_of_a_fence_agent_is_a_name(tmp_path: Path, name: str) -> None:
    off = await agent(tmp_path, f"touch {tmp_path}/ran").off(a_target(name), ENOUGH)
    assert off == Refused("its option `agent` must name a fence agent, such as fence_apc")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["fence_scsi", "fence_mpath", "fence_kdump", "fence_dummy", "fence_brocade"])
async def test_an_agent_that_does_not_switch_power_is_refused(tmp_path: Path, name: str) -> None:
    off = await agent(tmp_path, f"touch {tmp_path}/ran", name).off(a_target(name), ENOUGH)
    assert off == Refused(f"{name} does not switch the power of a machine")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "option",
    [
        "action",
        "option",
        "password",
        "passwd",
        "username",
        "password_script",
        "password-script",
        "ipmitool_path",
        "ssh_options",
        "ssh-options",
        "identity_file",
        "debug_file",
        "debug",
        "verbose",
        "verbose-level",
        "missing_as_off",
        "missing-as-off",
        "network-fencing",
        "method",
        "runonfail",  # of fence_gce: a command
        "runonwarn",
        "serviceaccount",
        "port_as_ip",  # another address than ours, in which there may be options of ssh
        "port-as-ip",
        "help",
        "x=1\naction",
        "",
        "#",
    ],
)
async def test_an_option_that_could_do_more_than_describe_the_device_is_refused(tmp_path: Path, option: str) -> None:
    off = await agent(tmp_path, f"touch {tmp_path}/ran").off(a_target(**{option: "1"}), ENOUGH)
    assert isinstance(off, Refused)
    assert "is not allowed for fence agents" in off.why
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("value", ["3\naction=on", "3\raction=on", "3\x00", "3\u2028action=on", "3\x85action=on"])
async def test_a_value_cannot_bring_a_second_line(tmp_path: Path, value: str) -> None:
    driver = agent(tmp_path, f"touch {tmp_path}/ran")
    assert await driver.off(a_target(plug=value), ENOUGH) == Refused("its `plug` has more than one line")
    login = Target(node="n1", address="x", credentials=Credentials(password=Secret(value)), options=a_target().options)
    assert await driver.off(login, ENOUGH) == Refused("its `password` has more than one line")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "address", ["x;id", "x$(id)", "`id`", "x -oProxyCommand=id", "-oProxyCommand=id", "x|id", "x&id"]
)
async def test_an_address_cannot_bring_a_command(tmp_path: Path, address: str) -> None:
    """Agents put it into the command line of ssh, and fence_amt into one of a shell."""
    target = Target(node="n1", address=address, options=a_target().options)
    off = await agent(tmp_path, f"touch {tmp_path}/ran").off(target, ENOUGH)
    assert off == Refused("its address is neither a name nor a number of a device")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "bmc-1.rack_2.example", "[fe80::1%eth0]:22", "fe80::1", "/dev/ttyS0", ""]
)
async def test_whatever_names_a_device_is_an_address(tmp_path: Path, address: str) -> None:
    target = Target(node="n1", address=address, options=a_target().options)
    assert await agent(tmp_path, "echo Status: ON").check(target, ENOUGH) == Ready()


async def test_a_program_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    off = await FenceAgent(SystemClock(), directory=tmp_path).off(a_target(), ENOUGH)
    assert off == Refused(
        f"{tmp_path}/fence_it cannot be started: No such file or directory; is its package installed?"
    )


async def test_debians_agent_comes_to_its_end_when_it_is_killed(fence_agents: Path) -> None:
    """It starts ipmitool and waits for it, for 20 s; nothing of that is left after half a second."""
    target = Target(
        node="n1",
        address="127.0.0.1",
        credentials=Credentials(username=Secret("admin"), password=Secret(PASSWORD)),
        options={"agent": "fence_ipmilan", "ipport": "9", "lanplus": "1"},
    )
    off = await FenceAgent(SystemClock(), directory=fence_agents).off(target, 1.0)
    assert isinstance(off, Unknown)
    assert await asyncio.to_thread(_running_with, b"\x009\x00-P\x00" + PASSWORD.encode()) == []


def _running_with(argument: bytes) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if argument in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found
