"""What all hollow nodes of a cluster share, and what makes one of them different from the next."""

from typing import Any

import msgspec

from defib.clock import Clock
from defib.hollow.disk import Disks
from defib.hollow.timers import Timers
from defib.kube.client import Client

DRIVER = "hollow.csi.defib.dev"
CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """One API server, one time, one set of disks."""

    client: Client
    clock: Clock
    timers: Timers
    disks: Disks


class Blueprint(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same over all boots of a node."""

    name: str
    zone: str
    address: str
    roles: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[dict[str, Any], ...] = ()
    static_pods: tuple[str, ...] = ()
    """Run by the kubelet itself, and mirrored in kube-system as `<name>-<node>`."""
    drivers: tuple[str, ...] = (DRIVER,)
    volumes_max: int = 64
    """How many volumes of one driver can be attached at once."""
    capacity: dict[str, str] = msgspec.field(default_factory=lambda: dict(CAPACITY))


def in_zones(zones: str, per_zone: int) -> list[Blueprint]:
    """`zone-a-1`, `zone-a-2`, …: one letter names a zone."""
    return [
        Blueprint(name=f"zone-{letter}-{number}", zone=f"zone-{letter}", address=f"10.0.{place}.{number}")
        for place, letter in enumerate(zones, 1)
        for number in range(1, per_zone + 1)
    ]


def numbered(count: int, zones: str = "abc") -> list[Blueprint]:
    """`node-0001`, `node-0002`, …, dealt out over the zones."""
    return [
        Blueprint(
            name=f"node-{number:04}",
            zone=f"zone-{zones[number % len(zones)]}",
            address=f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        )
        for number in range(1, count + 1)
    ]
