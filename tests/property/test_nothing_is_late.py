"""Between now and the moment at which a plan asks to be woken, time alone changes nothing. So nothing comes late."""

from collections import Counter
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.plan import Plan
from defib.model.action import Action, WriteStatus
from tests.property.worlds import ANY_DEEDS, Deed, live, worlds
from tests.unit.decide.world import World

A_WHILE = st.sampled_from([1, 59, 61, 299, 301, 700, 1801, 10_000, 200_000]).map(lambda count: timedelta(seconds=count))
INSTANT = timedelta(milliseconds=1)
NO_TIME = timedelta()
MEMORY = {"history", "lastUpdateTime"}  # what nobody counts any more may be forgotten at any time


def deeds_of(plan: Plan, world: World) -> list[Action]:
    """Everything that is to be done, but for a status that only forgets."""
    return [action for action in plan.actions if not (isinstance(action, WriteStatus) and _only_forgets(action, world))]


def _only_forgets(write: WriteStatus, world: World) -> bool:
    known = world.checks[write.check].status or {}
    return all(known.get(key) == value for key, value in write.status.items() if key not in MEMORY)


@settings(max_examples=100, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS, later=A_WHILE, part=st.floats(0, 1, exclude_max=True))
def test_nothing_happens_by_time_alone_before_the_plan_wakes(
    world: World, happenings: list[Deed], later: timedelta, part: float
) -> None:
    for _ in live(world, happenings):
        pass
    world.underway = []
    wake = world.settle().wake_at
    # A deadline is over strictly after it, and a plan wakes an instant later.
    world.now = world.now + later if wake is None else world.now + part * max(wake - INSTANT - world.now, NO_TIME)
    assert deeds_of(world.decide(), world) == []


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_a_plan_never_asks_to_be_woken_in_the_past(world: World, happenings: list[Deed]) -> None:
    for moment in live(world, happenings):
        assert moment.plan.wake_at is None or moment.plan.wake_at > moment.cluster.now


@settings(max_examples=25, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_who_wakes_when_it_asked_to_misses_nothing_that_one_sees_who_looks_all_the_time(
    world: World, happenings: list[Deed]
) -> None:
    for _ in live(world, happenings):
        pass
    world.underway = []
    twin = World([], [])
    twin.__dict__.update({name: _copied(value) for name, value in world.__dict__.items()})
    end = world.now + timedelta(minutes=7)
    world.wait(end - world.now)
    while twin.now < end:
        twin.settle()
        twin.now += timedelta(seconds=7)
    assert created(twin) <= created(world)


def created(world: World) -> Counter[tuple[str, ...]]:
    return Counter((start.check, start.node, start.kind.name) for start in world.creations)


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return list(value) if isinstance(value, list) else value
