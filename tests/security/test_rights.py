"""The rights that the chart gives are those that Defib uses: not one more, and not one less.

The whole operator makes tours on an embedded API server that knows the roles of the rendered chart and refuses the rest.
That it judges as a real API server does is for test_roles_on_a_real_server.py.
"""

import logging
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from defib.config import load
from testbed.chart import WITH_AGENTS, objects, render
from tests.e2e.as_deployed import as_deployed
from tests.security.guarded import Guard, made
from tests.security.roles import Asked, Right, allowed, rights_of
from tests.security.tours import SERVES, TOURS, an_old_server_with_every_kind

pytestmark = pytest.mark.timeout(60)

READS = frozenset({"get", "list", "watch"})
# With and without agents: the default check names another template then.
WITHOUT_AGENTS = {"features.metal3": True, "features.nodekeeper": True, "election": "endpoints"}
EVERYTHING = {**WITHOUT_AGENTS, **WITH_AGENTS}
FEATURES = ("checks", "defaultCheck", "podFailover", "powerCycle", "drains", "metal3", "nodekeeper")

# Rights that no request of Defib's own uses, with what they are for, and what proves that.
FOR_OTHERS = {
    Right("remediate", "machines.machine.openshift.io"): "asked by the API server itself, in an admission policy: "
    "tests/e2e/test_power_cycle_admission.py::test_rm_36_defib_and_openshifts_own_controllers_may_do_both",
    Right("remediate", "machines.cluster.x-k8s.io"): "the same",
    Right(
        "update", "podfailoverremediations.defib.dev"
    ): "for the NodeHealthCheck operator of medik8s, which gets it by a label: "
    "tests/e2e/test_operator_role.py::test_the_health_check_operator_of_medik8s_could_drive_our_remediators",
    Right("update", "powercycleremediations.defib.dev"): "the same",
    Right("update", "selffenceremediations.defib.dev"): "the same",
}
# A Role needs its namespace, and a release that only watches does not make that of the locks: it tells once that it does
# not see who works on nodes, and asks again at an even pace.
OUT_OF_SIGHT = {f"{verb} leases.coordination.k8s.io in medik8s-leases" for verb in ("list", "watch")}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What an operator says on a long tour nobody reads here, and it takes longer to write than the tour."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@cache
def granted(helm: Path, **values: object) -> frozenset[Right]:
    return rights_of(objects(render(helm, {"namespace.create": True, **values})))


def everything(helm: Path) -> frozenset[Right]:
    return granted(helm, **EVERYTHING) | granted(helm, **WITHOUT_AGENTS)


@cache
def recorded(helm: Path, tour: str) -> Guard:
    return made(TOURS[tour], everything(helm))


def used(helm: Path) -> frozenset[Asked]:
    return frozenset[Asked]().union(*(recorded(helm, tour).used for tour in TOURS))


def is_part_of_another(right: Right, rights: frozenset[Right]) -> bool:
    """Whoever may list things sees all that `get` shows of them, so that one adds nothing."""
    wider = {Right("list", right.resource, right.subresource, place) for place in ("", right.namespace)}
    return right.verb == "get" and not wider.isdisjoint(rights)


@pytest.mark.parametrize("tour", TOURS)
def test_nothing_is_asked_that_is_not_granted(helm: Path, tour: str) -> None:
    recording = recorded(helm, tour)
    assert recording.refused == []
    assert recording.used


def test_nothing_is_granted_that_is_not_used(helm: Path) -> None:
    rights = everything(helm)
    seen = used(helm)
    unused = {right for right in rights if not any(right.allows(asked) for asked in seen)}
    unused = {right for right in unused if not is_part_of_another(right, rights)}
    assert unused == FOR_OTHERS.keys()


def test_without_any_one_right_something_that_was_recorded_would_be_refused(helm: Path) -> None:
    rights = everything(helm)
    seen = used(helm)
    idle = {
        right
        for right in rights - FOR_OTHERS.keys()
        if not is_part_of_another(right, rights) and all(allowed(rights - {right}, asked) for asked in seen)
    }
    assert idle == set()


# Where a right that is taken away would do most harm unnoticed: the tour is made again without it, and ends there.
MISSED = {
    "a first start": ("create namespaces", "create nodehealthchecks.remediation.medik8s.io"),
    "a first start with agents": (
        "patch leases.coordination.k8s.io in defib-system",
        "create selffenceremediationtemplates.defib.dev",
        "patch selffenceremediations.defib.dev",
    ),
    "a node is deleted on an old API server": ("delete nodes", "patch nodeincidents.defib.dev/status", "list nodes"),
    "pods leave by a policy": ("patch podfailoverpolicies.defib.dev/status", "create events"),
    "a drain in which everything is tried": ("create pods/eviction", "patch pods"),
    "an election by Endpoints": ("create endpoints in defib-system", "patch endpoints in defib-system (defib-leader)"),
    "leftovers of a check": ("delete podfailoverremediations.defib.dev",),
}


@pytest.mark.parametrize(("tour", "missing"), [(tour, one) for tour, many in MISSED.items() for one in many])
def test_a_tour_without_a_right_is_refused_and_says_which(helm: Path, tour: str, missing: str) -> None:
    rights = everything(helm)
    (taken,) = (right for right in rights if str(right) == missing)
    left = rights - {taken}
    refused = made(TOURS[tour], left).refused
    what = Asked(taken.verb, taken.resource, taken.subresource)
    assert [one for one in refused if one.startswith(str(what))], refused


@pytest.mark.parametrize("feature", FEATURES)
def test_without_a_feature_defib_does_not_ask_for_what_came_with_it(helm: Path, feature: str) -> None:
    off = {f"features.{feature}": False} | ({"features.defaultCheck": False} if feature == "podFailover" else {})
    lacks_nothing_without({**WITHOUT_AGENTS, "election": "lease", **off}, helm)


def test_without_agents_defib_does_not_ask_for_what_came_with_them(helm: Path) -> None:
    lacks_nothing_without({**WITHOUT_AGENTS, "election": "lease"}, helm)
    assert not [right for right in granted(helm, **WITHOUT_AGENTS) if right.resource.startswith("selffence") and right.verb not in READS]  # fmt: skip


def lacks_nothing_without(values: dict[str, object], helm: Path) -> None:
    rights = granted(helm, **values)
    assert rights < everything(helm)
    assert made(partial(an_old_server_with_every_kind, **settings_of(helm, values)), rights).refused == []


def test_where_it_only_watches_every_right_is_to_read_and_nothing_else_is_asked(helm: Path) -> None:
    values = {"mode": "watch", "replicas": 1}
    rights = granted(helm, **values)
    assert {right.verb for right in rights} == READS
    assert not [right for right in rights if right.resource in ("secrets", "persistentvolumeclaims")]
    refused = made(partial(an_old_server_with_every_kind, **settings_of(helm, values)), rights).refused
    assert set(refused) <= OUT_OF_SIGHT


def settings_of(helm: Path, values: Mapping[str, object]) -> dict[str, Any]:
    """Of the operator that the chart starts with these values, as far as they say what it does."""
    _, environment = as_deployed(objects(render(helm, values)))
    said = load({}, {name: value for name, value in environment.items() if name.startswith("DEFIB_")}, str)
    serves = SERVES if "metal3" in said.remedies and "power-cycle" in said.remedies else ()
    return {
        "remedies": said.remedies,
        "pod_failover_policies": said.pod_failover_policies,
        "health_checks": said.health_checks,
        "watch_only": said.watch_only,
        "serves": serves,
    }
