"""What is worth an event: the difference between what the status said and what it says now. So nothing is said twice."""

from collections.abc import Iterator

from defib.decide.storm import ACTIVE, COOLDOWN
from defib.decide.stuck import NOT_REPLACED, STUCK
from defib.decide.view import View
from defib.model import medik8s
from defib.model.action import Ended, TellEvent
from defib.model.health_check import CheckStatus, StartedRemediation, StatusCondition, UnhealthyNode
from defib.model.reasons import EventReason

# Held back on purpose, by a person or by a plan: that is no reason to warn.
ON_PURPOSE = frozenset({"BeingDeleted", "Paused", "Upgrade", "ModeObserve"})
# What holds back one node. What holds back the whole check is said once, for the check.
OF_A_NODE = frozenset(
    {
        "Excluded",
        "Approval",
        "Lock",
        "ForeignRemediation",
        "ControlPlane",
        "Quorum",
        "NodeUpgrade",
        "Flapping",
        "InFlight",
        "RateLimit",
        "FailureDomain",
    }
)
WARNINGS = {
    "NoTemplateLeft": EventReason.NO_TEMPLATE_LEFT,
    "TimedOut": EventReason.REMEDIATION_TIMED_OUT,
    "CreationFailed": EventReason.REMEDIATION_FAILED,
    STUCK: EventReason.DELETION_STUCK,
    NOT_REPLACED: EventReason.REPLACEMENT_STUCK,
}

Said = tuple[bool, EventReason, str]  # a warning?, the reason, the message


def news(view: View, after: CheckStatus) -> tuple[TellEvent, ...]:
    said = (*(("", said) for said in _of_check(view.status, after)), *_of_nodes(view, after))
    return tuple(
        TellEvent(
            check=view.check.name,
            uid=view.check.uid,
            is_warning=warning,
            reason=reason,
            message=message,
            at=view.now,
            node=node,
        )
        for node, (warning, reason, message) in said
    )


def _of_check(before: CheckStatus, after: CheckStatus) -> Iterator[Said]:
    for condition in after.conditions or ():
        old = before.condition(condition.type)
        if old is not None and (old.status, old.reason) == (condition.status, condition.reason):
            continue
        yield from _of_condition(condition, old)
    yield from _of_storm(before, after)


def _of_condition(condition: StatusCondition, old: StatusCondition | None) -> Iterator[Said]:
    is_true = condition.status == "True"
    match condition.type:
        case "Disabled" if is_true:
            yield True, EventReason.DISABLED, condition.message
        case "Disabled" if not is_true:
            yield False, EventReason.ENABLED, condition.message
        case "RemediationAllowed" if not is_true and condition.reason != "Disabled":
            yield condition.reason not in ON_PURPOSE, EventReason.REMEDIATION_SKIPPED, condition.message
        case "UpgradeStuck" if is_true and (old is None or old.status != "True"):
            message = f"an upgrade takes too long and is ignored from now on: {condition.message}"
            yield True, EventReason.UPGRADE_STUCK, message


def _of_storm(before: CheckStatus, after: CheckStatus) -> Iterator[Said]:
    was, now = before.is_true(ACTIVE), after.is_true(ACTIVE)
    if now and not was:
        message = "too many nodes failed at once: nothing new is begun until it is calm again"
        yield True, EventReason.STORM_STARTED, message
    if after.is_true(COOLDOWN) and not before.is_true(COOLDOWN):
        yield True, EventReason.STORM_COOLDOWN, "enough nodes are healthy again; waiting for it to stay so"
    if was and not now:
        yield False, EventReason.STORM_ENDED, "the storm is over"


def _of_nodes(view: View, after: CheckStatus) -> Iterator[tuple[str, Said]]:
    told = {node.name: node for node in after.unhealthy_nodes or ()}
    for name in sorted(told.keys() | view.recorded.keys()):
        yield from ((name, said) for said in _of_node(view, view.recorded.get(name), told.get(name)))


def _of_node(view: View, before: UnhealthyNode | None, after: UnhealthyNode | None) -> Iterator[Said]:
    had, has = _resources(before), _resources(after)
    name = after.name if after else before.name if before else ""
    if after is not None and before is None and name in view.unhealthy:
        because = view.unhealthy[name].because
        message = f"node {name} is unhealthy: {because.type} is {because.status}"
        yield False, EventReason.DETECTED_UNHEALTHY, message
        if view.census.nodes[name].labels.get(medik8s.EXCLUDED) == "":
            message = f"node {name}: the label {medik8s.EXCLUDED} has no value and is ignored"
            yield True, EventReason.INVALID_NODE_LABEL, message
    for uid in sorted(has.keys() - had.keys()):
        yield False, EventReason.REMEDIATION_CREATED, f"{_spell(has[uid])} was created for node {name}"
    for uid in sorted(had.keys() - has.keys()):
        yield False, EventReason.REMEDIATION_REMOVED, f"{_spell(had[uid])} of node {name} is gone"
    if after is not None and (before is None or before.reason != after.reason):
        if after.reason in OF_A_NODE:
            yield True, EventReason.REMEDIATION_SKIPPED, f"node {name}: {after.message or after.reason}"
        elif after.reason in WARNINGS:
            yield True, WARNINGS[after.reason], f"node {name}: {after.message or after.reason}"


def _resources(node: UnhealthyNode | None) -> dict[str, StartedRemediation]:
    return {one.resource.uid or one.resource.name: one for one in (node.remediations if node else None) or ()}


def _spell(one: StartedRemediation) -> str:
    where = f"{one.resource.namespace}/" if one.resource.namespace else ""
    return f"{one.resource.kind} {where}{one.resource.name}"


def ended(view: View, after: CheckStatus) -> tuple[Ended, ...]:
    """Remediations that the status no longer speaks of: they are over, each once, also of a node that is ill again."""
    told = {node.name: node for node in after.unhealthy_nodes or ()}
    return tuple(
        Ended(
            node=name,
            namespace=one.resource.namespace,
            kind=one.resource.kind,
            seconds=max((view.now - one.started).total_seconds(), 0.0) if one.started else 0.0,
        )
        for name, node in view.recorded.items()
        for uid, one in _resources(node).items()
        if uid not in _resources(told.get(name))
    )
