"""`defib replay`: whether the same is decided as then, and what happened meanwhile."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType

from defib.cli.drawing import Fact, count, facts, names, text
from defib.cli.output import ask, show
from defib.console.replay import FrameTold, ReplayTold, replay

NOT_WELL = 3
LABEL = "%H:%M:%S"


def show_replay(file: Path, output: str) -> int:
    told = ask(asyncio.to_thread(replay, file), f"deciding again on {file}")
    show(told, lambda _: page(told), output)
    return 0 if told.is_same else NOT_WELL


def page(told: ReplayTold) -> RenderableType:
    parts: list[RenderableType] = [text(f"Replay of {told.file}", "bold"), facts(_head(told))]
    story = [fact for frame in told.frames for fact in _frame(frame)]
    return Group(*parts, "", facts(iter(story))) if story else Group(*parts)


def _head(told: ReplayTold) -> Iterator[Fact]:
    other = "" if told.made_by == told.this_is else f"; this is {told.this_is}, of which the rules may differ"
    yield "made by", text(f"Defib {told.made_by}{other}")
    first, last = told.frames[0].now, told.frames[-1].now
    until = f" to {last:%H:%M:%S}" if last != first else ""
    when = f"{first:%Y-%m-%d %H:%M:%S}{until} UTC"
    yield "holds", text(f"{count(len(told.frames), 'look')} at {count(told.nodes, 'node')}, {when}")
    for note in told.unknown:
        yield "not known", text(note, "yellow")
    wrong = sum(bool(frame.differences) for frame in told.frames)
    if wrong:
        yield "result", text(f"decided OTHERWISE at {wrong} of {count(len(told.frames), 'look')}", "bold red")
    else:
        yield "result", text("the same is decided at every look", "bold green")


def _frame(frame: FrameTold) -> Iterator[Fact]:
    """What is new at it; of one at which nothing is, nothing."""
    said = [text(line) for line in frame.happened]
    if frame.begun:
        said.append(text(f"decided: {names(frame.begun)}"))
    said += (text(line, "bold red") for line in frame.differences)
    for place, line in enumerate(said):
        yield "" if place else frame.now.strftime(LABEL), line
