"""Where a node stands in its check's escalation: which step is its turn, and how the one before it ended."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from defib.decide.rules import LOCK_SLACK, OVERDUE_FACTOR, REMEDIATION_TIME
from defib.decide.templates import name_for
from defib.decide.view import View
from defib.model import medik8s
from defib.model.health_check import StartedRemediation, Step
from defib.model.remediation import Remediation


class Turn(StrEnum):
    START = "start"  # no remediation of this step is there
    WAIT = "wait"  # one is there and has time left
    LEAVING = "leaving"  # one is there and is being deleted
    OVER = "over"  # one is there and has failed, or run out of time, just now


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """The step whose turn it is. `ends` is when its time is up."""

    step: Step
    turn: Turn
    remediation: Remediation | None = None
    ends: datetime | None = None
    why_over: str = ""


def course_of(view: View, node: str) -> Course | None:
    """None when every step has had its turn."""
    for step in view.check.steps:
        found = remediation_of(view, node, step)
        if has_timed_out(view, node, step, found):
            continue
        if found is None:
            return Course(step=step, turn=Turn.START)
        if found.is_deleting:
            return Course(step=step, turn=Turn.LEAVING, remediation=found)
        return _running(view, step, found)
    return None


def _running(view: View, step: Step, found: Remediation) -> Course:
    ends = (found.created or view.now) + time_for(step)
    why = ""
    if view.check.escalates and found.succeeded == "False":
        why = f"{found} has failed"
    elif view.now > ends:
        why = f"{found} has not brought the node back in time"
    turn = Turn.OVER if why else Turn.WAIT
    return Course(step=step, turn=turn, remediation=found, ends=ends, why_over=why)


def remediation_of(view: View, node: str, step: Step) -> Remediation | None:
    """The one of this step: made from its template, or, since that may be called otherwise by now, in its place."""
    there = view.remediations(node)
    made = next((r for r in there if _is_of(r, step)), None)
    return made or next((r for r in there if _is_in_place_of(r, view, step)), None)


def _is_in_place_of(remediation: Remediation, view: View, step: Step) -> bool:
    """Whether it has the very name that the one of this step would get, and was not made for another step."""
    ref = step.template
    if remediation.kind != ref.makes or remediation.namespace not in ("", ref.namespace):
        return False
    item, node = view.ground.template(ref.kind, ref.key), view.ground.cluster.nodes.get(remediation.node)
    if item is None or node is None or remediation.name != name_for(ref, item, node):
        return False
    return not any(_is_of(remediation, other) for other in view.check.steps)


def _is_of(remediation: Remediation, step: Step) -> bool:
    """Whether it was made from this step's template. Old ones do not say which template; their name is the node's."""
    if remediation.kind != step.template.makes:
        return False
    return remediation.template == step.template.name if remediation.template else remediation.name == remediation.node


def record_of(view: View, node: str, step: Step) -> StartedRemediation | None:
    """What the status says about this step. Template and kind count: one kind may be used in several steps."""
    recorded = view.recorded.get(node)
    if recorded is None or not recorded.remediations:
        return None
    makes = step.template.makes
    for entry in recorded.remediations:
        made, template = entry.resource, entry.template_name
        if made.kind == makes.name and made.api_version == makes.api_version and template in ("", step.template.name):
            return entry
    return None


def has_timed_out(view: View, node: str, step: Step, found: Remediation | None) -> bool:
    """The mark on the remediation counts like the status: we may have died between writing the one and the other.

    Not so on one that is on its way out: when the status has forgotten it, the node was healthy in between.
    """
    record = record_of(view, node, step)
    if record is not None and record.timed_out is not None:
        return True
    return found is not None and not found.is_deleting and medik8s.TIMED_OUT in found.annotations


def time_for(step: Step) -> timedelta:
    """How long a step may take. Without escalation nobody waits for the next one, so it gets three times as long."""
    return step.timeout if step.timeout is not None else OVERDUE_FACTOR * REMEDIATION_TIME


def lock_length(step: Step) -> timedelta:
    return (step.timeout if step.timeout is not None else REMEDIATION_TIME) + LOCK_SLACK


def has_begun(view: View, node: str) -> bool:
    """Whether the node is already being remediated, so that the next step is not a new admission."""
    recorded = view.recorded.get(node)
    timed_out = any(entry.timed_out for entry in (recorded.remediations if recorded else None) or ())
    return timed_out or view.is_in_flight(node)
