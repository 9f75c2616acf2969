"""One machine to be power-cycled, as it stands: what the table of transitions asks about it.

Everything is a question about one look at the cluster and what is written down in the incident. What this process
remembers of the power counts only for the attempt that is under way.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import takewhile

import msgspec

from defib.decide.doubt import BRAKE, SELF_DOUBT
from defib.decide.fencing.agents import CLOCKS_DIFFER, is_by_agent, is_proved
from defib.decide.fencing.hosts import host_on, is_let_go, stays_off
from defib.decide.fencing.limits import limit_of
from defib.decide.fencing.obstacles import OWN_NODE
from defib.decide.fencing.occupants import is_from_before, must_go
from defib.decide.fencing.order import Obstacle, Order
from defib.decide.fencing.proofs import BMO_POLL, confirmation_of, is_disproved, proof_of, written
from defib.model.cluster import Cluster, Served
from defib.model.health_check import KindRef
from defib.model.incident import Confirmation, Grade, IncidentStatus, NodeIncident, Phase, PowerReading, Proof
from defib.model.lock import ends_at
from defib.model.meta import Unstructured
from defib.model.node import OUT_OF_SERVICE, Node, Taint
from defib.model.pod import Pod, pods_on
from defib.model.power import MANUAL, METAL3, Look, PowerPath, PowerSeen, PowerState
from defib.model.power_cycle import Policy, Workloads
from defib.model.saved import is_restored

TAINT_SINCE = (1, 28)  # the taint is generally available
READINGS_APART = timedelta(milliseconds=500)
OFF_IS_OVER = timedelta(seconds=90)  # an off of ours has had its effect, and Kubernetes has noticed
LEASE_LENGTH = timedelta(seconds=40)  # of a heartbeat, where it does not say
LAST_BREATH = timedelta(seconds=10)  # so long after an off was accepted a kubelet may still have reported
A_MOMENT = timedelta(seconds=10)
LATE_OFF = timedelta(seconds=30)  # so long an off that was sent may still be on its way
ATTACHMENTS_KEPT = timedelta(seconds=10)  # so long Kubernetes may take to detach what is out of service
VOLUME_ATTACHMENT = KindRef("storage.k8s.io/v1", "VolumeAttachment")

_HELD = frozenset({Phase.POWERING_OFF, Phase.FREEING, Phase.REPLACING})  # what destroys something waits there


class Case(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Cluster
    order: Order
    incident: NodeIncident
    node: Node | None
    seen: PowerSeen
    hold: Callable[[], Obstacle | None]  # why nothing destructive may be done now
    obstacle: Obstacle | None  # why it may not begin

    @property
    def status(self) -> IncidentStatus:
        return self.incident.status

    @property
    def policy(self) -> Policy:
        return self.order.policy

    @property
    def path(self) -> PowerPath | None:
        """As the order says now, so that a corrected address counts; without one, as it was."""
        path = self.order.path
        return path if isinstance(path, PowerPath) else self.status.power

    # Time

    @property
    def since(self) -> datetime:
        """When it came into this phase. Clocks of leaders differ: what is yet to come counts as now."""
        since = self.status.since or self.incident.metadata.creation_timestamp or self.cluster.now
        return min(since, self.cluster.now)

    @property
    def deadline(self) -> datetime | None:
        limit = self.limit
        return self.since + limit if limit is not None else None

    @property
    def limit(self) -> timedelta | None:
        """How long it may stay in this phase; None where only something else can end it."""
        return limit_of(self)

    @property
    def time_is_up(self) -> bool:
        """A person who holds everything back has all the time in the world."""
        deadline = self.deadline
        return deadline is not None and self.cluster.now >= deadline and not (self.is_held_back or self.was_held_back)

    @property
    def was_held_back(self) -> bool:
        """Until now, as it stands written."""
        return self.status.phase in _HELD and self.status.reason in (BRAKE, SELF_DOUBT, OWN_NODE)

    @property
    def begins_anew(self) -> bool:
        """Its time does. What is read before that is written down was read before this phase, and would not count."""
        # It may have been written by a leader whose clock is far ahead of ours.
        is_ahead = self.status.since is not None and self.status.since > self.cluster.now + CLOCKS_DIFFER
        return is_ahead or (self.was_held_back and not self.is_held_back)

    @property
    def is_held_back(self) -> bool:
        return self.status.phase in _HELD and self.hold() is not None

    # Power

    @property
    def is_metal3(self) -> bool:
        return self.path is not None and self.path.driver == METAL3

    @property
    def host(self) -> Unstructured | None:
        return host_on(self.path, self.cluster)

    @property
    def host_is_on(self) -> bool:
        """Whether the baremetal operator says that the host is on, as far as we remember."""
        return self.host is not None and (self.host.status or {}).get("poweredOn") is True

    @property
    def is_let_go(self) -> bool:
        return is_let_go(self.path, self.cluster)

    @property
    def late_off(self) -> timedelta:
        """How long an off that was sent may go unnoticed: the baremetal operator looks at a host now and then only."""
        return LATE_OFF + (BMO_POLL if self.is_metal3 else timedelta())

    @property
    def stays_off(self) -> bool:
        return stays_off(self.path, self.cluster)

    @property
    def looks(self) -> tuple[Look, ...]:
        """Those of this phase, by the way that is named now: another one may lead to another machine."""
        since, paths = self.since, (None, self.path)
        return tuple([look for look in self.seen.looks if look.reading.at >= since and look.path in paths])

    @property
    def reads(self) -> PowerState:
        """The latest of this phase."""
        looks = self.looks
        return looks[-1].reading.state if looks else PowerState.UNKNOWN

    @property
    def can_read(self) -> bool:
        return self.seen.can_read

    def was_sent(self, power: PowerState) -> datetime | None:
        """When this process sent it last, in this phase; what others sent before us is sent once more."""
        sent = self.seen.sent
        if sent is None or sent.power is not power or sent.path not in (None, self.path):
            return None
        # While it began in the future, by our clock, what was sent a moment ago was sent in it: else it would be sent at every pass.
        moment = A_MOMENT if self._entered > self.cluster.now else timedelta()
        return sent.at if sent.at >= min(self._entered, self.cluster.now) - moment else None

    @property
    def _entered(self) -> datetime:
        """When it came into this phase. Its time may have begun anew since then: what was sent is not sent again for that."""
        mine = list(takewhile(lambda entry: entry.phase == self.status.phase, reversed(self.status.timeline or ())))
        return mine[-1].at if mine else self.status.since or self.since

    @property
    def was_commanded(self) -> bool:
        """By us, or perhaps by us: it was written down, and then it was sent or we were interrupted."""
        return self.status.command is not None

    @property
    def is_on(self) -> bool:
        """Read as on after it was told to go on, twice, and not before an off would have come that was on its way."""
        sent = self.was_sent(PowerState.ON)
        if is_by_agent(self) and (self.status.proof is not None or self.status.phase is Phase.POWERING_ON):
            return True  # it comes back by itself, and the boot that had to die is not let live
        if sent is None or not self.can_read or self.stays_off:
            return sent is not None and (sent >= self.on_counts_from or self.stays_off)
        pair = self.twice(PowerState.ON, sent)
        return pair is not None and pair[1].reading.at >= self.on_counts_from

    @property
    def on_counts_from(self) -> datetime:
        """Before it, an off that nobody has seen to work may still be on its way, and undo what was told or read."""
        is_past = self.status.proof is not None or self.status.phase is Phase.POWERING_ON  # it was seen before that
        return self.since if is_past else self.since + self.late_off

    @property
    def seen_on(self) -> PowerReading | None:
        """That the machine was read as on, in this phase. What was read before it failed says nothing: BMCs fail too."""
        on = [look for look in self.looks if look.reading.state is PowerState.ON]
        return written(on[-1]) if on else None

    @property
    def proof(self) -> Proof | None:
        return proof_of(self)

    @property
    def confirmation(self) -> Confirmation | None:
        return confirmation_of(self)

    @property
    def awaits_silence(self) -> bool:
        """A person says that it is off, and is believed as soon as nothing is heard of its node any more."""
        is_believed = self.confirmation is not None and Grade.PERSON in self.policy.accepts
        return is_believed and self.status.proof is None and not self.order.withdrawn

    @property
    def heartbeat(self) -> datetime | None:
        lease = self.cluster.heartbeat_of(self.order.node) if self.order.node else None
        return lease.spec.renew_time if lease is not None else None

    def is_silent_since(self, moment: datetime) -> bool:
        """Whether nothing was heard of its kubelet since then, and the time is over in which it should have been."""
        lease = self.cluster.heartbeat_of(self.order.node) if self.order.node else None
        if self.is_alive or lease is None or lease.spec.renew_time is None:
            return not self.is_alive
        ends = ends_at(lease) or lease.spec.renew_time + LEASE_LENGTH
        return lease.spec.renew_time <= moment + LAST_BREATH and ends < self.cluster.now

    @property
    def contradicts(self) -> bool:
        """It is read as off, and its kubelet goes on reporting."""
        off = [look for look in self.looks if look.reading.state is PowerState.OFF]
        return bool(off) and off[0].heartbeat != self.heartbeat

    @property
    def has_stirred(self) -> bool:
        """Whether it shows life although it was proved to be down: somebody switched it on, or the proof was wrong."""
        proof, looks = self.status.proof, self.seen.looks
        if (self.is_alive and self.is_new) or self.is_let_go or self.host_is_on or is_disproved(self):
            return True
        if proof is None or proof.grade is not Grade.POWER or not looks or self.heartbeat is None:
            return False
        return looks[-1].heartbeat != self.heartbeat

    @property
    def is_alive(self) -> bool:
        """Ready; and heard, since it was found to be silent: what Kubernetes says of it may be older than that."""
        since = self.order.silent_since
        is_heard = since is None or self.heartbeat not in (None, since)
        return self.node is not None and self.node.ready == "True" and is_heard

    @property
    def is_heard(self) -> bool:
        """Alive, by more than what was told before this phase. Where there are no heartbeats, Ready must do."""
        return self.is_alive and (self.heartbeat is None or self.heartbeat > self.since)

    def twice(self, state: PowerState, after: datetime) -> tuple[Look, Look] | None:
        """The latest reading and an earlier one, far enough apart, and nothing else read in between."""
        looks = [look for look in self.looks if look.reading.at > after]
        if not looks or looks[-1].reading.state is not state:
            return None
        last = looks[-1]
        for look in reversed(looks[:-1]):
            if look.reading.state is not state:
                return None
            if last.reading.at - look.reading.at >= READINGS_APART:
                return look, last
        return None

    # Workloads

    @property
    def deletes_node(self) -> bool:
        if self.policy.workloads is Workloads.AUTO:
            return (0, 0) < self.cluster.server < TAINT_SINCE
        return self.policy.workloads is Workloads.DELETE_NODE

    @property
    def is_same_node(self) -> bool:
        return self.node is not None and self.node.uid == self.status.node_uid

    @property
    def taint(self) -> Taint | None:
        taints = (self.node.spec.taints if self.node is not None else None) or ()
        return next((taint for taint in taints if taint.key == OUT_OF_SERVICE), None)

    @property
    def is_told(self) -> bool:
        """Whether Kubernetes knows that nothing runs there."""
        if not self.is_same_node:
            return True
        return not self.deletes_node and self.taint is not None

    @property
    def pods(self) -> tuple[Pod, ...] | None:
        """Those that must go before the machine comes back; None while they are not in sight."""
        name = pods_on(self.order.node)
        blind = any(blindness.kind == name for blindness in self.cluster.blind) or name in self.cluster.absent
        if blind or name not in self.cluster.others:
            return None
        found = [pod for pod in self.cluster.all_of(name, Pod).values() if must_go(pod, self._proved_at)]
        return tuple(sorted(found, key=lambda pod: (-pod.spec.priority, pod.key)))

    @property
    def attachments(self) -> tuple[Unstructured, ...] | None:
        """Of volumes that are attached to it since before the proof; None while nobody can say."""
        served = self.cluster.kinds.get(VOLUME_ATTACHMENT)
        if not isinstance(served, Served) or any(one.kind == served.collection for one in self.cluster.blind):
            return None
        if served.collection in self.cluster.absent:  # we may not see them, so there is nothing to wait for
            return ()
        known = self.cluster.every(VOLUME_ATTACHMENT)
        return tuple(
            item
            for item in known
            if (item.spec or {}).get("nodeName") == self.order.node and is_from_before(item, self._proved_at)
        )

    @property
    def detaches_at(self) -> datetime:
        """From then on we detach ourselves. From a Node that is gone Kubernetes does it after six minutes only."""
        return self.since + (ATTACHMENTS_KEPT if self.is_same_node else timedelta())

    @property
    def is_freed(self) -> bool:
        if not self.order.node:
            return True
        return self.is_told and self.pods == () and self.attachments == ()

    @property
    def _proved_at(self) -> datetime:
        """What was put there later than that was put on a machine that is down, by whoever knew. Not yet: now."""
        return self.status.proof.at if self.status.proof is not None else self.cluster.now

    @property
    def is_back(self) -> bool:
        """Ready, and started anew since it was proved to be down, or since we began."""
        return self.is_alive and (self.is_new or (not self.policy.needs_new_boot and self.is_heard))

    @property
    def is_new(self) -> bool:
        node, status = self.node, self.status
        if node is None:
            return False
        if node.uid != status.node_uid and not is_proved(self):  # of one that took itself down, only its boot tells
            return True
        boot = node.status.node_info.boot_id
        return bool(boot) and boot != status.boot_id

    @property
    def is_back_for_good(self) -> bool:
        return self.is_back and self.is_settled

    @property
    def is_settled(self) -> bool:
        """It is not just about to go: an off that was not seen to work may still be on its way."""
        if self.status.proof is not None or not self.was_commanded or self.is_on:
            return True
        return self.cluster.now >= self.since + OFF_IS_OVER

    @property
    def is_clean(self) -> bool:
        """Whether nothing of ours is left on the node, and nothing that it had is missing; no while nobody sees it."""
        is_seen = all(blindness.kind != "nodes" for blindness in self.cluster.blind)
        return is_seen and self.is_restored and not self.has_our_taint

    @property
    def has_our_taint(self) -> bool:
        return self.status.tainted and self.taint is not None

    @property
    def is_restored(self) -> bool:
        saved = self.status.saved
        return saved is None or (
            self.node is not None and is_restored(self.node, saved, taints=self.policy.restores_taints)
        )

    # What did not work

    @property
    def is_by_hand(self) -> bool:
        """Only a person can switch this machine. It must not depend on what was tried: that is forgotten."""
        return self.path is not None and self.path.driver == MANUAL

    @property
    def is_forbidden(self) -> bool:
        """We may not touch its Node, so nobody can be told that nothing runs there."""
        keys = (f"taint {self.order.node}", f"delete node {self.order.node}")
        return any(key in self.cluster.failures and self.cluster.failures[key].forbidden for key in keys)

    @property
    def refusal(self) -> str:
        """Why what was last asked of the machine did not work; empty when it did, or was not tried yet."""
        keys = (f"{what} {self.order.name}" for what in ("power off", "power on", "read power"))
        return next((self.cluster.failures[key].why for key in keys if key in self.cluster.failures), "")
