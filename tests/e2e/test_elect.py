"""`defib elect` on a real API server: one of several runs the command, whatever becomes of the others."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.kube.client import Client, Merge
from defib.kube.errors import NotFound
from defib.kube.kinds import LEASES
from testbed.cluster import ControlPlane
from testbed.programs import Program, Programs
from tests.contract.api_server.steps import eventually
from tests.e2e.bare_cluster import administrator, bare_cluster
from tests.e2e.elected import (
    LEASE_SECONDS,
    LOST_GRACE_SECONDS,
    RETRY_SECONDS,
    Book,
    code_of,
    elected,
    expect_gone,
    is_alive,
    numbers,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

CLOCK = SystemClock()
RENEW_SECONDS = 2.0
BUSY_SECONDS = 2.0  # processes start slowly on a busy machine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with bare_cluster(programs) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with administrator(plane) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def book(tmp_path: Path) -> Book:
    return await Book(tmp_path).open()


@pytest.fixture
def lock(request: pytest.FixtureRequest) -> str:
    return f"lock-{request.node.name[-40:].replace('_', '-').strip('-[]')}"


async def holder(client: Client, lock: str) -> str | None:
    """None where there is no such lock."""
    try:
        return (await client.get(LEASES.at(lock, "default"))).spec.holder_identity or ""
    except NotFound:
        return None


async def test_le_07_the_command_is_handed_over_on_sigterm_within_a_retry_period_and_never_runs_twice(
    plane: ControlPlane, client: Client, book: Book, lock: str
) -> None:
    async with elected("a", plane.kubeconfig, lock, *book.command()) as first:
        await book.expect_next("a")
        async with elected("b", plane.kubeconfig, lock, *book.command()) as second:
            await eventually(lambda: _says(second, "standing by"))
            first.terminate()
            assert await code_of(first) == 128 + signal.SIGTERM
            after = await book.expect_next("b")
            before = (await book.stints())[-2]
            assert after.begun - before.ended < 1.2 * RETRY_SECONDS + BUSY_SECONDS < LEASE_SECONDS + RETRY_SECONDS
            second.terminate()
            assert await code_of(second) == 128 + signal.SIGTERM
    await book.expect_never_two_at_once()
    assert await holder(client, lock) == "", "the last one has released it too"


async def test_a_killed_leader_takes_its_command_along_before_another_one_leads(
    plane: ControlPlane, book: Book, lock: str
) -> None:
    async with (
        elected("a", plane.kubeconfig, lock, *book.command("stubborn")) as first,
        elected("b", plane.kubeconfig, lock, *book.command("stubborn")) as second,
    ):
        before = await book.expect_next()
        leader = {"a": first, "b": second}[before.replica]
        killed = CLOCK.monotonic()
        leader.kill()
        await expect_gone(before.pid, within=LOST_GRACE_SECONDS + BUSY_SECONDS)
        after = await book.expect_next(than=before.pid)
        assert after.replica != before.replica
        assert after.begun - killed < LEASE_SECONDS + 2 * RETRY_SECONDS + BUSY_SECONDS
    await book.expect_never_two_at_once()


async def test_le_08_a_leader_that_is_stopped_has_its_command_ended_in_time_all_the_same(
    plane: ControlPlane, book: Book, lock: str
) -> None:
    async with (
        elected("a", plane.kubeconfig, lock, *book.command("stubborn")) as first,
        elected("b", plane.kubeconfig, lock, *book.command("stubborn")) as second,
    ):
        before = await book.expect_next()
        leader, other = (first, second) if before.replica == "a" else (second, first)
        leader.send_signal(signal.SIGSTOP)
        stopped = CLOCK.monotonic()
        await expect_gone(before.pid)
        assert CLOCK.monotonic() - stopped < RENEW_SECONDS + LOST_GRACE_SECONDS + BUSY_SECONDS / 4
        after = await book.expect_next(than=before.pid)
        assert after.replica != before.replica
        leader.send_signal(signal.SIGCONT)
        # It stands by again, and takes its turn.
        other.terminate()
        await book.expect_next(before.replica, than=after.pid)
        assert leader.returncode is None
    await book.expect_never_two_at_once()


async def test_le_08_without_the_api_server_the_command_is_ended_before_the_lease_and_later_run_again(
    plane: ControlPlane, book: Book, lock: str
) -> None:
    async with elected("a", plane.kubeconfig, lock, *book.command("stubborn")) as process:
        before = await book.expect_next()
        plane.pause(Program.APISERVER)
        paused = CLOCK.monotonic()
        try:
            await expect_gone(before.pid)
            assert CLOCK.monotonic() - paused < LEASE_SECONDS
        finally:
            plane.resume(Program.APISERVER)
        await book.expect_next("a", than=before.pid)
        assert process.returncode is None
    await book.expect_never_two_at_once()


async def test_a_command_is_ended_when_a_stranger_takes_the_lock(
    plane: ControlPlane, client: Client, book: Book, lock: str
) -> None:
    async with elected("a", plane.kubeconfig, lock, *book.command()) as process:
        before = await book.expect_next()
        taken = Merge({"spec": {"holderIdentity": "stranger", "renewTime": "2026-01-01T00:00:00.000000Z"}})
        await client.patch(LEASES.at(lock, "default"), taken)
        await expect_gone(before.pid, within=RETRY_SECONDS + LOST_GRACE_SECONDS + BUSY_SECONDS)
        again = await book.expect_next(than=before.pid)
        assert again.begun - before.ended > LEASE_SECONDS - 2 * RETRY_SECONDS, "nobody has taken it from the stranger"
        assert process.returncode is None


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("sleep 60 & exit 3", 3)]
)
async def test_when_the_command_ends_by_itself_so_does_this_with_its_code_and_the_lock_is_free(
    plane: ControlPlane, client: Client, script: str, code: int
) -> None:
    lock = f"code-{code}"
    async with elected("a", plane.kubeconfig, lock, "sh", "-c", script) as process:
        assert await code_of(process) == code
    assert await holder(client, lock) == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGHUP, 21), (signal.SIGUSR1, 22), (signal.SIGUSR2, 23)])
async def test_other_signals_are_for_the_command(
    plane: ControlPlane, book: Book, number: signal.Signals, code: int
) -> None:
    async with elected("a", plane.kubeconfig, f"signal-{code}", *book.command()) as process:
        await book.expect_next()
        process.send_signal(number)
        assert await code_of(process) == code


async def test_while_it_stands_by_other_signals_are_for_nobody_and_sigterm_is_the_end(
    plane: ControlPlane, book: Book, lock: str
) -> None:
    async with (
        elected("a", plane.kubeconfig, lock, *book.command()),
        elected("b", plane.kubeconfig, f"{lock}-free", "true") as quick,
    ):
        await book.expect_next("a")
        assert await code_of(quick) == 0
        async with elected("b", plane.kubeconfig, lock, *book.command()) as standby:
            await eventually(lambda: _says(standby, "standing by"))
            standby.send_signal(signal.SIGHUP)
            standby.send_signal(signal.SIGUSR1)
            standby.terminate()
            assert await code_of(standby) == 0
    assert {stint.replica for stint in await book.stints()} == {"a"}


FAMILY = "echo $$; sleep 600 & echo $!; setsid sleep 601 & echo $!; (setsid sh -c 'sleep 602 & echo $!' &); wait"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_nothing_that_came_from_the_command_is_left(plane: ControlPlane, number: signal.Signals) -> None:
    async with elected("a", plane.kubeconfig, f"family-{number}", "sh", "-c", FAMILY) as process:
        assert process.stdout is not None
        async with asyncio.timeout(10):
            family = [next(numbers(await process.stdout.readline())) for _ in range(4)]
        assert all(is_alive(pid) for pid in family)
        process.send_signal(number)
        await code_of(process)
        await expect_gone(*family, within=LOST_GRACE_SECONDS + BUSY_SECONDS)


async def test_nothing_of_the_command_is_left_when_the_leash_itself_is_killed(plane: ControlPlane, lock: str) -> None:
    async with elected("a", plane.kubeconfig, lock, "sh", "-c", f"{FAMILY}") as process:
        assert process.stdout is not None
        async with asyncio.timeout(10):
            family = [next(numbers(await process.stdout.readline())) for _ in range(4)]
        stat = await asyncio.to_thread(Path(f"/proc/{family[0]}/stat").read_text)
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
        assert await code_of(process) == 128 + signal.SIGKILL
        await expect_gone(*family, within=BUSY_SECONDS)


async def test_a_command_that_does_not_stop_is_killed_and_only_then_the_lock_is_released(
    plane: ControlPlane, client: Client, book: Book, lock: str
) -> None:
    async with elected("a", plane.kubeconfig, lock, *book.command("stubborn")) as process:
        stint = await book.expect_next()
        process.terminate()
        await expect_gone(stint.pid)
        assert await code_of(process) == 128 + signal.SIGKILL
    (stint,) = await book.stints()
    assert await holder(client, lock) == ""
    released = (await client.get(LEASES.at(lock, "default"))).spec.renew_time
    assert released is not None
    # The clock of the wall and the one of the book, brought together.
    assert CLOCK.monotonic() - (CLOCK.now() - released).total_seconds() > stint.ended


async def test_without_an_input_of_its_own_the_command_has_an_empty_one(plane: ControlPlane, lock: str) -> None:
    async with elected("a", plane.kubeconfig, lock, "sh", "-c", "cat && exit 6", stdin=False) as process:
        assert await code_of(process) == 6


async def test_le_14_and_le_15_one_that_tells_who_leads_and_one_that_follows_it(
    plane: ControlPlane, book: Book, lock: str
) -> None:
    port = _free_port()
    address, url = f"--leader-address=127.0.0.1:{port}", f"--leader-url=http://127.0.0.1:{port}/"
    async with elected("a", plane.kubeconfig, lock, address, "sleep", "600") as sidecar:
        await eventually(lambda: _leader_on(port, "a"))
        async with elected("a", plane.kubeconfig, "unused", "--election=follow", url, *book.command()) as follower:
            before = await book.expect_next("a")
            sidecar.terminate()
            await expect_gone(before.pid, within=2 * RETRY_SECONDS + LOST_GRACE_SECONDS + BUSY_SECONDS)
            assert follower.returncode is None


async def test_le_16_the_annotation_of_endpoints_is_a_lock_too(plane: ControlPlane, book: Book, lock: str) -> None:
    async with elected("a", plane.kubeconfig, lock, "--election=endpoints", *book.command()) as first:
        before = await book.expect_next("a")
        async with elected("b", plane.kubeconfig, lock, "--election=endpoints", *book.command()):
            first.terminate()
            await book.expect_next("b", than=before.pid)
    await book.expect_never_two_at_once()


async def _says(process: asyncio.subprocess.Process, words: str) -> bool:
    """The next line of its log is this."""
    assert process.stderr is not None
    return bool(json.loads(await process.stderr.readline())["event"] == words)


async def _leader_on(port: int, name: str) -> bool:
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/") as answer,
        ):
            return bool(await answer.json() == {"name": name})
    except aiohttp.ClientConnectionError:
        return False


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
