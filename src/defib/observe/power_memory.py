"""What was read of the power of machines, for as long as somebody asks. It is lost with the process, and read again."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

import msgspec

from defib.model.power import UNSEEN, FenceCheck, Look, PowerSeen, Sent

LOOKS_MAX = 10


class PowerMemory:
    def __init__(self) -> None:
        self._seen: dict[str, PowerSeen] = {}
        self._checks: dict[str, FenceCheck] = {}
        self._nodes: Collection[str] = ()

    def read(self, incident: str, look: Look, *, can_read: bool) -> None:
        known = self._seen.get(incident, UNSEEN)
        looks = (*known.looks, look)[-LOOKS_MAX:]
        self._seen[incident] = msgspec.structs.replace(known, looks=looks, can_read=can_read)

    def sent(self, incident: str, sent: Sent) -> None:
        """What was read before says nothing about what comes of it."""
        known = self._seen.get(incident, UNSEEN)
        self._seen[incident] = PowerSeen(sent=sent, can_read=known.can_read)

    def checked(self, node: str, check: FenceCheck) -> None:
        self._checks[node] = check

    def keep_only(self, incidents: Collection[str], nodes: Collection[str]) -> None:
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in incidents}
        if nodes is not self._nodes:  # thousands, and the same ones as at the last pass as long as none has changed
            self._nodes = nodes
            self._checks = {node: check for node, check in self._checks.items() if node in nodes}

    @property
    def seen(self) -> Mapping[str, PowerSeen]:
        return MappingProxyType(self._seen.copy())

    @property
    def checks(self) -> Mapping[str, FenceCheck]:
        return MappingProxyType(self._checks.copy())
