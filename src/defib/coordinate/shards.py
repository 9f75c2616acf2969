"""Which replica looks after what: nodes fall into buckets, and each bucket has one replica that would rather have it.

Pure, and the same on every replica that sees the same members. When one comes or goes, about its share of the buckets
moves, and no replica ever has many more than the others.
"""

from collections import Counter
from collections.abc import Collection

FNV_OFFSET, FNV_PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1
SLACK = 1.0  # of an equal share, rounded up: so many a replica takes at most


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


def bucket_of(key: str, buckets: int) -> int:
    return spread(key) % buckets


def preferences(buckets: int, members: Collection[str]) -> dict[int, str]:
    """Who should have which bucket. Each goes to the first in its own order of members that has room for one more."""
    if not members:
        return {}
    most = -(-round(buckets * SLACK) // len(members))
    taken: Counter[str] = Counter()
    wanted: dict[int, str] = {}
    for bucket in range(buckets):
        order = sorted(members, key=lambda member: (spread(f"{member}/{bucket}"), member))
        wanted[bucket] = next(member for member in order if taken[member] < most)
        taken[wanted[bucket]] += 1
    return wanted
