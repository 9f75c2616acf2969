"""All sources together: which counts, how each is switched off, and what is looked at again when something changes."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec
import pytest

from defib.decide.drains.intents import RECOGNISERS, WATCHES, Intents, find_intent, find_intents, kinds_for
from defib.decide.drains.intents.cluster_api import MACHINES
from defib.decide.drains.intents.karpenter import NODE_CLAIMS
from defib.decide.drains.intents.kured import DAEMON_SETS
from defib.decide.drains.intents.openshift import DESIRED_DRAIN
from defib.decide.drains.intents.system_upgrade_controller import PLANS
from defib.decide.upgrade import WATCHES as UPGRADE_WATCHES
from defib.model.cluster import Blindness, Cluster, Wanted
from defib.model.drain_policy import ALL_SOURCES, Source
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.model.node import Node, Taint
from defib.model.node_drain import DRAIN_MARK, WATCH_MARK
from tests.builders import MINUTE, T0, a_node
from tests.unit.decide.drains.intents.scene import CORDON, a_draining_node, an_object, collection_of, rfc3339, seeing

DISRUPTED = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")
TO_BE_DELETED = Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule", value=str(int(T0.timestamp())))
MACHINE = an_object("m", "fleet", status={"nodeRef": {"name": "a"}}, deletion_timestamp=T0)
CLAIM = an_object("c", status={"nodeName": "a"}, deletion_timestamp=T0)
PLAN = an_object("server", "system-upgrade", spec={"drain": {}}, status={"applying": ["a"]})
OBJECTS: Mapping[KindRef, tuple[Unstructured, ...]] = {
    MACHINES[0]: (MACHINE,),
    NODE_CLAIMS: (CLAIM,),
    PLANS: (PLAN,),
    DAEMON_SETS: (),
}
EVERYBODY = a_draining_node(
    "a",
    {
        WATCH_MARK: "true",
        DRAIN_MARK: "disk",
        DESIRED_DRAIN: "drain-rendered-2",
        "kured.dev/kured-reboot-in-progress": rfc3339(T0),
        "cluster.x-k8s.io/machine": "m",
        "cluster.x-k8s.io/cluster-namespace": "fleet",
    },
    taints=(CORDON, DISRUPTED, TO_BE_DELETED),
)


def test_every_source_has_a_recogniser_and_says_what_must_be_in_sight() -> None:
    assert set(RECOGNISERS) == set(WATCHES) == set(Source)
    assert set(kinds_for(ALL_SOURCES).values()) == {
        Wanted(can_wait=True),
        Wanted("openshift-managed-upgrade-operator", can_wait=True),
        Wanted("system-upgrade", can_wait=True),
        Wanted("kube-system", can_wait=True),
    }
    assert kinds_for({Source.KARPENTER, Source.DEFIB}) == {NODE_CLAIMS: Wanted(can_wait=True)}
    assert kinds_for(()) == {}


def test_what_is_watched_for_upgrades_too_is_watched_in_the_same_namespace() -> None:
    for_upgrades = {
        kind: watch.namespace for watches in UPGRADE_WATCHES.values() for watch in watches for kind in watch.kinds
    }
    for kind, wanted in kinds_for(ALL_SOURCES).items():
        assert for_upgrades.get(kind, wanted.namespace) == wanted.namespace


@pytest.mark.parametrize("source", Source)
def test_dk_24_each_source_can_be_the_only_one_and_can_be_disabled(source: Source) -> None:
    cluster = seeing(EVERYBODY, objects=OBJECTS)
    alone = find_intent(EVERYBODY, cluster, {source})
    assert alone is not None
    assert alone.source is source
    others = find_intent(EVERYBODY, cluster, ALL_SOURCES - {source})
    assert others is not None
    assert others.source is not source


def test_dk_01_with_every_source_disabled_nothing_is_a_drain() -> None:
    cluster = seeing(EVERYBODY, objects=OBJECTS)
    assert find_intent(EVERYBODY, cluster, frozenset()) is None
    assert find_intents(cluster, frozenset(), Intents()).by_node == {}


def test_of_several_sources_those_with_a_deadline_come_first_and_people_last() -> None:
    cluster = seeing(EVERYBODY, objects=OBJECTS)
    left, order = set(Source), []
    while left:
        found = find_intent(EVERYBODY, cluster, left)
        assert found is not None
        assert find_intents(cluster, left, Intents()).by_node == {"a": found}
        order.append(found.source)
        left.remove(found.source)
    assert order == [
        Source.KARPENTER,
        Source.CLUSTER_API,
        Source.CLUSTER_AUTOSCALER,
        Source.OPENSHIFT,
        Source.SYSTEM_UPGRADE_CONTROLLER,
        Source.KURED,
        Source.DEFIB,
        Source.KUBECTL,
    ]


MARKED = a_draining_node("marked", {WATCH_MARK: "true"})
TAINTED = a_draining_node("tainted", taints=(TO_BE_DELETED,))
PARKED = a_draining_node("parked")
OPEN = a_node("open", annotations={WATCH_MARK: "true", DRAIN_MARK: "disk"})
APPLIED = a_draining_node("a")


def with_nodes(cluster: Cluster, *nodes: Node) -> Cluster:
    return msgspec.structs.replace(cluster, nodes={node.name: node for node in nodes})


def test_drains_are_found_by_node_and_only_closed_nodes_are_looked_at() -> None:
    found = find_intents(seeing(MARKED, TAINTED, PARKED, OPEN), ALL_SOURCES, Intents())
    assert {name: intent.source for name, intent in found.by_node.items()} == {
        "marked": Source.KUBECTL,
        "tainted": Source.CLUSTER_AUTOSCALER,
    }
    assert set(found.closed) == {"marked", "tainted", "parked"}


def test_while_nothing_changes_the_answer_is_the_very_same_object() -> None:
    cluster = seeing(MARKED, PARKED, objects=OBJECTS)
    found = find_intents(cluster, ALL_SOURCES, Intents())
    later = msgspec.structs.replace(cluster, now=T0 + timedelta(hours=1))
    assert find_intents(later, ALL_SOURCES, found) is found


def test_of_a_changed_fleet_only_the_nodes_that_changed_are_judged_again() -> None:
    cluster = seeing(MARKED, PARKED, objects=OBJECTS)
    before = find_intents(cluster, ALL_SOURCES, Intents())
    ended = a_draining_node("parked", {DRAIN_MARK: "disk"})
    after = find_intents(with_nodes(cluster, MARKED, ended, TAINTED), ALL_SOURCES, before)
    assert after.by_node["marked"] is before.by_node["marked"]
    assert set(after.by_node) == {"marked", "parked", "tainted"}
    assert set(find_intents(with_nodes(cluster, PARKED), ALL_SOURCES, after).by_node) == set()


def test_a_node_is_judged_again_when_what_it_depends_on_changes() -> None:
    idle = an_object("server", "system-upgrade", spec={"drain": {}}, status={"applying": []})
    waiting = seeing(APPLIED, objects={PLANS: (idle,)})
    before = find_intents(waiting, ALL_SOURCES, Intents())
    assert before.by_node == {}
    begun = msgspec.structs.replace(waiting, others={**waiting.others, collection_of(PLANS): {PLAN.key: PLAN}})
    during = find_intents(begun, ALL_SOURCES, before)
    assert set(during.by_node) == {"a"}
    assert find_intents(waiting, ALL_SOURCES, during).by_node == {}


def test_a_drain_is_none_while_what_it_depends_on_is_out_of_sight() -> None:
    cluster = seeing(APPLIED, objects={PLANS: (PLAN,)})
    during = find_intents(cluster, ALL_SOURCES, Intents())
    assert set(during.by_node) == {"a"}
    blind = msgspec.structs.replace(cluster, blind=(Blindness(collection_of(PLANS), T0 - MINUTE, "no answer"),))
    unseen = find_intents(blind, ALL_SOURCES, during)
    assert unseen.by_node == {}
    assert find_intents(cluster, ALL_SOURCES, unseen).by_node == during.by_node


def test_a_source_that_is_switched_off_is_forgotten_at_once() -> None:
    cluster = seeing(MARKED, TAINTED)
    before = find_intents(cluster, ALL_SOURCES, Intents())
    after = find_intents(cluster, frozenset({Source.KUBECTL}), before)
    assert set(after.by_node) == {"marked"}
