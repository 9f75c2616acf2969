"""The status of a check: counts, nodes, conditions, phase, and one sentence that says how things stand."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from defib.decide.gates import CheckGates, Upgrade, first_closed
from defib.decide.history import kept
from defib.decide.storm import ACTIVE, COOLDOWN, REASON, Storm
from defib.decide.templates import Disabled
from defib.decide.view import View
from defib.model.health_check import CheckStatus, Spell, StatusCondition, UnhealthyNode

ENABLED = "NodeHealthCheckEnabled"
ALLOWED = "RemediationAllowed"
UPGRADING = "Upgrading"

# The API server takes objects of up to 1.5 MB. What cannot be said here, `defib why` says.
MOST_MESSAGES = 1000
MOST_NODES = 2500
STUCK = "UpgradeStuck"
FAST = "FastPath"


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What was concluded about a check as a whole."""

    disabled: Disabled | None
    gates: CheckGates
    storm: Storm
    upgrade: Upgrade
    why_slow: str = ""  # a fast path is asked for and not taken


def status_of(
    view: View, standing: Standing, entries: Mapping[str, UnhealthyNode], spells: list[Spell] | None
) -> CheckStatus:
    """The status as it should be. Times are whole seconds, as Kubernetes writes them."""
    history = [msgspec.structs.replace(one, started=whole(one.started)) for one in kept(view)]
    nodes = [_whole_entry(entries[name]) for name in sorted(entries)]
    return CheckStatus(
        observed_generation=view.check.generation,
        observed_nodes=view.total,
        healthy_nodes=view.healthy_count,
        unhealthy_count=len(nodes),
        unhealthy_nodes=_listed(nodes) or None,
        conditions=_conditions(view, standing),
        history=history or None,
        spells=spells,
        phase=_phase(view, standing, nodes),
        reason=_reason(view, standing, nodes),
        last_update_time=view.status.last_update_time,
    )


def _listed(nodes: list[UnhealthyNode]) -> list[UnhealthyNode]:
    """As much of them as a status can hold: first where something was begun, then the longest unhealthy."""
    if len(nodes) <= MOST_MESSAGES:
        return nodes

    def weight(node: UnhealthyNode) -> tuple[bool, bool, datetime | None, str]:
        return not node.remediations, node.since is None, node.since, node.name

    kept = sorted(sorted(nodes, key=weight)[:MOST_NODES], key=lambda node: node.name)
    return [msgspec.structs.replace(node, message="") for node in kept]


def broken_status(before: CheckStatus, disabled: Disabled, generation: int, now: datetime) -> CheckStatus:
    """A check that makes no sense: what is known of its nodes stays, and the problem is said."""
    said = [
        StatusCondition(type="Disabled", status="True", reason=disabled.reason, message=disabled.message),
        StatusCondition(type=ALLOWED, status="False", reason="Disabled", message=disabled.message),
    ]
    return msgspec.structs.replace(
        before,
        observed_generation=generation,
        conditions=merged(before.conditions or [], said, generation, now),
        phase="Disabled",
        reason=disabled.message,
    )


def _conditions(view: View, standing: Standing) -> list[StatusCondition]:
    wanted = [_disabled(standing.disabled), _allowed(standing.gates)]
    storm = standing.storm
    if storm.known:
        message = "too many nodes failed at once" if storm.is_active else "there is no storm"
        calming = storm.calms_until is not None
        wanted += [
            StatusCondition(type=ACTIVE, status=str(storm.is_active), reason=REASON, message=message),
            StatusCondition(
                type=COOLDOWN, status=str(calming), reason=REASON, message="waits for calm" if calming else ""
            ),
        ]
    wanted += [*_upgrading(view, standing.upgrade), *_fast(view, standing.why_slow)]
    return merged(view.status.conditions or [], wanted, view.check.generation, view.now)


def _disabled(why: Disabled | None) -> StatusCondition:
    if why is None:
        return StatusCondition(type="Disabled", status="False", reason=ENABLED, message="the check is at work")
    return StatusCondition(type="Disabled", status="True", reason=why.reason, message=why.message)


def _allowed(gates: CheckGates) -> StatusCondition:
    closed = first_closed(gates.all)
    if closed is None:
        return StatusCondition(
            type=ALLOWED, status="True", reason="AllGatesOpen", message="nothing holds remediation back"
        )
    return StatusCondition(type=ALLOWED, status="False", reason=closed.name, message=closed.message)


def _upgrading(view: View, upgrade: Upgrade) -> list[StatusCondition]:
    """Absent until the first upgrade; after that, they say that there is none."""
    if upgrade.signal is not None:
        message = upgrade.signal.message
        return [
            StatusCondition(type=UPGRADING, status="True", reason="UpgradeInProgress", message=message),
            StatusCondition(
                type=STUCK,
                status=str(upgrade.is_stuck),
                reason="LimitExceeded" if upgrade.is_stuck else "WithinLimit",
                message=message,
            ),
        ]
    return [
        StatusCondition(type=kind, status="False", reason="NoUpgrade", message="no upgrade is under way")
        for kind in (UPGRADING, STUCK)
        if view.status.condition(kind) is not None
    ]


def _fast(view: View, why_slow: str) -> list[StatusCondition]:
    """Absent until somebody asks for a fast path."""
    if view.check.fast_path is None:
        said = ("False", "NotAskedFor", "the check has no fastPath")
        return [_fast_path(*said)] if view.status.condition(FAST) is not None else []
    if why_slow:
        return [_fast_path("False", "ProofNotEnough", f"not taken, so nodes go the usual way: {why_slow}")]
    return [_fast_path("True", "Taken", "a node that falls silent is asked after at once")]


def _fast_path(status: str, reason: str, message: str) -> StatusCondition:
    return StatusCondition(type=FAST, status=status, reason=reason, message=message)


def merged(
    before: list[StatusCondition], wanted: list[StatusCondition], generation: int, now: datetime
) -> list[StatusCondition]:
    """Conditions keep the time of their last change, unless it is yet to come. Those of others are left alone."""
    known = {condition.type: condition for condition in before}
    for condition in wanted:
        old = known.get(condition.type)
        since = old.last_transition_time if old is not None and old.status == condition.status else None
        known[condition.type] = msgspec.structs.replace(
            condition,
            last_transition_time=since if since is not None and since <= now else whole(now),
            observed_generation=generation,
        )
    return [known[kind] for kind in sorted(known)]


def _phase(view: View, standing: Standing, nodes: list[UnhealthyNode]) -> str:
    if standing.disabled is not None:
        return "Disabled"
    if view.check.pause_requests:
        return "Paused"
    return "Remediating" if any(node.remediations for node in nodes) else "Enabled"


def _reason(view: View, standing: Standing, nodes: list[UnhealthyNode]) -> str:
    if standing.disabled is not None:
        return standing.disabled.message
    closed = first_closed(standing.gates.all)
    hold = f"; nothing new is begun: {closed.message}" if closed is not None else ""
    if any(node.remediations for node in nodes):
        busy = sum(1 for node in nodes if node.remediations)
        return f"{len(nodes)} unhealthy {_nodes(len(nodes))}, {busy} being remediated{hold}"
    if nodes:
        return f"{len(nodes)} unhealthy {_nodes(len(nodes))}, none being remediated{hold or ': ' + nodes[0].message}"
    if view.suspect:
        return f"{len(view.suspect)} of {view.total} nodes may become unhealthy{hold}"
    return f"all {view.total} nodes are healthy{hold}"


def _nodes(count: int) -> str:
    return "node" if count == 1 else "nodes"


def _whole_entry(entry: UnhealthyNode) -> UnhealthyNode:
    started = entry.remediations and [
        msgspec.structs.replace(one, started=whole_or_none(one.started), timed_out=whole_or_none(one.timed_out))
        for one in entry.remediations
    ]
    return msgspec.structs.replace(
        entry,
        remediations=started,
        since=whole_or_none(entry.since),
        conditions_healthy_timestamp=whole_or_none(entry.conditions_healthy_timestamp),
    )


def whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def whole_or_none(moment: datetime | None) -> datetime | None:
    return moment and whole(moment)


def patch_for(raw: object, before: CheckStatus, after: CheckStatus, now: datetime) -> dict[str, Any] | None:
    """What to merge into the status; None when it says the same already. What it no longer says becomes null."""
    known = raw if isinstance(raw, dict) else {}
    same = msgspec.structs.replace(after, last_update_time=before.last_update_time)
    if "spells" not in known:
        # An API server with an older CRD drops them. So they are first told along with something else.
        same = msgspec.structs.replace(same, spells=before.spells)
    if "inFlightRemediations" not in known and before == same:
        return None
    told = msgspec.to_builtins(msgspec.structs.replace(after, last_update_time=whole(now)))
    return {key: told.get(key) for key in sorted({*told, *(known.keys() & FIELDS)})}


FIELDS = frozenset({field.encode_name for field in msgspec.structs.fields(CheckStatus)} | {"inFlightRemediations"})
