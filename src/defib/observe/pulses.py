"""Heartbeats, and in which rhythm we hear them."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

import msgspec

from defib.clock import Clock
from defib.kube.client import Scope
from defib.kube.decode import Event
from defib.kube.kinds import LEASES
from defib.model.node import Lease
from defib.model.pulse import USUAL_SECONDS, Pulse
from defib.observe.shelf import Contents, Shelf

NEWEST_COUNTS = (
    1 / 8
)  # of the last pause between two heartbeats, beside all before it; of how much it is off, twice that
RENEWALS_PER_LEASE = 4  # a kubelet renews its heartbeat so often before it would end
LONGEST_PAUSE = 2.0  # times the usual one: a longer one counts as this
AWAY = 4.0  # times the usual one: whoever was silent for so long was away, which says nothing about their rhythm


class HeartbeatShelf(Shelf[Lease]):
    """A shelf that notes when each node was heard last.

    What was there before we looked counts as heard when we looked. So does everything when our sight comes back: while
    we saw nothing, nobody was silent.
    """

    def __init__(self, scope: Scope, clock: Clock, name: str) -> None:
        super().__init__(LEASES, scope, since=clock.now(), name=name)
        self._clock = clock
        self._pulses: dict[str, Pulse] = {}
        self._shown: Mapping[str, Pulse] | None = None

    @property
    def pulses(self) -> Mapping[str, Pulse]:
        """By node. A frozen picture, shared by all who ask until something is heard."""
        if self._shown is None:
            self._shown = MappingProxyType(self._pulses.copy())
        return self._shown

    def saw(self, now: datetime) -> bool:
        is_back = super().saw(now)
        if is_back:
            at = now.timestamp()
            self._pulses = {name: msgspec.structs.replace(pulse, heard=at) for name, pulse in self._pulses.items()}
            self._shown = None
        return is_back

    def replace(self, fresh: Contents[Lease], version: str) -> int:
        known, heard = self._contents.objects, self._clock.now().timestamp()
        leases = fresh.objects.items()
        self._pulses = {lease.name: self._heard(lease, known.get(key), heard) for key, lease in leases}
        self._shown = None
        return super().replace(fresh, version)

    def _put(self, key: str, event: Event[Lease]) -> bool:
        lease, known = event.object, self._contents.objects.get(key)
        if event.type == "DELETED":
            self._pulses.pop(lease.name, None)
        else:
            self._pulses[lease.name] = self._heard(lease, known, self._clock.now().timestamp())
        self._shown = None
        return super()._put(key, event)

    def _heard(self, lease: Lease, known: Lease | None, at: float) -> Pulse:
        pulse = self._pulses.get(lease.name)
        if pulse is None or known is None or known.uid != lease.uid:
            return Pulse(at, _usual(lease))
        return pulse if known.spec.renew_time == lease.spec.renew_time else heard_again(pulse, at)


def heard_again(pulse: Pulse, at: float) -> Pulse:
    """Learns as the timers of TCP do: the usual pause, and by how much it is off."""
    pause = max(at - pulse.heard, 0.0)
    if pause > AWAY * pulse.every:
        return msgspec.structs.replace(pulse, heard=at)
    pause = min(pause, LONGEST_PAUSE * pulse.every)
    off = pause - pulse.every
    return Pulse(at, pulse.every + off * NEWEST_COUNTS, pulse.wobble + (abs(off) - pulse.wobble) * 2 * NEWEST_COUNTS)


def _usual(lease: Lease) -> float:
    seconds = lease.spec.lease_duration_seconds
    return seconds / RENEWALS_PER_LEASE if seconds else USUAL_SECONDS
