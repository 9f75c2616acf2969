"""Plays a story on the embedded server in virtual time, with the simulated controllers."""

import asyncio
from collections.abc import Awaitable, Callable

from defib.kube.client import Client
from defib.simulate import controllers
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.simulate.workloads import Workloads, WorkloadTimers
from tests.unit.simulate_workloads.stage import Stage


class VirtualStage(Stage):
    def __init__(self, clock: VirtualClock, timers: WorkloadTimers) -> None:
        self.server = ApiServer(clock)
        self.clock = clock
        controllers.attach(self.server)
        self.workloads = Workloads(self.server, clock, timers)
        super().__init__(Client(InProcess(self.server, "person"), clock))

    async def pass_time(self, seconds: float) -> None:
        """Nobody plays meanwhile; only controllers work."""
        await asyncio.sleep(seconds)

    def writers(self) -> set[str]:
        return {asked.client for asked in self.server.audit.writes()}


Story = Callable[[VirtualStage], Awaitable[None]]


def play(story: Story, *, timers: WorkloadTimers | None = None, seed: int = 0) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = VirtualStage(clock, timers or WorkloadTimers())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stage.workloads.run())
            await story(stage)
            running.cancel()

    run(main, seed=seed)
