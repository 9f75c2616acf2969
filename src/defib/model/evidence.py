"""What can be found out about a node that has fallen silent, each from another side; and what it comes to."""

from datetime import datetime
from enum import StrEnum

import msgspec

from defib.model.power import PowerPath


class Source(StrEnum):
    """Whom to ask. A check names those that must have answered before its fast path does anything."""

    HEARTBEAT = "Heartbeat"  # its Lease, read from the API server at this moment; asked always
    KUBELET = "Kubelet"  # the port on which its kubelet serves, tried from where Defib runs
    NEIGHBOURS = "Neighbours"  # the kubelets of nodes near it: whether that is its own silence; asked always
    POWER = "Power"  # its machine's power, as its BMC or the baremetal operator tells it
    LOG = "Log"  # the event log of its BMC; read only where it could change what is thought
    MACHINE = "Machine"  # what the cluster's own objects say of its machine: a remark, and never more
    OTHERS = "Others"  # whoever else was installed to be asked: a storage system that knows its clients, for one


class Says(StrEnum):
    RENEWED = "Renewed"  # of the heartbeat: it goes on, and the news was late
    SAME = "Same"  # of the heartbeat: it is as old as we think
    ANSWERS = "Answers"  # of the kubelet: somebody speaks there
    REFUSES = "Refuses"  # of the kubelet: the machine is there, and nobody serves
    SILENT = "Silent"  # of the kubelet: nothing comes back
    ON = "On"
    OFF = "Off"
    STOPPED = "Stopped"  # of the log: since the last heartbeat its power went, or its operating system stopped
    STARTED = "Started"  # of the log: and has begun again
    QUIET = "Quiet"  # of the log: nothing of that kind since
    ALIVE = "Alive"  # of others: they hear from it
    GONE = "Gone"  # of others: they have lost it, too
    UNKNOWN = "Unknown"  # whoever was asked could not tell


class Evidence(msgspec.Struct, frozen=True):
    """`at` is when it was asked: later than that, nobody knows."""

    source: Source
    says: Says
    at: datetime
    detail: str = ""

    def __str__(self) -> str:
        more = f" ({self.detail})" if self.detail else ""
        return f"{self.source} {self.says} at {self.at:%H:%M:%S}{more}"


class GatherEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Read a silent node's heartbeat live, and try its kubelet and others. It changes nothing.

    `renewed` is what we know of its heartbeat, as the node writes it; `heard` is when we saw that, by our own clock.
    """

    node: str
    node_uid: str
    renewed: datetime | None
    heard: datetime | None = None
    neighbours: tuple[str, ...] = ()  # whose kubelets are tried at the same moment
    log: PowerPath | None = None  # by which way the event log of its BMC is read; None: not this time
    after: datetime | None = None  # when it was asked before: another question is another action

    @property
    def key(self) -> str:
        return f"ask after {self.node}, last {self.after:%H:%M:%S}" if self.after else f"ask after {self.node}"
