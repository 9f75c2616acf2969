"""From one look at the cluster to what should be done now. Pure: the same look gives the same plan."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.decide.admission import Taken
from defib.decide.census import Census, take_census
from defib.decide.check_plan import CheckPlan, Known, Sharing, plan_broken, plan_check
from defib.decide.ground import ByNode, survey
from defib.decide.reading import read_check, read_check_again, read_status
from defib.decide.recovery import orphaned_locks
from defib.decide.rules import Rules
from defib.decide.status import UPGRADING
from defib.decide.suspicion import NOBODY, Suspicion, suspect
from defib.decide.upgrade import upgrades
from defib.model import medik8s
from defib.model.action import Action
from defib.model.cluster import Cluster
from defib.model.health_check import Broken, Check, NodeHealthCheck


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, when to look again even if nothing changes, and what was thought about each check and node."""

    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    checks: Mapping[str, CheckPlan] = {}
    suspicion: Suspicion = NOBODY
    begun: Mapping[str, ByNode] = {}  # the remediations that are there, by check and node

    @property
    def asked_after(self) -> dict[str, datetime]:
        """The silent nodes of which somebody wants to know more at once, and since when they are."""
        return {name: one.since for plan in self.checks.values() for name, one in plan.haste.thoughts.items()}


NOTHING = Plan()


def decide(cluster: Cluster, rules: Rules, before: Plan = NOTHING) -> Plan:
    """`before` spares work and changes nothing: what has not changed since is not judged again."""
    known = {
        name: _read(item, before.checks.get(name))
        for name, item in sorted(cluster.all_of(medik8s.CHECKS, NodeHealthCheck).items())
    }
    ground = survey(cluster, rules, frozenset(kind for one in known.values() for kind in one.makes))
    censuses = {
        name: take_census(one.check, cluster.nodes, _census(before, name))
        for name, one in known.items()
        if isinstance(one.check, Check)
    }
    # Expensive, so it is not asked while no node is ill; but an upgrade that was noticed is followed to its end.
    is_calm = not any(census.troubled for census in censuses.values())
    if not is_calm or any(one.status.is_true(UPGRADING) for one in known.values()):
        signals = upgrades(cluster, rules.upgrade_signals, rules.namespace)
        ground = msgspec.structs.replace(ground, signals=signals)
    suspicion = suspect(cluster, before.suspicion)
    sharing = Sharing(ground=ground, censuses=censuses, taken=Taken(ground), suspicion=suspicion)
    checks: dict[str, CheckPlan] = {}
    for name, one in known.items():
        if isinstance(one.check, Broken):
            checks[name] = plan_broken(one, one.check, cluster.now)
        else:
            checks[name] = plan_check(one, one.check, sharing)
    is_hasty = any(isinstance(one.check, Check) and one.check.fast_path for one in known.values())
    # Where nobody is in a hurry, silence is noticed when there is another reason to look.
    moments = (suspicion.wake_at if is_hasty else None, *(plan.wake_at for plan in checks.values()))
    return Plan(
        actions=(
            *(action for plan in checks.values() for action in plan.actions),
            *orphaned_locks(ground, known.keys()),
        ),
        wake_at=min((moment for moment in moments if moment is not None), default=None),
        checks=checks,
        suspicion=suspicion,
        begun=ground.by_check,
    )


def _read(item: NodeHealthCheck, before: CheckPlan | None) -> Known:
    if before is None:
        return Known(item=item, check=read_check(item), status=read_status(item))
    was = before.known
    if was.item is item:
        return was
    return Known(item=item, check=read_check_again(item, was.item, was.check), status=read_status(item))


def _census(before: Plan, name: str) -> Census | None:
    was = before.checks.get(name)
    return was.census if was else None
