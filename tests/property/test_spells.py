"""What a check remembers is what its nodes show: whoever decides, whatever was lost, and in whole seconds."""

from hypothesis import given, settings

from defib.decide.census import shown_by
from defib.decide.check_plan import CheckPlan
from defib.model.health_check import SPELLS_MAX, Check
from tests.property.worlds import ANY_DEEDS, Deed, live, worlds
from tests.unit.decide.world import World

Shown = set[tuple[str, str, str]]


def remembered_as_going_on(plan: CheckPlan) -> Shown:
    return {(one.node, one.type, one.status) for one in plan.status.spells or () if one.ended is None}


def shown(plan: CheckPlan) -> Shown:
    check, census = plan.known.check, plan.census
    assert isinstance(check, Check)
    assert census is not None
    return {
        (name, one.wanted.type, one.wanted.status)
        for name in census.selected
        for one in shown_by(census.nodes[name], check.conditions)
    }


def is_at_work(plan: CheckPlan) -> bool:
    """Else nothing can be said about its nodes, and its status stays as it is."""
    return next(gate for gate in plan.gates if gate.name == "Disabled").is_open


@settings(max_examples=100, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_what_goes_on_in_the_record_is_what_goes_on_in_the_cluster(world: World, happenings: list[Deed]) -> None:
    for moment in live(world, happenings):
        for plan in moment.plan.checks.values():
            if is_at_work(plan):
                assert remembered_as_going_on(plan) == shown(plan)


@settings(max_examples=100, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_every_spell_ends_after_it_began_and_none_is_there_twice(world: World, happenings: list[Deed]) -> None:
    for moment in live(world, happenings):
        for plan in moment.plan.checks.values():
            spells = plan.status.spells or []
            assert len(spells) <= SPELLS_MAX
            assert len({(one.node, one.type, one.status, one.began) for one in spells}) == len(spells)
            for one in spells:
                assert one.began.microsecond == 0
                assert one.ended is None or one.began <= one.ended <= max(moment.cluster.now, one.began)
