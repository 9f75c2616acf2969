"""A seed says what goes wrong."""

from tests.chaos.schedule import ALL, HANDS, draw
from tests.chaos.troubles import TROUBLES


def test_the_same_seed_draws_the_same_and_another_one_something_else() -> None:
    assert draw(7, 600) == draw(7, 600)
    assert draw(7, 600) != draw(8, 600)


def test_three_minutes_hold_every_trouble_of_every_hand() -> None:
    for seed in range(1, 50):
        drawn = {trouble.name for troubles in draw(seed, 180).values() for trouble in troubles}
        assert drawn == set(ALL), seed


def test_every_trouble_can_be_made_and_lasts_as_long_as_its_kind_may() -> None:
    assert set(TROUBLES) == set(ALL)
    kinds = {kind.name: kind for kinds, _ in HANDS.values() for kind in kinds}
    for troubles in draw(7, 3600).values():
        for trouble in troubles:
            assert kinds[trouble.name].shortest <= trouble.lasts_seconds <= kinds[trouble.name].longest
