"""How fast the workload controllers live."""

import msgspec


class WorkloadTimers(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those of Kubernetes 1.37; those that are flags there are named."""

    react_seconds: float = 0.05
    """From a change to the controllers' answer: informer, queue and requests together. Not a setting there, but seen."""

    toleration_seconds: int = 300
    """How long a pod of a workload stays on a node that is not ready or unreachable, unless its template says other.
    There it is the API server that adds it: --default-not-ready-toleration-seconds, --default-unreachable-..."""

    pod_gc_seconds: float = 20.0
    """Between two rounds of the pod garbage collector."""

    quarantine_seconds: float = 40.0
    """A node that is gone must stay gone for so long before its pods are collected."""

    unmount_seconds: float = 360.0
    """A volume that a node which is not ready still lists as in use is taken from it after this."""

    attach_poll_seconds: float = 0.5
    """Whether the storage driver has attached or detached is looked up only so often. (There each look is a little
    later than the one before, by a twentieth, and by chance.)"""

    verify_seconds: float = 60.0
    """Whether what was attached still is, is looked up only so often: --attach-detach-reconcile-sync-period."""

    attach_seconds: float = 120.0
    """An attachment that nobody confirms is given up after this, if nobody wants it any more."""

    job_backoff_seconds: float = 10.0
    """Before a Job replaces its first failed pod; doubles with every further failure."""

    job_backoff_limit_seconds: float = 600.0

    daemon_backoff_seconds: float = 1.0
    """Before a DaemonSet deletes a failed pod on a node where one failed before; doubles with every further failure."""

    daemon_backoff_limit_seconds: float = 900.0

    retry_seconds: float = 1.0
    """After a request that the API server refused or did not hear; doubles with every further failure."""

    retry_limit_seconds: float = 64.0

    def faster(self, speed: float) -> "WorkloadTimers":
        """The same proportions in less time. Pods know whole seconds only, so a toleration never falls below one."""
        scaled = {name: getattr(self, name) / speed for name in self.__struct_fields__ if name not in _KEPT}
        tolerated = max(1, round(self.toleration_seconds / speed))
        return msgspec.structs.replace(self, **scaled, toleration_seconds=tolerated)


_KEPT = ("react_seconds", "toleration_seconds")  # a computer answers no faster in a compressed run
