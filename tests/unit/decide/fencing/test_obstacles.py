"""What stands against beginning a power cycle, and what does not."""

from typing import Any

import pytest

from defib.decide.fencing.obstacles import OWN_NODE, hold_of, obstacle_to, waits_for_another
from defib.decide.fencing.order import Obstacle
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.cluster import Blindness, Cluster
from defib.model.incident import INCIDENTS, IncidentSpec, Phase
from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec
from defib.model.power_cycle import LOCK_HOLDER
from tests.builders import T0, a_node
from tests.unit.decide.fencing.cases import BRAKE, NODE, a_look, an_incident, an_order, change

RULES = Rules()
MASTER = {"node-role.kubernetes.io/control-plane": ""}


def locked(by: str = LOCK_HOLDER, node: str = "n1") -> dict[str, Lease]:
    spec = LeaseSpec(holder_identity=by, lease_duration_seconds=600, renew_time=T0)
    lease = Lease(metadata=Meta(name=medik8s.lock_of(node), namespace=RULES.lock_namespace), spec=spec)
    return {f"{RULES.lock_namespace}/{lease.name}": lease}


def reason(cluster: Cluster, *, rules: Rules = RULES, has_begun: bool = False, **order: Any) -> str:
    found = obstacle_to(
        an_order(**order), cluster, rules, lambda: hold_of(cluster, rules, goes_on=False), has_begun=has_begun
    )
    return found.reason if found is not None else ""


def test_with_the_lock_in_our_hands_nothing_stands_against_it() -> None:
    assert reason(a_look(locks=locked())) == ""


def test_our_own_lock_is_taken_before_anything_begins() -> None:
    """I2."""
    assert reason(a_look()) == "Lock"
    assert reason(a_look(at=601, locks=locked())) == "Lock"
    assert reason(a_look(node=None)) == ""


def test_a_lock_that_somebody_else_holds_is_honoured() -> None:
    """I2."""
    assert reason(a_look(locks=locked("node-maintenance"))) == "Lock"
    assert reason(a_look(locks=locked("check-workers")), lock_holder="check-workers") == ""


def test_a_check_that_takes_the_lock_itself_is_not_waited_for() -> None:
    assert reason(a_look(), lock_holder="check-workers") == ""


def test_without_a_way_to_the_power_nothing_begins_but_what_has_begun_goes_on() -> None:
    path = Obstacle("NoPowerPath", "no label")
    assert reason(a_look(locks=locked()), path=path) == "NoPowerPath"
    assert reason(a_look(locks=locked()), path=path, has_begun=True) == ""


def test_what_the_order_itself_says_stands_against_it_until_it_has_begun() -> None:
    gone = Obstacle("NodeNotFound", "there is no node n1")
    assert reason(a_look(locks=locked()), obstacle=gone) == "NodeNotFound"
    assert reason(a_look(locks=locked()), obstacle=gone, has_begun=True) == ""


def test_nothing_begins_for_what_may_vanish() -> None:
    assert reason(a_look(locks=locked()), is_held=False) == "Starting"


@pytest.mark.parametrize("kind", ["nodes", "heartbeats", "configmaps", INCIDENTS])
def test_whoever_cannot_see_does_nothing(kind: str) -> None:
    """I5."""
    assert reason(a_look(locks=locked(), blind=(Blindness(kind, T0, "watch lost"),))) == "SelfDoubt"


def test_the_brake_and_doubt_hold_everything_back() -> None:
    """I5."""
    assert hold_of(a_look(), RULES, goes_on=False) is None
    assert reason(a_look(locks=locked()), rules=Rules(brake_setting=True)) == "Brake"
    assert reason(a_look(locks=locked(), doubts=("most leases are old",))) == "SelfDoubt"
    held = obstacle_to(an_order(), a_look(locks=locked()), RULES, lambda: BRAKE, has_begun=True)
    assert held == BRAKE


def test_rm34_the_node_on_which_we_run_is_left_to_another_replica() -> None:
    """RM-34."""
    assert reason(a_look(locks=locked()), rules=Rules(own_node="n1")) == "OwnNode"
    assert reason(a_look(locks=locked()), rules=Rules(own_node="n2")) == ""
    assert reason(a_look(node=None), rules=Rules(own_node=""), node="", name="m-1") == ""


def test_rm34_it_is_known_that_the_machine_under_us_waits_for_another_replica() -> None:
    def waits(own_node: str, **status: Any) -> str:
        cluster = change(a_look(), others={INCIDENTS: {"n1": an_incident(**status)}})
        return waits_for_another(cluster, Rules(own_node=own_node))

    assert waits("n1", reason=OWN_NODE) == "n1"
    assert waits("n2", reason=OWN_NODE) == ""
    assert waits("", reason=OWN_NODE) == ""
    assert waits("n1", reason="Lock") == ""
    assert waits("n1", phase=Phase.CLOSED, reason=OWN_NODE) == ""
    assert waits_for_another(a_look(), Rules(own_node="n1")) == ""


def masters(*others: str, ill: tuple[str, ...] = ("n1",)) -> Cluster:
    names = ("n1", *others)
    nodes = {name: a_node(name, labels=MASTER, ready="Unknown" if name in ill else "True") for name in names}
    return change(a_look(locks=locked()), nodes=nodes)


def test_only_one_control_plane_node_is_out_at_a_time() -> None:
    """I4."""
    for phase, expected in ((Phase.OPEN, ""), (Phase.POWERING_OFF, "ControlPlane"), (Phase.CLOSED, "")):
        other = change(an_incident(phase), spec=IncidentSpec(node="n2", control_plane=True))
        cluster = masters("n2", "n3", "n4", "n5")
        cluster = change(cluster, others={**cluster.others, INCIDENTS: {"n2": other}})
        assert reason(cluster) == expected


def test_a_worker_that_is_out_does_not_count_for_the_control_plane() -> None:
    other = change(an_incident(Phase.POWERING_OFF), spec=IncidentSpec(node="n2"))
    cluster = masters("n3", "n4")
    assert reason(change(cluster, others={INCIDENTS: {"n2": other}})) == ""


def test_its_own_incident_does_not_stand_against_a_control_plane_node() -> None:
    own = change(an_incident(Phase.RESTING), spec=IncidentSpec(node="n1", control_plane=True))
    assert reason(change(masters("n2", "n3"), others={INCIDENTS: {"n1": own}}), has_begun=True) == ""


def test_the_quorum_is_kept() -> None:
    """I4."""
    assert reason(masters("n2", "n3")) == ""
    assert reason(masters("n2", "n3", ill=("n1", "n2"))) == "Quorum"


def test_a_worker_may_be_out_whatever_the_control_plane_does() -> None:
    other = change(an_incident(Phase.POWERING_OFF), spec=IncidentSpec(node="n2", control_plane=True))
    cluster = a_look(node=NODE, locks=locked(), others={INCIDENTS: {"n2": other}})
    assert reason(cluster) == ""
