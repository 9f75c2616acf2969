"""Whatever stands in the cluster, no recogniser raises, and what it answers can be reckoned with."""

from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.drains.intent import UNSCHEDULABLE, Intent
from defib.decide.drains.intents import RECOGNISERS, Intents, find_intent, find_intents
from defib.decide.drains.intents.cluster_api import EXCLUDED, MACHINE
from defib.decide.drains.intents.cluster_autoscaler import TO_BE_DELETED
from defib.decide.drains.intents.defib_mark import waits_for_cordon
from defib.decide.drains.intents.karpenter import DISRUPTED, TERMINATION
from defib.decide.drains.intents.openshift import DESIRED_DRAIN, STATE, desired_version, pending_nodes
from defib.decide.upgrade.cluster_api import CLUSTER_NAMESPACE
from defib.decide.upgrade.kured import LOCKS, REBOOTS
from defib.model.cluster import Cluster
from defib.model.drain_policy import ALL_SOURCES, Policy
from defib.model.meta import Meta, OwnerReference, Unstructured
from defib.model.node import Node, NodeSpec, Taint
from defib.model.node_drain import DRAIN_MARK, WATCH_MARK
from tests.unit.decide.drains.intents.scene import WATCHED, seeing

# Words that mean something to somebody are likelier to get far than those of chance.
TEXTS = st.sampled_from(
    ["", "a", "m", "fleet", "true", "Working", "drain-x", "Upgrading", "4.18", "10m", "2030-01-01T00:00:00Z", "{}", "9"]
) | st.text(max_size=12)
PATHS = [
    "applying",
    "conditions",
    "status",
    "type",
    "drain",
    "latestVersion",
    "startTime",
    "nodeName",
    "terminationGracePeriod",
    "nodeRef",
    "name",
    "deletion",
    "nodeDrainStartTime",
    "nodeDrainTimeoutSeconds",
    "nodeDrainTimeout",
    "desired",
    "version",
    "history",
    "phase",
    "nodeSelector",
    "matchLabels",
    "matchExpressions",
    "machineCount",
    "updatedMachineCount",
]
KEYS = st.sampled_from(PATHS) | st.text(max_size=4)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
MAPS = st.none() | st.dictionaries(KEYS, ODD, max_size=6)
MOMENTS = st.none() | st.datetimes(timezones=st.none() | st.timezones())
SAID = (
    *(WATCH_MARK, DRAIN_MARK, STATE, DESIRED_DRAIN, MACHINE, CLUSTER_NAMESPACE, EXCLUDED, TERMINATION),
    *(*REBOOTS, *LOCKS),
)
WORDS = st.none() | st.dictionaries(st.sampled_from(SAID) | TEXTS, TEXTS, max_size=6)
TAINTS = st.builds(
    Taint,
    key=st.sampled_from([UNSCHEDULABLE, DISRUPTED, TO_BE_DELETED]) | TEXTS,
    effect=st.sampled_from(["NoSchedule", "PreferNoSchedule", ""]),
    value=TEXTS,
    time_added=MOMENTS,
)
NODES = st.builds(
    Node,
    metadata=st.builds(
        Meta,
        name=st.sampled_from(["a", "b", ""]),
        labels=WORDS,
        annotations=WORDS,
        owner_references=st.none()
        | st.lists(st.builds(OwnerReference, kind=st.just("NodeClaim"), name=TEXTS), max_size=2),
    ),
    spec=st.builds(NodeSpec, unschedulable=st.booleans(), taints=st.none() | st.lists(TAINTS, max_size=4)),
)


def objects_of(name: st.SearchStrategy[str], namespace: str) -> st.SearchStrategy[tuple[Unstructured, ...]]:
    meta = st.builds(
        Meta,
        name=name,
        namespace=st.just(namespace),
        labels=WORDS,
        annotations=WORDS,
        deletion_timestamp=MOMENTS,
    )
    return st.lists(st.builds(Unstructured, metadata=meta, spec=MAPS, status=MAPS), max_size=3).map(tuple)


NAMES = st.sampled_from(["a", "m", "kured", "worker", "managed-upgrade-config"])
NAMESPACES = {"UpgradeConfig": "openshift-managed-upgrade-operator", "DaemonSet": "kube-system", "Machine": "fleet"}


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    seen = draw(st.sets(st.sampled_from(WATCHED)))
    objects = {kind: draw(objects_of(NAMES, NAMESPACES.get(kind.name, ""))) for kind in sorted(seen, key=str)}
    return seeing(*draw(st.lists(NODES, max_size=3)), objects=objects)


def reckon_with(intent: Intent | None) -> None:
    for moment in (intent.started_at, intent.deadline) if intent is not None else ():
        if moment is not None:
            assert isinstance(moment + Policy().times.timeout, datetime)
            assert moment.tzinfo is not None


@settings(max_examples=60, deadline=None)
@given(clusters(), NODES)
def test_no_recogniser_raises_on_odd_objects(cluster: Cluster, another: Node) -> None:
    for node in (*cluster.nodes.values(), another):
        for recognise in RECOGNISERS.values():
            reckon_with(recognise(node, cluster))
        assert isinstance(waits_for_cordon(node), str)
    assert pending_nodes(cluster) >= 0
    assert isinstance(desired_version(cluster), str)


@settings(max_examples=60, deadline=None)
@given(clusters(), clusters())
def test_what_is_remembered_or_not_looked_at_never_changes_an_answer(first: Cluster, second: Cluster) -> None:
    before = find_intents(first, ALL_SOURCES, Intents())
    mixed = Cluster(now=first.now, nodes={**first.nodes, **second.nodes}, kinds=first.kinds, others=first.others)
    for cluster in (first, mixed, second):
        each = {name: find_intent(node, cluster, ALL_SOURCES) for name, node in cluster.nodes.items()}
        found = find_intents(cluster, ALL_SOURCES, before).by_node
        assert found == {name: intent for name, intent in each.items() if intent is not None}
