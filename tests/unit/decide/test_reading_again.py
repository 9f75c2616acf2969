"""A check that is read again after its status, its annotations or its wish has changed: nothing of before is left in it."""

import msgspec
import pytest

from defib.decide.check_plan import Known
from defib.decide.fencing.policy import read_policy
from defib.decide.reading import read_check, read_check_again
from defib.model.health_check import CheckStatus, NodeHealthCheck
from defib.model.meta import Meta
from tests.builders import T0
from tests.check_corpus import BAD, GOOD, Case, a_step, escalating, simple

FIRST = Meta(name="c", uid="u", resource_version="1", generation=1)
LATER = (
    Meta(name="c", uid="u", resource_version="2", generation=1),
    Meta(name="c", uid="u", resource_version="2", generation=1, annotations={"said": "since"}),
    Meta(name="c", uid="u", resource_version="2", generation=1, deletion_timestamp=T0),
    Meta(name="c", uid="u", resource_version="2", generation=2),
    Meta(name="c", uid="another", resource_version="2", generation=1),
    Meta(name="d", uid="u", resource_version="2", generation=1),
)
CASES = (*GOOD, *BAD)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_whatever_changed_beside_its_wish_it_is_understood_as_at_first_sight(case: Case) -> None:
    was = NodeHealthCheck(metadata=FIRST, spec=case.spec)
    for meta in LATER:
        item = NodeHealthCheck(metadata=meta, spec=case.spec)
        assert read_check_again(item, was, read_check(was)) == read_check(item)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_wish_that_changed_is_read_anew(case: Case) -> None:
    was = NodeHealthCheck(metadata=FIRST, spec=simple())
    item = msgspec.structs.replace(was, metadata=LATER[3], spec=case.spec)
    assert read_check_again(item, was, read_check(was)) == read_check(item)


def test_what_only_looks_alike_to_python_is_read_anew() -> None:
    was = NodeHealthCheck(metadata=FIRST, spec=simple(maxUnhealthy=1))
    item = NodeHealthCheck(metadata=LATER[3], spec=simple(maxUnhealthy=True))
    assert read_check_again(item, was, read_check(was)) == read_check(item) != read_check(was)


def test_a_policy_is_read_once_for_each_node_while_its_spec_is_the_same() -> None:
    power = {"driver": "redfish"}
    spec = {"power": power, "attempts": 2}
    assert read_policy(spec, "n1") is read_policy(spec, "n1")
    assert read_policy(dict(spec), "n1") == read_policy(spec, "n1")
    assert read_policy({"power": power, "attempts": 3}, "n1") != read_policy(spec, "n1")


def test_the_kinds_of_a_ladder_are_known_in_its_order() -> None:
    kinds = ("Fourth", "Second", "Fifth", "First", "Third")
    steps = [a_step(order, kind=f"{kind}Template") for order, kind in enumerate(kinds)]
    item = NodeHealthCheck(metadata=FIRST, spec=escalating(*steps))
    known = Known(item=item, check=read_check(item), status=CheckStatus())
    assert tuple(kind.name for kind in known.makes) == kinds
