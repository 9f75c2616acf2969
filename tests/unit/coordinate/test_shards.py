"""SH-01, SH-02, SH-06: the same buckets everywhere, few of them move, and nobody has many more than the others."""

from collections import Counter
from functools import cache
from itertools import permutations
from random import Random

import pytest

from defib.coordinate.seats import BUCKETS
from defib.coordinate.shards import bucket_of, fnv1a, preferences

NODES = 5000
SHAPES = {
    "numbered": [f"node-{number:04}" for number in range(NODES)],
    "plainly numbered": [f"worker-{number}" for number in range(NODES)],
    "by address": [f"ip-10-{n >> 12 & 255}-{n >> 6 & 63}-{n & 63}.ec2.internal" for n in range(NODES)],
    "of pools": [f"gke-prod-pool-{n % 7}-{Random(n % 7).getrandbits(32):08x}-{n:04x}" for n in range(NODES)],
    "of scale sets": [f"aks-nodepool1-34567890-vmss{n:06x}" for n in range(NODES)],
}


def some_replicas(count: int, seed: int = 0) -> tuple[str, ...]:
    """As pods of a Deployment are called."""
    chance = Random(seed)
    letters = "bcdfghjklmnpqrstvwxz2456789"
    return tuple(f"defib-7c9f8d6b5-{''.join(chance.choices(letters, k=5))}" for _ in range(count))


def moved(before: tuple[str, ...], after: tuple[str, ...]) -> int:
    was, now = preferences(BUCKETS, before), preferences(BUCKETS, after)
    return sum(was[bucket] != now[bucket] for bucket in range(BUCKETS))


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_the_hash_is_the_one_that_everybody_knows(text: str, value: int) -> None:
    assert fnv1a(text) == value


def test_sh_01_a_node_is_in_the_same_bucket_for_every_replica_of_every_version() -> None:
    """While an upgrade is rolled out, two versions share the work. Whoever changes these numbers breaks that."""
    buckets = {
        "admission": 9,
        "n1": 4,
        "node-0001": 25,
        "ip-10-0-1-2.ec2.internal": 23,
        "gke-prod-pool-1-1a2b3c4d-x7k2": 17,
        "worker-7": 3,
    }
    assert BUCKETS == 32
    assert {name: bucket_of(name, BUCKETS) for name in buckets} == buckets


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        (("a", "b"), "10010011011000111100010100100100"),
        (("defib-0", "defib-1", "defib-2"), "02011021001121121201001012200012"),
        (("defib-0", "defib-1", "defib-2", "defib-3"), "02031331001121121201033312230012"),
    ],
)
def test_sh_01_who_should_have_a_bucket_is_the_same_for_every_replica_of_every_version(
    members: tuple[str, ...], wanted: str
) -> None:
    for order in permutations(members):
        found = preferences(BUCKETS, order)
        assert "".join(str(members.index(found[bucket])) for bucket in range(BUCKETS)) == wanted


@pytest.mark.parametrize("count", range(2, 11))
def test_sh_02_one_that_comes_or_goes_moves_about_its_share(count: int) -> None:
    moves = []
    for seed in range(20):
        members = some_replicas(count, seed)
        moves += [moved(members, tuple(one for one in members if one != gone)) for gone in members]
    assert sum(moves) / len(moves) <= 1.5 * BUCKETS / count
    assert max(moves) <= 1.5 * BUCKETS / count + 5


def test_sh_02_a_rolling_upgrade_moves_each_bucket_a_few_times_at_most() -> None:
    """One comes, one goes, three times over: the ideal is 3 x (1/4 + 1/4) of all."""
    members, new = some_replicas(3, seed=1), some_replicas(3, seed=2)
    moves = 0
    for number in range(3):
        more = (*members, new[number])
        moves += moved(members, more) + moved(more, more[1:])
        members = more[1:]
    assert set(members) == set(new)
    assert moves <= 2 * BUCKETS


@pytest.mark.parametrize("count", range(1, 11))
def test_nobody_should_have_many_more_buckets_than_the_others(count: int) -> None:
    for seed in range(20):
        shares = Counter(preferences(BUCKETS, some_replicas(count, seed)).values())
        assert sum(shares.values()) == BUCKETS
        assert max(shares.values()) <= BUCKETS // count + 2
        assert len(shares) == count or count > 6


@cache
def sizes_of(shape: str) -> Counter[int]:
    return Counter(bucket_of(name, BUCKETS) for name in SHAPES[shape])


@pytest.mark.parametrize("shape", SHAPES)
def test_sh_06_three_replicas_have_at_most_one_and_a_half_times_the_mean_of_5000_nodes(shape: str) -> None:
    assert len(set(SHAPES[shape])) == NODES
    for seed in range(10):
        nodes: Counter[str] = Counter()
        for bucket, member in preferences(BUCKETS, some_replicas(3, seed)).items():
            nodes[member] += sizes_of(shape)[bucket]
        assert max(nodes.values()) <= 1.5 * NODES / 3


@pytest.mark.parametrize("shape", SHAPES)
def test_sh_06_no_bucket_has_many_more_nodes_than_the_mean(shape: str) -> None:
    assert len(sizes_of(shape)) == BUCKETS
    assert max(sizes_of(shape).values()) <= 1.5 * NODES / BUCKETS


def test_with_nobody_there_nobody_should_have_anything() -> None:
    assert preferences(BUCKETS, ()) == {}
