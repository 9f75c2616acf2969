"""What is announced, which signal holds a node back, and that no object is so broken that reading it fails."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defib.config import UPGRADE_SIGNALS
from defib.decide.upgrade import SIGNALS, WATCHES, Signal, holding, problems, upgrades
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.config_map import ConfigMap
from defib.model.health_check import NodeHealthCheck
from defib.model.meta import Meta
from tests.builders import HOUR, SECOND, T0
from tests.upgrade_builders import (
    COLLECTIONS,
    NEWER,
    a_cluster_of,
    a_node_with,
    an_object,
    held,
    locked,
    rfc3339,
    under_way,
)

DAY = 24 * HOUR


def test_every_signal_that_can_be_set_has_its_rows() -> None:
    assert tuple(SIGNALS) == tuple(WATCHES) == UPGRADE_SIGNALS


def test_a_quiet_cluster_has_no_upgrade_and_no_problem() -> None:
    quiet = a_cluster_of(a_node_with("a"), a_node_with("b"))
    assert under_way(quiet) == ()
    assert problems(quiet) == ()


def test_a_signal_that_is_switched_off_is_not_asked() -> None:
    node = a_node_with(
        "a", {"defib.dev/upgrading-until": rfc3339(T0 + HOUR), "kured.dev/kured-reboot-in-progress": rfc3339(T0)}
    )
    assert [signal.name for signal in upgrades(a_cluster_of(node), ("kured",))] == ["kured"]
    assert upgrades(a_cluster_of(node), ()) == ()


# --- announced ---


def an_announcement(data: Any, *, now: datetime = T0, namespace: str = "defib-system") -> Cluster:
    config = ConfigMap(metadata=Meta(name="defib-upgrade", namespace=namespace), data=data)
    return a_cluster_of(a_node_with("a"), now=now, others={"configmaps": {config.key: config}})


def test_an_announcement_holds_every_node_back_until_its_end() -> None:
    data = {"until": "2030-01-01T01:00:00Z", "reason": "new\n  firmware"}
    (signal,) = under_way(an_announcement(data, now=T0 + HOUR - SECOND))
    assert signal == Signal(
        name="announced",
        message="an upgrade is announced until 2030-01-01T01:00:00Z: new firmware",
        until=T0 + HOUR,
    )
    assert under_way(an_announcement(data, now=T0 + HOUR)) == ()
    assert problems(an_announcement(data, now=T0 + HOUR)) == ()


def test_an_announcement_counts_only_in_the_namespace_of_defib() -> None:
    elsewhere = an_announcement({"until": rfc3339(T0 + HOUR)}, namespace="default")
    assert under_way(elsewhere) == ()
    assert upgrades(elsewhere, ("announced",), "default") != ()


def test_an_announcement_may_use_any_time_zone_but_must_name_one() -> None:
    (signal,) = under_way(an_announcement({"until": "2030-01-01T03:00:00+02:00"}))
    assert signal.until == T0 + HOUR
    assert signal.message == "an upgrade is announced until 2030-01-01T01:00:00Z"
    assert under_way(an_announcement({"until": "2030-01-01T03:00:00"})) == ()


def test_an_announcement_may_be_a_week_ahead_and_no_second_more() -> None:
    assert len(under_way(an_announcement({"until": rfc3339(T0 + 7 * DAY)}))) == 1
    farther = an_announcement({"until": rfc3339(T0 + 7 * DAY + SECOND)})
    assert under_way(farther) == ()
    (problem,) = problems(farther)
    assert problem == (
        "ConfigMap defib-system/defib-upgrade: this announces no upgrade, "
        "because data.until '2030-01-08T00:00:01Z' is more than 7 days ahead"
    )


@pytest.mark.parametrize("data", [None, {}, {"until": ""}, {"until": "tomorrow"}, {"until": "2030-01-01"}])
def test_an_announcement_without_a_readable_end_is_none_and_is_told(data: Any) -> None:
    unread = an_announcement(data)
    assert under_way(unread) == ()
    (problem,) = problems(unread)
    assert "data.until" in problem
    assert "is not a time like 2030-01-31T18:00:00Z" in problem


def test_an_annotation_on_a_node_holds_back_that_node_alone() -> None:
    signals = under_way(
        a_cluster_of(a_node_with("a", {"defib.dev/upgrading-until": rfc3339(T0 + HOUR)}), a_node_with("b"))
    )
    assert [signal.nodes for signal in signals] == [frozenset({"a"})]
    assert holding(signals, "workers", "a") == signals[0]
    assert holding(signals, "workers", "b") is None


def test_an_annotation_on_a_check_holds_back_every_node_of_that_check_alone() -> None:
    check = NodeHealthCheck(
        metadata=Meta(name="workers", annotations={"defib.dev/upgrading-until": rfc3339(T0 + HOUR)})
    )
    signals = under_way(a_cluster_of(a_node_with("a"), others={medik8s.CHECKS: {"workers": check}}))
    assert [(signal.nodes, signal.checks) for signal in signals] == [(None, frozenset({"workers"}))]
    assert holding(signals, "workers", "a") == signals[0]
    assert holding(signals, "masters", "a") is None


def test_a_thousand_nodes_with_the_same_announcement_are_one_signal_and_one_problem() -> None:
    until = {"defib.dev/upgrading-until": rfc3339(T0 + HOUR)}
    assert len(under_way(a_cluster_of(*(a_node_with(f"n{number}", until) for number in range(1000))))) == 1
    wrong = a_cluster_of(
        *(a_node_with(f"n{number:03}", {"defib.dev/upgrading-until": "soon"}) for number in range(1000))
    )
    (problem,) = problems(wrong)
    assert problem == (
        "Node n000, n001, n002 and 997 more: this announces no upgrade, "
        "because defib.dev/upgrading-until 'soon' is not a time like 2030-01-31T18:00:00Z"
    )


# --- which one holds, and in which order ---


def test_a_signal_that_names_the_node_goes_before_one_for_every_node() -> None:
    everywhere, here = Signal(name="a", message=""), Signal(name="b", message="", nodes=frozenset({"n"}))
    assert holding((everywhere, here), "c", "n") == here
    assert holding((everywhere, here), "c", "other") == everywhere
    assert holding((), "c", "n") is None


@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_objects_does_not_matter(names: list[str]) -> None:
    def build(order: list[str]) -> Cluster:
        until = {name: rfc3339(T0 + (1 + ord(name) % 2) * HOUR) for name in order}
        return a_cluster_of(*(a_node_with(name, {"defib.dev/upgrading-until": until[name]}) for name in order))

    assert under_way(build(names)) == under_way(build(sorted(names)))


# --- hostile objects: nearly right, with anything at all in any place ---

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def nearly(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return right | right | anything


# The first and the last day of the calendar, in zones where they are not in the calendar of UTC.
edges = st.sampled_from(["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59Z"])
times = st.datetimes(timezones=st.none() | st.just(UTC))
written = times.map(datetime.isoformat) | edges
conditions = st.lists(
    nearly(
        st.fixed_dictionaries(
            {
                "type": nearly(st.sampled_from(["Progressing", "Complete", "RollingOut"])),
                "status": nearly(st.sampled_from(["True", "False"])),
                "lastTransitionTime": nearly(written),
            }
        )
    ),
    max_size=3,
)
statuses = st.fixed_dictionaries(
    {},
    optional={
        "conditions": nearly(conditions),
        "v1beta2": nearly(st.fixed_dictionaries({"conditions": nearly(conditions)})),
        "applying": nearly(st.lists(nearly(st.just("a")), max_size=3)),
        "replicas": nearly(st.just(3)),
        "updatedReplicas": nearly(st.integers(0, 3)),
        "desired": nearly(st.fixed_dictionaries({"version": nearly(st.just("4.20.1"))})),
    },
)
lock_values = st.fixed_dictionaries(
    {
        "nodeID": nearly(st.just("a")),
        "created": nearly(written),
        "TTL": nearly(st.sampled_from([10**12, 2**63 - 1, 10**300])),
    },
)
lock_texts = st.sampled_from(["", "[" * 10_000, '{"x":' * 10_000, "{"]) | nearly(
    lock_values | st.fixed_dictionaries({"locks": nearly(st.lists(nearly(lock_values), max_size=3))})
).map(json.dumps)
annotations = st.fixed_dictionaries(
    {},
    optional={
        "defib.dev/upgrading-until": st.text() | written,
        "weave.works/kured-node-lock": lock_texts,
        "kured.dev/kured-reboot-in-progress": st.text() | written,
        "machineconfiguration.openshift.io/desiredConfig": st.text(),
        "cluster.x-k8s.io/owner-kind": st.just("MachineSet") | st.text(),
        "cluster.x-k8s.io/owner-name": st.just("kured-x7k2p") | st.text(),
        "cluster.x-k8s.io/cluster-namespace": st.just("kube-system"),
    },
)


@settings(max_examples=500)
@given(
    spec=nearly(st.fixed_dictionaries({"strategy": anything, "clusterName": anything})),
    status=nearly(statuses),
    said=annotations,
    told=st.none() | st.dictionaries(st.just("until"), st.text() | written),
    cordoned=times | st.just(datetime.max.replace(tzinfo=UTC)),
    kubelet=st.just("v1.0.0") | st.text(),
)
def test_no_object_is_so_broken_that_reading_it_fails(
    *, spec: Any, status: Any, said: dict[str, str], told: dict[str, str] | None, cordoned: datetime, kubelet: str
) -> None:
    node = a_node_with("a", said, kubelet=kubelet, cordoned=cordoned, not_ready=cordoned)
    item = an_object("kured", "kube-system", spec=spec, status=status, annotations=said)
    config = ConfigMap(metadata=Meta(name="defib-upgrade", namespace="defib-system"), data=told)
    shelves = {served.collection: {item.key: item} for served in COLLECTIONS.values()}
    cluster = Cluster(
        now=T0,
        nodes={"a": node, "b": a_node_with("b", kubelet=NEWER)},
        kinds=COLLECTIONS,
        others={**shelves, medik8s.CHECKS: {item.key: item}, "configmaps": {config.key: config}},
    )
    assert all(len(signal.message) < 1000 for signal in under_way(cluster))
    assert all(len(problem) < 1000 for problem in problems(cluster))


@pytest.mark.parametrize("created", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2030-01-01T00:00:00"])
@pytest.mark.parametrize("ttl", [0, -1, 1, 2**63 - 1, 10**300])
def test_no_lock_of_kured_is_so_odd_that_reading_it_fails(created: str, ttl: int) -> None:
    assert held(locked({"nodeID": "a", "created": created, "TTL": ttl})) <= {"a"}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"x":' * 100_000, '{"nodeID":"a","TTL":1e999}', "\ud800"])
def test_a_lock_of_kured_that_is_no_lock_holds_nothing_back(text: str) -> None:
    assert held(locked(text)) == set()
