"""Memory does not grow with what has been: not with incidents, nor with nodes and checks that came and went."""

import logging
import os
from collections.abc import Iterator

import pytest
import structlog

from tests.limits.weeks import PASSING, Cluster, Look, live

DAYS = int(os.environ.get("LIMIT_DAYS", "2"))  # make soak: weeks
MORE_OBJECTS_MAX = 1.01
MORE_BYTES_MAX = 1.05  # a single table that is made anew with the same number of entries may be twice as large


def named(look: Look) -> list[str]:
    """Series of what came and went."""
    return [series for series in look.series if PASSING in series]


@pytest.fixture
def quiet() -> Iterator[None]:
    """Days of debug lines, which pytest would keep, are not what is weighed here."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("quiet")
@pytest.mark.timeout(120 * DAYS)
def test_after_as_much_again_of_failing_nodes_the_operator_holds_what_it_held_before() -> None:
    looks: dict[int, Look] = {}

    def look(cluster: Cluster, day: int) -> None:
        looks[day] = cluster.look()

    live(DAYS, look)
    half, end = looks[DAYS // 2], looks[DAYS]
    for name, one in (("half", half), ("end", end)):
        print(f"{name}: {one.weight.count} objects, {one.weight.kib:.0f} KiB, {len(one.series)} series")  # noqa: T201
    assert end.stored == half.stored, "the cluster itself is as large as it was"
    assert end.weight.count <= half.weight.count * MORE_OBJECTS_MAX, end.weight.more_than(half.weight)
    assert end.weight.kib <= half.weight.kib * MORE_BYTES_MAX, end.weight.more_than(half.weight)
    assert len(named(end)) <= len(named(half)), sorted({*named(end)} - {*named(half)})
