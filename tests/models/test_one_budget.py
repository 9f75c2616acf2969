"""I3 and I4, in every order of events: never more in flight than a budget allows, whoever leads, whatever is not heard."""

import os

import msgspec
import pytest

from defib.model import medik8s
from defib.model.action import StartRemediation
from defib.model.cluster import Cluster
from defib.model.health_check import NodeHealthCheck
from tests.models.explore import Explored, explore
from tests.models.one_budget import ONE_EACH, ONE_OF_THE_CONTROL_PLANE, ONE_PER_DOMAIN, Guarded, Way, model

TROUBLES = int(os.environ.get("TROUBLES", "0"))  # so many more than usual; one more takes a minute

change = msgspec.structs.replace


def told(guarded: Guarded, way: Way) -> Explored:
    found = explore(model(guarded, way))
    print(f"one budget: {found}")  # noqa: T201  how much was tried
    return found


@pytest.mark.timeout(0)  # as many troubles as somebody asks for
@pytest.mark.parametrize(
    "guarded", [ONE_EACH, ONE_PER_DOMAIN, ONE_OF_THE_CONTROL_PLANE], ids=["check", "domain", "quorum"]
)
def test_never_more_in_flight_than_the_budget(guarded: Guarded) -> None:
    found = told(guarded, Way(turns=2 + TROUBLES))
    assert found.wrong == "", str(found)
    assert found.states > 1_000


def test_what_may_have_been_done_must_be_remembered_until_it_is_seen() -> None:
    """If the executor forgot it as soon as it is not wanted any more, a watch that is behind would give its place away."""
    found = told(ONE_EACH, Way(forgets_unwanted=True))
    assert "has 2 in flight" in found.wrong


# Mistakes.


def one_more(cluster: Cluster) -> Cluster:
    """As if `<` were `<=` where remediations are counted."""
    checks = {
        name: change(check, spec=check.spec | {"guards": {"maxInFlight": 2}})
        for name, check in cluster.all_of(medik8s.CHECKS, NodeHealthCheck).items()
    }
    return change(cluster, others={**cluster.others, medik8s.CHECKS: checks})


def forgets_what_is_unsure(cluster: Cluster) -> Cluster:
    return change(cluster, failures={})


def forgets_what_is_under_way(cluster: Cluster) -> Cluster:
    kept = tuple(action for action in cluster.underway if not isinstance(action, StartRemediation))
    return change(cluster, underway=kept)


WRONG: dict[str, Way] = {
    "one more than the limit": Way(sees=one_more),
    "what may have been done is not counted": Way(sees=forgets_what_is_unsure),
    "what is under way is not counted": Way(sees=forgets_what_is_under_way),
    "a new leader does not catch up": Way(catches_up=False),
    "the mandate is ignored": Way(needs_mandate=False),
}


@pytest.mark.timeout(120)  # on a busy machine
@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_would_be_noticed(mistake: str) -> None:
    assert told(ONE_EACH, WRONG[mistake]).wrong


@pytest.mark.parametrize("mistake", [one for one in WRONG if one != "one more than the limit"])
def test_a_mistake_would_be_noticed_in_the_control_plane(mistake: str) -> None:
    assert "in flight" in told(ONE_OF_THE_CONTROL_PLANE, WRONG[mistake]).wrong
