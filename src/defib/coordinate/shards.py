"""Which replica looks after what: nodes fall into buckets, and each bucket has one replica that would rather have it.

Pure, and the same on every replica that sees the same members. When one comes or goes, about its share of the buckets
moves, and no replica ever has many more than the others.

Two versions of Defib run side by side while one replaces the other: what is computed here must never change.
"""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

FNV_OFFSET, FNV_PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1
ROOM = 2  # so many more than an equal share a replica takes at most: with less, more would move at each change


def fnv1a(text: str) -> int:
    """FNV-1a, 64 bits: the hash by which API servers shard their watches."""
    value = FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * FNV_PRIME) & MASK
    return value


def spread(text: str) -> int:
    """The same, mixed once more: names that differ in their last letter only have hashes that are near each other."""
    value = fnv1a(text)
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & MASK
    value = ((value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53) & MASK
    return value ^ (value >> 33)


@lru_cache(maxsize=2**14)  # it is asked for every action of every pass
def bucket_of(key: str, buckets: int) -> int:
    return spread(key) % buckets


@lru_cache(maxsize=64)
def preferences(buckets: int, members: tuple[str, ...]) -> Mapping[int, str]:
    """Who should have which bucket. The strongest wish counts first, unless its member has no room for one more."""
    most = buckets // len(members) + ROOM if members else 0
    wishes = sorted((spread(f"{member}/{bucket}"), member, bucket) for member in members for bucket in range(buckets))
    taken: Counter[str] = Counter()
    wanted: dict[int, str] = {}
    for _, member, bucket in wishes:
        if bucket not in wanted and taken[member] < most:
            wanted[bucket] = member
            taken[member] += 1
    return MappingProxyType(wanted)
