"""What the page shows of a picture, and what has changed since the one before."""

import random
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.clock import SystemClock
from defib.decide.fencing.coverage import Coverage
from defib.decide.fencing.covered import Covered
from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.readiness import Readiness
from defib.decide.remediators import OwnWork
from defib.model.cluster import CONFIG_MAPS, Blindness, Unread
from defib.model.config_map import ConfigMap
from defib.model.incident import INCIDENTS, Cause, Entry, IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.meta import Meta, Unstructured
from defib.model.pod import Pod
from defib.model.power_cycle import Policy
from defib.model.verdict import Gate
from defib.picture import Picture
from defib.web.board import BLANK, Board, Site, next_board
from defib.web.board_nodes import FLAGS, STATES
from defib.web.board_parts import HISTORY_MAX, INCIDENTS_MAX, incident_whole, share_of
from defib.web.board_work import Seats
from tests.builders import HOUR, SECOND, T0, a_node
from tests.dashboard_stage import ALONE, RULES, a_check, a_site, ill, nodes_of, pictured, worker
from tests.unit.decide.drains.ward import a_budget, a_web_pod
from tests.unit.decide.drains.wing import a_wing, drained, planned, record

SITE = Site(replica="defib-0", version="9.9.9", can_act=False, rules=RULES)
KEYS = {
    *("defib", "replica", "leader", "leads", "can_act", "brake", "sight", "zones", "states", "flags", "checks"),
    *("incidents", "drains", "shards", "fences", "history"),
}


def board_of(picture: Picture, before: Board = BLANK, seats: Seats = ALONE) -> Board:
    return next_board(before, picture, seats, SITE)


def state_of(board: Board, name: str) -> str:
    return STATES[board.nodes.rows[board.nodes.places[name]][2]]


def flags_of(board: Board, name: str) -> set[str]:
    flags = board.nodes.rows[board.nodes.places[name]][3]
    return {flag for flag, bit in FLAGS.items() if flags & bit}


def part(board: Board, name: str) -> Any:
    """As the page gets it."""
    return msgspec.json.decode(msgspec.json.encode(board.parts[name]))


def with_others(picture: Picture, **others: Any) -> Picture:
    cluster = picture.cluster
    return msgspec.structs.replace(picture, cluster=msgspec.structs.replace(cluster, **others))


def with_incidents(picture: Picture, *incidents: NodeIncident) -> Picture:
    return with_others(picture, others={**picture.cluster.others, INCIDENTS: {one.name: one for one in incidents}})


def an_incident(
    node: str, opened: float = 0, closed: float | None = None, *, name: str = "", **status: Any
) -> NodeIncident:
    """`opened` and `closed` are minutes before and after T0."""
    ended: dict[str, Any] = (
        {"phase": Phase.CLOSED, "since": T0 + timedelta(minutes=closed), "outcome": "Recovered"} if closed else {}
    )
    return NodeIncident(
        metadata=Meta(name=name or node, uid=f"uid-{name or node}", creation_timestamp=T0 - timedelta(minutes=opened)),
        spec=IncidentSpec(
            node=node, cause=Cause(kind="PowerCycleRemediation", name=node, namespace="ns"), check="workers"
        ),
        status=IncidentStatus(**(ended | status)),
    )


def test_every_part_that_the_page_knows_is_there_from_the_start() -> None:
    board = board_of(pictured(a_site(nodes_of(3))))
    assert board.number == 1
    assert board.parts.keys() == KEYS
    assert board.changed.keys() == KEYS | {"nodes"}
    assert board.nodes.rows == (("worker-0000", 0, 0, 0), ("worker-0001", 1, 0, 0), ("worker-0002", 2, 0, 0))
    assert part(board, "zones") == ["zone-a", "zone-b", "zone-c"]
    assert part(board, "states")[-1] == "Unwatched"


def test_the_same_picture_again_is_the_same_board() -> None:
    picture = pictured(a_site(nodes_of(3)))
    board = board_of(picture)
    again = board_of(pictured(msgspec.structs.replace(picture.cluster, now=T0 + SECOND), picture.plan), board)
    assert again.number == board.number
    assert again.changed == {}


def test_of_one_node_that_changes_only_its_row_is_told() -> None:
    picture = pictured(a_site(nodes_of(9)))
    board = board_of(picture)
    nodes = {
        **picture.cluster.nodes,
        worker(4): a_node(worker(4), cordoned=True, labels=picture.cluster.nodes[worker(4)].labels),
    }
    after = board_of(pictured(msgspec.structs.replace(picture.cluster, nodes=nodes), picture.plan), board)
    assert after.number == board.number + 1
    assert after.changed == {"nodes": ((4, 1, 0, FLAGS["cordoned"]),)}


def test_at_5000_nodes_one_that_changes_costs_little_beyond_seeing_that_no_other_has() -> None:
    """By the quickest of many: the machine may be busy with something else."""
    picture, clock = pictured(a_site(nodes_of(5000))), SystemClock()
    board, spent, compared = board_of(picture), list[float](), list[float]()
    for number in range(50):
        node = picture.cluster.nodes[worker(number)]
        nodes = {**picture.cluster.nodes, node.name: a_node(node.name, cordoned=True, labels=node.labels)}
        picture = with_others(picture, nodes=nodes)
        began = clock.monotonic()
        assert [name for name, one in nodes.items() if board.nodes.nodes[name] is not one] == [node.name]
        between = clock.monotonic()
        board = board_of(picture, board)
        told = msgspec.json.encode(board.changed)
        spent.append(clock.monotonic() - between)
        compared.append(between - began)
        assert len(told) < 100
    assert min(spent) - min(compared) < 0.001


def test_a_node_that_comes_or_goes_has_the_whole_list_told() -> None:
    board = board_of(pictured(a_site(nodes_of(3))))
    after = board_of(pictured(a_site(nodes_of(4))), board)
    assert [row[0] for row in after.changed["nodes"]] == [worker(n) for n in range(4)]
    fewer = board_of(pictured(a_site(nodes_of(3))), after)
    assert [row[0] for row in fewer.changed["nodes"]] == [worker(n) for n in range(3)]


def test_a_node_that_moves_to_another_zone_has_zones_and_list_told() -> None:
    nodes = nodes_of(3)
    board = board_of(pictured(a_site(nodes)))
    after = board_of(pictured(a_site({**nodes, worker(0): a_node(worker(0))})), board)
    assert part(after, "zones") == ["zone-b", "zone-c", ""], "those without a zone come last"
    assert after.changed["nodes"][0] == (worker(0), 2, 0, 0)
    assert after.changed["zones"] == ("zone-b", "zone-c", "")


def test_each_state_has_its_own_number() -> None:
    nodes = nodes_of(9)
    nodes[worker(0)] = ill(nodes[worker(0)])
    nodes[worker(1)] = ill(nodes[worker(1)], since=T0 - SECOND)
    nodes["spare"] = a_node("spare", labels={"role": "spare"})
    check = a_check(selector={"matchExpressions": [{"key": "role", "operator": "DoesNotExist"}]}, minHealthy=9)
    board = board_of(pictured(a_site(nodes, check)))
    states = [state_of(board, name) for name in (worker(0), worker(1), worker(2), "spare")]
    assert states == ["Unhealthy", "Suspect", "Healthy", "Unwatched"]


def test_a_node_whose_remediation_is_begun_is_shown_as_such() -> None:
    nodes = nodes_of(9)
    nodes[worker(0)] = ill(nodes[worker(0)])
    board = board_of(pictured(a_site(nodes)))
    assert state_of(board, worker(0)) == "Remediating"


def test_of_two_checks_the_state_is_shown_that_a_person_should_see() -> None:
    nodes = nodes_of(9)
    nodes[worker(0)] = ill(nodes[worker(0)])
    held, acting = a_check("a-held", minHealthy=9), a_check("b-acting")
    assert state_of(board_of(pictured(a_site(nodes, held, acting))), worker(0)) == "Remediating"
    assert state_of(board_of(pictured(a_site(nodes, acting, held))), worker(0)) == "Remediating"


def test_where_a_check_makes_no_sense_nobody_can_say_which_nodes_it_means() -> None:
    board = board_of(pictured(a_site(nodes_of(3), a_check(minHealthy="many"))))
    assert {state_of(board, worker(n)) for n in range(3)} == {"Unseen"}
    assert part(board, "checks")[0]["phase"] == "Disabled"


def test_before_everything_was_seen_once_nodes_are_unseen() -> None:
    cluster = msgspec.structs.replace(a_site(nodes_of(2)), blind=(Blindness("locks", T0, "not listed yet"),))
    board = board_of(Picture(cluster))
    assert state_of(board, worker(0)) == "Unseen"
    assert part(board, "sight") == ["locks are out of sight: not listed yet"]


def test_a_node_that_cannot_be_read_is_on_the_map_all_the_same() -> None:
    cluster = msgspec.structs.replace(a_site(nodes_of(2)), unread=(Unread("nodes", "odd", "its labels are a number"),))
    board = board_of(pictured(cluster))
    assert board.nodes.rows[0] == ("odd", 2, STATES.index("Unseen"), 0)
    assert part(board, "zones")[-1] == ""
    assert part(board, "sight") == ["nodes odd cannot be read: its labels are a number"]


def test_flags_tell_what_a_node_is_and_what_is_done_to_it() -> None:
    nodes = nodes_of(2)
    nodes["cp"] = a_node("cp", cordoned=True, labels={"node-role.kubernetes.io/control-plane": ""})
    picture = with_incidents(pictured(a_site(nodes)), an_incident("cp"), an_incident(worker(0), closed=5))
    board = board_of(picture)
    assert flags_of(board, "cp") == {"control_plane", "cordoned", "incident"}
    assert flags_of(board, worker(0)) == set()


def test_a_doubt_that_holds_a_check_back_is_told_once() -> None:
    nodes = nodes_of(9)
    nodes[worker(0)] = ill(nodes[worker(0)])
    cluster = msgspec.structs.replace(a_site(nodes), doubts=("the API server has just failed",))
    board = board_of(pictured(cluster))
    assert part(board, "sight") == ["the API server has just failed"]


def test_silent_heartbeats_are_a_doubt_once_a_node_is_ill() -> None:
    nodes = nodes_of(9)
    nodes[worker(0)] = ill(nodes[worker(0)])
    cluster = msgspec.structs.replace(a_site(nodes), now=T0 + HOUR)
    assert "most heartbeats of nodes are overdue at once" in part(board_of(pictured(cluster)), "sight")[0]


def test_the_brake_is_told_with_who_why_and_since_when() -> None:
    said = {"paused": "true", "by": "ada", "reason": "storage", "since": "2029-12-31T23:00:00Z"}
    brake = ConfigMap(metadata=Meta(name="defib-brake", namespace=RULES.namespace), data=said)
    picture = pictured(a_site(nodes_of(1)))
    others = {**picture.cluster.others, CONFIG_MAPS: {brake.key: brake}}
    board = board_of(with_others(picture, others=others))
    told = {"on": True, "by": "ada", "reason": "storage", "since": "2029-12-31T23:00:00Z"}
    assert part(board, "brake") == told
    assert board_of(picture, board).changed["brake"].on is False


@pytest.mark.parametrize(
    ("value", "limit", "share"),
    [
        ("3", "4", 0.75),
        ("5", "4", 1.0),
        ("0", "0", 0.0),
        ("1", "0", 1.0),
        ("9 healthy", "at least 6 of 9", 0.0),
        ("8 healthy", "at least 6 of 9", 0.333),
        ("5 healthy", "at least 6 of 9", 1.0),
        ("9 healthy", "at least 9 of 9", 0.0),
        ("8 healthy", "at least 9 of 9", 1.0),
        ("Automatic", "", None),
        ("", "3h", None),
        ("²", "3", None),
    ],
)
def test_a_gate_has_a_share_where_value_and_limit_are_numbers(value: str, limit: str, share: float | None) -> None:
    assert share_of(Gate(name="g", is_open=True, message="", value=value, limit=limit)) == share


def test_budgets_are_gauges_of_the_check_also_while_nothing_is_wrong() -> None:
    guards = {"maxInFlight": 2, "rateLimit": {"remediations": 5, "per": "1h"}}
    board = board_of(pictured(a_site(nodes_of(9), a_check(guards=guards))))
    gates = {gate["name"]: gate for gate in part(board, "checks")[0]["gates"]}
    assert (gates["InFlight"]["value"], gates["InFlight"]["limit"], gates["InFlight"]["share"]) == ("0", "2", 0.0)
    assert (gates["RateLimit"]["value"], gates["RateLimit"]["limit"]) == ("0", "5")
    assert gates["Threshold"]["share"] == 0.0


def test_incidents_come_newest_first_and_what_is_open_is_never_pushed_out() -> None:
    old = an_incident("old", opened=10_000)
    closed = [an_incident(f"c{n}", opened=n + 1, closed=1) for n in range(INCIDENTS_MAX + HISTORY_MAX)]
    board = board_of(with_incidents(pictured(a_site(nodes_of(1))), old, *closed))
    told = part(board, "incidents")
    assert len(told) == INCIDENTS_MAX
    assert (told[0]["name"], told[-1]["name"]) == ("c0", "old")
    assert told[-1]["open"]
    assert told[-1]["seconds"] is None
    assert len(part(board, "history")) == HISTORY_MAX
    assert part(board, "history")[0] == {
        "node": "c0",
        "opened": "2029-12-31T23:59:00Z",
        "seconds": 120.0,
        "outcome": "Recovered",
    }


def test_an_incident_tells_whose_it_is_and_how_long_the_node_was_away() -> None:
    one = an_incident("n1", opened=2, closed=1, closed_at=T0 + SECOND, seconds=421.5, message="it is back")
    told = part(board_of(with_incidents(pictured(a_site(nodes_of(1))), one)), "incidents")[0]
    assert told == {
        "name": "n1",
        "node": "n1",
        "phase": "Closed",
        "outcome": "Recovered",
        "check": "workers",
        "cause": "PowerCycleRemediation ns/n1",
        "message": "it is back",
        "open": False,
        "opened": "2029-12-31T23:58:00Z",
        "closed": "2030-01-01T00:00:01Z",
        "seconds": 421.5,
    }


def test_a_whole_incident_has_its_timeline_and_it_is_bounded() -> None:
    timeline = [Entry(at=T0, phase="Open", message=f"entry {n}", kind="action", by="defib-0") for n in range(80)]
    told = msgspec.json.decode(msgspec.json.encode(incident_whole(an_incident("n1", timeline=timeline))))
    assert told["node"] == "n1"
    assert len(told["timeline"]) == 50
    assert told["timeline"][-1] == {
        "at": "2030-01-01T00:00:00Z",
        "phase": "Open",
        "message": "entry 79",
        "kind": "action",
        "by": "defib-0",
    }


def test_shards_tell_who_has_how_many_buckets_and_nodes() -> None:
    seats = Seats(
        mode="shards", leader="b", holders={"b": tuple(range(20)), "defib-0": tuple(range(20, 30))}, unowned=2
    )
    told = part(board_of(pictured(a_site(nodes_of(320))), seats=seats), "shards")
    assert told["unowned"] == 2
    assert [(one["name"], one["buckets"], one["is_me"]) for one in told["holders"]] == [
        ("b", 20, False),
        ("defib-0", 10, True),
    ]
    assert 250 < sum(one["nodes"] for one in told["holders"]) < 320


def test_where_one_leads_it_has_everything_and_where_nobody_does_nobody_has() -> None:
    picture = pictured(a_site(nodes_of(7)))
    told = part(board_of(picture, seats=Seats(mode="lease", leader="defib-1")), "shards")
    assert told == {
        "mode": "lease",
        "holders": [{"name": "defib-1", "buckets": 32, "nodes": 7, "is_me": False}],
        "unowned": 0,
    }
    board = board_of(picture, seats=Seats(mode="lease"))
    assert (part(board, "shards")["holders"], part(board, "leader")) == ([], "")


def drained_picture(*pods: Pod, minutes: float = 60, **wing: Any) -> Picture:
    cluster = a_wing(drained(minutes=minutes), *pods, **wing)
    return Picture(cluster, own=OwnWork(drains=planned(cluster)))


def test_a_drain_tells_who_since_when_and_what_is_in_its_way() -> None:
    pod = a_web_pod()
    board = board_of(drained_picture(pod, budgets=[a_budget()], records=[record(pods_left=1)]))
    (told,) = part(board, "drains")
    assert (told["node"], told["by"], told["pods_left"]) == ("n1", "Kubectl", 1)
    assert told["since"] == "2029-12-31T23:00:00Z"
    (blocked,) = told["blocked"]
    assert blocked["pod"] == pod.key
    assert "web" in blocked["why"]
    assert blocked["next"]
    assert "draining" in flags_of(board, "n1")


def test_what_is_in_the_way_of_a_drain_is_found_out_again_only_when_it_is_another() -> None:
    picture = drained_picture(a_web_pod(), minutes=45, budgets=[a_budget()], records=[record(minutes=45)])
    board = board_of(picture)
    later = msgspec.structs.replace(picture.cluster, now=T0 + SECOND)
    again = planned(later, picture.own.drains)
    after = board_of(Picture(later, own=OwnWork(drains=again)), board)
    assert after.drains.looks["n1"] is board.drains.looks["n1"]


def test_a_drain_that_was_broken_off_is_told_by_its_record() -> None:
    cluster = a_wing([a_node("n1")], records=[record(phase="Paused", pausedAt="2029-12-31T23:59:00Z")])
    board = board_of(Picture(cluster, own=OwnWork(drains=planned(cluster))))
    (told,) = part(board, "drains")
    assert (told["phase"], told["blocked"]) == ("Paused", [])
    assert flags_of(board, "n1") == set()


def a_covered(node: str, *, why: str = "", tried: bool = True) -> Covered:
    return Covered(node=node, path=Obstacle("x", "y"), why=why, is_tried=tried)


def test_fences_tell_which_nodes_could_not_be_fenced_and_why() -> None:
    nodes = nodes_of(4)
    covered = {
        worker(0): a_covered(worker(0)),
        worker(1): a_covered(worker(1), why="the BMC does not answer"),
        worker(2): a_covered(worker(2), tried=False),
    }
    coverage = Coverage(item=Unstructured(), policy=Policy(), covered=covered)
    own = OwnWork(readiness=Readiness(coverages={"ns/foo": coverage}))
    board = board_of(msgspec.structs.replace(pictured(a_site(nodes)), own=own))
    assert part(board, "fences") == {
        "ready": 1,
        "not_ready": [{"node": worker(1), "why": "the BMC does not answer"}],
        "unknown": 1,
    }
    assert flags_of(board, worker(1)) == {"fence_not_ready"}


def test_who_has_not_tried_the_fences_tells_what_the_status_says() -> None:
    covered = {worker(n): a_covered(worker(n), tried=False) for n in range(4)}
    item = Unstructured(status={"covered": 4, "ready": 3})
    own = OwnWork(readiness=Readiness(coverages={"ns/foo": Coverage(item=item, policy=Policy(), covered=covered)}))
    board = board_of(msgspec.structs.replace(pictured(a_site(nodes_of(4))), own=own))
    assert part(board, "fences") == {"ready": 3, "not_ready": [], "unknown": 1}


@pytest.mark.parametrize("seed", range(8))
def test_step_by_step_it_is_the_same_board_as_from_scratch(seed: int) -> None:
    """And whoever applies the changes one after the other has the same rows as whoever asks for all of them."""
    chance = random.Random(seed)
    nodes, board, copy = nodes_of(20), BLANK, list[list[Any]]()
    picture = pictured(a_site(nodes))
    for _ in range(40):
        name = worker(chance.randrange(24))
        match chance.randrange(6):
            case 0:
                nodes.pop(name, None)
            case 1:
                nodes[name] = a_node(name, labels={"topology.kubernetes.io/zone": chance.choice("ab")}, version=3)
            case 2:
                nodes[name] = a_node(name, cordoned=True, version=4)
            case _ if name in nodes:
                nodes[name] = ill(nodes[name], since=T0 - chance.randrange(600) * SECOND)
        incidents = [an_incident(one) for one in sorted(nodes) if chance.random() < 0.1]
        picture = with_incidents(pictured(a_site(dict(nodes)), picture.plan), *incidents)
        board = board_of(picture, board)
        for row in board.changed.get("nodes", ()):
            if isinstance(row[0], str):
                copy = [list(one) for one in board.changed["nodes"]]
                break
            copy[row[0]][1:] = row[1:]
        fresh = board_of(picture)
        assert board.nodes.rows == fresh.nodes.rows
        assert board.parts == fresh.parts
        assert copy == [list(row) for row in fresh.nodes.rows]
