"""I2 and I13: one actor for one node, which has its lock; and a replica acts only while it leads."""

from collections.abc import Iterator

from defib.model import medik8s
from defib.model.power_cycle import LOCK_HOLDER
from tests.simulation.checkers.state import (
    LIVE_SECONDS,
    Finding,
    State,
    begun,
    is_over,
    node_of,
    owner_of,
    switched_off,
)
from tests.simulation.history import Asked, Entry, Object, Switched, Written
from tests.simulation.world import LEASES, REMEDIATIONS


def unlocked(entry: Entry, state: State) -> Iterator[Finding]:
    """I2: nobody switches a machine, or begins a remediation, whose node somebody else has locked."""
    made, node = begun(entry), switched_off(entry)
    if made is not None:
        node = node_of(made)
    lock = state.lock(node) if node else None
    if lock is not None and not _is_ours(lock) and not is_over(lock, entry.at + state.skew):
        yield Finding("I2", entry.at, f"{node} was touched while {_holder(lock)} had its lock")


class HeldWhileActing:
    """I2: a remediation begins, and a machine goes off, under a lock of ours, which is there or was a moment ago."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        if isinstance(entry, Written) and entry.resource == LEASES:
            self._see(entry, state.skew)
        made, node = begun(entry), switched_off(entry)
        if made is not None:
            node = node_of(made)
        if not node:
            return
        lock = state.lock(node)
        if lock is not None and _is_ours(lock) and not is_over(lock, entry.at - state.skew):
            return
        if node in state.of("nodes") and entry.at - self._last.get(node, -LIVE_SECONDS) >= LIVE_SECONDS:
            yield Finding("I2", entry.at, f"{node} was touched, and nobody had its lock")

    def _see(self, entry: Written, skew: float) -> None:
        """Somebody may take our lock away while we act under it."""
        namespace, _, name = entry.key.partition("/")
        if namespace == medik8s.LOCK_NAMESPACE:
            for version in (entry.change.before, entry.change.now):
                if version is not None and _is_ours(version.object) and not is_over(version.object, entry.at - skew):
                    self._last[name.removeprefix("node-")] = entry.at


class OneForEachNode:
    """I2: of one kind there is one remediation for a node, and none of another check."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        if not isinstance(entry, Written) or entry.resource not in REMEDIATIONS:
            return
        key = f"{entry.resource} {entry.key}"
        self._since.setdefault(key, entry.at)
        made = begun(entry)
        if made is None:
            return
        for resource in REMEDIATIONS:
            for name, other in state.of(resource).items():
                is_same = (resource, name) == (entry.resource, entry.key)
                if is_same or node_of(other) != node_of(made):
                    continue
                if owner_of(other) != owner_of(made) and self._is_fresh(f"{resource} {name}", entry.at):
                    continue  # nobody can know of it yet, and it is no check's
                if resource == entry.resource or owner_of(other) not in ("", owner_of(made)):
                    yield Finding("I2", entry.at, f"{node_of(made)} has two remediations, {entry.key} and {name}")

    def _is_fresh(self, key: str, at: float) -> bool:
        return at - self._since.get(key, at) < LIVE_SECONDS


def led(entry: Entry, _: State) -> Iterator[Finding]:
    """I13: whoever writes or switches has the lock at that moment, and its time is not over."""
    if not isinstance(entry, Switched | Asked) or (isinstance(entry, Asked) and not entry.is_write):
        return
    if entry.holder != entry.replica:
        yield Finding("I13", entry.at, f"{entry}, and the lock has {entry.holder or 'nobody'}")


def _holder(lock: Object) -> str:
    return str(lock["spec"].get("holderIdentity") or "")


def _is_ours(lock: Object) -> bool:
    return _holder(lock).startswith(medik8s.holder_of("")) or _holder(lock) == LOCK_HOLDER
