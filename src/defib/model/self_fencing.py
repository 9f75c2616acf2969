"""SelfFenceRemediation: the agent of a node takes it down, and the time proves it. Its names, and who is fit for it."""

import msgspec

from defib.model.health_check import KindRef
from defib.model.incident import API_VERSION
from defib.model.node import Lease, Node
from defib.model.self_fence import Report, read_report

REMEDIATION = KindRef(API_VERSION, "SelfFenceRemediation")
TEMPLATE = KindRef(API_VERSION, "SelfFenceRemediationTemplate")
FINALIZER = "defib.dev/self-fence"
DEFAULT_TEMPLATE = "defib-self-fence"

NEVER_REBOOTED = "defib.dev/never-rebooted"  # on a Node: since when its word that it takes itself down is not believed
ALLOWS_SOFTWARE = "allowSoftwareWatchdog"  # of the spec, and of the options of a way


class Guarded(msgspec.Struct, frozen=True):
    """An agent that would take its node down: its Lease, and what it reports of itself."""

    lease: Lease
    report: Report


def guard_of(lease: Lease | None, node: Node | None, beat: Lease | None, *, allows_software: bool) -> Guarded | str:
    """Or why nobody could rely on the agent of a node. `beat` is the heartbeat of its kubelet."""
    if node is not None and (why := why_distrusted(node)):
        return why
    if lease is None:
        return "no agent has ever spoken for it: see whether the DaemonSet of agents runs there"
    report = read_report(lease)
    if report is None:
        return f"what its agent reports in Lease {lease.key} cannot be read: agent and operator must be of one version"
    is_weak = report.watchdog == "software" and not allows_software
    is_of_another_boot = node is not None and node.status.node_info.boot_id != report.boot_id
    against = (
        (not report.armed, "its agent has not armed a watchdog, or was stopped: see the log of the agent"),
        (is_weak, f"its watchdog is software, which dies with its kernel; spec.{ALLOWS_SOFTWARE} would do with that"),
        (is_of_another_boot, "its agent has not spoken since the node started anew: see whether it runs there"),
        (_fell_silent_before(lease, beat, report), "its agent fell silent long before its kubelet: see why it ended"),
    )
    return next((why for is_so, why in against if is_so), "") or Guarded(lease, report)


def why_distrusted(node: Node) -> str:
    """Why a death of this node by its own hand is not believed; empty when it is."""
    since = node.annotations.get(NEVER_REBOOTED)
    if since is None:
        return ""
    return (
        f"at {since[:40]} it reported although it had to be dead: its watchdog did not fire; when you know why, and it "
        f"does, trust it again: kubectl annotate node {node.name} {NEVER_REBOOTED}-"
    )


def _fell_silent_before(lease: Lease, beat: Lease | None, report: Report) -> bool:
    """Both are told by the clock of the node. An agent that ends with its node is as good as one that lives."""
    agent, kubelet = lease.spec.renew_time, beat.spec.renew_time if beat is not None else None
    if agent is None:
        return True
    return kubelet is not None and (kubelet - agent).total_seconds() > 2 * report.pace.recent_seconds
