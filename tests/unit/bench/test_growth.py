"""What the bench makes of a cluster that grows: what is taken off, the straight line, and when a promise is broken."""

from typing import Any

import pytest

from tests.bench.growth import (
    FOLLOWED_WITHIN,
    LINEAR_TIMES_MAX,
    SIZES,
    Step,
    extrapolated,
    failing_of,
    fallen_of,
    middle_of,
    on_top,
    pace_of,
    scaled,
    verdicts,
)
from tests.bench.report import Results, text
from tests.unit.bench.measured import MACHINE, a_fall, a_growth, a_step, a_stretch, the_steps

LARGEST = SIZES[-1]


def broken(**largest: Any) -> list[str]:
    return [one.what for one in verdicts(the_steps(**largest)) if not one.ok]


def cpu(step: Step) -> float:
    return step.many.cpu_seconds


def test_what_is_used_at_rest_is_taken_off() -> None:
    assert on_top(used=5.0, seconds=30.0, rest=2.0, rest_seconds=20.0) == 2.0


def test_less_than_at_rest_is_nothing() -> None:
    assert on_top(used=1.0, seconds=30.0, rest=2.0, rest_seconds=20.0) == 0.0


def test_a_node_that_nobody_remediated_is_as_late_as_we_waited() -> None:
    used = a_stretch(cpu_seconds=2.0, requests={"POST": 90, "PATCH": 60}, seconds=30.0)
    one = fallen_of(4, [0.1, 0.2, 0.3], 1, used, a_stretch())
    assert (one.followed, one.strays, one.p50_seconds, one.max_seconds) == (3, 1, 0.2, FOLLOWED_WITHIN)
    assert one.cpu_seconds == pytest.approx(1.7)
    assert one.requests == 135.0


def test_a_straight_line_is_drawn_on_with_what_even_no_node_costs() -> None:
    smaller = [a_step(nodes) for nodes in SIZES[:-1]]
    assert extrapolated(smaller, cpu, LARGEST) == pytest.approx(0.1 + failing_of(LARGEST) / 100)


def test_of_three_falls_the_one_in_the_middle_counts_and_the_others_are_kept() -> None:
    low, middle, high = (a_fall(2, cpu_seconds=used) for used in (0.1, 0.2, 0.9))
    assert middle_of([high, low, middle]) == (middle, [low, high])


def test_a_cluster_that_grows_along_the_line_keeps_every_promise() -> None:
    assert broken() == []


def test_a_third_more_than_the_line_breaks_it_and_a_quarter_more_does_not() -> None:
    line = 0.1 + failing_of(LARGEST) / 100
    for times, fine in ((LINEAR_TIMES_MAX - 0.05, True), (LINEAR_TIMES_MAX + 0.05, False)):
        many = a_fall(failing_of(LARGEST), cpu_seconds=times * line)
        assert (broken(many=many) == []) == fine


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"peak_mib": 351.0}, "15,000 nodes: peak memory"),
        ({"start_cpu_seconds": 9.0}, "15,000 nodes: CPU to start"),
        ({"one": a_fall(1, strays=1)}, "all sizes: remediations of nodes that failed"),
        ({"many": a_fall(300, followed=299)}, "all sizes: remediations of nodes that failed"),
        ({"others": [a_fall(300, strays=1)]}, "all sizes: remediations of nodes that failed"),
        ({"rest": a_stretch(heartbeats=100)}, "all sizes: renewals seen, of those that were to be written"),
    ],
)
def test_each_promise_can_be_broken(fields: dict[str, Any], what: str) -> None:
    assert broken(**fields) == [what]


def test_kubelets_renew_every_ten_seconds_as_far_as_the_machine_bears_it() -> None:
    assert [pace_of(nodes) for nodes in SIZES] == [10.0, 100.0, 300.0, 300.0]


def test_two_of_a_hundred_fail_and_at_least_one() -> None:
    assert [failing_of(nodes) for nodes in (6, *SIZES)] == [1, 2, 20, 100, 300]


def test_a_trial_has_smaller_sizes_and_a_whole_run_has_all() -> None:
    assert scaled(5_000, 5_000) == SIZES
    assert scaled(500, 5_000) == (10, 100, 500, 1_500)


def test_the_report_shows_every_size() -> None:
    told = text(Results(machine=MACHINE, growth=a_growth()))
    assert all(f"{nodes:,}" in told for nodes in SIZES)
