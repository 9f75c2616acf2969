"""The safe time is the one that is published for so many workers."""

import pytest

from tests.bench_failover.node_health_check import safe_seconds


@pytest.mark.parametrize(
    ("workers", "seconds"), [(1, 180), (3, 180), (6, 180), (10, 198), (20, 234), (42, 318), (52, 318), (100, 294)]
)
def test_more_workers_take_longer_to_be_asked(workers: int, seconds: float) -> None:
    assert safe_seconds(workers) == seconds
