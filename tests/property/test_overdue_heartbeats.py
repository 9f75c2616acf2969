"""Whether a heartbeat is overdue depends on what its node wrote and on the time, and on nothing that was counted before."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.overdue import AHEAD, count
from defib.model.cluster import HEARTBEAT_NAMESPACE, Cluster
from defib.model.lock import ends_at
from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec, Node
from tests.builders import T0

NAMES = tuple(f"n{place}" for place in range(6))
LENGTHS = (None, 0, 5, 40, 3600)
RENEWED_AT = (None, -3600, -40, -12, -1, 0, 1, 600)  # seconds from now
PASSED = (0, 1, 4, AHEAD.total_seconds(), 30, -20)


def heartbeat(node: str, renewed: datetime | None, seconds: int | None) -> Lease:
    spec = LeaseSpec(holder_identity=node, lease_duration_seconds=seconds, renew_time=renewed)
    return Lease(metadata=Meta(name=node, namespace=HEARTBEAT_NAMESPACE), spec=spec)


def counted_one_by_one(cluster: Cluster) -> tuple[set[str], set[str]]:
    ends = {key: ends_at(one) if one.name in cluster.nodes else None for key, one in cluster.heartbeats.items()}
    mute = {key for key, end in ends.items() if end is None}
    return {key for key, end in ends.items() if end is not None and end < cluster.now}, mute


STEPS = st.lists(
    st.tuples(
        st.sampled_from(PASSED),
        st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(RENEWED_AT), st.sampled_from(LENGTHS)), max_size=3),
        st.sets(st.sampled_from(NAMES), max_size=1),  # whose heartbeat is deleted
        st.sets(st.sampled_from(NAMES), max_size=1),  # who leaves the cluster, or comes back
    ),
    max_size=25,
)


def without(items: Mapping[str, Lease], names: set[str]) -> dict[str, Lease]:
    return {key: one for key, one in items.items() if one.name not in names}


@settings(max_examples=300, deadline=None)
@given(steps=STEPS)
def test_a_count_is_what_asking_each_would_give_whatever_was_counted_before(
    steps: list[tuple[float, list[tuple[str, int | None, int | None]], set[str], set[str]]],
) -> None:
    now = T0
    nodes = {name: Node(metadata=Meta(name=name)) for name in NAMES}
    heard = [heartbeat(name, T0, 40) for name in NAMES]
    heartbeats = {one.key: one for one in heard}
    for passed, renewals, deleted, moved in steps:
        now += timedelta(seconds=passed)
        fresh = [
            heartbeat(name, None if at is None else now + timedelta(seconds=at), length)
            for name, at, length in renewals
        ]
        heartbeats = without(heartbeats, deleted) | {one.key: one for one in fresh}
        if moved:
            there = nodes.keys() ^ moved
            nodes = {name: nodes.get(name) or Node(metadata=Meta(name=name)) for name in NAMES if name in there}
        cluster = Cluster(now=now, nodes=nodes, heartbeats=heartbeats)
        counted = count(cluster)
        assert (set(counted.silent), set(counted.mute)) == counted_one_by_one(cluster)
