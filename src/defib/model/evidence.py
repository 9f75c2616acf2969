"""What can be found out about a node that has fallen silent, each from another side; and what it comes to."""

from datetime import datetime
from enum import StrEnum

import msgspec


class Source(StrEnum):
    """Whom to ask. A check names those that must have answered before its fast path does anything."""

    HEARTBEAT = "Heartbeat"  # its Lease, read from the API server at this moment; asked always
    KUBELET = "Kubelet"  # the port on which its kubelet serves, tried from where Defib runs
    NEIGHBOURS = "Neighbours"  # the kubelets of nodes near it: whether that is its own silence; asked always
    POWER = "Power"  # its machine's power, as its BMC or the baremetal operator tells it


class Says(StrEnum):
    RENEWED = "Renewed"  # of the heartbeat: it goes on, and the news was late
    SAME = "Same"  # of the heartbeat: it is as old as we think
    ANSWERS = "Answers"  # of the kubelet: somebody speaks there
    REFUSES = "Refuses"  # of the kubelet: the machine is there, and nobody serves
    SILENT = "Silent"  # of the kubelet: nothing comes back
    ON = "On"
    OFF = "Off"
    UNKNOWN = "Unknown"  # whoever was asked could not tell


class Evidence(msgspec.Struct, frozen=True):
    """`at` is when it was asked: later than that, nobody knows."""

    source: Source
    says: Says
    at: datetime
    detail: str = ""


class GatherEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Read a silent node's heartbeat live, and try its kubelet and others. It changes nothing.

    `renewed` is what we know of its heartbeat.
    """

    node: str
    node_uid: str
    renewed: datetime | None
    neighbours: tuple[str, ...] = ()  # whose kubelets are tried at the same moment
    after: datetime | None = None  # when it was asked before: another question is another action

    @property
    def key(self) -> str:
        return f"ask after {self.node}, last {self.after:%H:%M:%S}" if self.after else f"ask after {self.node}"
