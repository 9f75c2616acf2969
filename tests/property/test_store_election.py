"""By a store outside Kubernetes, too, two never act at once, whatever the store forgets; and in the end one does."""

import math

import msgspec
import pytest

from defib.coordinate import rivals as real
from defib.coordinate.rivals import Look, Rivals, Told
from tests.property.store_model import CALM_SECONDS, TERMS, Way, World

HISTORIES = 800
EACH = 4


def ran(seed: int, way: Way | None = None) -> World:
    world = World(seed, way or Way())
    world.run()
    return world


@pytest.mark.parametrize("part", range(EACH))
def test_two_never_act_at_once_and_one_acts_again_when_all_is_well(part: int) -> None:
    for seed in range(part * HISTORIES // EACH, (part + 1) * HISTORIES // EACH):
        world = ran(seed)
        assert world.overlaps == [], seed
        assert len(world.leaders) == 1, f"seed {seed}: nobody leads {CALM_SECONDS:g} s after the last fault"


def waits_for_nobody_unseen(lease_seconds: float, monotonic: float) -> Rivals:
    return msgspec.structs.replace(real.unknown(lease_seconds, monotonic), not_before=-math.inf)


def believes_that_whoever_vanished_is_dead(rivals: Rivals, look: Look, monotonic: float) -> Rivals:
    known = msgspec.structs.replace(rivals, holding={k: v for k, v in rivals.holding.items() if k in look.others})
    return real.saw(known, msgspec.structs.replace(look, is_newcomer=False), monotonic)


def looks_at_nobody(rivals: Rivals, look: Look, monotonic: float) -> Rivals:
    return real.saw(rivals, msgspec.structs.replace(look, others=dict[str, Told](), is_newcomer=False), monotonic)


@pytest.mark.parametrize(
    "way",
    [
        Way(unknown=waits_for_nobody_unseen, saw=believes_that_whoever_vanished_is_dead),
        Way(unknown=waits_for_nobody_unseen, saw=looks_at_nobody),
        Way(renew_seconds=2 * TERMS.lease_seconds),
    ],
    ids=["forgets what vanished", "looks at nobody", "stops too late"],
)
def test_a_mistake_is_found(way: Way) -> None:
    assert any(ran(seed, way).overlaps for seed in range(HISTORIES))
