"""One check in one pass: what it asks for, what its status says, and how its nodes are."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.decide.census import Census, Trouble
from defib.decide.ground import ByNode, Ground
from defib.model import medik8s
from defib.model.health_check import Check, CheckStatus, UnhealthyNode
from defib.model.remediation import Remediation


class View(msgspec.Struct, frozen=True, kw_only=True):
    check: Check
    status: CheckStatus  # as it stands in the cluster: also the memory of what was begun
    ground: Ground
    census: Census
    unhealthy: Mapping[str, Trouble]
    suspect: Mapping[str, Trouble]
    owned: ByNode
    healthy_count: int
    recorded: Mapping[str, UnhealthyNode]

    @property
    def now(self) -> datetime:
        return self.ground.now

    @property
    def total(self) -> int:
        return len(self.census.selected)

    @property
    def fewest_healthy(self) -> int:
        return self.check.fewest_healthy(self.total)

    @property
    def starting(self) -> frozenset[str]:
        return self.ground.starting.get(self.check.name, frozenset())

    def remediations(self, node: str) -> tuple[Remediation, ...]:
        return self.owned.get(node, ())

    def is_in_flight(self, node: str) -> bool:
        return bool(self.owned.get(node)) or node in self.starting


class Health(msgspec.Struct, frozen=True):
    """The three classes: unhealthy, on the way there, and all others."""

    unhealthy: Mapping[str, Trouble]
    suspect: Mapping[str, Trouble]


def classify(census: Census, now: datetime, quick: Mapping[str, Trouble], *, spare_terminating: bool) -> Health:
    """`quick`: troubles that no condition shows yet. `spare_terminating`: such nodes are a MachineHealthCheck's."""
    unhealthy: dict[str, Trouble] = {}
    suspect: dict[str, Trouble] = {}
    troubled = {**census.troubled, **{name: one for name, one in quick.items() if name in census.selected}}
    for name in sorted(troubled):
        trouble = troubled[name]
        if not trouble.is_unhealthy(now):
            suspect[name] = trouble
        elif not (spare_terminating and census.nodes[name].condition("Terminating") is not None):
            unhealthy[name] = trouble
    return Health(unhealthy, suspect)


def look(check: Check, status: CheckStatus, ground: Ground, census: Census, health: Health) -> View:
    owned = ground.by_check.get(check.name, {})
    starting = ground.starting.get(check.name, frozenset())
    ill = {*health.unhealthy, *health.suspect, *(n for n in owned if n in census.selected), *starting}
    return View(
        check=check,
        status=status,
        ground=ground,
        census=census,
        unhealthy=health.unhealthy,
        suspect=health.suspect,
        owned=owned,
        healthy_count=len(census.selected) - len(ill & census.selected),
        recorded={node.name: node for node in status.unhealthy_nodes or ()},
    )


def holder(check: Check) -> str:
    return medik8s.holder_of(check.name)
