"""What the status of a DrainPolicy says: whether it makes sense, its drains, what they may take yet, and delays."""

from typing import Any

import pytest

from defib.decide.drains.intents.openshift import NAMESPACE, POOLS, STATE, UPGRADE_CONFIGS
from defib.model.cluster import Cluster, Served
from defib.model.meta import Meta, Unstructured
from tests.unit.decide.drains.ward import a_budget, a_parked_node, a_web_pod
from tests.unit.decide.drains.wing import a_wing, drained, entry, planned, policy, record, said, told
from tests.unit.decide.failover.failovers import change

POD = a_web_pod()
HOUR_SECONDS = 3600  # of one drain with the times of these policies
WORKER = {"node-role.kubernetes.io/worker": ""}


def status_of(cluster: Cluster) -> dict[str, Any]:
    status = said(planned(cluster))
    assert status is not None
    return status


def test_drains_are_counted_as_they_stand() -> None:
    nodes = [*drained("n1", minutes=40), *drained("n2", minutes=10), *drained("n3", minutes=5)]
    pods = [POD, a_web_pod("web-2", node="n2")]
    records = [record("n1", minutes=40, phase="Forcing", begun=True), record("n2", minutes=10), record("n3", minutes=5)]
    status = status_of(a_wing(nodes, *pods, records=records))
    assert [status[name] for name in ("draining", "forcing", "failed")] == [3, 1, 1]
    assert status["estimateSeconds"] == 2 * HOUR_SECONDS  # the third is empty


def test_what_stands_there_already_is_not_written_again() -> None:
    cluster = a_wing(drained(minutes=10), POD, records=[record(minutes=10)])
    first = {name: value for name, value in status_of(cluster).items() if value is not None}
    item = change(policy(), status=first)
    assert said(planned(a_wing(drained(minutes=10), POD, records=[record(minutes=10)], policies=[item]))) is None


def test_a_policy_that_makes_no_sense_says_why() -> None:
    status = status_of(a_wing(drained(), POD, policies=[policy(timeout="soon", maxForcedNodes="many")]))
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Valid", "False", "InvalidSpec")
    assert "spec.timeout" in condition["message"]
    assert "spec.maxForcedNodes" in condition["message"]
    assert (status["draining"], status["estimateSeconds"]) == (0, None)


@pytest.mark.parametrize(
    ("spec", "seconds"), [({}, 3600), ({"timeout": "90m"}, 98 * 60), ({"pdbForceDrainTimeout": "0s"}, 38 * 60)]
)
def test_dk_29_the_estimate_is_the_longer_of_both_times_and_what_is_expected(
    spec: dict[str, str], seconds: int
) -> None:
    cluster = a_wing(drained(minutes=5), POD, records=[record(minutes=5)], policies=[policy(**spec)])
    assert status_of(cluster)["estimateSeconds"] == seconds


def test_dk_29_a_drain_of_which_the_pods_are_not_in_sight_counts_too() -> None:
    cluster = a_wing(drained(minutes=5), records=[record(minutes=5)])
    hidden = change(
        cluster, others={name: there for name, there in cluster.others.items() if not name.startswith("pods")}
    )
    assert status_of(hidden)["estimateSeconds"] == HOUR_SECONDS


def upgraded(cluster: Cluster, version: str = "4.20.1", updated: int = 2) -> Cluster:
    """The managed-upgrade-operator is at work on a pool of five."""
    config = Unstructured(
        metadata=Meta(name="managed-upgrade-config", namespace=NAMESPACE),
        spec={"desired": {"version": version}},
        status={"history": [{"version": version, "phase": "Upgrading"}]},
    )
    pool = Unstructured(
        metadata=Meta(name="worker"),
        spec={"nodeSelector": {"matchLabels": WORKER}},
        status={"machineCount": 5, "updatedMachineCount": updated},
    )
    kinds = {
        **cluster.kinds,
        UPGRADE_CONFIGS: Served("configs", namespaced=True),
        POOLS: Served("pools", namespaced=False),
    }
    others = {**cluster.others, "configs": {config.key: config}, "pools": {pool.key: pool}}
    return change(cluster, kinds=kinds, others=others)


def an_upgrade(minutes: float = 65, *, spec: dict[str, Any] | None = None, delayed: str = "") -> Cluster:
    node = a_parked_node("n1", minutes=minutes, labels=WORKER, annotations={STATE: "Working"})
    known = change(policy(**spec or {}), status={"delayed": delayed} if delayed else None)
    forcing = record(minutes=minutes, phase="Forcing", begun=True, pods=[entry(POD, "Delete")])
    return upgraded(a_wing([node], POD, records=[forcing], budgets=[a_budget()], policies=[known]))


def test_dk_29_in_an_upgrade_the_nodes_count_that_are_not_updated_yet() -> None:
    assert status_of(upgraded(a_wing([])))["estimateSeconds"] == 3 * HOUR_SECONDS
    assert status_of(upgraded(a_wing([]), updated=5))["estimateSeconds"] == 0


def test_dk_19_that_budgets_delay_an_upgrade_is_told_when_pods_are_deleted_past_them() -> None:
    late, early = planned(an_upgrade()), planned(an_upgrade(40))
    assert (told(late).count("UpgradeDelayed"), told(early).count("UpgradeDelayed")) == (1, 0)
    assert status_of(an_upgrade())["delayed"] == "4.20.1"


def test_dk_19_it_is_told_once_for_each_upgrade() -> None:
    assert "UpgradeDelayed" not in told(planned(an_upgrade(delayed="4.20.1")))
    assert "UpgradeDelayed" in told(planned(an_upgrade(delayed="4.19.7")))


@pytest.mark.parametrize("spec", [{"mode": "Observe"}, {"mode": "Approve"}])
def test_dk_19_whoever_deletes_nothing_does_not_tell_that_it_does(spec: dict[str, Any]) -> None:
    assert "UpgradeDelayed" not in told(planned(an_upgrade(spec=spec)))
