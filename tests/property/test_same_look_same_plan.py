"""I12: the same look gives the same plan, whatever was thought before it, and doing what it says leaves nothing to do."""

from typing import TypeVar

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.plan import decide
from defib.model.cluster import Cluster
from tests.property.worlds import ANY_DEEDS, Deed, live, worlds
from tests.unit.decide.world import World

V = TypeVar("V")


@settings(max_examples=100, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_a_plan_does_not_depend_on_the_plan_before_it(world: World, happenings: list[Deed]) -> None:
    for moment in live(world, happenings):
        assert moment.plan == decide(moment.cluster, world.rules)


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_a_plan_does_not_depend_on_how_old_the_plan_before_it_is(world: World, happenings: list[Deed]) -> None:
    older = world.before
    for place, moment in enumerate(live(world, happenings)):
        assert decide(moment.cluster, world.rules, older) == moment.plan
        older = moment.before if place % 3 == 0 else older


def backwards(items: dict[str, V]) -> dict[str, V]:
    return dict(reversed(items.items()))


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_a_plan_does_not_depend_on_the_order_in_which_things_are_seen(world: World, happenings: list[Deed]) -> None:
    for moment in live(world, happenings):
        other: Cluster = msgspec.structs.replace(
            moment.cluster,
            nodes=backwards(dict(moment.cluster.nodes)),
            locks=backwards(dict(moment.cluster.locks)),
            others=backwards({name: backwards(dict(items)) for name, items in moment.cluster.others.items()}),
        )
        plan = decide(other, world.rules)
        assert set(map(repr, plan.actions)) == set(map(repr, moment.plan.actions))
        assert plan.wake_at == moment.plan.wake_at


@settings(max_examples=100, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS, crashes=st.booleans())
def test_when_what_was_decided_is_done_there_is_nothing_left_to_do_or_to_tell(
    world: World, happenings: list[Deed], crashes: bool
) -> None:
    for _ in live(world, happenings):
        pass
    world.underway = []
    world.settle()
    events = len(world.events)
    if crashes:
        world.forget()
    assert world.decide().actions == ()
    assert len(world.events) == events
