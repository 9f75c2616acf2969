"""A machine with a BMC, as small as it can be: it goes on and off a while after it was told to, boots, and has a heart."""

from datetime import datetime, timedelta

from defib.model.power import PowerState
from tests.builders import T0

HEARTBEAT = timedelta(seconds=10)
NEVER = datetime.max.replace(tzinfo=T0.tzinfo)


class Machine:
    """`lag` is how long it takes to obey. `bmc` is how its BMC behaves: well, silent, refuses, or says off for ever."""

    def __init__(self, name: str, lag: timedelta, boot: timedelta) -> None:
        self.name = name
        self.lag = lag
        self.boot_length = boot
        self.is_on = True
        self.is_hung = False
        self.bmc = "well"
        self.boots = 1
        self.runs_from = T0  # when its kubelet has started
        self.heartbeat = T0
        self.has_started = True  # its kubelet, since it was switched on
        self.wants_node = False  # a kubelet registers its node once, when it starts
        self.pending: list[tuple[datetime, bool]] = []

    def __repr__(self) -> str:
        return f"Machine({self.name}, lag={self.lag}, boot={self.boot_length}, hung={self.is_hung})"

    def told(self, power: PowerState, now: datetime) -> None:
        """What is on already does nothing when it is told to go on: an off that is under way still comes."""
        if power is PowerState.ON and self.is_on:
            return
        self.pending.append((now + self.lag, power is PowerState.ON))

    def told_on_by_hand(self, now: datetime) -> None:
        """By somebody who waits until it is."""
        self.live(now)
        self.pending = []
        self._switch(now, on=True)

    def live(self, now: datetime) -> None:
        """Up to now."""
        for moment, on in sorted(self.pending):
            if moment <= now:
                self._beat(moment)
                self._switch(moment, on=on)
        self.pending = [one for one in self.pending if one[0] > now]
        self._beat(now)

    def _switch(self, moment: datetime, *, on: bool) -> None:
        if on and not self.is_on:
            self.boots += 1
            self.is_hung = False
            self.has_started = False
            self.runs_from = moment + self.boot_length
        self.is_on = on

    def _beat(self, now: datetime) -> None:
        if not self.is_on or self.is_hung or now < self.runs_from:
            return
        self.wants_node = self.wants_node or not self.has_started
        self.has_started = True
        since = max(self.heartbeat, self.runs_from)
        self.heartbeat = max(since, since + (now - since) // HEARTBEAT * HEARTBEAT)

    @property
    def next_event(self) -> datetime:
        moments = [moment for moment, _ in self.pending]
        if self.is_on and not self.has_started:
            moments.append(self.runs_from)
        return min(moments, default=NEVER)

    def reads(self) -> PowerState:
        if self.bmc == "says off":
            return PowerState.OFF
        if self.bmc == "silent":
            return PowerState.UNKNOWN
        return PowerState.ON if self.is_on else PowerState.OFF
