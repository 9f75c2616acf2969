"""Looks over the shoulders of the replicas now and then: what they see and want, and what the same look gives anew."""

import asyncio
from typing import NoReturn

import msgspec

from defib.decide.plan import NOTHING, decide
from defib.decide.remediators import NO_WORK, OwnWork, plan_own_work
from defib.decide.rules import Rules
from defib.model.action import Action
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
    """What is remembered of admitted nodes is no shortcut, but what an account tells: it is part of the look."""
    plan = decide(picture.cluster, rules)
    memory = msgspec.structs.replace(NO_WORK, memory=picture.own.memory)
    own = plan_own_work(picture.cluster, rules, plan, memory)
    return _all(picture.plan.actions, picture.own), _all(plan.actions, own)


def _all(actions: tuple[Action, ...], own: OwnWork) -> tuple[Action, ...]:
    """Accounts tell what is remembered, and power paths are tried in turn: nothing is decided by either."""
    others = (*own.drains.actions, *own.machine_health.actions, *own.leftovers.actions)
    return (*actions, *own.fencing.actions, *own.failover.actions, *others)
