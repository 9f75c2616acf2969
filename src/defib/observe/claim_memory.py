"""The access modes of claims that pods of failed nodes use: each is read once, and kept while it is needed."""

from collections.abc import Collection, Mapping
from types import MappingProxyType


class ClaimMemory:
    def __init__(self) -> None:
        self._modes: Mapping[str, frozenset[str]] = MappingProxyType({})

    def read(self, claim: str, modes: frozenset[str]) -> None:
        self._modes = MappingProxyType({**self._modes, claim: modes})

    def keep_only(self, claims: Collection[str]) -> None:
        if not self._modes.keys() <= set(claims):
            self._modes = MappingProxyType({key: modes for key, modes in self._modes.items() if key in claims})

    @property
    def modes(self) -> Mapping[str, frozenset[str]]:
        return self._modes
