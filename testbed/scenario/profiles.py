"""How fast a cluster of a story lives: one set of numbers, turned into flags of a real control plane or into the timers
of a simulated one. What Kubernetes has no flag for is the same in every profile.
"""

import subprocess
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from defib.hollow.attacher import StorageTimers
from defib.hollow.timers import Timers as NodeTimers
from defib.simulate.workloads import WorkloadTimers
from testbed.programs import Program, Programs
from testbed.scenario.story import Timers
from testbed.settings import Settings

UNMOUNT_SECONDS = 360.0
_ASK_WITHIN = 20.0
_UNMOUNT_FLAG = "--testbed-max-wait-for-unmount"


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those of Kubernetes, with machines and storage of a middling kind."""

    name: str
    nodes: NodeTimers = NodeTimers()
    storage: StorageTimers = StorageTimers()
    toleration_seconds: int = 300
    unmount_seconds: float = UNMOUNT_SECONDS
    """How long a volume stays with a node that is not ready and still lists it as in use."""
    verify_seconds: float = 60.0
    """How often Kubernetes looks whether somebody else has detached what it attached."""
    evictions_per_second: float = 0.1
    """How many nodes of a zone are given up in a second."""
    start_seconds: float = 90.0
    """Until everything that a story declares must run."""
    patience: float = 1.0
    """The share of its usual waits that an operator has which is not ours, and only acted."""

    def __str__(self) -> str:
        nodes = self.nodes
        return (
            f"{self.name} timers: heartbeat {nodes.renew_seconds:g} s, grace {nodes.grace_seconds:g} s, "
            f"toleration {self.toleration_seconds} s, unmount wait {self.unmount_seconds:g} s"
        )

    def as_run(self, *, unmount_flag: bool) -> "Profile":
        """As it really is on a control plane that has no flag for the unmount wait."""
        return self if unmount_flag else msgspec.structs.replace(self, unmount_seconds=UNMOUNT_SECONDS)

    def settings(self, *, unmount_flag: bool) -> Settings:
        """`unmount_flag`: this controller manager has a flag for the one wait that is compiled in elsewhere."""
        manager = (
            f"--node-monitor-grace-period={_go(self.nodes.grace_seconds)}",
            f"--node-monitor-period={_go(self.nodes.monitor_seconds)}",
            f"--node-eviction-rate={self.evictions_per_second:g}",
            f"--attach-detach-reconcile-sync-period={_go(self.verify_seconds)}",
            *((f"{_UNMOUNT_FLAG}={_go(self.unmount_seconds)}",) if unmount_flag else ()),
        )
        tolerated = tuple(
            f"--default-{taint}-toleration-seconds={self.toleration_seconds}" for taint in ("not-ready", "unreachable")
        )
        return Settings(controller_manager=manager, apiserver=tolerated)

    def workloads(self) -> WorkloadTimers:
        return WorkloadTimers(
            toleration_seconds=self.toleration_seconds,
            unmount_seconds=self.unmount_seconds,
            verify_seconds=self.verify_seconds,
        )


def _go(seconds: float) -> str:
    """As Go writes a duration."""
    return f"{round(seconds * 1000)}ms"


def has_unmount_flag(programs: Programs) -> bool:
    """Asks the program. Our own build has the flag; one that somebody put here for us has not."""
    command = (str(programs[Program.CONTROLLER_MANAGER]), f"{_UNMOUNT_FLAG}=1s", "--version")
    return subprocess.run(command, capture_output=True, timeout=_ASK_WITHIN, check=False).returncode == 0


PROFILES: Mapping[Timers, Profile] = MappingProxyType(
    {
        Timers.DEFAULT: Profile(name="default", start_seconds=180.0),
        # Heartbeats and grace a tenth of the defaults, what follows them a thirtieth: a story takes seconds, and the
        # order in which things happen stays the same.
        Timers.COMPRESSED: Profile(
            name="compressed",
            nodes=NodeTimers(
                renew_seconds=1.0,
                status_seconds=30.0,
                boot_seconds=3.0,
                lease_seconds=4,
                start_seconds=0.2,
                stop_seconds=0.2,
                retry_seconds=0.2,
                crash_seconds=1.0,
                monitor_seconds=0.5,
                grace_seconds=5.0,
            ),
            storage=StorageTimers(provision_seconds=0.1, attach_seconds=0.3, detach_seconds=0.3),
            toleration_seconds=10,
            unmount_seconds=12.0,
            verify_seconds=2.0,
            evictions_per_second=100.0,
            patience=1 / 30,
        ),
    }
)

# What installers offer to those who want a fast reaction. Kubernetes advises against a grace this short: a connection that
# broke is noticed only after 45 s, so it takes healthy nodes for lost ones.
TUNED = Profile(name="tuned", nodes=NodeTimers(monitor_seconds=2.0, grace_seconds=20.0), toleration_seconds=30)
