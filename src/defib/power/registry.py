"""Where drivers come from: the entry points `defib.power` of all that is installed. Ours are found like everybody's.

Loading imports libraries and reads files, so it happens in a thread, and only for a driver that somebody uses.
"""

import asyncio
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

import msgspec

from defib.clock import Clock
from defib.power.base import Driver
from defib.power.kubelet import AskKubelet, ask_kubelet
from defib.power.witnesses import Witnesses

GROUP = "defib.power"


class Unavailable(msgspec.Struct, frozen=True):
    """There is no such driver, or it cannot be used here."""

    why: str


class Drivers:
    """`given` are drivers that somebody has made already, such as those of hollow machines. Who gives drivers lives in a
    world of his own: nobody is asked there who happens to be installed here.

    `ask_kubelet` and `witnesses` are the ways to a node besides its power: whether anybody answers there, and whether
    anybody else hears from it.
    """

    def __init__(
        self,
        clock: Clock,
        given: Mapping[str, Driver] | None = None,
        *,
        group: str = GROUP,
        asking: AskKubelet = ask_kubelet,
        witnesses: Witnesses | None = None,
    ) -> None:
        self._clock = clock
        self._group = group
        self.ask_kubelet = asking
        self.witnesses = witnesses or Witnesses(clock, None if given is None else {})
        self._loaded: dict[str, Driver] = dict(given or {})
        self._one_at_a_time = asyncio.Lock()

    async def named(self, name: str) -> Driver | Unavailable:
        """Always the same one for the same name, so that its limits hold for all its machines together."""
        async with self._one_at_a_time:
            if name in self._loaded:
                return self._loaded[name]
            loaded = await asyncio.to_thread(self._load, name)
            if not isinstance(loaded, Unavailable):
                self._loaded[name] = loaded
            return loaded

    @property
    def left_behind(self) -> int:
        """Calls of all drivers together that run on though nobody waits for them any more."""
        return sum(getattr(driver, "left_behind", 0) for driver in self._loaded.values())  # only of those with threads

    def _load(self, name: str) -> Driver | Unavailable:
        offered = entry_points(group=self._group)
        found = {point.value: point for point in offered if point.name == name}
        match list(found.values()):
            case []:
                return Unavailable(f"there is no power driver {name!r}, only {', '.join(sorted(offered.names))}")
            case [point]:
                return self._made(point)
            case _:
                # Taking either would let any package that is installed take over another's machines.
                return Unavailable(f"there is more than one power driver {name!r}: {' and '.join(sorted(found))}")

    def _made(self, point: EntryPoint) -> Driver | Unavailable:
        try:
            make = point.load()
        except (ImportError, AttributeError) as error:
            return Unavailable(f"the power driver {point.name!r} cannot be loaded: {error}; install what it needs")
        driver = make(self._clock)
        if not isinstance(driver, Driver):
            return Unavailable(f"the power driver {point.name!r} ({point.value}) lacks a part that drivers have")
        return driver
