"""I9: a check that observes writes nothing but its own status and events, whatever it was doing before."""

from hypothesis import given, settings
from hypothesis import strategies as st

from defib.model.action import WriteStatus
from tests.property.worlds import ANY_DEEDS, Deed, live, worlds
from tests.unit.decide.world import World


@settings(max_examples=100, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS, after=st.integers(0, 6))
def test_a_check_that_observes_writes_only_its_status(world: World, happenings: list[Deed], after: int) -> None:
    """The check begins to observe after a while, in the middle of whatever it does; a second one goes on beside it."""
    for place, moment in enumerate(live(world, happenings)):
        if place == after:
            world.spec("a", mode="Observe")
        if place > after:
            assert {type(action) for action in moment.plan.checks["a"].actions} <= {WriteStatus}


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_a_cluster_whose_checks_all_observe_stays_as_it_is(world: World, happenings: list[Deed]) -> None:
    for name in world.checks:
        world.spec(name, mode="Observe")
    for moment in live(world, happenings):
        assert {type(action) for action in moment.plan.actions} <= {WriteStatus}
        assert {write.check for write in moment.plan.actions if isinstance(write, WriteStatus)} <= world.checks.keys()
    assert world.creations == []


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_an_observing_check_counts_and_judges_as_if_it_acted(world: World, happenings: list[Deed]) -> None:
    for moment in live(world, happenings):
        observing = World([], [], rules=world.rules)
        observing.__dict__.update(world.__dict__)
        observing.checks = dict(world.checks)
        for name in observing.checks:
            observing.spec(name, mode="Observe")
        for name, plan in observing.decide().checks.items():
            acting = moment.plan.checks[name].status
            told = (plan.status.observed_nodes, plan.status.healthy_nodes, plan.status.unhealthy_count)
            assert told == (acting.observed_nodes, acting.healthy_nodes, acting.unhealthy_count)
