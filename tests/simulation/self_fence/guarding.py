"""How the nodes of a day guard themselves. Data."""

import msgspec

from defib.model.self_fence import Kind, Pace

QUICK = Pace(interval_seconds=2, request_seconds=1, failures=3, peer_seconds=6)  # fresh for 9 s, patient for 15 s
USUAL = Pace(interval_seconds=5, request_seconds=3, failures=3, peer_seconds=15)  # 24 s, 39 s
SLOWEST, FASTEST = 0.9, 1.1  # rates of clocks


class Guarding(msgspec.Struct, frozen=True, kw_only=True):
    """`rates` of the nodes' clocks, in their order. A watchdog that is `broken` never fires, and nobody can know."""

    pace: Pace = QUICK
    watchdog: Kind = "device"
    watchdog_seconds: float = 6.0
    broken: tuple[str, ...] = ()
    rates: tuple[float, ...] = ()
    long_known: bool = True  # there were agents long before the day began

    def rate_of(self, number: int) -> float:
        return self.rates[number] if self.rates else 1.0

    @property
    def dies_seconds(self) -> float:
        """So long after its last word a node may live, by the slowest clock that is drawn."""
        return (self.pace.patience_seconds + self.watchdog_seconds) / SLOWEST
