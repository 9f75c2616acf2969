"""Why one pod is still on its node, or would not leave it well: small questions, each with a sentence for a person.

What disruption budgets have to do with it is asked in refusals.py.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from defib.decide.drains.targets import left_alone
from defib.decide.failover.pods import Claims, is_shared
from defib.model.drain_policy import Policy, Times
from defib.model.duration import say
from defib.model.moment import is_sensible
from defib.model.node import Node
from defib.model.pod import Pod

USUAL_GRACE_SECONDS = 30  # what Kubernetes gives a pod that asks for nothing else
_LONGEST_SECONDS = 10**8
JOB_TRACKING = "batch.kubernetes.io/job-tracking"
OF_CLAIMS = ("kubernetes.io/pvc-protection", "kubernetes.io/pv-protection")

# Who is known to put finalizers on pods, or on all sorts of objects, by what these begin with.
_OWNERS = (
    (JOB_TRACKING, "the Job controller, which counts the pod first (is the kube-controller-manager well?)"),
    ("foregroundDeletion", "the garbage collector, which waits for what belongs to the pod"),
    ("orphan", "the garbage collector"),
    ("service.kubernetes.io/", "the cloud's service controller, though it belongs on Services"),
    ("kueue.x-k8s.io/", "Kueue"),
    ("workflows.argoproj.io/", "the controller of Argo Workflows"),
    ("argocd.argoproj.io/", "Argo CD, which waits for the end of a hook"),
    ("resources-finalizer.argocd.argoproj.io", "Argo CD"),
    ("flyte", "Flyte"),
    ("wrangler.cattle.io/", "a controller of Rancher"),
    ("controller.cattle.io/", "a controller of Rancher"),
)


class Reason(StrEnum):
    """Stable: alerts and scripts may go by them."""

    BUDGET_NEVER = "BudgetNeverAllows"
    BUDGET_NONE_NOW = "BudgetAllowsNone"
    BUDGET_STALE = "BudgetNotUpToDate"
    BUDGET_UNCOUNTED = "BudgetCountsNobody"
    BUDGETS_SEVERAL = "SeveralBudgets"
    BUDGETS_UNKNOWN = "BudgetsUnknown"
    UNHEALTHY_PROTECTED = "UnhealthyPodProtected"
    REPLACEMENT_PENDING = "ReplacementPending"
    FINALIZER = "Finalizer"
    TERMINATING = "Terminating"
    STUCK = "StuckTerminating"
    KUBELET_SILENT = "KubeletSilent"
    PRE_STOP = "PreStopHook"
    EXCLUSIVE_VOLUME = "ExclusiveVolume"
    LOCAL_DATA = "LocalData"
    BARE = "BarePod"
    LEFT_ALONE = "LeftAlone"


class Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what is told of drains: also what a machine reads."""


class Finding(Told, frozen=True, kw_only=True):
    """`blocks`: as long as it is so, the pod does not leave. Else it is only worth knowing."""

    reason: Reason
    message: str
    blocks: bool = False
    advice: str = ""
    budget: str = ""  # which one is to blame, as namespace/name


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator does not follow, and somebody who looks closely reads besides."""

    hooks: Mapping[str, tuple[str, ...]] = {}  # the containers with a preStop hook, by the UID of their pod
    pending: tuple[Pod, ...] = ()  # pods that have no node yet, of namespaces in which a budget is in the way
    local: frozenset[str] = frozenset()  # claims, by namespace/name, whose volumes are on one node for good


class Patient(msgspec.Struct, frozen=True, kw_only=True):
    """One pod, and what is known around it. Without a policy Defib does nothing about it."""

    pod: Pod
    node: Node
    policy: Policy | None
    claims: Claims
    details: Details
    now: datetime

    @property
    def patience(self) -> timedelta:
        return (self.policy.times if self.policy is not None else Times()).extra_grace


def findings_of(patient: Patient) -> Iterator[Finding]:
    """All but those about budgets."""
    for ask in (_left_alone, _finalizers, _terminating, _kubelet, _pre_stop, _volumes, _local_data, _bare):
        if (found := ask(patient)) is not None:
            yield found


def owner_of(finalizer: str) -> str:
    """Who most likely put it there, and has to take it away."""
    if finalizer in OF_CLAIMS:
        return "nobody that we know: Kubernetes has it on claims and volumes, not on pods"
    known = next((owner for start, owner in _OWNERS if finalizer.startswith(start)), "")
    domain, slash, _ = finalizer.partition("/")
    return known or (f"whoever uses the domain {domain}" if slash else "nobody can tell whose it is")


def _left_alone(patient: Patient) -> Finding | None:
    why = left_alone(patient.pod, patient.policy or Policy())
    if not why:
        return None
    blocks = patient.policy is not None
    return Finding(reason=Reason.LEFT_ALONE, message=f"Defib leaves it alone: {why}", blocks=blocks)


def _finalizers(patient: Patient) -> Finding | None:
    pod = patient.pod
    held_by = pod.metadata.finalizers or []
    if not held_by or (held_by == [JOB_TRACKING] and not pod.is_leaving):  # every pod of a Job has it
        return None
    told = "; ".join(f"{one} (likely owner: {owner_of(one)})" for one in held_by)
    ends = pod.metadata.deletion_timestamp
    if ends is None or patient.now <= ends:
        return Finding(reason=Reason.FINALIZER, message=f"when it has ended, it will be held by {told}")
    return Finding(
        reason=Reason.FINALIZER,
        message=f"it is terminating, and held by {told}",
        blocks=True,
        advice="see why the owner does not remove it; by hand it may only be removed when its work is done",
    )


def _terminating(patient: Patient) -> Finding | None:
    ends = patient.pod.metadata.deletion_timestamp
    if ends is None or not is_sensible(ends):
        return None
    grace = _grace(patient.pod.metadata.deletion_grace_period_seconds or 0)
    told = f"it was told to end {_whole(patient.now - (ends - grace))} ago, with {say(grace)} of grace"
    if patient.now <= ends + patient.patience:
        left = f", of which {_whole(ends - patient.now)} is left" if ends > patient.now else ""
        return Finding(reason=Reason.TERMINATING, message=f"{told}{left}")
    overdue = _whole(patient.now - ends)
    return Finding(reason=Reason.STUCK, message=f"{told}, and is overdue by {overdue}", blocks=True)


def _kubelet(patient: Patient) -> Finding | None:
    """A pod that is still there only for its finalizers needs no kubelet any more."""
    pod, node = patient.pod, patient.node
    if not pod.is_leaving or node.ready == "True" or pod.is_forced or pod.is_finished:
        return None
    return Finding(
        reason=Reason.KUBELET_SILENT,
        message=f"its node is {unready_words(node, patient.now)}, so no kubelet ends it or says that it has ended",
        blocks=True,
    )


def unready_words(node: Node, now: datetime) -> str:
    ready = node.condition("Ready")
    if ready is None:
        return "not known to be ready"
    since = f" for {_whole(now - ready.last_transition_time)}" if ready.last_transition_time is not None else ""
    return f"not ready (Ready is {ready.status}{since})"


def _pre_stop(patient: Patient) -> Finding | None:
    """A short hook of a pod that is well is nobody's worry."""
    pod = patient.pod
    containers = patient.details.hooks.get(pod.uid, ())
    given = pod.metadata.deletion_grace_period_seconds if pod.is_leaving else pod.spec.termination_grace_period_seconds
    grace = USUAL_GRACE_SECONDS if given is None else given
    if not containers or (not pod.is_leaving and grace <= USUAL_GRACE_SECONDS):
        return None
    noun, verb = ("container", "runs") if len(containers) == 1 else ("containers", "run")
    takes = f"which may take its whole grace of {say(_grace(grace))}"
    message = f"{noun} {', '.join(containers)} {verb} a preStop hook when it ends, {takes}"
    return Finding(reason=Reason.PRE_STOP, message=message)


def _volumes(patient: Patient) -> Finding | None:
    pod, claims = patient.pod, patient.claims
    known = [(name, claims.get(f"{pod.namespace}/{name}")) for name in pod.claims]
    alone = [f"{name} ({', '.join(sorted(modes))})" for name, modes in known if modes and not is_shared(modes)]
    if not alone:
        return None
    noun = "claim" if len(alone) == 1 else "claims"
    rule = "another pod starts elsewhere only when this one has ended and the volume has been detached"
    return Finding(reason=Reason.EXCLUSIVE_VOLUME, message=f"it uses {noun} {', '.join(alone)}: {rule}")


def _local_data(patient: Patient) -> Finding | None:
    parts = [*_data_on_node(patient.pod)]
    if local := [name for name in patient.pod.claims if f"{patient.pod.namespace}/{name}" in patient.details.local]:
        words = ("claim", "is on a volume") if len(local) == 1 else ("claims", "are on volumes")
        tied = f"{words[0]} {', '.join(local)} {words[1]} of this node"
        parts.append(f"{tied}: no other node can run the pod with that")
    return Finding(reason=Reason.LOCAL_DATA, message="; ".join(parts)) if parts else None


def has_local_data(pod: Pod) -> bool:
    return any("emptyDir" in volume or "hostPath" in volume for volume in pod.spec.volumes or ())


def _data_on_node(pod: Pod) -> Iterator[str]:
    volumes = pod.spec.volumes or []
    if lost := [str(volume.get("name", "")) for volume in volumes if "emptyDir" in volume]:
        yield f"what is in its emptyDir {', '.join(lost)} is lost when it leaves"
    if kept := [str(volume.get("name", "")) for volume in volumes if "hostPath" in volume]:
        yield f"what is in its hostPath {', '.join(kept)} stays on this node"


def _bare(patient: Patient) -> Finding | None:
    if not patient.pod.is_bare:
        return None
    message = "it has no controller: nobody makes another one when it has left"
    return Finding(reason=Reason.BARE, message=message, advice="kubectl drain refuses it without --force")


def _grace(seconds: int) -> timedelta:
    """People may write any number, and some leave the calendar."""
    return timedelta(seconds=min(max(seconds, 0), _LONGEST_SECONDS))


def _whole(length: timedelta) -> str:
    return say(timedelta(seconds=int(length.total_seconds())))
