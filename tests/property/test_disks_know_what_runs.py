"""Whatever happens to nodes and pods, the disk is written to by exactly the containers that run. It is the judge of I1."""

import asyncio
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from defib.hollow.disk import Disk
from defib.simulate.virtual_time import VirtualClock, run
from tests.unit.hollow.day import NAMES, Day, blueprints, pass_seconds

WRITES = ("running", "stopping")


class Deed(NamedTuple):
    what: str
    node: str
    then_seconds: float


DEEDS = st.lists(
    st.builds(
        Deed,
        what=st.sampled_from(
            ["power off", "power on", "hang", "resume", "partition", "heal", "delete", "force delete", "make"]
        ),
        node=st.sampled_from(NAMES),
        then_seconds=st.sampled_from([0, 0.3, 1, 5, 11, 45]),
    ),
    max_size=25,
)


async def do(day: Day, deed: Deed) -> None:
    node, pod = day.nodes[deed.node], await day.pod(f"db-{deed.node}")
    match deed.what:
        case "power off" | "power on":
            node.machine.set_power(deed.what == "power on")
        case "hang" | "resume" | "partition" | "heal":
            getattr(node, deed.what)()
        case "delete" | "force delete" if pod:
            await day.delete(pod, 0 if deed.what == "force delete" else None)
        case "make" if not pod:
            await day.make_pod(f"db-{deed.node}", deed.node, "data", annotations={"stop-seconds": "4"})


def check(day: Day, disk: Disk, hung: set[str]) -> None:
    """A hung kubelet does not know yet that what it was stopping has stopped; the disk does."""
    running = {name: set(day.nodes[name].containers().values()) for name in day.nodes}
    may = {name for name, stages in running.items() if stages & set(WRITES)}
    must = {name for name in may if name not in hung or "running" in running[name]}
    writers = {writer.node for writer in disk.writers()}
    assert must <= writers <= may
    assert all(day.nodes[name].is_on for name in writers)


@settings(max_examples=60, deadline=None)
@given(deeds=DEEDS, seed=st.integers(0, 1000))
def test_the_disk_is_written_by_what_runs_and_by_nothing_else(deeds: list[Deed], seed: int) -> None:
    async def main(clock: VirtualClock) -> None:
        day = Day(clock, blueprints())
        hung: set[str] = set()
        waking: set[str] = set()
        async with asyncio.TaskGroup() as group:
            living = group.create_task(day.live())
            await pass_seconds(1)
            disk = await day.make_volume("data", "ReadWriteMany")
            for name in NAMES:
                await day.make_pod(f"db-{name}", name, "data", annotations={"stop-seconds": "4"})
                await day.attach("data", name)
            await pass_seconds(15)
            assert {writer.node for writer in disk.writers()} == set(NAMES)
            for deed in deeds:
                await do(day, deed)
                if deed.what == "hang":
                    hung.add(deed.node)
                    waking.discard(deed.node)
                elif deed.what == "resume" and deed.node in hung:
                    waking.add(deed.node)  # it catches up with what has stopped meanwhile, but not in no time
                elif deed.what == "power off":
                    hung.discard(deed.node)
                check(day, disk, hung)
                await pass_seconds(deed.then_seconds)
                if deed.then_seconds:
                    hung -= waking
                    waking.clear()
                check(day, disk, hung)
            living.cancel()

    run(main, seed=seed)
