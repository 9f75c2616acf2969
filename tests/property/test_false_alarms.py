"""Hours of kubelets that are slow, stall and answer late, of API servers that go away, of zones that are cut off, and of a clock
that jumps: not one node that lives is taken for dead by the fast path."""

import os
from collections import Counter

import pytest

from defib.decide.census import take_census
from defib.decide.fast_path import hasten
from defib.decide.ground import survey
from defib.decide.rules import Rules
from defib.decide.suspicion import NOBODY, suspect
from defib.model.evidence import Evidence
from defib.model.health_check import Check, FastPath
from tests.property.heartbeats import Fleet, moments

HOURS = float(os.environ.get("FALSE_ALARM_HOURS", "1"))
NODES = int(os.environ.get("FALSE_ALARM_NODES", "150"))
LOOK_SECONDS = 1.0
JUMPS = {600: 45.0, 1500: -45.0, 2400: 400.0, 3000: -400.0}
CHECK = Check(name="all", fast_path=FastPath())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_node_that_lives_is_ever_taken_for_dead(seed: int) -> None:
    fleet = Fleet(seed, NODES, HOURS)
    evidence: dict[str, tuple[Evidence, ...]] = {}
    suspicion, census, seen = NOBODY, None, Counter[str]()
    for second in moments(HOURS, LOOK_SECONDS):
        fleet.ahead += JUMPS.get(int(second) % 3600, 0.0)
        fleet.step(second)
        cluster = fleet.cluster(evidence)
        suspicion = suspect(cluster, suspicion)
        seen["silent"] += len(suspicion.silent)
        if not suspicion.silent:
            continue
        census = take_census(CHECK, cluster.nodes, census)
        haste = hasten(CHECK, census, survey(cluster, Rules(), frozenset()), suspicion)
        assert haste.troubles == {}, f"after {second} s: {haste.thoughts}"
        seen.update(thought.row.conclusion for thought in haste.thoughts.values())
        evidence = {name: said for name, said in evidence.items() if name in suspicion.silent}
        evidence |= {ask.node: fleet.asked(ask.node, ask.neighbours) for ask in haste.asks}
    assert seen["silent"] > 100, "nobody was ever suspected, so this proved nothing"
    assert seen["ControlPlaneTrouble"] > 10
