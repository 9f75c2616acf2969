"""What a template's status says of the nodes that it covers, and when that is worth a write.

It is written when a person would see a difference: another answer, another node that could not be fenced, another
reason. Not with every try; and while nodes are still to be tried for the first time, as after a start, their growing
number is no news either.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from heapq import nsmallest

import msgspec

from defib.decide.fencing.covered import Covered
from defib.decide.status import merged
from defib.model.action import ReportRemediation, Target
from defib.model.fence_readiness import (
    FENCE_READY,
    NOT_READY_MAX,
    WHY_MAX,
    FenceStatus,
    NotReadyNode,
    read_fence_status,
)
from defib.model.health_check import KindRef, StatusCondition
from defib.model.meta import Unstructured

NOT_USED = "NotUsed"
INVALID = "InvalidSpec"
NOT_READY = "NotReady"
NOT_TRIED = "NotTriedYet"
ALL_READY = "AllReady"
NAMED = 3  # nodes in the condition's message

_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(FenceStatus))


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes of a template together."""

    is_used: bool
    problems: str = ""  # of its spec
    covered: int = 0
    untried: int = 0
    by_hand: int = 0
    not_ready: int = 0
    listed: tuple[Covered, ...] = ()  # of those that are not ready, the first by name


def sum_up(covered: Mapping[str, Covered], problems: tuple[str, ...], *, is_used: bool) -> Summary:
    broken = [one for one in covered.values() if one.why]
    return Summary(
        is_used=is_used,
        problems="; ".join(problems),
        covered=len(covered),
        untried=sum(1 for one in covered.values() if not one.is_tried and not one.why),
        by_hand=sum(1 for one in covered.values() if one.is_by_hand),
        not_ready=len(broken),
        listed=tuple(nsmallest(NOT_READY_MAX, broken, key=lambda one: one.node)),
    )


def report(kind: KindRef, item: Unstructured, summary: Summary, now: datetime) -> ReportRemediation | None:
    """None when the status says it already."""
    before = read_fence_status(item)
    condition = _condition(before, summary, item.metadata.generation)
    listed = [NotReadyNode(node=one.node, why=one.why[:WHY_MAX], since=one.since) for one in summary.listed]
    after = FenceStatus(
        covered=summary.covered,
        ready=summary.covered - summary.not_ready - summary.untried,
        not_ready=listed or None,
        conditions=merged(before.conditions or [], [condition], item.metadata.generation, now),
    )
    if after == before or (summary.untried and _gist(after) == _gist(before)):
        return None
    told = msgspec.to_builtins(after)
    target = Target(kind=kind, namespace=item.namespace, name=item.name, uid=item.uid)
    return ReportRemediation(
        target=target, version=item.metadata.resource_version, status={name: told.get(name) for name in _FIELDS}
    )


def changes_answer(item: Unstructured, wanted: ReportRemediation) -> bool:
    """Whether FenceReady itself becomes another one, and not just what is said about it."""
    known = read_fence_status(item).condition
    after = next(one for one in wanted.status["conditions"] if one["type"] == FENCE_READY)
    return known is None or (known.status, known.observed_generation) != (
        after["status"],
        after.get("observedGeneration", 0),
    )


def _gist(status: FenceStatus) -> tuple[object, ...]:
    condition = status.condition
    said = (condition.status, condition.reason, condition.observed_generation) if condition is not None else ()
    return said, [(one.node, one.why) for one in status.not_ready or ()]


def _condition(before: FenceStatus, summary: Summary, generation: int) -> StatusCondition:
    if not summary.is_used or not summary.covered:
        which = "the NodeHealthChecks that use this template select no node"
        unused = "no NodeHealthCheck uses this template, so it covers no node"
        return _said("Unknown", NOT_USED, which if summary.is_used else unused)
    if summary.problems:
        return _said("False", INVALID, summary.problems)
    if summary.not_ready:
        return _said("False", NOT_READY, _not_ready(summary))
    if not summary.untried:
        by_hand = f", {summary.by_hand} of them by hand" if summary.by_hand else ""
        return _said("True", ALL_READY, f"{summary.covered} of {_nodes(summary.covered)} could be fenced{by_hand}")
    known = before.condition
    if known is not None and (known.status, known.observed_generation) == ("True", generation):
        return known  # it was so when they were last tried, before us; that they are tried again is no news
    return _said("Unknown", NOT_TRIED, f"{summary.untried} of {_nodes(summary.covered)} have not been tried yet")


def _not_ready(summary: Summary) -> str:
    named = [f"{one.node}: {one.why}" for one in summary.listed[:NAMED]]
    more = f"; and {summary.not_ready - NAMED} more" if summary.not_ready > NAMED else ""
    return f"{summary.not_ready} of {_nodes(summary.covered)} could not be fenced: {'; '.join(named)}{more}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _said(status: str, reason: str, message: str) -> StatusCondition:
    return StatusCondition(type=FENCE_READY, status=status, reason=reason, message=message)


def by_node(coverages: Iterable[Mapping[str, Covered]]) -> dict[str, bool]:
    """Whether each node could be fenced, in every way that somebody may want. Nodes that nobody has tried are left out."""
    found: dict[str, bool] = {}
    for covered in coverages:
        for name, one in covered.items():
            if one.is_tried or one.why:
                found[name] = found.get(name, True) and not one.why
    return found
