"""What kube-scheduler and the workload side of kube-controller-manager do, in small, for the embedded API server."""

from defib.simulate.workloads.timers import WorkloadTimers
from defib.simulate.workloads.workloads import Workloads

__all__ = ["WorkloadTimers", "Workloads"]
