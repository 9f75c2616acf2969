"""Label selectors: which objects somebody means."""

from collections.abc import Mapping

import msgspec

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class Requirement(msgspec.Struct, frozen=True):
    """One condition on one label. `Exists` and `DoesNotExist` have no values."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def admits(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


class Selector(msgspec.Struct, frozen=True):
    """All requirements together; without any, everything."""

    requirements: tuple[Requirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.admits(labels) for requirement in self.requirements)


EVERYTHING = Selector()
