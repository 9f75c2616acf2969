"""`python -m testbed story`: tells stories and prints their log books."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from defib.clock import SystemClock
from defib.simulate.virtual_time import VirtualClock, run
from testbed.cluster import ControlPlane
from testbed.programs import control_plane_programs
from testbed.scenario.control_plane import ControlPlaneStage
from testbed.scenario.embedded import EmbeddedStage
from testbed.scenario.parse import parse
from testbed.scenario.profiles import PROFILES, has_unmount_flag
from testbed.scenario.runner import Told, tell
from testbed.scenario.story import Story, Timers


def tell_stories(paths: Sequence[Path], *, real: bool) -> int:
    """How many did not end as they say. Raises StoryError when one cannot be read."""
    stories = [parse(path.read_text(), str(path)) for path in paths]
    failed = 0
    for timers in dict.fromkeys(story.timers for story in stories):
        chosen = [story for story in stories if story.timers is timers]
        for told in _on_control_plane(chosen, timers) if real else map(_embedded, chosen):
            print(told.transcript(), end="\n\n")
            failed += bool(told.failure)
    return failed


def _embedded(story: Story) -> Told:
    async def main(clock: VirtualClock) -> Told:
        return await tell(story, EmbeddedStage(clock))

    return run(main)


def _on_control_plane(stories: Sequence[Story], timers: Timers) -> list[Told]:
    programs = control_plane_programs()
    settings = PROFILES[timers].settings(unmount_flag=has_unmount_flag(programs))

    async def main() -> list[Told]:
        async with ControlPlane(programs, settings) as cluster:
            stage = ControlPlaneStage(cluster, SystemClock())
            return [await tell(story, stage) for story in stories]

    return asyncio.run(main())
