"""Whose turn it is, and for whom there is a place."""

from datetime import timedelta

import msgspec

from defib.act.places import Places, in_turn
from defib.model.action import ReadPower, TellEvent
from defib.model.health_check import KindRef
from defib.model.power import PowerPath
from defib.simulate.virtual_time import START
from tests.unit.act.stage import Stage, play

BAR = KindRef("example.com/v1", "BarRemediation")
NEWS = TellEvent(check="c1", uid="u1", is_warning=False, reason="R", message="news", at=START)


def test_a_check_with_less_under_way_goes_before_one_with_more() -> None:
    async def scenario(stage: Stage) -> None:
        ours = [stage.start(check="c1", namespace=name) for name in "abcd"]
        theirs = [stage.start(check="c2", namespace=name) for name in "ef"]
        assert in_turn([*ours[2:], *theirs], ours[:2]) == [*theirs, *ours[2:]]
        assert in_turn([*ours, *theirs], ()) == [ours[0], theirs[0], ours[1], theirs[1], *ours[2:]]

    play(scenario)


def test_one_kind_of_remediation_gets_only_so_many_places() -> None:
    async def scenario(stage: Stage) -> None:
        start = stage.start()
        places = Places(20, 3, [start])
        assert [places.take(start) for _ in range(4)] == [True, True, False, False]
        assert places.take(msgspec.structs.replace(start, kind=BAR))

    play(scenario)


def test_whoever_was_not_read_for_longest_is_read_first() -> None:
    """Else a rack of BMCs that hang, each read again as soon as it may be, would leave no place for the last by name."""
    path = PowerPath(driver="hollow")
    dead = [
        ReadPower(incident_uid=f"i{number}", node=f"a{number}", path=path, after=START + timedelta(seconds=number))
        for number in range(3)
    ]
    new = ReadPower(incident_uid="i9", node="z", path=path)
    assert in_turn([*reversed(dead), new], ()) == [new, *dead]


def test_news_takes_no_place() -> None:
    assert not Places(1, 1, [NEWS] * 4).are_full
