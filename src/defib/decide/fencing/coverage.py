"""Which nodes a template of ours covers, and what it says of them; read again only where something has changed."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.decide.fencing.covered import Covered
from defib.decide.fencing.fence_status import Summary
from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.ours import BY_TEMPLATE, POWER_CYCLE, Ours
from defib.decide.fencing.paths import NO_WAY
from defib.decide.plan import Plan
from defib.model.fence_readiness import read_fence_status
from defib.model.health_check import Check, KindRef
from defib.model.meta import Unstructured
from defib.model.power_cycle import Policy, template_spec

NOBODY: frozenset[str] = frozenset()


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """One template and its nodes."""

    item: Unstructured
    policy: Policy
    ours: Ours = POWER_CYCLE
    problems: tuple[str, ...] = ()
    is_used: bool = False
    nodes: frozenset[str] = NOBODY
    covered: Mapping[str, Covered] = {}
    summary: Summary = Summary(is_used=False)
    is_told: bool = False  # the status says all that there is to say
    told_at: datetime | None = None


def key_of(kind: KindRef, key: str) -> str:
    """Templates of two kinds may have one name."""
    return f"{kind.name} {key}"


def uses_in(plan: Plan) -> dict[str, frozenset[str]]:
    """By template, the nodes for which it would be used."""
    found: dict[str, frozenset[str]] = {}
    for one in plan.checks.values():
        check, census = one.known.check, one.census
        if not isinstance(check, Check) or census is None:
            continue
        ours = (step.template for step in check.steps if step.template.kind in BY_TEMPLATE)
        for key in {key_of(template.kind, template.key) for template in ours}:
            found[key] = found[key] | census.selected if key in found else census.selected
    return found


def coverage_of(ours: Ours, item: Unstructured, nodes: frozenset[str] | None, was: Coverage | None) -> Coverage:
    """What a template says is read again only when it says something else; its status, which we write, is no part of that."""
    is_used, nodes = nodes is not None, nodes or NOBODY
    if was is not None and was.item is item and was.nodes is nodes and was.is_used == is_used:
        return was
    if was is not None and _says(was.item) == _says(item):
        return msgspec.structs.replace(was, item=item, nodes=nodes, is_used=is_used, is_told=False)
    read = ours.read(template_spec(item), None)
    policy, problems = (read, ()) if isinstance(read, Policy) else (Policy(), read)
    known = was.covered if was is not None else {}
    coverage = Coverage(item=item, policy=policy, ours=ours, problems=problems, is_used=is_used, nodes=nodes)
    return msgspec.structs.replace(coverage, covered=known)


def _says(item: Unstructured) -> tuple[str, int]:
    return item.uid, item.metadata.generation


def stale(now: Coverage, was: Coverage | None, changed: frozenset[str]) -> frozenset[str]:
    """The nodes to look at: all, if the template says something else; or those that came, went or changed."""
    if was is None or now.policy is not was.policy:
        return now.nodes | (was.nodes if was is not None else NOBODY)
    moved = NOBODY if now.nodes is was.nodes else now.nodes ^ was.nodes
    return moved | (changed & now.nodes) if changed else moved


def carried(item: Unstructured) -> dict[str, Covered]:
    """What the status says of nodes that could not be fenced: as we said it before a restart, with its time."""
    said = read_fence_status(item).not_ready or ()
    return {one.node: Covered(node=one.node, path=Obstacle(NO_WAY, ""), why=one.why, since=one.since) for one in said}
