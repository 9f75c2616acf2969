"""A dump decided once more: the same look must give the same plan (I12). Where it does not, what is different."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from defib import __version__
from defib.console.recording import Decided, Recording, Scene, decided_of, read_recording
from defib.console.thorough import think
from defib.decide.answers.told import Told
from defib.decide.changes import What, changes
from defib.decide.rules import Rules
from defib.model.cluster import Cluster

LEGIBLE = 120  # characters of a value that differs
DIFFERENCES_MAX = 20  # of one frame: after that, nobody reads on


class FrameTold(Told, frozen=True, kw_only=True):
    """One frame: what had happened since the one before, what was decided, and what is decided otherwise now."""

    number: int
    now: datetime
    happened: tuple[str, ...]
    actions: int
    begun: tuple[str, ...]  # actions that the frame before did not have
    differences: tuple[str, ...]


class ReplayTold(Told, frozen=True, kw_only=True):
    file: str
    made_by: str
    this_is: str
    nodes: int
    frames: tuple[FrameTold, ...]
    unknown: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        return not any(frame.differences for frame in self.frames)


def replay(path: Path) -> ReplayTold:
    """Raises NotDone."""
    return replay_of(read_recording(path), str(path))


def replay_of(recording: Recording, name: str) -> ReplayTold:
    header = recording.header
    return ReplayTold(
        file=name,
        made_by=header.defib,
        this_is=__version__,
        nodes=len(recording.last.nodes),
        frames=tuple(_frames(recording.scenes, header.rules)),
        unknown=header.unknown,
    )


def _frames(scenes: tuple[Scene, ...], rules: Rules) -> Iterator[FrameTold]:
    before: Scene | None = None
    for number, scene in enumerate(scenes, start=1):
        was = before.cluster if before is not None else Cluster(now=scene.cluster.now)
        known: Mapping[str, Any] = before.decided.actions if before is not None else {}
        yield FrameTold(
            number=number,
            now=scene.cluster.now,
            # That a node is there at all is no news of the first frame.
            happened=tuple(str(one) for one in changes(was, scene.cluster) if before or one.what is not What.JOINED),
            actions=len(scene.decided.actions),
            begun=tuple(_named(key, one) for key, one in scene.decided.actions.items() if key not in known),
            differences=_differences(scene.decided, decided_of(think(scene.cluster, rules))),
        )
        before = scene


def _named(key: str, action: Mapping[str, Any]) -> str:
    """By the name of what it is done to, and not by its UID, which nobody knows by heart."""
    target = action.get("target")
    if not isinstance(target, dict) or not target.get("uid"):
        return key
    return key.replace(target["uid"], "/".join(filter(None, (target.get("namespace"), target.get("name")))))


def _differences(then: Decided, now: Decided) -> tuple[str, ...]:
    found = [
        *(f"no longer done: {key}" for key in then.actions if key not in now.actions),
        *(f"newly done: {key}" for key in now.actions if key not in then.actions),
        *_otherwise(then.actions, now.actions),
        *_thoughts(then.verdicts, now.verdicts),
    ]
    if then.wake_at != now.wake_at:
        found.append(f"it would look again at {now.wake_at or 'no time'}, and not at {then.wake_at or 'no time'}")
    more = len(found) - DIFFERENCES_MAX
    return (*found[:DIFFERENCES_MAX], *((f"and {more} more",) if more > 0 else ()))


def _otherwise(then: Mapping[str, dict[str, Any]], now: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    for key in then:
        if key in now and then[key] != now[key]:
            fields = sorted(name for name in {*then[key], *now[key]} if then[key].get(name) != now[key].get(name))
            yield f"done otherwise: {key}: {', '.join(_field(name, then[key], now[key]) for name in fields)}"


def _field(name: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    return f"{name} is {_short(now.get(name))}, was {_short(then.get(name))}"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LEGIBLE else f"{text[: LEGIBLE - 1]}…"


def _thoughts(then: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for check in sorted({*then, *now}):
        was, is_now = then.get(check, {}), now.get(check, {})
        for node in sorted({*was, *is_now}):
            if was.get(node) != is_now.get(node):
                yield f"check {check}, node {node}: now {is_now.get(node, 'well')}; then {was.get(node, 'well')}"
