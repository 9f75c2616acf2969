"""PowerCycleRemediations: what they ask for, and what is reported back, as a NodeHealthCheck expects it."""

from typing import Any

import msgspec
import pytest

from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.power_cycles import power_cycle_order, report_power_cycle
from defib.model import medik8s
from defib.model.action import ReportRemediation, SetFinalizers
from defib.model.cluster import Cluster
from defib.model.incident import NodeIncident, Outcome, Phase
from defib.model.meta import Meta, OwnerReference, Unstructured
from defib.model.node import NodeSpec
from defib.model.power import PowerPath
from defib.model.power_cycle import FINALIZER, LOCK_HOLDER, REMEDIATION, PowerCycleStatus
from tests.builders import T0, a_node
from tests.unit.decide.fencing.cases import PROOF, a_look, an_incident, change

SPEC = {"power": {"driver": "redfish", "address": "https://{node}", "credentials": {"name": "bmc"}}}
SO = Obstacle("PoweringOff", "it is told to switch off")
CHECK = OwnerReference(
    api_version=medik8s.API_VERSION, kind=medik8s.CHECK_KIND, name="workers", uid="nhc", controller=True
)


def an_item(spec: Any = SPEC, *, status: PowerCycleStatus | None = None, **meta: Any) -> Unstructured:
    usual: dict[str, Any] = {
        "name": "n1",
        "namespace": "ops",
        "uid": "pcr-1",
        "resource_version": "3",
        "generation": 1,
        "finalizers": [FINALIZER],
    }
    return Unstructured(
        api_version=REMEDIATION.api_version,
        kind=REMEDIATION.name,
        metadata=Meta(**(usual | meta)),
        spec=spec,
        status=msgspec.to_builtins(status) if status is not None else None,
    )


def report(
    item: Unstructured, incident: NodeIncident | None = None, so: Obstacle = SO, cluster: Cluster | None = None
) -> tuple[Any, ...]:
    cluster = cluster or a_look()
    return report_power_cycle(item, power_cycle_order(item, cluster), incident, so, cluster)


def standing(item: Unstructured, incident: NodeIncident | None = None, so: Obstacle = SO) -> tuple[str, str]:
    """What Processing and Succeeded say."""
    (written,) = report(item, incident, so)
    assert isinstance(written, ReportRemediation)
    conditions = {one["type"]: one["status"] for one in written.status["conditions"]}
    return conditions["Processing"], conditions["Succeeded"]


def reported(item: Unstructured, incident: NodeIncident | None = None, so: Obstacle = SO) -> Unstructured:
    (written,) = report(item, incident, so)
    status = {key: value for key, value in written.status.items() if value is not None}
    return change(item, status=status)


# Orders


def test_a_remediation_asks_for_the_node_of_its_name() -> None:
    order = power_cycle_order(an_item(), a_look())
    assert (order.node, order.name, order.cause.uid) == ("n1", "n1", "pcr-1")
    assert order.path == PowerPath(driver="redfish", address="https://n1", secret="ops/bmc", options={})
    assert (order.withdrawn, order.is_over, order.is_held, order.obstacle) == ("", False, True, None)


def test_a_remediation_with_a_made_up_name_says_for_which_node_it_is() -> None:
    """Several templates of one kind."""
    item = an_item(name="workers-x7k2p", annotations={medik8s.NODE_NAME: "n1"})
    assert power_cycle_order(item, a_look()).node == "n1"


def test_a_node_that_is_not_there_is_told() -> None:
    order = power_cycle_order(an_item(), a_look(node=None))
    assert order.obstacle == Obstacle("NodeNotFound", "there is no node n1")


def test_a_spec_that_makes_no_sense_is_told_in_full() -> None:
    order = power_cycle_order(an_item({"power": {"driver": 1}, "attempts": 0}), a_look())
    assert isinstance(order.path, Obstacle)
    assert order.path.reason == "InvalidSpec"
    assert "spec.power.driver: must be a text" in order.path.message
    assert "spec.attempts: must be from 1 to 10" in order.path.message


def test_a_remediation_of_a_check_is_for_a_node_that_had_failed_and_under_its_lock() -> None:
    order = power_cycle_order(an_item(owner_references=[CHECK]), a_look())
    assert order.unless_ready
    assert order.lock_holder == medik8s.holder_of("workers")
    alone = power_cycle_order(an_item(), a_look())
    assert not alone.unless_ready
    assert alone.lock_holder == LOCK_HOLDER


def test_rm23_a_remediation_that_is_deleted_or_out_of_time_is_withdrawn() -> None:
    """RM-23."""
    assert "deleted" in power_cycle_order(an_item(deletion_timestamp=T0), a_look()).withdrawn
    assert "time" in power_cycle_order(an_item(annotations={medik8s.TIMED_OUT: "now"}), a_look()).withdrawn


def test_what_has_succeeded_asks_for_nothing_more() -> None:
    """RM-15: no second power cycle, however often it is looked at."""
    closed = an_incident(Phase.CLOSED, outcome=Outcome.RECOVERED)
    done = reported(an_item(), closed)
    assert power_cycle_order(done, a_look()).is_over
    edited = change(done, metadata=change(done.metadata, generation=2))
    assert power_cycle_order(edited, a_look()).is_over


def test_what_has_failed_may_begin_anew_when_it_is_corrected() -> None:
    failed = reported(an_item(), an_incident(Phase.NEEDS_PERSON))
    assert power_cycle_order(failed, a_look()).is_over
    corrected = change(failed, metadata=change(failed.metadata, generation=2))
    assert not power_cycle_order(corrected, a_look()).is_over


# Reports


def test_it_is_held_before_anything_is_done_for_it() -> None:
    (hold,) = report(an_item(finalizers=["other"]))
    assert isinstance(hold, SetFinalizers)
    assert (hold.finalizers, hold.version) == (("other", FINALIZER), "3")


@pytest.mark.parametrize(
    ("phase", "status"),
    [
        (Phase.OPEN, ("True", "Unknown")),
        (Phase.POWERING_OFF, ("True", "Unknown")),
        (Phase.RESTING, ("True", "Unknown")),
        (Phase.CANCELLING, ("True", "Unknown")),
        (Phase.NEEDS_PERSON, ("False", "False")),
    ],
)
def test_it_is_processed_until_it_is_over_or_a_persons(phase: Phase, status: tuple[str, str]) -> None:
    assert standing(an_item(), an_incident(phase)) == status


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.RECOVERED, ("False", "True")),
        (Outcome.CANCELLED, ("False", "False")),
        (Outcome.REPLACED, ("False", "False")),
    ],
)
def test_it_has_succeeded_when_the_node_is_back(outcome: Outcome, status: tuple[str, str]) -> None:
    assert standing(an_item(), an_incident(Phase.CLOSED, outcome=outcome)) == status


def test_a_spec_that_makes_no_sense_has_failed() -> None:
    """The NodeHealthCheck goes on to its next template at once."""
    assert standing(an_item({}), None, Obstacle("InvalidSpec", "spec.power: must be given")) == ("False", "False")


def test_how_it_stands_can_be_read() -> None:
    (written,) = report(an_item(), an_incident(Phase.FREEING, attempt=2, proof=PROOF))
    status = written.status
    assert (status["node"], status["phase"], status["attempt"], status["proof"]) == ("n1", "FreeingWorkloads", 2, "A")
    assert status["reason"] == SO.message
    assert {one["reason"] for one in status["conditions"]} == {SO.reason}


def test_what_was_said_once_is_not_said_again() -> None:
    item = reported(an_item(), an_incident(Phase.POWERING_OFF))
    assert report(item, an_incident(Phase.POWERING_OFF)) == ()
    assert report(item, an_incident(Phase.FREEING)) != ()


def test_what_is_over_keeps_its_words_when_its_incident_is_gone() -> None:
    """The next incident of the node has taken its place."""
    done = reported(an_item(), an_incident(Phase.CLOSED, outcome=Outcome.RECOVERED))
    assert standing(done, None, Obstacle("NotStarted", "nothing was begun")) == ("False", "True")


@pytest.mark.parametrize("phase", [None, Phase.CLOSED, Phase.NEEDS_PERSON])
def test_rm23_a_deleted_remediation_is_let_go_when_nothing_is_left_to_undo(phase: Phase | None) -> None:
    """RM-23."""
    item = an_item(deletion_timestamp=T0, finalizers=["other", FINALIZER])
    (let_go,) = report(item, an_incident(phase) if phase is not None else None)
    assert isinstance(let_go, SetFinalizers)
    assert let_go.finalizers == ("other",)
    assert report(an_item(deletion_timestamp=T0, finalizers=["other"])) == ()


@pytest.mark.parametrize("phase", [Phase.POWERING_OFF, Phase.CANCELLING, Phase.RESTORING])
def test_rm23_a_deleted_remediation_is_held_while_there_is_something_to_undo(phase: Phase) -> None:
    """RM-23."""
    actions = report(an_item(deletion_timestamp=T0), an_incident(phase))
    assert not any(isinstance(action, SetFinalizers) for action in actions)


def test_a_status_that_makes_no_sense_is_written_anew() -> None:
    item = change(an_item(), status={"conditions": "none"})
    assert standing(item, an_incident(Phase.POWERING_OFF)) == ("True", "Unknown")


def test_a_host_that_another_node_claims_too_is_not_touched() -> None:
    """A kubelet that registers chooses its provider ID: it must not have the machine of another node switched off."""
    item = an_item({"power": {"driver": "metal3"}})
    known, liar = (
        change(a_node(name), spec=NodeSpec(provider_id=f"metal3://metal/{host}/m3m"))
        for name, host in (("master-0", "master-0"), ("n1", "master-0"))
    )
    order = power_cycle_order(item, Cluster(now=T0, nodes={"n1": liar, "master-0": known}))
    assert isinstance(order.path, Obstacle)
    assert order.path.reason == "SharedPowerPath"
    assert "is also that of master-0" in order.path.message
    honest = change(liar, spec=NodeSpec(provider_id="metal3://metal/n1/m3m"))
    assert isinstance(power_cycle_order(item, Cluster(now=T0, nodes={"n1": honest, "master-0": known})).path, PowerPath)
