"""I7: what others put on objects is theirs. A replica takes away only what Defib put there, or what it is there to take.

Who wrote something is known by two signs together: it was stored in the turn of a replica, and that replica had asked
for a write of this very object.
"""

from collections import Counter
from collections.abc import Iterator

from defib.model import medik8s
from defib.model.incident import INCIDENTS, Phase
from defib.model.node import OUT_OF_SERVICE, TAINTED_BY_US
from defib.model.power_cycle import LOCK_HOLDER
from defib.simulate.store import ADDED, DELETED
from tests.simulation.checkers.state import Finding, State, is_over, said
from tests.simulation.history import Asked, Entry, Object, Written
from tests.simulation.world import LEASES, phase_of

OURS = "defib.dev/"
# What people write on nodes for us, and expect to be cleared.
WORDS_FOR_US = (medik8s.CONFIRMED_HEALTHY,)
KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")  # it sets and removes these by itself
MAY_DELETE = frozenset({"pods", "nodes", "volumeattachments.storage.k8s.io"})  # other invariants say when


def address_of(path: str, body_name: str = "") -> tuple[str, str]:
    """The resource and the key of what a request is about, as the history names them."""
    parts = path.strip("/").split("/")
    group = "" if parts[0] == "api" else parts[1]
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else body_name
    resource = f"{rest[0]}.{group}" if group else rest[0]
    return resource, f"{namespace}/{name}" if namespace else name


class Authors:
    """Says which changes a replica made itself."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, str, str]] = Counter()

    def see(self, entry: Asked) -> None:
        if entry.is_write:
            body = said(entry) if entry.request.method == "POST" else {}
            name = str((body.get("metadata") or {}).get("name", ""))
            self._asked[entry.replica.partition("-")[0], *address_of(entry.request.path, name)] += 1

    def is_own(self, entry: Written) -> bool:
        key = (entry.by.partition("-")[0], entry.resource, entry.key)
        if not entry.by or not self._asked[key]:
            return False
        self._asked[key] -= 1
        return True


class Foreign:
    def __init__(self) -> None:
        self._authors = Authors()
        self._made: set[str] = set()  # UIDs of what we created
        self._lost: dict[str, _Belongings] = {}  # what nodes had when we deleted them

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        if isinstance(entry, Asked):
            self._authors.see(entry)
        if not isinstance(entry, Written):
            return
        is_ours = self._authors.is_own(entry)
        if entry.resource == "nodes":
            yield from self._node(entry, is_ours=is_ours)
        if (
            entry.resource == INCIDENTS
            and entry.key in self._lost
            and phase_of(entry.change.now.object) == Phase.CLOSED
        ):
            yield from self._given_back(entry, state)
        if is_ours:
            yield from self._object(entry, state.skew)

    def _object(self, entry: Written, skew: float) -> Iterator[Finding]:
        before, now = entry.change.before, entry.change.now.object
        if entry.change.kind == ADDED:
            self._made.add(now["metadata"]["uid"])
        if before is None:
            return
        if entry.resource == LEASES:
            yield from _lock(entry, before.object, skew)
        is_taken = entry.change.kind == DELETED or "deletionTimestamp" in now["metadata"]
        was_taken = "deletionTimestamp" in before.object["metadata"]
        is_known = now["metadata"]["uid"] in self._made or entry.resource in (INCIDENTS, LEASES)
        if is_taken and not was_taken and entry.resource not in MAY_DELETE and not is_known:
            yield Finding("I7", entry.at, f"{entry.by} deleted {entry.resource} {entry.key}, which is not ours")
        finalizers = _missing(before.object, now, "finalizers")
        if entry.change.kind != DELETED and (foreign := sorted(one for one in finalizers if not one.startswith(OURS))):
            yield Finding("I7", entry.at, f"{entry.by} took {foreign} from {entry.resource} {entry.key}")

    def _node(self, entry: Written, *, is_ours: bool) -> Iterator[Finding]:
        before = _Belongings(entry.change.before.object) if entry.change.before else None
        if entry.change.kind == DELETED:
            if is_ours and before is not None:
                self._lost[entry.key] = before
            return
        now = _Belongings(entry.change.now.object)
        if before is None:
            return
        gone = before.without(now)
        if is_ours and gone:
            yield Finding("I7", entry.at, f"{entry.by} took {', '.join(gone)} from node {entry.key}")
        if not is_ours and entry.key in self._lost:
            self._lost[entry.key].forget(gone)  # whoever it was meant it

    def _given_back(self, entry: Written, state: State) -> Iterator[Finding]:
        had = self._lost.pop(entry.key)
        node = state.of("nodes").get(entry.key)
        missing = had.without(_Belongings(node)) if node is not None else []
        if missing:
            yield Finding("I7", entry.at, f"{entry.key} was deleted and has not got back {', '.join(missing)}")


class _Belongings:
    """What a node has that Defib has not given it, each as a word that is unlike any other."""

    def __init__(self, node: Object) -> None:
        meta, spec = node["metadata"], node["spec"]
        words = {"the cordon"} if spec.get("unschedulable") else set[str]()
        words |= {f"label {key}" for key in meta.get("labels") or ()}
        annotations = [key for key in meta.get("annotations") or () if key not in WORDS_FOR_US]
        words |= {f"annotation {key}" for key in annotations if not key.startswith(OURS)}
        words |= {f"finalizer {key}" for key in meta.get("finalizers") or ()}
        taints = [one for one in spec.get("taints") or () if one["key"] != OUT_OF_SERVICE]
        words |= {f"taint {one['key']}:{one['effect']}" for one in taints if not one["key"].startswith(KUBERNETES)}
        if any(one["key"] == OUT_OF_SERVICE for one in spec.get("taints") or ()) and TAINTED_BY_US not in (
            meta.get("annotations") or {}
        ):
            words.add(f"taint {OUT_OF_SERVICE}")
        self._words = words

    def without(self, others: "_Belongings") -> list[str]:
        return sorted(self._words - others._words)

    def forget(self, words: list[str]) -> None:
        self._words -= set(words)


def _lock(entry: Written, before: Object, skew: float) -> Iterator[Finding]:
    holder = str(before["spec"].get("holderIdentity") or "")
    is_ours = holder.startswith(medik8s.holder_of("")) or holder == LOCK_HOLDER or not holder
    is_lock = entry.key.startswith(f"{medik8s.LOCK_NAMESPACE}/")
    if is_lock and not is_ours and not is_over(before, entry.at + skew):
        yield Finding("I7", entry.at, f"{entry.by} took the lock {entry.key} from {holder}")


def _missing(before: Object, now: Object, field: str) -> set[str]:
    return set(before["metadata"].get(field) or ()) - set(now["metadata"].get(field) or ())
