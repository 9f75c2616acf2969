"""How the nodes of a day guard themselves. Data."""

import msgspec

from defib.model.self_fence import Kind, Pace

QUICK = Pace(interval_seconds=2, request_seconds=1, failures=2, peer_seconds=8)  # fresh for 5 s, patient for 13 s
USUAL = Pace(interval_seconds=15, request_seconds=3, failures=2, peer_seconds=12)  # 24 s, 36 s
SLOW = Pace(interval_seconds=25, request_seconds=2, failures=3, peer_seconds=8)  # 35 s, 43 s
SLOWEST, FASTEST = 0.9, 1.1  # rates of clocks


class Guarding(msgspec.Struct, frozen=True, kw_only=True):
    """`paces` of the agents, and `rates` of the nodes' clocks, in their order. A watchdog that is `broken` never fires, and nobody
    can know.
    """

    paces: tuple[Pace, ...] = (QUICK,)  # one for all, or one for each
    watchdog: Kind = "device"
    watchdog_seconds: float = 6.0
    broken: tuple[str, ...] = ()
    rates: tuple[float, ...] = ()
    long_known: bool = True  # there were agents long before the day began

    def pace_of(self, number: int) -> Pace:
        return self.paces[number % len(self.paces)]

    def rate_of(self, number: int) -> float:
        return self.rates[number] if self.rates else 1.0

    @property
    def dies_seconds(self) -> float:
        """So long after its last word a node may live, by the slowest clock that is drawn."""
        return (max(pace.patience_seconds for pace in self.paces) + self.watchdog_seconds) / SLOWEST
