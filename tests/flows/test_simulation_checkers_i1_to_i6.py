"""Each checker of the simulation, on a history that breaks its invariant, and on one that is nearly the same: I1 to I6."""

from typing import Any

import pytest

from defib.model import medik8s
from defib.model.incident import INCIDENTS
from defib.model.node import OUT_OF_SERVICE, TAINTED_BY_US
from tests.simulation.shape import HOME
from tests.simulation.tales import CHECK, PODS, POWER, PROOF, Tale, check_spec, fenced, lease
from tests.simulation.world import LEASES

POD = "/api/v1/namespaces/shop/pods/db-0"
FORCED = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}


# I1


def take_pod(tale: Tale, **more: Any) -> Tale:
    tale.asks("GET", POD)
    tale.asks("DELETE", POD, FORCED, **more)
    return tale


def test_a_pod_that_must_not_run_twice_is_taken_by_force_only_after_a_proof() -> None:
    assert take_pod(fenced()).broken() == ["I1"]
    assert take_pod(fenced(proof=PROOF)).broken() == []


def test_a_proof_of_a_grade_that_is_not_accepted_is_none() -> None:
    assert take_pod(fenced(proof={"grade": "C"})).broken() == ["I1"]
    assert take_pod(fenced(proof={"grade": "D"})).broken() == []


def test_a_pod_that_still_runs_is_not_taken_whatever_was_proved() -> None:
    assert take_pod(fenced(proof=PROOF), runs_there=True).broken() == ["I1"]


def test_a_request_that_means_another_pod_takes_nothing() -> None:
    tale = fenced()
    tale.asks("GET", POD)
    tale.asks("DELETE", POD, {"gracePeriodSeconds": 0, "preconditions": {"uid": "an earlier one"}})
    assert tale.broken() == []


def test_a_pod_whose_disk_many_may_write_to_may_be_taken_without_a_proof() -> None:
    def tale(modes: list[str]) -> list[str]:
        told = fenced()
        spec = {"nodeName": "n1", "volumes": [{"persistentVolumeClaim": {"claimName": "files"}}]}
        told.put("pods", {"metadata": {"name": "db-0", "namespace": "shop", "uid": "u"}, "spec": spec})
        claim = {"metadata": {"name": "files", "namespace": "shop"}, "spec": {"accessModes": modes}}
        told.put("persistentvolumeclaims", claim)
        return take_pod(told).broken()

    assert tale(["ReadWriteMany"]) == []
    assert tale(["ReadWriteOnce"]) == ["I1"]
    assert tale([]) == ["I1"]


def test_a_team_may_say_that_nothing_need_be_proved_for_its_pods() -> None:
    def tale(proofs: list[str]) -> Tale:
        told = fenced()
        spec = {"selector": {"matchLabels": {"app": "db"}}, "acceptedProofs": proofs}
        told.put("podfailoverpolicies.defib.dev", {"metadata": {"name": "p", "namespace": "shop"}, "spec": spec})
        return take_pod(told)

    assert tale(["None"]).broken() == []
    assert tale(["A"]).broken() == ["I1"]


@pytest.mark.parametrize("proof", [None, PROOF])
def test_kubernetes_is_told_that_nothing_runs_on_a_node_only_after_a_proof(proof: dict[str, str] | None) -> None:
    tale = fenced(proof=proof)
    known = tale.there("nodes", "n1")
    tale.asks("PATCH", "/api/v1/nodes/n1", {})
    meta = known["metadata"] | {"annotations": {TAINTED_BY_US: "now"}}
    tale.put("nodes", {**known, "metadata": meta, "spec": {"taints": [{"key": OUT_OF_SERVICE}]}}, by="r0")
    assert tale.broken() == ([] if proof else ["I1"])


@pytest.mark.parametrize("proof", [None, PROOF])
def test_a_volume_is_detached_only_after_a_proof(proof: dict[str, str] | None) -> None:
    tale = fenced(proof=proof)
    tale.put("volumeattachments.storage.k8s.io", {"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}})
    tale.asks("DELETE", "/apis/storage.k8s.io/v1/volumeattachments/a", {"preconditions": {"uid": "u"}})
    assert tale.broken() == ([] if proof else ["I1"])


def test_a_proof_that_somebody_wipes_while_we_act_on_it_was_there() -> None:
    def tale(seconds: float) -> list[str]:
        told = fenced(proof=PROOF)
        told.is_in("n1", "FreeingWorkloads")
        return take_pod(told.after(seconds)).broken()

    assert tale(1) == []
    assert tale(30) == ["I1"]


# I2


def test_a_node_that_somebody_else_has_locked_is_not_touched_until_that_is_over() -> None:
    tale = Tale()
    tale.falls_ill("n1")
    tale.locks("n1", "somebody", seconds=30)
    tale.begins("n1")
    assert tale.broken() == ["I2"]
    later = Tale()
    later.falls_ill("n1")
    later.locks("n1", "somebody", seconds=30)
    later.after(31).locks("n1")
    later.begins("n1")
    assert later.broken() == []


def test_a_remediation_begins_under_a_lock_of_ours() -> None:
    tale = Tale()
    tale.falls_ill("n1")
    tale.begins("n1")
    assert tale.broken() == ["I2"]


def test_a_lock_that_somebody_takes_away_in_that_moment_was_held_all_the_same() -> None:
    tale = Tale()
    tale.falls_ill("n1")
    tale.locks("n1")
    tale.after(1).drop(LEASES, f"{medik8s.LOCK_NAMESPACE}/node-n1")
    tale.begins("n1")
    assert tale.broken() == []
    tale.after(61).begins("n2")
    assert tale.broken() == ["I2"]


def test_a_node_has_one_remediation_of_a_kind_and_of_one_check() -> None:
    def twice(resource: str, **more: Any) -> list[str]:
        tale = Tale()
        tale.falls_ill("n1")
        tale.locks("n1")
        tale.begins("n1", PODS, **more)
        tale.after(100).begins("n1", resource)
        return tale.broken()

    assert twice(PODS) == ["I2"]
    assert twice(POWER) == []  # the next step of a ladder
    assert twice(POWER, owner="another") == ["I2"]
    assert twice(PODS, owner="") == ["I2"]


# I3


def begun(names: str, spec: dict[str, Any], seconds: float = 1.0) -> list[str]:
    tale = Tale(spec=spec)
    for name in names.split():
        tale.falls_ill(name)
        tale.locks(name)
    for name in names.split():
        tale.after(seconds).begins(name)
    return tale.broken()


def test_no_more_nodes_are_in_flight_than_the_check_allows() -> None:
    assert begun("n1 n2 n3", {"guards": {"maxInFlight": 2}}) == ["I3"]
    assert begun("n1 n2", {"guards": {"maxInFlight": 2}}) == []
    assert begun("n1 n2 n3", {"guards": {"maxInFlight": "40%"}}) == ["I3"]  # of 5
    assert begun("n1 n2", {"guards": {"maxInFlight": "40%"}}) == []


def test_no_more_nodes_of_a_failure_domain_are_in_flight_than_the_check_allows() -> None:
    zones = {"guards": {"failureDomains": [{"label": "zone", "maxInFlight": 1}]}}
    assert begun("n1 n3", zones) == ["I3"]
    assert begun("n1 n2", zones) == []


def test_a_limit_that_was_lowered_a_moment_ago_may_not_be_known_yet() -> None:
    def tale(seconds: float) -> list[str]:
        told = Tale(spec={"guards": {"maxInFlight": 2}})
        for name in ("n1", "n2"):
            told.falls_ill(name)
            told.locks(name)
        told.begins("n1")
        known = told.there(medik8s.CHECKS, CHECK)
        told.put(medik8s.CHECKS, {**known, "spec": check_spec({"guards": {"maxInFlight": 1}})})
        told.after(seconds).begins("n2")
        return told.broken()

    assert tale(5) == []
    assert tale(90) == ["I3"]


def test_nothing_new_begins_while_fewer_nodes_are_healthy_than_the_check_asks_for() -> None:
    def tale(ill: str, seconds: float) -> list[str]:
        told = Tale(spec={"maxUnhealthy": None, "minHealthy": 3})
        for name in ill.split():
            told.falls_ill(name)
        told.locks("n1")
        told.after(seconds).begins("n1")
        return told.broken()

    assert tale("n1 n2 n3", 90) == ["I3"]
    assert tale("n1 n2", 90) == []
    assert tale("n1 n2 n3", 5) == []  # it was decided before


def test_no_more_begin_within_a_time_than_the_check_allows() -> None:
    rate = {"guards": {"rateLimit": {"remediations": 2, "per": "10m"}}}
    assert begun("n1 n2 n3", rate) == ["I3"]
    assert begun("n1 n2", rate) == []


@pytest.mark.parametrize(("seconds", "broken"), [(120, ["I3"]), (700, [])])
def test_one_node_does_not_begin_again_and_again(seconds: float, broken: list[str]) -> None:
    tale = Tale(spec={"guards": {"flapDamping": {"remediations": 1, "within": "10m"}}})
    tale.falls_ill("n1")
    tale.locks("n1", seconds=3600)
    tale.drop(POWER, tale.begins("n1"))
    tale.after(seconds).begins("n1")
    assert tale.broken() == broken


# I4


def test_one_node_of_the_control_plane_is_out_at_a_time() -> None:
    def tale(second: str) -> list[str]:
        told = Tale(nodes=6, members=5)
        for name in ("n1", second):
            told.falls_ill(name)
            told.locks(name)
            told.begins(name)
        return told.broken()

    assert tale("n2") == ["I4"]
    assert tale("n6") == []


def test_a_machine_of_the_control_plane_counts_while_its_incident_is_out_although_its_node_is_gone() -> None:
    tale = Tale(nodes=6, members=5)
    tale.put(
        INCIDENTS,
        {"metadata": {"name": "n1"}, "spec": {"node": "n1", "controlPlane": True}, "status": {"phase": "PoweringOff"}},
    )
    tale.drop("nodes", "n1")
    tale.falls_ill("n2")
    tale.locks("n2")
    tale.begins("n2")
    assert tale.broken() == ["I4"]


def test_a_member_without_which_etcd_has_no_quorum_is_left_alone() -> None:
    def tale(ill: str) -> list[str]:
        told = Tale(nodes=6, members=3)
        for name in ill.split():
            told.falls_ill(name)
        told.locks("n1")
        told.after(90).begins("n1")
        return told.broken()

    assert tale("n1 n2") == ["I4"]
    assert tale("n1") == []


# I5


def silent(names: str) -> Tale:
    tale = Tale()
    for number in range(1, 6):
        tale.put(LEASES, lease("kube-node-lease", f"n{number}", f"n{number}", 0.0, 40))
    tale.falls_ill("n1")
    tale.locks("n1")
    tale.is_in("n1", "PoweringOff", command={"power": "off"})
    tale.after(120)
    for number in range(1, 6):
        if f"n{number}" not in names.split():
            tale.put(LEASES, lease("kube-node-lease", f"n{number}", f"n{number}", tale.at, 40))
    return tale


def test_nothing_is_destroyed_while_most_heartbeats_are_long_overdue() -> None:
    for names, broken in (("n1 n2 n3", ["I5"]), ("n1 n2", [])):
        begins, switches = silent(names), silent(names)
        begins.begins("n1")
        switches.switches("n1", "off")
        assert begins.broken() == switches.broken() == broken


@pytest.mark.parametrize(("seconds", "broken"), [(70.0, ["I5"]), (20.0, [])])
def test_nothing_is_destroyed_by_whoever_has_long_been_blind(seconds: float, broken: list[str]) -> None:
    tale = silent("n1")
    tale.switches("n1", "off", blind_seconds=seconds)
    assert tale.broken() == broken


@pytest.mark.parametrize(("seconds", "broken"), [(70.0, ["I5"]), (5.0, [])])
def test_nothing_is_destroyed_while_the_brake_is_on(seconds: float, broken: list[str]) -> None:
    tale = Tale().after(100)
    tale.falls_ill("n1")
    tale.locks("n1")
    tale.put("configmaps", {"metadata": {"name": "defib-brake", "namespace": HOME}})
    tale.after(seconds).begins("n1")
    assert tale.broken() == broken


# I6


def test_a_live_look_precedes_what_is_deleted_and_the_uid_is_named() -> None:
    assert take_pod(fenced(proof=PROOF)).broken() == []
    unseen = fenced(proof=PROOF)
    unseen.asks("DELETE", POD, FORCED)
    assert unseen.broken() == ["I6"]
    unnamed = fenced(proof=PROOF)
    unnamed.asks("GET", POD)
    unnamed.asks("DELETE", POD, {"gracePeriodSeconds": 0})
    assert unnamed.broken() == ["I6"]
