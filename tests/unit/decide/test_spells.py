"""What a check remembers of its nodes' spells of illness: in every mode, exactly, and never more than it can hold."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.decide.spells import BYTES_MAX
from defib.model.action import WriteStatus
from defib.model.cluster import Unread
from defib.model.health_check import SPELLS_MAX, SPELLS_OPEN_MAX, Spell
from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.checks import (
    a_check,
    a_remediation,
    healthy,
    ill,
    of_type,
    plan_of,
    status_of,
    the_cluster,
    written,
)
from tests.unit.decide.world import World

MODES = ("Automatic", "Approve", "Observe")


def a_world(**spec: Any) -> World:
    return World(a_check(**spec), healthy(9))


def spells(world: World, check: str = "workers") -> list[Spell]:
    return world.status(check).spells or []


def a_spell_of(world: World, node: str, length: timedelta) -> None:
    """It is not ready for so long, and the operator looks all the time."""
    world.turn(node, "Unknown")
    world.wait(length)
    world.turn(node, "True")
    world.wait(SECOND)


# What is written down


@pytest.mark.parametrize("mode", MODES)
def test_a_node_that_comes_back_before_its_time_is_up_is_remembered_in_every_mode(mode: str) -> None:
    world = a_world(mode=mode)
    a_spell_of(world, "w1", 20 * SECOND)
    assert spells(world) == [
        Spell(node="w1", type="Ready", status="Unknown", began=T0, ended=T0 + 20 * SECOND, healed=True)
    ]


def test_a_spell_is_written_as_soon_as_it_begins_and_has_no_end_until_there_is_one() -> None:
    world = a_world()
    world.turn("w1", "False")
    world.settle()
    assert spells(world) == [Spell(node="w1", type="Ready", status="False", began=T0)]


def test_a_look_that_comes_late_still_knows_when_it_began_and_ended() -> None:
    world = a_world()
    world.turn("w1", "Unknown")
    world.now += 40 * SECOND
    world.settle()
    world.turn("w1", "True")
    world.now += 10 * MINUTE
    world.settle()
    assert [(one.began, one.ended) for one in spells(world)] == [(T0, T0 + 40 * SECOND)]


def test_a_condition_that_turns_into_another_is_a_spell_of_its_own_since_durations_count_anew() -> None:
    world = a_world()
    world.turn("w1", "Unknown")
    world.wait(30 * SECOND)
    world.turn("w1", "False")
    world.wait(10 * SECOND)
    world.turn("w1", "True")
    world.settle()
    assert [(one.status, one.began, one.ended) for one in spells(world)] == [
        ("Unknown", T0, T0 + 30 * SECOND),
        ("False", T0 + 30 * SECOND, T0 + 40 * SECOND),
    ]


def test_every_condition_that_a_check_asks_for_is_followed_by_itself() -> None:
    world = a_world(
        unhealthyConditions=[
            {"type": "Ready", "status": "Unknown", "duration": "5m"},
            {"type": "DiskPressure", "status": "True", "duration": "10s"},
        ]
    )
    world.turn("w1", "Unknown")
    world.wait(2 * SECOND)
    world.turn("w1", "True", kind="DiskPressure")
    world.wait(2 * SECOND)
    world.turn("w1", "False", kind="DiskPressure")
    world.settle()
    assert [(one.type, one.ended) for one in spells(world)] == [("Ready", None), ("DiskPressure", T0 + 4 * SECOND)]


def test_what_the_check_does_not_ask_for_is_not_remembered() -> None:
    world = a_world()
    world.turn("w1", "True", kind="DiskPressure")
    world.settle()
    assert spells(world) == []


def test_a_node_that_is_gone_has_not_healed() -> None:
    world = a_world()
    world.turn("w1", "Unknown")
    world.wait(MINUTE)
    del world.nodes["w1"]
    world.settle()
    assert [(one.ended, one.healed) for one in spells(world)] == [(T0 + MINUTE, False)]


def test_a_node_that_the_check_no_longer_selects_has_not_healed_and_its_spell_goes_on_when_it_is_selected_again() -> (
    None
):
    world = World(
        a_check(selector={"matchLabels": {"pool": "a"}}), [a_node("n1", labels={"pool": "a"}, since=T0 - HOUR)]
    )
    world.turn("n1", "Unknown")
    world.wait(MINUTE)
    world.label("n1", {})
    world.settle()
    assert [(one.ended, one.healed) for one in spells(world)] == [(T0 + MINUTE, False)]
    world.label("n1", {"pool": "a"})
    world.wait(MINUTE)
    assert [(one.began, one.ended) for one in spells(world)] == [(T0, None)]


def test_a_condition_that_the_check_stops_asking_for_has_not_healed() -> None:
    world = a_world()
    world.turn("w1", "Unknown")
    world.wait(MINUTE)
    world.spec("workers", unhealthyConditions=[])
    world.settle()
    assert [(one.ended, one.healed) for one in spells(world)] == [(T0 + MINUTE, False)]


def test_a_node_that_cannot_be_read_is_neither_well_nor_gone() -> None:
    world = a_world()
    world.turn("w1", "Unknown")
    world.wait(MINUTE)
    del world.nodes["w1"]
    world.extra["unread"] = (Unread("nodes", "w1", "garbled"),)
    world.settle()
    assert [one.ended for one in spells(world)] == [None]


def test_a_spell_ends_neither_before_it_began_nor_in_the_future() -> None:
    world = a_world()
    world.turn("w1", "Unknown")
    world.wait(MINUTE)
    world.put(a_node("w1", ready="True", since=world.now + HOUR))
    world.turn("w2", "Unknown")
    world.settle()
    world.put(a_node("w2", ready="True", since=world.now - HOUR))
    world.settle()
    assert [(one.node, one.ended) for one in spells(world)] == [("w1", T0 + MINUTE), ("w2", T0 + MINUTE)]


# Who did something about it


def test_a_remediation_is_noted_with_its_time_and_stays_noted_when_it_is_gone() -> None:
    world = a_world(unhealthyConditions=[{"type": "Ready", "status": "Unknown", "duration": "30s"}])
    world.turn("w1", "Unknown")
    world.wait(2 * MINUTE)
    world.turn("w1", "True")
    world.wait(MINUTE)
    assert world.in_flight() == set()
    assert [(one.remediated, one.ended, one.healed) for one in spells(world)] == [
        (T0 + 30 * SECOND, T0 + 2 * MINUTE, True)
    ]


def test_a_check_that_observes_notes_what_another_one_began() -> None:
    acting = a_check("acting", unhealthyConditions=[{"type": "Ready", "status": "Unknown", "duration": "30s"}])
    world = World([acting, a_check("observing", mode="Observe")], healthy(9))
    world.turn("w1", "Unknown")
    world.wait(MINUTE)
    assert [one.remediated for one in spells(world, "observing")] == [T0 + 30 * SECOND]


def test_an_upgrade_that_takes_nodes_down_on_purpose_is_noted() -> None:
    world = World(a_check(), healthy(9))
    world.rules = msgspec.structs.replace(world.rules, upgrade_signals=("announced",))
    world.config("defib-upgrade", {"nodes": "w1", "until": f"{T0 + HOUR:%Y-%m-%dT%H:%M:%SZ}"})
    a_spell_of(world, "w1", 20 * SECOND)
    world.config("defib-upgrade", None)
    a_spell_of(world, "w2", 20 * SECOND)
    assert [(one.node, one.upgrade) for one in spells(world)] == [("w1", "announced"), ("w2", "")]


# Silence


def heartbeat(node: str, seconds_ago: float) -> dict[str, Lease]:
    meta = Meta(name=node, namespace="kube-node-lease")
    lease = Lease(metadata=meta, spec=LeaseSpec(renew_time=T0 - seconds_ago * SECOND))
    return {lease.key: lease}


def test_of_a_node_that_is_unknown_the_last_heartbeat_is_remembered() -> None:
    node = ill("n1", since=T0 - 10 * SECOND)
    plan = plan_of(the_cluster(a_check(), node, *healthy(5), heartbeats=heartbeat("n1", 55.5)))
    assert [one.silent_since for one in status_of(plan).spells or ()] == [T0 - 56 * SECOND]


@pytest.mark.parametrize(("ready", "seconds_ago"), [("False", 55), ("Unknown", 5)])
def test_a_node_that_still_speaks_is_not_silent(ready: str, seconds_ago: float) -> None:
    node = ill("n1", ready=ready, since=T0 - 10 * SECOND)
    plan = plan_of(the_cluster(a_check(), node, *healthy(5), heartbeats=heartbeat("n1", seconds_ago)))
    assert [one.silent_since for one in status_of(plan).spells or ()] == [None]


# Cost and bounds


def test_a_cluster_that_is_well_and_stays_well_is_not_written_about() -> None:
    world = a_world()
    a_spell_of(world, "w1", 20 * SECOND)
    before = world.checks["workers"].metadata.resource_version
    world.wait(24 * HOUR)
    assert world.checks["workers"].metadata.resource_version == before


def test_a_spell_costs_two_writes() -> None:
    world = a_world()
    world.settle()
    writes = 0
    for ready in ("Unknown", "True"):
        world.turn("w1", ready)
        for _ in range(3):
            writes += len(of_type(world.step(), WriteStatus))
            world.now += SECOND
    assert writes == 2


def test_an_api_server_that_drops_what_its_crd_does_not_know_is_not_told_again_and_again() -> None:
    cluster = the_cluster(a_check(), ill("n1", since=T0 - 10 * SECOND), *healthy(5))
    first = written(plan_of(cluster))
    assert "spells" in first
    dropped = msgspec.json.decode(msgspec.json.encode({key: first[key] for key in first if key != "spells"}))
    later = the_cluster(a_check(status=dropped), *cluster.nodes.values(), now=T0 + SECOND)
    assert written(plan_of(later)) == {}


def past(node: str, number: int, **more: Any) -> dict[str, Any]:
    began = T0 - 100 * HOUR + number * MINUTE
    told = Spell(node=node, type="Ready", status="Unknown", began=began, ended=began + 30 * SECOND, healed=True, **more)
    return dict(msgspec.to_builtins(told))


def test_a_node_that_flaps_all_day_does_not_push_out_what_is_known_of_the_others() -> None:
    known = [past("calm", 0), *(past("flaps", number) for number in range(1, SPELLS_MAX))]
    plan = plan_of(the_cluster(a_check(status={"spells": known}), ill("n1", since=T0 - SECOND), *healthy(5)))
    kept = status_of(plan).spells or []
    assert len(kept) == SPELLS_MAX
    assert {one.node for one in kept} == {"calm", "flaps", "n1"}
    assert min(one.began for one in kept if one.node == "flaps") == T0 - 100 * HOUR + 2 * MINUTE  # the oldest went


def test_a_lost_zone_does_not_push_out_what_was_before() -> None:
    known = [past(f"old-{number}", number) for number in range(SPELLS_MAX)]
    lost = [ill(f"z{number:04}", since=T0 - SECOND) for number in range(500)]
    plan = plan_of(the_cluster(a_check(status={"spells": known}), *lost, *healthy(600)))
    kept = status_of(plan).spells or []
    assert len(kept) == SPELLS_MAX
    assert sum(one.ended is None for one in kept) == SPELLS_OPEN_MAX
    assert next(one.node for one in kept if one.ended) == f"old-{SPELLS_MAX - SPELLS_OPEN_MAX}"


def test_however_long_the_names_are_it_stays_below_60_kib() -> None:
    known = [past(f"{'n' * 240}-{number}", number) for number in range(SPELLS_MAX)]
    lost = [ill(f"{'z' * 240}-{number}", since=T0 - SECOND) for number in range(150)]
    cluster = the_cluster(a_check(status={"spells": known}), *lost, *healthy(200))
    kept = status_of(plan_of(cluster)).spells or []
    assert 50 * 1024 < len(msgspec.json.encode(kept)) <= BYTES_MAX
    assert sum(one.ended is None for one in kept) == SPELLS_OPEN_MAX


def test_a_record_that_is_full_is_written_once_and_not_at_every_look() -> None:
    world = World(a_check(maxUnhealthy=1), healthy(300))
    for number in range(1, 151):
        world.turn(f"w{number}", "Unknown")
    world.settle()
    assert len(spells(world)) == SPELLS_OPEN_MAX
    world.now += SECOND
    assert not world.step().actions


def test_a_memory_that_is_garbled_is_used_as_far_as_it_makes_sense() -> None:
    known = [{"node": "n1"}, "what", past("n2", 1), {**past("n3", 2), "ended": "yesterday"}]
    plan = plan_of(the_cluster(a_check(status={"spells": known}), *healthy(5)))
    assert [(one.node, one.healed) for one in status_of(plan).spells or ()] == [("n2", True), ("n3", False)]


def test_what_is_remembered_decides_nothing() -> None:
    foos = [a_remediation("n1")]
    node = ill("n1")
    without = plan_of(the_cluster(a_check(), node, *healthy(5), foos=foos))
    known = [past("n1", number) for number in range(50)]
    with_memory = plan_of(the_cluster(a_check(status={"spells": known}), node, *healthy(5), foos=foos))
    assert with_memory.checks["workers"].verdicts == without.checks["workers"].verdicts
    unwritten = [action for action in with_memory.actions if not isinstance(action, WriteStatus)]
    assert unwritten == [action for action in without.actions if not isinstance(action, WriteStatus)]
