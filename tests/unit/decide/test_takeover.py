"""Going on where the Go operator stopped: nothing is created twice, nothing begins anew, nothing is forgotten."""

from typing import Any

import msgspec

from defib.model import medik8s
from defib.model.action import EndRemediation, StartRemediation
from defib.model.meta import Unstructured
from defib.model.node import Lease
from tests.builders import MINUTE, SECOND, T0
from tests.unit.decide.checks import (
    API,
    BAR_TEMPLATE,
    a_check,
    a_ladder,
    a_lock,
    a_remediation,
    a_template,
    healthy,
    ill,
    node_of,
    of_type,
    plan_of,
    started,
    the_cluster,
    told,
)
from tests.unit.decide.world import World

TWO = a_ladder(("foo", "5m"), ("bar", "5m", BAR_TEMPLATE))


def an_entry(kind: str, name: str, template: str = "", **times: str) -> dict[str, Any]:
    """As the Go operator writes it."""
    resource = {"apiVersion": API, "kind": kind, "namespace": "ns", "name": name, "uid": f"uid-of-{name}"}
    return {"resource": resource, **times} | ({"templateName": template} if template else {})


def a_status(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "observedNodes": 3,
        "healthyNodes": 2,
        "unhealthyNodes": [{"name": "n1", "remediations": list(entries)}],
        "inFlightRemediations": {},
        "conditions": [
            {
                "type": "Disabled",
                "status": "False",
                "reason": "NodeHealthCheckEnabled",
                "lastTransitionTime": "2029-12-01T00:00:00Z",
            }
        ],
        "phase": "Remediating",
        "reason": "NHC is remediating 1 nodes",
        "lastUpdateTime": "2029-12-31T23:58:00Z",
    }


def without_template_name(item: Unstructured) -> Unstructured:
    """Versions before the one that could use a kind twice did not write it."""
    kept = {key: value for key, value in item.annotations.items() if key == medik8s.NODE_NAME}
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations=kept))


def taken_over(status: dict[str, Any], *foos: Unstructured, bars: tuple[Unstructured, ...] = (), **spec: Any) -> World:
    world = World(a_check(status=status, **spec), [ill("n1"), *healthy(2)])
    world.others["foos"] = {item.key: item for item in foos}
    world.others["bars"] = {item.key: item for item in bars}
    lock = a_lock("n1", "NodeHealthCheck-workers", renewed=T0 - 2 * MINUTE)
    world.locks[lock.key] = lock
    return world


RUNNING = an_entry("FooRemediation", "n1", "foo", started="2029-12-31T23:58:00Z")
OVER = RUNNING | {"timedOut": "2029-12-31T23:59:00Z"}


def test_a_remediation_in_flight_is_adopted_and_nothing_is_said_twice() -> None:
    world = taken_over(a_status(RUNNING), a_remediation("n1", created=T0 - 2 * MINUTE))
    world.wait(3 * MINUTE)
    assert world.creations == []
    assert world.told() == []
    assert world.status().node("n1").remediations[0].started == T0 - 2 * MINUTE  # type: ignore[union-attr,index]


def test_a_remediation_that_does_not_say_its_template_is_adopted_by_its_name() -> None:
    old = without_template_name(a_remediation("n1", created=T0 - 2 * MINUTE))
    status = a_status(an_entry("FooRemediation", "n1", started="2029-12-31T23:58:00Z"))
    world = taken_over(status, old, escalatingRemediations=TWO)
    world.wait(2 * MINUTE)
    assert world.creations == []
    world.wait(MINUTE + SECOND)
    assert [start.kind.name for start in world.creations] == ["BarRemediation"]
    assert medik8s.TIMED_OUT in world.remediations()["n1"].annotations


def test_a_generated_name_is_adopted_by_its_annotations() -> None:
    item = a_remediation("n1", name="n1-x7k2p", created=T0 - 2 * MINUTE)
    world = taken_over(a_status(RUNNING), item)
    world.others["footemplates"] = {"ns/foo": a_template("foo", many=True)}
    world.settle()
    assert world.creations == []


def test_the_clock_of_a_step_is_the_age_of_its_remediation() -> None:
    world = taken_over(
        a_status(RUNNING), a_remediation("n1", created=T0 - 4 * MINUTE - 30 * SECOND), escalatingRemediations=TWO
    )
    world.wait(29 * SECOND)
    assert world.creations == []
    world.wait(2 * SECOND)
    assert [start.kind.name for start in world.creations] == ["BarRemediation"]


def test_a_step_that_had_timed_out_is_not_begun_again() -> None:
    world = taken_over(a_status(OVER), a_remediation("n1", created=T0 - 2 * MINUTE), escalatingRemediations=TWO)
    world.settle()
    assert [start.kind.name for start in world.creations] == ["BarRemediation"]


def test_a_step_that_had_timed_out_and_whose_remediation_is_gone_is_not_begun_again() -> None:
    world = taken_over(a_status(OVER), escalatingRemediations=TWO)
    world.settle()
    assert [start.kind.name for start in world.creations] == ["BarRemediation"]


def test_a_second_remediation_of_one_kind_that_the_go_operator_did_not_note_is_found() -> None:
    """It compares kinds alone, so its status knows the first of the two only."""
    ladder = a_ladder(("foo", "5m"), ("second", "5m"))
    templates = [a_template("foo", many=True), a_template("second", many=True)]
    first = a_remediation("n1", name="n1-aaaaa", created=T0 - 8 * MINUTE)
    second = a_remediation("n1", name="n1-bbbbb", created=T0 - 2 * MINUTE, template="second")
    entry = an_entry("FooRemediation", "n1-aaaaa", "foo", started="2029-12-31T23:52:00Z")
    world = taken_over(
        a_status(entry | {"timedOut": "2029-12-31T23:57:00Z"}), first, second, escalatingRemediations=ladder
    )
    world.others["footemplates"] = {item.key: item for item in templates}
    world.settle()
    assert world.creations == []
    entries = world.status().node("n1").remediations or []  # type: ignore[union-attr]
    assert [one.template_name for one in entries] == ["foo", "second"]
    world.wait(4 * MINUTE)
    assert world.told().count("NoTemplateLeft") == 1


def test_a_delay_that_has_begun_goes_on() -> None:
    item = a_remediation("n1", annotations={medik8s.HEALTHY_DELAY: "2029-12-31T23:59:00Z"})
    status = a_status(RUNNING)
    status["unhealthyNodes"][0] |= {"conditionsHealthyTimestamp": "2029-12-31T23:59:00Z", "healthyDelayed": True}
    world = taken_over(status, item, healthyDelay="2m")
    world.put(ill("n1", ready="True", since=T0 - MINUTE))
    world.wait(59 * SECOND)
    assert "n1" in world.remediations()
    world.wait(SECOND)
    assert not world.remediations()


def test_its_lock_is_ours_and_is_renewed() -> None:
    world = taken_over(a_status(RUNNING), a_remediation("n1", created=T0 - 2 * MINUTE))
    world.settle()
    lock = world.locks["medik8s-leases/node-n1"]
    assert (lock.spec.holder_identity, lock.spec.renew_time) == ("NodeHealthCheck-workers", T0)


def test_a_lock_without_a_remediation_is_what_a_crash_left_behind_and_no_obstacle() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    lock: Lease = a_lock("n1", "NodeHealthCheck-workers", renewed=T0 - MINUTE)
    world.locks[lock.key] = lock
    world.settle()
    assert len(world.creations) == 1


def test_a_recovered_node_is_cleaned_up_after_the_other_operator() -> None:
    world = taken_over(a_status(RUNNING), a_remediation("n1"))
    world.put(ill("n1", ready="True"))
    world.settle()
    assert (world.remediations(), world.locks, world.status().unhealthy_nodes) == ({}, {}, None)


def test_an_owner_counts_by_its_kind_version_and_name() -> None:
    """The uid of the check is another one after a restore from a backup; the remediations are still its own."""
    item = a_remediation("n1")
    owners = [msgspec.structs.replace(one, uid="older") for one in item.metadata.owner_references or ()]
    item = msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, owner_references=owners))
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), foos=[item]))
    assert started(plan) == []
    assert node_of(plan, "n1").reason == "Remediating"
    plan = plan_of(the_cluster(a_check(), ill("n1", ready="True"), *healthy(2), foos=[item]))
    assert [end.target.name for end in of_type(plan, EndRemediation)] == ["n1"]


def test_the_old_map_of_remediations_in_flight_is_removed() -> None:
    world = taken_over(a_status(RUNNING), a_remediation("n1"))
    world.settle()
    assert "inFlightRemediations" not in world.checks["workers"].status


def test_a_check_that_was_enabled_is_not_told_to_be_enabled_again() -> None:
    plan = plan_of(the_cluster(a_check(status=a_status(RUNNING)), *healthy(3)))
    assert "Enabled" not in told(plan)
    assert of_type(plan, StartRemediation) == []
