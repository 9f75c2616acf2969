"""I1 and I6: what destroys something comes after a proof and a live look, and where nothing runs any more."""

from collections.abc import Iterator

from defib.hollow.disk import SHARED_MODES
from defib.model.failover_policy import NO_PROOF
from defib.model.node import OUT_OF_SERVICE
from defib.simulate.store import DELETED
from tests.simulation.checkers.state import (
    FENCING,
    LIVE_SECONDS,
    Finding,
    State,
    deleted_pod,
    node_of,
    policy_of,
    said,
    taken_by_force,
)
from tests.simulation.history import Asked, Entry, Object, Written
from tests.simulation.shape import SHOP

ATTACHMENTS = "volumeattachments.storage.k8s.io"
CLAIM, CLAIMS = "persistentVolumeClaim", "persistentvolumeclaims"
POLICIES = "podfailoverpolicies.defib.dev"
LOOKED_AT = ("pods", "nodes", "volumeattachments")


def proved(entry: Entry, state: State) -> Iterator[Finding]:
    """I1: pods that must not run twice are taken by force only after a proof, and where they really do not run."""
    pod = taken_by_force(entry, state)
    if pod is None or not isinstance(entry, Asked) or not _runs_once(pod, state) or _is_waived(pod, state):
        return
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    if why := _why_unproved(node, state, entry.at):
        yield Finding("I1", entry.at, f"{entry.replica} took {name} from {node} by force, {why}")
    if entry.runs_there:
        yield Finding("I1", entry.at, f"{entry.replica} took {name} from {node} by force while it ran there")


def out_of_service_when_proved(entry: Entry, state: State) -> Iterator[Finding]:
    """I1: Kubernetes is told that nothing runs on a node only after a proof: it takes pods and volumes by that."""
    if not isinstance(entry, Written) or entry.resource != "nodes" or not entry.by:
        return
    before = entry.change.before.object if entry.change.before else None
    is_told = entry.change.kind == DELETED or (_is_out(entry.change.now.object) and not (before and _is_out(before)))
    if is_told and (why := _why_unproved(entry.key, state, entry.at)):
        how = "deleted the Node of" if entry.change.kind == DELETED else "took out of service"
        yield Finding("I1", entry.at, f"{entry.by} {how} {entry.key}, {why}")


def detached_when_proved(entry: Entry, state: State) -> Iterator[Finding]:
    """I1: a volume is taken from a node only after a proof: else it could be written to from two."""
    if not isinstance(entry, Asked) or entry.request.method != "DELETE":
        return
    kind, name = entry.request.path.split("/")[-2:]
    item = state.of(ATTACHMENTS).get(name) if kind == ATTACHMENTS.partition(".")[0] else None
    node = str(item["spec"].get("nodeName", "")) if item is not None else ""
    if node and (why := _why_unproved(node, state, entry.at)):
        yield Finding("I1", entry.at, f"{entry.replica} detached {name} from {node}, {why}")


class Live:
    """I6: a live look comes before every deletion of a pod, node or attachment, and it names the UID."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str], float] = {}

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        if not isinstance(entry, Asked):
            return
        path = entry.request.path
        if not entry.is_write:
            self._looks[entry.replica, path] = entry.at
            return
        kind = path.split("/")[-2]
        if entry.request.method != "DELETE" or kind not in LOOKED_AT:
            return
        if not said(entry).get("preconditions", {}).get("uid"):
            yield Finding("I6", entry.at, f"{entry.replica} asked {entry.request} without a UID")
        pod = deleted_pod(entry, state)
        if kind == "pods" and pod is None:
            return  # it is gone, and its UID keeps a namesake from harm
        node = f"/api/v1/nodes/{pod['spec'].get('nodeName', '')}" if pod else ""
        looked = max(self._looks.get((entry.replica, one), -LIVE_SECONDS) for one in (path, node))
        if kind != "volumeattachments" and entry.at - looked >= LIVE_SECONDS:
            yield Finding("I6", entry.at, f"{entry.replica} asked {entry.request} without a look")


def _why_unproved(node: str, state: State, at: float) -> str:
    """Why what is believed of a node is no proof that its policy accepts; empty when it is."""
    proof = state.proof(node, at)
    if not proof:
        return "without a proof"
    orders = [(kind, item) for kind in FENCING for item in state.of(kind).values() if node_of(item) == node]
    policies = [policy_of(kind, item) for kind, item in orders]
    accepted = {grade for policy in policies if policy is not None for grade in policy.accepts}
    return f"by a proof of grade {proof['grade']}" if accepted and proof["grade"] not in accepted else ""


def _is_out(node: Object) -> bool:
    return any(taint["key"] == OUT_OF_SERVICE for taint in node["spec"].get("taints") or ())


def _runs_once(pod: Object, state: State) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    is_database = pod["metadata"]["namespace"] == SHOP and any(owner["kind"] == "StatefulSet" for owner in owners)
    claims = [volume["persistentVolumeClaim"] for volume in pod["spec"].get("volumes") or () if CLAIM in volume]
    keys = [f"{pod['metadata']['namespace']}/{claim['claimName']}" for claim in claims]
    return is_database or not all(_is_shared(state.of(CLAIMS).get(key)) for key in keys)


def _is_shared(claim: Object | None) -> bool:
    """Whether several nodes may write to it, or none may: whose modes nobody knows is not."""
    modes = ((claim or {}).get("spec") or {}).get("accessModes") or ()
    return bool(modes) and SHARED_MODES.issuperset(modes)


def _is_waived(pod: Object, state: State) -> bool:
    """Whether its own team says that nothing need be proved for it."""
    labels = pod["metadata"].get("labels") or {}
    for policy in state.of(POLICIES).values():
        spec = policy.get("spec") or {}
        chosen = (spec.get("selector") or {}).get("matchLabels") or {}
        is_for_it = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
        if is_for_it and chosen and chosen.items() <= labels.items() and NO_PROOF in _proofs(spec):
            return True
    return False


def _proofs(spec: Object) -> list[str]:
    named = spec.get("acceptedProofs") or ()
    return [str(one) for one in named]
