"""Whoever else can tell whether a node lives: the entry points `defib.evidence` of all that is installed.

A storage system that knows its clients, a hypervisor, a switch. One that hears the node makes Defib wait; one that has lost
it, too, only bears out what others say.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, runtime_checkable

from defib.clock import Clock
from defib.model.evidence import Says
from defib.power.calls import one_line

GROUP = "defib.evidence"
_WORDS = (Says.ALIVE, Says.GONE)  # in this order: one that hears it weighs more than all that do not


@runtime_checkable
class Witness(Protocol):
    """Made once, with a Clock. Says ALIVE, GONE or UNKNOWN of a node, and how it knows; it changes nothing."""

    async def ask(self, node: str, within_seconds: float) -> tuple[Says, str]: ...


class Witnesses:
    """`given` are those that somebody has made already, instead of those that are installed."""

    def __init__(self, clock: Clock, given: Mapping[str, Witness] | None = None, *, group: str = GROUP) -> None:
        self._clock = clock
        self._group = group
        self._known: Mapping[str, Witness | str] | None = given
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, node: str, within_seconds: float) -> tuple[Says, str] | None:
        """What they say, taken together; None where there are none."""
        known = await self._all()
        if not known:
            return None
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(_said(one, node, within_seconds)) for one in known.values()]
        said = [task.result() for task in asked]
        words = {says for says, _ in said}
        says = next((word for word in _WORDS if word in words), Says.UNKNOWN)
        return says, "; ".join(f"{name}: {detail}" for name, (_, detail) in zip(known, said, strict=True))

    async def _all(self) -> Mapping[str, Witness | str]:
        """By name; those that cannot be used as the reason why. Loading imports: in a thread, when the first is silent."""
        async with self._one_at_a_time:
            if self._known is None:
                self._known = await asyncio.to_thread(self._load)
            return self._known

    def _load(self) -> dict[str, Witness | str]:
        offered = {point.value: point for point in entry_points(group=self._group)}.values()
        times = Counter(point.name for point in offered)
        return {
            point.name: self._made(point) if times[point.name] == 1 else "more than one package offers this name"
            for point in offered
        }

    def _made(self, point: EntryPoint) -> Witness | str:
        try:
            witness = point.load()(self._clock)
        except Exception as error:  # noqa: BLE001 - what another package does must not end the asking of all others
            return f"{point.value} cannot be used ({one_line(f'{type(error).__name__}: {error}')})"
        return witness if isinstance(witness, Witness) else f"{point.value} has no `ask`"


async def _said(witness: Witness | str, node: str, within_seconds: float) -> tuple[Says, str]:
    if isinstance(witness, str):
        return Says.UNKNOWN, witness
    try:
        async with asyncio.timeout(within_seconds):
            says, detail = await witness.ask(node, within_seconds)
    except TimeoutError:
        return Says.UNKNOWN, f"no answer within {within_seconds:g} s"
    except Exception as error:  # noqa: BLE001 - the same; and its words may hold what is nobody's business
        return Says.UNKNOWN, f"it broke ({type(error).__name__}), which is a mistake in it"
    if says not in (*_WORDS, Says.UNKNOWN):
        return Says.UNKNOWN, f"it says {str(says)[:20]!r}, which means nothing here"
    return says, one_line(str(detail))
