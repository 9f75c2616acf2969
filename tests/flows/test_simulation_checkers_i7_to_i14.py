"""Each checker of the simulation, on a history that breaks its invariant, and on one that is nearly the same: I7 to I14."""

from typing import Any

import pytest

from defib.model import medik8s
from defib.model.action import ReleaseLock
from defib.model.node import OUT_OF_SERVICE, TAINTED_BY_US
from tests.simulation.history import Planned
from tests.simulation.shape import HOME
from tests.simulation.tales import CHECK, LEADER, PODS, POWER, PROOF, Tale, fenced, node
from tests.simulation.world import LEASES

# I7


@pytest.mark.parametrize(
    ("spec", "meta"),
    [
        ({"unschedulable": True}, {}),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, {}),
        ({}, {"annotations": {"theirs": "1"}}),
        ({}, {"labels": {"rack": "7"}}),
        ({}, {"finalizers": ["theirs.dev/x"]}),
        ({"taints": [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]}, {}),
    ],
)
def test_what_others_put_on_a_node_is_not_taken_away_by_us(spec: dict[str, Any], meta: dict[str, Any]) -> None:
    def taken(by: str) -> list[str]:
        tale = Tale(nodes=1)
        bare = node("n1")
        tale.put("nodes", {**bare, "metadata": bare["metadata"] | meta, "spec": spec})
        if by:
            tale.asks("PATCH", "/api/v1/nodes/n1", {})
        tale.put("nodes", bare, by=by)
        return tale.broken()

    assert taken("r0") == ["I7"]
    assert taken("") == []


def test_what_a_controller_of_kubernetes_does_in_answer_is_not_ours() -> None:
    tale = Tale(nodes=1)
    tale.put("nodes", node("n1", unschedulable=True))
    tale.asks("PATCH", "/apis/defib.dev/v1alpha1/nodeincidents/n1/status", {})
    tale.put("nodes", node("n1"), by="r0")
    assert tale.broken() == []


def test_our_own_taint_is_ours_to_remove() -> None:
    tale = Tale(nodes=1)
    bare = node("n1")
    meta = bare["metadata"] | {"annotations": {TAINTED_BY_US: "now"}}
    tale.put("nodes", {**bare, "metadata": meta, "spec": {"taints": [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]}})
    tale.asks("PATCH", "/api/v1/nodes/n1", {})
    tale.put("nodes", bare, by="r0")
    assert tale.broken() == []


def test_a_node_that_we_deleted_gets_back_what_it_had_unless_its_owner_took_it_away() -> None:
    def tale(back: dict[str, Any], *, uncordons: bool = False) -> list[str]:
        told = fenced(proof=PROOF)
        told.put("nodes", node("n1", "Unknown", labels={"rack": "7"}, unschedulable=True))
        told.asks("GET", "/api/v1/nodes/n1")
        told.asks("DELETE", "/api/v1/nodes/n1", {"preconditions": {"uid": "u"}})
        told.drop("nodes", "n1", by="r0")
        told.put("nodes", node("n1", labels={"rack": "7"}, **({"unschedulable": True} if uncordons else back)))
        if uncordons:
            told.put("nodes", node("n1", labels={"rack": "7"}))
        told.is_in("n1", "Closed")
        return told.broken()

    assert tale({}) == ["I7"]
    assert tale({"unschedulable": True}) == []
    assert tale({}, uncordons=True) == []


def test_remediations_and_locks_of_others_are_not_deleted_by_us() -> None:
    def deleted(ours: bool) -> list[str]:
        tale = Tale()
        path = f"/apis/defib.dev/v1alpha1/namespaces/{HOME}/powercycleremediations"
        if ours:
            tale.asks("POST", path, {"metadata": {"name": "x"}})
        tale.put(POWER, {"metadata": {"name": "x", "namespace": HOME}, "spec": {}}, by="r0" if ours else "")
        tale.asks("DELETE", f"{path}/x", {"preconditions": {"uid": "u"}})
        tale.drop(POWER, f"{HOME}/x", by="r0")
        return tale.broken()

    assert deleted(ours=False) == ["I7"]
    assert deleted(ours=True) == []
    tale = Tale()
    tale.locks("n1", "somebody")
    tale.asks("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{medik8s.LOCK_NAMESPACE}/leases/node-n1", {})
    tale.drop(LEASES, f"{medik8s.LOCK_NAMESPACE}/node-n1", by="r0")
    assert tale.broken() == ["I7"]


def test_a_finalizer_of_somebody_else_stays_on_what_we_write() -> None:
    def stripped(finalizer: str) -> list[str]:
        tale = Tale()
        path = f"/apis/defib.dev/v1alpha1/namespaces/{HOME}/powercycleremediations/x"
        meta = {"name": "x", "namespace": HOME}
        tale.put(POWER, {"metadata": {**meta, "finalizers": [finalizer]}, "spec": {}})
        tale.asks("PATCH", path, {})
        tale.put(POWER, {"metadata": meta, "spec": {}}, by="r0")
        return tale.broken()

    assert stripped("theirs.dev/x") == ["I7"]
    assert stripped("defib.dev/power-cycle") == []


# I8


def test_a_machine_is_switched_only_while_an_open_incident_tells_of_it() -> None:
    for phase, broken in (("Closed", ["I8"]), ("PoweringOff", [])):
        tale = Tale()
        tale.locks("n1")
        tale.is_in("n1", phase, command={"power": "off"})
        tale.switches("n1", "off")
        assert tale.broken() == broken


# I9


@pytest.mark.parametrize(("mode", "broken"), [("Observe", ["I9"]), ("Automatic", [])])
def test_in_observe_nothing_is_written_but_statuses_incidents_and_events(mode: str, broken: list[str]) -> None:
    tale = Tale(spec={"mode": mode})
    tale.asks("PATCH", f"/apis/{medik8s.API_VERSION}/nodehealthchecks/{CHECK}/status", {})
    tale.asks("POST", "/api/v1/namespaces/default/events", {"metadata": {"name": "e"}})
    tale.asks("POST", "/apis/defib.dev/v1alpha1/nodeincidents", {"metadata": {"name": "n1"}})
    assert tale.broken() == []
    tale.asks("PATCH", "/api/v1/nodes/n1", {})
    assert tale.broken() == broken


def begun_with(mode: str, **meta: Any) -> list[str]:
    tale = Tale(spec={"mode": mode})
    known = tale.there("nodes", "n1")
    tale.put("nodes", {**known, "metadata": known["metadata"] | meta})
    tale.after(150).falls_ill("n1")
    tale.locks("n1")
    tale.begins("n1")
    return tale.broken()


def test_in_approve_nothing_begins_before_a_person_has_approved_it() -> None:
    assert begun_with("Approve") == ["I9"]
    assert begun_with("Approve", annotations={"defib.dev/approved-until": "later"}) == []
    assert begun_with("Automatic") == []


def test_nothing_begins_on_a_node_that_a_person_has_excluded() -> None:
    assert begun_with("Automatic", labels={medik8s.EXCLUDED: "true"}) == ["I9"]
    assert begun_with("Automatic", labels={medik8s.EXCLUDED: "false"}) == []


# I10


def waiting(phase: str, seconds: float, trouble: str = "") -> list[str]:
    tale = Tale()
    tale.falls_ill("n1")
    tale.locks("n1", seconds=3600)
    tale.after(200).begins("n1")
    tale.is_in("n1", phase)
    if trouble:
        tale.happens(f"begins: {trouble}")
    tale.after(seconds).is_in("n1", "NeedsPerson")
    return tale.broken()


def test_no_incident_stays_in_a_phase_for_longer_than_is_stated() -> None:
    assert waiting("PoweringOn", 160) == ["I10"]
    assert waiting("PoweringOn", 70) == []
    assert waiting("WaitingForNode", 500) == []
    assert waiting("WaitingForNode", 900) == ["I10"]


def test_time_does_not_count_while_nobody_could_act() -> None:
    assert waiting("PoweringOn", 160, "200.0 s, for 90.0 s: replica r0 freezes (1.0)") == []
    assert waiting("PoweringOn", 160, "200.0 s, for 90.0 s: person n1 pulls the brake (1.0)") == ["I10"]


def test_what_a_guard_holds_back_has_time_until_all_is_over() -> None:
    assert waiting("PoweringOff", 160) == []
    tale = Tale()
    tale.falls_ill("n1")
    tale.locks("n1", seconds=3600)
    tale.begins("n1")
    tale.is_in("n1", "PoweringOff")
    tale.after(10).happens("all troubles are over")
    tale.after(300).is_in("n1", "NeedsPerson")
    assert tale.broken() == ["I10"]


@pytest.mark.parametrize(("attempt", "broken"), [(4, ["I10"]), (3, [])])
def test_no_more_attempts_are_made_than_are_allowed(attempt: int, broken: list[str]) -> None:
    tale = Tale()
    tale.falls_ill("n1")
    tale.locks("n1")
    tale.begins("n1")
    tale.is_in("n1", "LookingAtPower", attempt=attempt)
    assert tale.broken() == broken


@pytest.mark.parametrize(("times", "broken"), [(17, ["I10"]), (16, [])])
def test_a_machine_is_not_told_again_and_again(times: int, broken: list[str]) -> None:
    tale = Tale()
    tale.locks("n1")
    tale.is_in("n1", "PoweringOff", command={"power": "off"})
    for _ in range(times):
        tale.after(1).switches("n1", "off")
    assert tale.broken() == broken


@pytest.mark.parametrize(("seconds", "broken"), [(0.4, ["I10"]), (1.0, [])])
def test_a_machine_is_not_told_twice_at_once(seconds: float, broken: list[str]) -> None:
    tale = Tale()
    tale.locks("n1")
    tale.is_in("n1", "PoweringOff", command={"power": "off"}, since="2030-01-01T00:00:00Z")
    tale.switches("n1", "off")
    tale.is_in("n1", "PoweringOff", command={"power": "off"}, since="2030-01-01T00:00:01Z")
    tale.after(seconds).switches("n1", "off")
    assert tale.broken() == broken


# I12, I13


def test_the_same_look_gives_the_same_plan() -> None:
    action = ReleaseLock(node="n1", name="node-n1", namespace="x", uid="u", version="1")
    for again, broken in (((), ["I12"]), ((action,), [])):
        tale = Tale()
        tale.entries.append(Planned(1.0, LEADER, (action,), again))
        assert tale.broken() == broken


def test_whoever_switches_or_writes_has_the_lock() -> None:
    for holder, broken in (("r1-1", ["I13"]), (LEADER, [])):
        tale = Tale()
        tale.locks("n1")
        tale.is_in("n1", "PoweringOff", command={"power": "off"})
        tale.switches("n1", "off", holder=holder)
        assert tale.broken() == broken
        writes = Tale()
        writes.asks("PATCH", "/api/v1/nodes/n1", {}, holder=holder)
        assert writes.broken() == broken


# I14


def recovered(
    seconds: float, *, deleted: bool = False, trouble: str = "", spec: dict[str, Any] | None = None
) -> list[str]:
    tale = Tale(spec=spec)
    tale.falls_ill("n1")
    tale.locks("n1", seconds=3600)
    key = tale.after(100).begins("n1", PODS)
    if trouble:
        tale.happens(f"begins: {trouble}")
    tale.recovers("n1")
    if deleted:
        known = tale.there(PODS, key)
        tale.after(5).put(PODS, {**known, "metadata": known["metadata"] | {"deletionTimestamp": "now"}})
    tale.after(seconds).happens("nothing")
    return tale.broken()


def test_the_remediation_of_a_node_that_is_well_again_is_removed_whatever_holds_others_back() -> None:
    assert recovered(100) == ["I14"]
    assert recovered(100, trouble="100.0 s, for 90.0 s: person n1 pulls the brake (1.0)") == ["I14"]
    assert recovered(100, deleted=True) == []
    assert recovered(15) == []


def test_cleaning_up_waits_for_the_healthy_delay_and_for_somebody_who_can_act() -> None:
    assert recovered(75, spec={"healthyDelay": "60s"}) == []
    assert recovered(200, spec={"healthyDelay": "60s"}) == ["I14"]
    assert recovered(200, spec={"healthyDelay": "-1s"}) == []
    assert recovered(100, trouble="100.0 s, for 90.0 s: api r0 requests hang (1.0)") == []
