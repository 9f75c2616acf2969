"""What every controller is: it notices changes, remembers which of its objects to look at, and looks at them later.

Looking is level-triggered: only what is true now counts, so however many changes there were, one look is enough.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec
import structlog

from defib.clock import Clock
from defib.simulate.server import ApiServer
from defib.simulate.store import Change
from defib.simulate.workloads.hands import Hands, Refused
from defib.simulate.workloads.sight import Sight
from defib.simulate.workloads.timers import WorkloadTimers

log = structlog.get_logger("workloads")

NEVER = float("inf")
SOONEST_SECONDS = 0.001  # less may be lost in rounding: no time would pass, and the look go on for ever


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where the controllers work."""

    server: ApiServer
    sight: Sight
    clock: Clock
    timers: WorkloadTimers


class Controller(ABC):
    name: ClassVar[str]  # as the audit shows it
    resource: ClassVar[str]  # what its keys are the keys of
    listens: ClassVar[tuple[str, ...]]  # to changes of these

    def __init__(self, site: Site) -> None:
        self.site = site
        self.sight = site.sight
        self.clock = site.clock
        self.timers = site.timers
        self.hands = Hands(site.server, self.name)
        self._dirty: dict[str, None] = {}
        self._later: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def start(self) -> None:
        """Everything there is may need work: nobody looked at it so far."""
        for key in self.sight.keys(self.resource):
            self.look_at(key)

    def notice(self, change: Change) -> None:
        """Says which keys a change makes worth a look."""
        if change.resource == self.resource:
            self.look_at(change.key)

    @abstractmethod
    def handle(self, key: str) -> None:
        """Looks at one object and does what it lacks."""

    def look_at(self, key: str) -> None:
        self._dirty[key] = None

    def look_after(self, key: str, seconds: float) -> None:
        """No earlier look that is already planned is put off by this."""
        due = self.clock.monotonic() + max(seconds, SOONEST_SECONDS)
        self._later[key] = min(due, self._later.get(key, NEVER))

    @property
    def due(self) -> float:
        """When there is work, on the monotonic clock."""
        if self._dirty:
            return 0.0
        return min(self._later.values()) if self._later else NEVER

    def work(self) -> None:
        """Looks at everything that is worth it now. What that brings up anew waits for the next call."""
        if self._later:
            now = self.clock.monotonic()
            for key in [key for key, due in self._later.items() if due <= now]:
                del self._later[key]
                self._dirty[key] = None
        keys, self._dirty = self.in_order(list(self._dirty)), {}
        for key in keys:
            self._try(key)

    def in_order(self, keys: list[str]) -> list[str]:
        return keys

    def _try(self, key: str) -> None:
        try:
            self.handle(key)
        except Refused as refused:
            failed = self._failures[key] = self._failures.get(key, 0) + 1
            pause = min(self.timers.retry_seconds * 2.0 ** (failed - 1), self.timers.retry_limit_seconds)
            log.debug("refused", controller=self.name, key=key, why=str(refused))
            self.look_after(key, pause)
        else:
            self._failures.pop(key, None)
