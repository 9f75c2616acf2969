"""How fast a hollow cluster lives. The defaults are those of Kubernetes, or of a middling machine."""

import msgspec


class Timers(msgspec.Struct, frozen=True, kw_only=True):
    renew_seconds: float = 10.0
    """Between two heartbeats; what changed in the node's status goes with the next one, as with a kubelet."""
    status_seconds: float = 300.0
    """Between two posts of a status in which nothing changed."""
    boot_seconds: float = 40.0
    """From power to a kubelet."""
    lease_seconds: int = 40
    start_seconds: float = 1.0
    """From a pod that may start to a container that runs, with its volumes mounted."""
    stop_seconds: float = 0.5
    """From the signal to the end of a container that listens to it."""
    retry_seconds: float = 1.0
    """After the API server did not take what a kubelet said about a pod."""
    crash_seconds: float = 10.0
    """Before the first restart of a container that ended; doubles with each, up to 5 minutes."""
    monitor_seconds: float = 5.0
    grace_seconds: float = 50.0

    def faster(self, speed: float) -> "Timers":
        fields = {name: getattr(self, name) / speed for name in self.__struct_fields__ if name != "lease_seconds"}
        return Timers(lease_seconds=max(1, round(self.lease_seconds / speed)), **fields)
