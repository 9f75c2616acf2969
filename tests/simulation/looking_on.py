"""Looks over the shoulders of the replicas now and then: what they see and want, and what the same look gives anew."""

import asyncio
from typing import NoReturn

import msgspec

from defib.decide.failover.plan import Failover
from defib.decide.failover.policies import NO_POLICIES
from defib.decide.leftovers import Leftovers
from defib.decide.plan import NOTHING, decide
from defib.decide.remediators import NO_WORK, OwnWork, plan_own_work
from defib.decide.rules import Rules
from defib.model.action import Action
from defib.model.cluster import Cluster
from defib.model.pod import pods_on
from defib.picture import Picture
from tests.simulation.history import Planned
from tests.simulation.world import World

LOOK_SECONDS = 61.0  # no multiple of what else recurs


async def look_on(world: World) -> NoReturn:
    while True:
        await asyncio.sleep(LOOK_SECONDS)  # virtual
        for replica in world.replicas.there.values():
            if replica.operator is not None and not replica.is_dead and replica.operator.picture.plan is not NOTHING:
                wanted, again = _wanted(replica.operator.picture, replica.rules)
                world.history.note(Planned(world.history.now, replica.name, wanted, again))


def _wanted(picture: Picture, rules: Rules) -> tuple[tuple[Action, ...], tuple[Action, ...]]:
    plan = decide(picture.cluster, rules)
    own = plan_own_work(picture.cluster, rules, plan, _memory(picture.own, picture.cluster))
    return _all(picture.plan.actions, picture.own), _all(plan.actions, own)


def _memory(own: OwnWork, cluster: Cluster) -> OwnWork:
    """What is remembered and is no shortcut, but part of the look: what accounts tell of admitted nodes, since when each
    leftover has been left, and what became of pods on nodes that need not be in sight any more."""
    known = own.failover.policies
    gone = {node: look for node, look in known.looks.items() if pods_on(node) not in cluster.others}
    policies = msgspec.structs.replace(NO_POLICIES, looks=gone, failing=known.failing, wants=known.wants)
    return msgspec.structs.replace(
        NO_WORK,
        memory=own.memory,
        leftovers=Leftovers(since=own.leftovers.since),
        failover=Failover(policies=policies),
    )


def _all(actions: tuple[Action, ...], own: OwnWork) -> tuple[Action, ...]:
    """Accounts tell what is remembered, and power paths are tried in turn: nothing is decided by either."""
    others = (*own.drains.actions, *own.machine_health.actions, *own.leftovers.actions)
    return (*actions, *own.fencing.actions, *own.failover.actions, *others)
