"""Which pods a drain has to see off, and which of them Defib leaves alone, and why."""

from collections.abc import Iterable

from defib.model.drain_policy import Policy
from defib.model.node_drain import UPGRADER, opt_out
from defib.model.pod import Pod


def must_leave(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """All but those that belong to the node or have ended; the most important last, as they are evicted."""
    return tuple(sorted((pod for pod in pods if not stays(pod)), key=lambda one: (one.spec.priority, one.key)))


def stays(pod: Pod) -> str:
    """Why no drain waits for it; empty when one does."""
    reasons = (
        (pod.is_of_daemon_set, "of a DaemonSet"),
        (pod.is_mirror, "static"),
        (pod.is_finished and not pod.is_leaving, "finished"),
        (UPGRADER in pod.labels, "of the upgrade itself"),
    )
    return next((why for is_so, why in reasons if is_so), "")


def left_alone(pod: Pod, policy: Policy) -> str:
    """Why Defib does nothing about it; empty when it may."""
    if why := opt_out(pod):
        return why
    return f"the policy ignores namespace {pod.namespace}" if policy.ignored.has(pod.namespace) else ""
