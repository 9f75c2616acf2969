"""One pod on one boot of one node: where it stands between admitted and stopped, and what it writes meanwhile.

    WAITING ──volumes there──▶ STARTING ──▶ RUNNING ──▶ STOPPING ──▶ STOPPED
                                   ▲───restart──┘ └─────ended by itself────▲

What is sure to happen (the end of a job, of a container that got its signal) is told to the disks when it is decided,
so that containers live and end on time also while nobody looks: their kubelet may hang.
"""

from datetime import datetime, timedelta
from enum import Enum

import msgspec

from defib.hollow.disk import Disk, Writer
from defib.hollow.habits import habits_of
from defib.hollow.objects import Pod
from defib.hollow.site import Site

NEVER = float("inf")
KILLED = 137
GRACE_MIN_SECONDS = 1  # a kubelet gives at least this, also when nobody wants to wait
BACKOFF_MAX_SECONDS = 300.0
DOUBLINGS_MAX = 5


class Stage(Enum):
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Mount(msgspec.Struct, frozen=True):
    """A volume of a pod; `name` is what the node's status calls it. Without a disk there is nothing to attach."""

    volume: str
    name: str = ""
    disk: Disk | None = None
    read_only: bool = False


class PodWork:
    def __init__(self, pod: Pod, site: Site, writer: Writer, address: str) -> None:
        self.pod = pod
        self.address = address
        self.stage = Stage.WAITING
        self.habits = habits_of(pod, site.timers)
        self.mounts: tuple[Mount, ...] = ()
        self.admitted_at: datetime = site.clock.now()
        self.started_at: datetime | None = None
        self.finished_at: datetime | None = None
        self.exit_code = KILLED
        self.is_gone = False
        self.due = NEVER
        self._site = site
        self._writer = writer
        self.restarts = _restarts(pod)
        if pod.is_finished or pod.is_deleted or (self.restarts and pod.spec.restart_policy == "Never"):
            self.stage = Stage.STOPPED

    @property
    def is_static(self) -> bool:
        return self.pod.is_mirror

    @property
    def is_ready(self) -> bool:
        return self.habits.gets_ready and self.stage in (Stage.RUNNING, Stage.STOPPING)

    @property
    def phase(self) -> str:
        if self.pod.is_finished:  # for ever, whoever said so
            return self.pod.phase
        match self.stage:
            case Stage.WAITING | Stage.STARTING:
                return "Running" if self.restarts else "Pending"
            case Stage.RUNNING | Stage.STOPPING:
                return "Running"
            case Stage.STOPPED:
                return "Failed" if self.exit_code else "Succeeded"

    def see(self, pod: Pod) -> None:
        """The newest object; what comes late is left aside."""
        if pod.uid != self.pod.uid or int(pod.metadata.resource_version) >= int(self.pod.metadata.resource_version):
            self.pod = pod

    def admit(self, now: float) -> None:
        """Everything it needs is there."""
        if self.stage is Stage.WAITING and self.habits.starts:
            self.stage = Stage.STARTING
            self.due = now + self.habits.start_seconds

    def step(self, now: float) -> None:
        """As far as it has come by now."""
        if self._must_end():
            self._end(now)
        if self.due > now:
            return
        match self.stage:
            case Stage.STARTING:
                self._run(now)
            case Stage.RUNNING:
                self._exit()
            case Stage.STOPPING:
                self._stopped(self.due)

    def cut(self) -> None:
        """The power is gone."""
        for disk in self._written_disks():
            disk.stop(self._writer)

    def _must_end(self) -> bool:
        return not self.is_static and (self.is_gone or self.pod.is_deleted or self.pod.is_finished)

    def _end(self, now: float) -> None:
        match self.stage:
            case Stage.WAITING | Stage.STARTING:
                self._stopped(now)
            case Stage.RUNNING if self.due > now:
                self.stage = Stage.STOPPING
                self._shorten(now)
            case Stage.STOPPING:
                self._shorten(now)
            case Stage.RUNNING | Stage.STOPPED:
                pass

    def _shorten(self, now: float) -> None:
        """Patience starts when the kubelet hears of it; a second deletion can only make it shorter."""
        grace = max(GRACE_MIN_SECONDS, self._allowed())
        end = now + min(self.habits.stop_seconds, grace)
        if end < self.due:
            self.exit_code = 0 if self.habits.stop_seconds <= grace else KILLED
            self._ends_at(end)

    def _allowed(self) -> float:
        said = self.pod.metadata.deletion_grace_period_seconds
        grace = self.pod.spec.termination_grace_period_seconds if said is None else said
        return NEVER if self.habits.outlives_grace and grace > GRACE_MIN_SECONDS else grace

    def _run(self, now: float) -> None:
        self.stage = Stage.RUNNING
        self.started_at = self._site.clock.now()
        self.due = NEVER
        for disk in self._written_disks():
            disk.start(self._writer)
        if self.habits.run_seconds != NEVER:
            self.exit_code = self.habits.exit_code
            self._ends_at(now + self.habits.run_seconds)

    def _ends_at(self, moment: float) -> None:
        self.due = moment
        for disk in self._written_disks():
            disk.stop(self._writer, at=moment)

    def _exit(self) -> None:
        """It ended by itself; whether that is the end of the pod its restart policy says."""
        policy = self.pod.spec.restart_policy
        if self._must_end() or policy == "Never" or (policy == "OnFailure" and not self.exit_code):
            self._stopped(self.due)
            return
        pause = self._site.timers.crash_seconds * 2.0 ** min(self.restarts, DOUBLINGS_MAX)
        self.finished_at = self._wall(self.due)
        self.stage = Stage.STARTING
        self.restarts += 1
        self.due += min(pause, BACKOFF_MAX_SECONDS)

    def _stopped(self, moment: float) -> None:
        self.stage = Stage.STOPPED
        self.finished_at = self._wall(moment)
        self.due = NEVER

    def _wall(self, moment: float) -> datetime:
        clock = self._site.clock
        return clock.now() + timedelta(seconds=moment - clock.monotonic())

    def _written_disks(self) -> list[Disk]:
        return [mount.disk for mount in self.mounts if mount.disk and not mount.read_only]


def _restarts(pod: Pod) -> int:
    """A container that ran before this boot is started for the second time."""
    known = (pod.status or {}).get("containerStatuses") or ()
    ran = [
        status.get("restartCount", 0) for status in known if "waiting" not in (status.get("state") or {"waiting": 0})
    ]
    return max(ran, default=-1) + 1
