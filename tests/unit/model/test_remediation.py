"""What we read of a remediation, whoever made it and whatever a remediator wrote into it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.model import medik8s
from defib.model.health_check import KindRef
from defib.model.meta import Meta, OwnerReference, Unstructured
from defib.model.remediation import Remediation, read_remediation
from tests.builders import T0

KIND = KindRef("self-node-remediation.medik8s.io/v1alpha1", "SelfNodeRemediation")
CHECK = OwnerReference(api_version=medik8s.API_VERSION, kind="NodeHealthCheck", name="workers", uid="u1")
MACHINE = OwnerReference(api_version="machine.openshift.io/v1beta1", kind="Machine", name="m1", uid="u2")


def read(*, status: Any = None, **meta: Any) -> Remediation:
    defaults: dict[str, Any] = {"name": "n1", "namespace": "ns", "uid": "u", "resource_version": "7"}
    return read_remediation(Unstructured(metadata=Meta(**{**defaults, **meta}), status=status), KIND)


def with_conditions(**conditions: str) -> Remediation:
    return read(status={"conditions": [{"type": name, "status": status} for name, status in conditions.items()]})


def test_who_and_where_it_is_and_in_which_version() -> None:
    found = read(creation_timestamp=T0, labels={"a": "b"})
    assert (found.kind, found.namespace, found.name, found.uid, found.version) == (KIND, "ns", "n1", "u", "7")
    assert (found.created, found.labels, found.is_deleting) == (T0, {"a": "b"}, False)
    assert (found.key, str(found)) == ("ns/n1", "SelfNodeRemediation ns/n1")
    assert read(namespace="").key == "n1"


def test_it_is_deleting_while_something_still_holds_it() -> None:
    assert read(deletion_timestamp=T0, finalizers=["someone/finalizer"]).is_deleting


def test_its_node_is_in_the_annotation_and_else_its_own_name() -> None:
    assert read(name="n1-x7b2k", annotations={medik8s.NODE_NAME: "n1"}).node == "n1"
    assert read(name="n1").node == "n1"
    assert read(name="n1", annotations={medik8s.NODE_NAME: ""}).node == "n1"


def test_its_template_is_in_the_annotation_and_else_unknown() -> None:
    assert read(annotations={medik8s.TEMPLATE_NAME: "reboot"}).template == "reboot"
    assert read().template == ""


def test_its_owner_is_the_check_and_not_the_machine() -> None:
    assert read(owner_references=[MACHINE, CHECK]).owner == "workers"
    assert read(owner_references=[MACHINE]).owner == ""
    assert read().owner == ""


def test_a_namesake_kind_of_another_group_is_no_check() -> None:
    other = OwnerReference(api_version="example.com/v1", kind="NodeHealthCheck", name="workers")
    assert read(owner_references=[other]).owner == ""


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_success_is_what_the_remediator_says(status: str) -> None:
    assert with_conditions(Succeeded=status).succeeded == status


def test_success_is_empty_while_nobody_has_said() -> None:
    assert with_conditions(Processing="True").succeeded == ""
    assert read().succeeded == ""


def test_a_node_that_goes_on_purpose_is_waited_for_until_the_remediator_is_done() -> None:
    assert with_conditions(PermanentNodeDeletionExpected="True").waits_for_node_deletion
    assert with_conditions(PermanentNodeDeletionExpected="True", Succeeded="False").waits_for_node_deletion
    assert not with_conditions(PermanentNodeDeletionExpected="True", Succeeded="True").waits_for_node_deletion
    assert not with_conditions(PermanentNodeDeletionExpected="False").waits_for_node_deletion
    assert not read().waits_for_node_deletion


GARBLED: list[Any] = [
    None,
    {},
    {"conditions": None},
    {"conditions": "Succeeded"},
    {"conditions": {"type": "Succeeded", "status": "True"}},
    {"conditions": [None, 5, [], {"type": "Succeeded"}, {"status": "True"}, {"type": "Succeeded", "status": True}]},
]


@pytest.mark.parametrize("status", GARBLED, ids=str)
def test_a_status_that_makes_no_sense_says_nothing(status: Any) -> None:
    assert read(status=status).conditions == {}


def test_one_garbled_condition_does_not_hide_the_others() -> None:
    garbled = {"conditions": [7, {"type": "Succeeded", "status": "False"}, {"type": None, "status": None}]}
    assert read(status=garbled).succeeded == "False"


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(["type", "status", "conditions"]), inner)


LEAVES = st.none() | st.booleans() | st.integers() | st.text()
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | objects(inner))


@given(status=objects(JSON))
def test_any_status_can_be_read(status: dict[str, Any]) -> None:
    assert all(isinstance(word, str) for pair in read(status=status).conditions.items() for word in pair)
