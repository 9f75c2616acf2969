"""Since when nothing keeps the replicas from seeing and doing what they should: only such time counts against them."""

import math
import re
from collections import Counter

from tests.simulation.history import Entry, Happened, Written
from tests.simulation.shape import HOME
from tests.simulation.world import LEASES

RECOVERS_SECONDS = 75.0  # so long after a trouble another replica leads and has seen everything again
# So long after it has started, or has taken its seat, a replica that nothing disturbs has seen everything.
STARTS_SECONDS = 20.0
UNLED_SECONDS = 45.0  # when nobody has renewed a seat for so long, no replica leads
# What is decided is done within half a minute, or not at all; and a watch that is silent is noticed after a minute and a half.
ACTS_SECONDS, UNNOTICED_SECONDS = 35.0, 95.0
# Whether the brake is on, and whether heartbeats are seen, is asked once more before each deed: so long its requests may take.
ASKED_SECONDS = 12.0

SEATS = (f"{HOME}/defib-leader", f"{HOME}/defib-bucket-")
OVER = "all troubles are over"
_TOLD = re.compile(r"(begins|ends): (.*)")
_HARMLESS = re.compile(
    r"[^:]*: (node|bmc|machine|network|agent|lease) |.*person .*(pulls the brake|cordons|deletes a pod|excludes)"
)


class Quiet:
    """Since when nothing disturbs the replicas; never, while something does."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._calm_at = -math.inf
        self._started_at = -math.inf
        self._renewed_at = -math.inf
        self._holders: dict[str, str] = {}
        self.is_over = False

    def see(self, entry: Entry) -> None:
        match entry:
            case Happened():
                self._hear(entry)
            case Written(resource=resource) if resource == LEASES and entry.key.startswith(SEATS):
                self._see_seat(entry)

    def since(self, at: float) -> float:
        """Never, also while nobody leads."""
        is_led = at - self._renewed_at < UNLED_SECONDS
        ready_at = max(self._calm_at + RECOVERS_SECONDS, self._started_at + STARTS_SECONDS)
        return ready_at if is_led and not +self._open else math.inf

    def _see_seat(self, entry: Written) -> None:
        """Whoever takes a seat needs a while, and everybody a longer one after a time without anybody in it."""
        holder = str(entry.change.now.object["spec"].get("holderIdentity") or "")
        if holder != self._holders.get(entry.key):
            self._started_at = entry.at
        if UNLED_SECONDS <= entry.at - self._renewed_at < math.inf:
            self._calm_at = entry.at
        self._holders[entry.key] = holder
        self._renewed_at = entry.at

    def _hear(self, entry: Happened) -> None:
        if entry.what == OVER:
            self.is_over, self._calm_at = True, entry.at
            self._open.clear()
        told = _TOLD.fullmatch(entry.what)
        if entry.what.endswith("starts"):
            self._started_at = entry.at
        if told and not _HARMLESS.match(told[2]):
            self._calm_at = entry.at
            self._open[told[2]] += 1 if told[1] == "begins" else -1

    def stale_seconds(self, at: float) -> float:
        """How old that may be by which something is decided and done now."""
        return ACTS_SECONDS if at >= self.since(at) else ACTS_SECONDS + UNNOTICED_SECONDS

    def held_seconds(self, at: float) -> float:
        """How long ago a brake may have been pulled, or heartbeats have stopped, that does not hold anything back yet."""
        return ASKED_SECONDS if at >= self.since(at) else ACTS_SECONDS + UNNOTICED_SECONDS
