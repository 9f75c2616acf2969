"""Everything about one check in one pass: its nodes, what to do, what to say, when to look again."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.decide.admission import Ledger, Taken
from defib.decide.census import Census, trouble_of
from defib.decide.fast_path import NO_HASTE, Haste, hasten
from defib.decide.gates import check_gates, disabled_gate, is_below_threshold, upgrade_of
from defib.decide.ground import Ground
from defib.decide.machine_checks import conflict, spares_terminating, unasked
from defib.decide.news import ended, news
from defib.decide.recovery import plan_gone, plan_recovering, plan_unreadable, tidy_up
from defib.decide.spells import spells_of
from defib.decide.status import Standing, broken_status, patch_for, status_of
from defib.decide.storm import storm
from defib.decide.suspicion import Suspicion
from defib.decide.templates import LOOKING, Disabled, shows_what_was_begun, why_unusable
from defib.decide.topology import unsupported
from defib.decide.unhealthy import Ill, NodePlan, plan_suspect, plan_unhealthy, plan_unselected
from defib.decide.view import View, classify, look
from defib.model.action import Action, TellEvent, WriteStatus, to_start
from defib.model.health_check import Broken, Check, CheckStatus, KindRef, Mode, NodeHealthCheck
from defib.model.reasons import EventReason
from defib.model.verdict import Gate, State, Verdict


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A check as it was read; kept for as long as its object stays the same."""

    item: NodeHealthCheck
    check: Check | Broken
    status: CheckStatus

    @property
    def makes(self) -> tuple[KindRef, ...]:
        """The kinds of its remediations: those it can make, and those that its status says it has made.

        In a fixed order: in a set they would be found and followed in another one in every process.
        """
        steps = self.check.steps if isinstance(self.check, Check) else ()
        made = (one.resource for node in self.status.unhealthy_nodes or () for one in node.remediations or ())
        named = (KindRef(resource.api_version, resource.kind) for resource in made)
        return tuple(dict.fromkeys((*(step.template.makes for step in steps), *named)))


class CheckPlan(msgspec.Struct, frozen=True, kw_only=True):
    known: Known
    status: CheckStatus  # as it should be
    actions: tuple[Action, ...] = ()
    gates: tuple[Gate, ...] = ()
    verdicts: Mapping[str, Verdict] = {}
    census: Census | None = None
    haste: Haste = NO_HASTE
    wake_at: datetime | None = None

    @property
    def name(self) -> str:
        return self.known.check.name


def plan_broken(known: Known, broken: Broken, now: datetime) -> CheckPlan:
    """It is never acted on. Its status says what is wrong with it."""
    return _plan_idle(known, Disabled("InvalidSpecification", "; ".join(broken.problems)), now)


def _plan_idle(known: Known, disabled: Disabled, now: datetime) -> CheckPlan:
    """Nothing can be said about its nodes, so what the status says of them stays."""
    check = known.check
    after = broken_status(known.status, disabled, check.generation, now)
    idle = CheckPlan(known=known, status=after, gates=(disabled_gate(disabled),))
    patch = patch_for(known.item.status, known.status, after, now)
    if patch is None:
        return idle
    tell = TellEvent(
        check=check.name,
        uid=check.uid,
        is_warning=True,
        reason=EventReason.DISABLED,
        message=disabled.message,
        at=now,
    )
    was = known.status.condition("Disabled")
    is_news = was is None or (was.status, was.message) != ("True", disabled.message)
    write = WriteStatus(
        check=check.name, uid=check.uid, version=check.version, status=patch, tells=(tell,) if is_news else ()
    )
    return msgspec.structs.replace(idle, actions=(write,))


class Sharing(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks of one pass have in common."""

    ground: Ground
    censuses: Mapping[str, Census]
    taken: Taken
    suspicion: Suspicion


def plan_check(known: Known, check: Check, sharing: Sharing) -> CheckPlan:
    ground, census = sharing.ground, sharing.censuses[check.name]
    cluster = ground.cluster
    disabled = unasked(cluster) or unsupported(cluster) or conflict(cluster) or why_unusable(check, ground)
    if disabled is not None and disabled.reason == LOOKING:
        return CheckPlan(known=known, status=known.status, gates=(disabled_gate(disabled),), census=census)
    if disabled is not None and not shows_what_was_begun(check, ground):
        return msgspec.structs.replace(_plan_idle(known, disabled, ground.now), census=census)
    haste = hasten(check, census, ground, sharing.suspicion)
    health = classify(census, ground.now, haste.troubles, spare_terminating=spares_terminating(ground.cluster))
    view = look(check, known.status, ground, census, health)
    upgrade = upgrade_of(view)
    weather = storm(check.storm_cooldown, view.status, too_many=is_below_threshold(view), now=view.now)
    standing = Standing(
        disabled=disabled,
        gates=check_gates(view, disabled, weather, upgrade),
        storm=weather,
        upgrade=upgrade,
        why_slow=haste.why_not,
    )
    plans = _plan_nodes(view, standing, Ledger(view, sharing.taken), haste)
    entries = {name: plan.entry for name, plan in plans.items() if plan.entry is not None}
    after = status_of(view, standing, entries, spells_of(view, haste.troubles))
    moments = [*(plan.wake_at for plan in plans.values()), weather.calms_until, upgrade.changes_at, haste.wake_at]
    return CheckPlan(
        known=known,
        status=after,
        actions=(*_deeds(view, plans, sharing), *_status_write(view, known, after), *haste.asks),
        gates=standing.gates.all,
        verdicts=_asked_after(check, haste) | {name: plan.verdict for name, plan in plans.items()},
        census=census,
        haste=haste,
        wake_at=min((moment for moment in moments if moment is not None), default=None),
    )


def _plan_nodes(view: View, standing: Standing, ledger: Ledger, haste: Haste) -> dict[str, NodePlan]:
    """The longest unhealthy first, since it is admitted first; but behind others if it could not be begun just now."""
    plans: dict[str, NodePlan] = {}
    failed = {key.partition(" by ")[0] for key in view.ground.cluster.failures}

    def turn(name: str) -> tuple[bool, datetime, str]:
        return to_start(view.check.name, name) in failed, view.unhealthy[name].unhealthy_at, name

    for name in sorted(view.unhealthy, key=turn):
        plans[name] = plan_unhealthy(Ill(view, view.census.nodes[name], view.unhealthy[name]), standing.gates, ledger)
    for name, trouble in view.suspect.items():
        plans[name] = plan_suspect(Ill(view, view.census.nodes[name], trouble))
    for name in view.owned:
        if name not in plans:
            plans[name] = _leftover(view, standing, name, haste)
    return plans


def _asked_after(check: Check, haste: Haste) -> dict[str, Verdict]:
    """Of those that are silent and not yet ill."""
    return {
        name: Verdict(
            node=name,
            check=check.name,
            state=State.SUSPECT,
            reason=thought.row.conclusion,
            message=f"no heartbeat comes; {thought.message}",
        )
        for name, thought in haste.thoughts.items()
    }


def _leftover(view: View, standing: Standing, name: str, haste: Haste) -> NodePlan:
    """A node that is not ill as far as the check can see, and still has remediations."""
    node = view.ground.cluster.nodes.get(name)
    if node is None:
        is_unread = any((item.kind, item.key) == ("nodes", name) for item in view.ground.cluster.unread)
        return plan_unreadable(view, name) if is_unread else plan_gone(view, name)
    trouble = None if name in view.census.selected else trouble_of(node, view.check.conditions)
    trouble = trouble or haste.troubles.get(name)
    if trouble is None:
        return plan_recovering(view, node)
    return plan_unselected(Ill(view, node, trouble), standing.gates)


def _deeds(view: View, plans: Mapping[str, NodePlan], sharing: Sharing) -> tuple[Action, ...]:
    """An observing check touches nothing but its own status."""
    if view.check.mode is Mode.OBSERVE:
        return ()
    return (*(action for plan in plans.values() for action in plan.actions), *tidy_up(view, sharing.censuses))


def _status_write(view: View, known: Known, after: CheckStatus) -> tuple[Action, ...]:
    patch = patch_for(known.item.status, known.status, after, view.now)
    if patch is None:
        return ()
    check = view.check
    return (
        WriteStatus(
            check=check.name,
            uid=check.uid,
            version=check.version,
            status=patch,
            tells=news(view, after),
            ended=ended(view, after),
        ),
    )
