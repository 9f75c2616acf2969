"""Hours of kubelets that are slow, stall and answer late, of API servers that go away, of zones that are cut off, and of a clock
that jumps: not one node that lives is taken for dead by the fast path. And hours of API servers that come back: not one is by a
check that waits for nothing."""

import os
from collections import Counter

import msgspec
import pytest

from defib.decide.census import take_census
from defib.decide.doubt import doubts_about
from defib.decide.fast_path import hasten
from defib.decide.ground import survey
from defib.decide.plan import NOTHING, Plan, decide
from defib.decide.rules import Rules
from defib.decide.settling import Settling, settle
from defib.decide.suspicion import NOBODY, suspect
from defib.model.evidence import Evidence
from defib.model.health_check import Check, FastPath
from tests.property.heartbeats import Fleet, moments
from tests.unit.decide.checks import a_check, started, status_of, the_cluster

HOURS = float(os.environ.get("FALSE_ALARM_HOURS", "1"))
NODES = int(os.environ.get("FALSE_ALARM_NODES", "150"))
LOOK_SECONDS = 1.0
JUMPS = {600: 45.0, 1500: -45.0, 2400: 400.0, 3000: -400.0}
CHECK = Check(name="all", fast_path=FastPath())
NEEDED = frozenset({"nodes", "heartbeats"})


HASTY = a_check(unhealthyConditions=[{"type": "Ready", "status": "Unknown", "duration": "1s"}])


@pytest.mark.timeout(3600)
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


def unhealthy(plan: Plan) -> list[str]:
    return [node.name for node in status_of(plan).unhealthy_nodes or ()]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2])
def test_an_api_server_that_comes_back_costs_no_node_anything_even_where_a_check_waits_a_second(seed: int) -> None:
    """When it is back, heartbeats come one by one, and until then Kubernetes calls the others Unknown."""
    fleet, known = Fleet(seed, NODES, HOURS, only_outages=True), the_cluster(HASTY)
    settling, plan, seen = Settling(), NOTHING, Counter[str]()
    for second in moments(HOURS, LOOK_SECONDS):
        fleet.step(second)
        fleet.judge()
        cluster = msgspec.structs.replace(fleet.cluster({}), others=known.others, kinds=known.kinds)
        settling = settle(settling, cluster, "", second)
        plan = decide(msgspec.structs.replace(cluster, doubts=tuple(filter(None, [settling.doubt]))), Rules(), plan)
        assert started(plan) == [], f"after {second} s: {settling}"
        few = 0 < len(unhealthy(plan)) < NODES / 2
        seen["only settling holds it back"] += few and bool(settling.doubt) and not doubts_about(NEEDED, cluster)
    assert seen["only settling holds it back"] > 2 * HOURS, "nobody was ever in danger, so this proved nothing"
