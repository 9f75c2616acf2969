"""An output that is closed, full or not read is no reason for a node to go without help."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.limits.fleet import a_fleet
from tests.limits.running import defib_run

NODES, FAILING, PODS_EACH = 40, (3, 7, 11), 3


@contextmanager
def a_full_disk() -> Iterator[int]:
    with Path("/dev/full").open("wb", buffering=0) as full:
        yield full.fileno()


@contextmanager
def a_reader_that_went_away() -> Iterator[int]:
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@contextmanager
def a_reader_that_does_not_read() -> Iterator[int]:
    """Its pipe is full already."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    yield writing
    os.close(reading)
    os.close(writing)


OUTPUTS = (a_full_disk, a_reader_that_went_away, a_reader_that_does_not_read)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("output", OUTPUTS)
async def test_nodes_are_remediated_though_neither_logs_nor_errors_can_be_written(
    output: Callable[[], AbstractContextManager[int]], tmp_path: Path
) -> None:
    async with a_fleet(NODES, tmp_path) as fleet:
        fleet.run_pods(FAILING, PODS_EACH)
        with output() as fd:
            # With all that can be said, so that much is lost; and it ends in order all the same.
            async with defib_run(fleet.kubeconfig, "--log-level=debug", stdout=fd, stderr=fd) as defib:
                await fleet.until_watched()
                fleet.fail(FAILING)
                await fleet.until_remediated(len(FAILING))
                assert await defib.is_ready()


@pytest.mark.timeout(60)
async def test_nodes_are_remediated_though_there_is_no_output_at_all(tmp_path: Path) -> None:
    async with a_fleet(NODES, tmp_path) as fleet:
        fleet.run_pods(FAILING, PODS_EACH)
        async with defib_run(fleet.kubeconfig, before="exec >&- 2>&-") as defib:
            await fleet.until_watched()
            fleet.fail(FAILING)
            await fleet.until_remediated(len(FAILING))
            assert await defib.is_ready()


@pytest.mark.timeout(60)
async def test_a_disk_that_has_room_again_is_told_how_much_was_lost(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with a_fleet(NODES, tmp_path) as fleet:
        fleet.run_pods(FAILING, PODS_EACH)
        with log.open("ab", buffering=0) as out:
            async with defib_run(fleet.kubeconfig, before="ulimit -f 4", stdout=out) as defib:
                await fleet.until_watched()
                fleet.fail(FAILING)
                await fleet.until_remediated(len(FAILING))
                out.truncate(0)
                fleet.fail([20])
                await fleet.until_remediated(len(FAILING) + 1)
                assert await defib.is_ready()
        assert '"log lines were lost"' in log.read_text()
