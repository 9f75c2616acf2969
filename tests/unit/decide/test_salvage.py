"""What the status of a NodeHealthCheck remembers, whoever wrote it and whatever has become of it."""

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.decide.reading import read_status
from defib.model.health_check import Began, CheckStatus, NodeHealthCheck, ObjectRef, StartedRemediation, UnhealthyNode
from tests.builders import MINUTE, T0

AT, LATER = "2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z"

# In the middle of an escalation, as the Go operator of upstream leaves it.
OF_THE_GO_OPERATOR = """
{
  "observedNodes": 3,
  "healthyNodes": 2,
  "inFlightRemediations": {"n1": "2030-01-01T00:00:00Z"},
  "lastUpdateTime": "2030-01-01T00:01:00Z",
  "phase": "Remediating",
  "reason": "NHC is remediating 1 nodes",
  "conditions": [
    {"type": "Disabled", "status": "False", "reason": "NodeHealthCheckEnabled", "message": "",
     "lastTransitionTime": "2030-01-01T00:00:00Z"}
  ],
  "unhealthyNodes": [
    {
      "name": "n1",
      "conditionsHealthyTimestamp": "2030-01-01T00:01:00Z",
      "healthyDelayed": true,
      "remediations": [
        {"resource": {"apiVersion": "self-node-remediation.medik8s.io/v1alpha1", "kind": "SelfNodeRemediation",
                      "namespace": "openshift-workload-availability", "name": "n1-h2x4q", "uid": "u-1"},
         "started": "2030-01-01T00:00:00Z", "timedOut": "2030-01-01T00:01:00Z", "templateName": "reboot"},
        {"resource": {"apiVersion": "machine-deletion-remediation.medik8s.io/v1alpha1",
                      "kind": "MachineDeletionRemediation",
                      "namespace": "openshift-workload-availability", "name": "n1", "uid": "u-2"},
         "started": "2030-01-01T00:01:00Z"}
      ]
    }
  ]
}
"""


def remembered(status: Any) -> CheckStatus:
    return read_status(NodeHealthCheck(status=status))


def test_what_the_go_operator_wrote_is_read_in_full() -> None:
    status = remembered(json.loads(OF_THE_GO_OPERATOR))
    assert (status.observed_nodes, status.healthy_nodes, status.last_update_time) == (3, 2, T0 + MINUTE)
    assert (status.phase, status.reason) == ("Remediating", "NHC is remediating 1 nodes")
    disabled = status.condition("Disabled")
    assert disabled is not None
    assert (disabled.status, disabled.reason, disabled.last_transition_time) == ("False", "NodeHealthCheckEnabled", T0)
    node = status.node("n1")
    assert node is not None
    assert (node.conditions_healthy_timestamp, node.healthy_delayed) == (T0 + MINUTE, True)
    assert node.remediations == [
        StartedRemediation(
            resource=ObjectRef(
                api_version="self-node-remediation.medik8s.io/v1alpha1",
                kind="SelfNodeRemediation",
                namespace="openshift-workload-availability",
                name="n1-h2x4q",
                uid="u-1",
            ),
            started=T0,
            timed_out=T0 + MINUTE,
            template_name="reboot",
        ),
        StartedRemediation(
            resource=ObjectRef(
                api_version="machine-deletion-remediation.medik8s.io/v1alpha1",
                kind="MachineDeletionRemediation",
                namespace="openshift-workload-availability",
                name="n1",
                uid="u-2",
            ),
            started=T0 + MINUTE,
        ),
    ]


@pytest.mark.parametrize("status", [None, {}, [], "Enabled", 5, True, [{"phase": "Enabled"}]], ids=str)
def test_no_status_or_none_at_all_remembers_nothing(status: Any) -> None:
    assert remembered(status) == CheckStatus()


def test_null_is_as_good_as_absent_at_every_depth() -> None:
    resource = dict.fromkeys(["apiVersion", "kind", "namespace", "name", "uid"])
    step = {"resource": resource, "started": None, "timedOut": None, "templateName": None}
    node = {"name": "n1", "remediations": [step], "healthyDelayed": None, "reason": None, "since": None}
    status = remembered({"unhealthyNodes": [node], "phase": None, "conditions": None, "observedNodes": None})
    assert status == CheckStatus(unhealthy_nodes=[UnhealthyNode(name="n1", remediations=[StartedRemediation()])])


@pytest.mark.parametrize("garbled", [None, 5, "n2", [], {}, {"name": 5}, {"remediations": []}], ids=str)
def test_a_garbled_node_is_dropped_and_the_rest_is_kept(garbled: Any) -> None:
    status = remembered({"unhealthyNodes": [{"name": "n1"}, garbled, {"name": "n3"}], "phase": "Enabled"})
    assert [node.name for node in status.unhealthy_nodes or ()] == ["n1", "n3"]
    assert status.phase == "Enabled"


def test_a_garbled_detail_of_a_node_does_not_make_us_forget_its_remediations() -> None:
    step = {"resource": {"name": "n1", "uid": 5}, "started": AT, "timedOut": "yesterday"}
    node = {"name": "n1", "remediations": [step, "garbled"], "healthyDelayed": "maybe", "message": ["?"]}
    kept = StartedRemediation(resource=ObjectRef(name="n1"), started=T0)
    assert remembered({"unhealthyNodes": [node]}).unhealthy_nodes == [UnhealthyNode(name="n1", remediations=[kept])]


def test_a_garbled_condition_is_dropped_and_the_rest_is_kept() -> None:
    status = remembered({"conditions": [{"type": "Disabled"}, {"type": "StormActive", "status": "True"}, 7]})
    assert [condition.type for condition in status.conditions or ()] == ["StormActive"]
    assert status.is_true("StormActive")
    assert not status.is_true("Disabled")


def test_history_without_a_node_or_a_time_is_no_history() -> None:
    history = [{"node": "n1"}, {"started": AT}, {"node": "n1", "started": LATER}, {"node": "n1", "started": "soon"}]
    assert remembered({"history": history}).history == [Began(node="n1", started=T0 + MINUTE)]


@pytest.mark.parametrize(
    "time",
    [
        "2030-01-01T00:00:00",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-10:00",
        1893456000,
        "",
    ],
)
def test_a_time_without_a_zone_or_beyond_reason_was_not_said(time: Any) -> None:
    assert remembered({"lastUpdateTime": time}).last_update_time is None


def test_a_time_of_another_zone_is_the_same_moment() -> None:
    assert remembered({"lastUpdateTime": "2030-01-01T02:00:00+02:00"}).last_update_time == T0


@pytest.mark.parametrize("count", [10**30, 1.5, True, "3", [3]])
def test_a_count_that_is_none_was_not_said(count: Any) -> None:
    assert remembered({"observedNodes": count}).observed_nodes is None


KEYS = (
    *("unhealthyNodes", "conditions", "history", "phase", "lastUpdateTime", "observedNodes", "observedGeneration"),
    *("name", "remediations", "resource", "started", "timedOut", "templateName", "since", "healthyDelayed"),
    *("type", "status", "reason", "lastTransitionTime", "node"),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.datetimes().map(lambda time: f"{time.isoformat()}Z")
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=30,
)


@given(status=JSON)
def test_any_status_can_be_read_written_again_and_reckoned_with(status: Any) -> None:
    found = remembered(status)
    written = msgspec.json.encode(found)
    assert remembered(msgspec.json.decode(written)) == found
    for node in found.unhealthy_nodes or ():
        assert all(step.started is None or step.started + timedelta(days=36500) for step in node.remediations or ())


@given(
    nodes=st.lists(
        st.builds(
            UnhealthyNode,
            name=st.text(min_size=1),
            remediations=st.none() | st.lists(st.builds(StartedRemediation, resource=st.builds(ObjectRef))),
            message=st.text(),
            since=st.none() | st.just(T0),
        )
    )
)
def test_what_we_wrote_is_read_back_as_it_was(nodes: list[UnhealthyNode]) -> None:
    written = CheckStatus(unhealthy_nodes=nodes, history=[Began(node="n1", started=T0)], phase="Remediating")
    assert remembered(msgspec.json.decode(msgspec.json.encode(written))) == written
