"""What the bench makes of failures of nodes: seconds, memory, and whether our promises are kept."""

import pytest

from tests.bench.fleet import a_pod, spread
from tests.bench.moves import (
    Failure,
    Memory,
    Moving,
    Scale,
    memory_of,
    since_seen,
    since_written,
    to_the_last,
    verdicts,
)
from tests.bench.report import Results, text
from tests.bench.results import Machine


def a_failure(*seconds: float, stayed: int = 0, strays: int = 0, mib: float = 70.0) -> Failure:
    return Failure(
        node="n1",
        since_written=list(seconds) or [0.3, 0.4],
        seen_after_seconds=0.1,
        strays=strays,
        stayed=stayed,
        cpu_seconds=0.2,
        resident_mib=mib,
        peak_mib=mib + 1,
    )


def a_memory(pods: int = 100, mib: float = 70.0) -> Memory:
    return Memory(pods=pods, resident_mib=mib, most_mib=mib, peak_mib=mib)


def broken(*failures: Failure, growth: float = 0.0) -> list[str]:
    found = verdicts(failures, a_memory(), a_memory(25_000, 70.0 + growth))
    return [verdict.what for verdict in found if not verdict.ok]


def test_seconds_are_counted_over_pods_and_over_nodes() -> None:
    failures = [a_failure(0.2, 0.4), a_failure(0.3, 0.9)]
    assert since_written(failures).max_seconds == 0.9
    assert since_written(failures).p50_seconds == 0.3
    assert since_seen(failures).max_seconds == pytest.approx(0.8)
    assert to_the_last(failures).p50_seconds == 0.4


def test_quick_deletions_and_the_same_memory_keep_all_promises() -> None:
    assert broken(a_failure(), a_failure(), growth=1.0) == []


def test_the_slowest_of_few_pods_is_enough_to_break_the_promise() -> None:
    assert broken(a_failure(0.2, 1.1)) == ["node not ready to pod deleted: p99"]


@pytest.mark.parametrize("failure", [a_failure(stayed=1), a_failure(strays=1)])
def test_a_pod_that_stays_and_a_pod_that_should_have_stayed_break_it_too(failure: Failure) -> None:
    assert broken(failure) == ["pods of failed nodes deleted"]


def test_memory_that_grows_with_the_pods_elsewhere_breaks_it() -> None:
    assert broken(a_failure(), growth=40.0) == ["memory for 24,900 pods elsewhere"]


def test_of_several_operators_the_one_in_the_middle_counts() -> None:
    memory = memory_of([a_failure(mib=mib) for mib in (70.0, 90.0, 72.0)], pods=100)
    assert (memory.resident_mib, memory.most_mib, memory.peak_mib) == (72.0, 90.0, 91.0)


def test_there_are_at_least_as_many_bystanders_as_asked_for() -> None:
    scale = Scale()
    assert scale.is_whole
    assert scale.others >= scale.bystanders
    assert not Scale(nodes=100, failures=5, bystanders=10).is_whole


def test_a_pod_is_bound_to_its_node_and_belongs_to_a_replica_set() -> None:
    pods = [a_pod(number, place) for number in spread(1_000, 3) for place in range(2)]
    assert len({pod["metadata"]["name"] for pod in pods}) == 6
    assert {pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods} == {"ReplicaSet"}
    assert all(pod["spec"]["nodeName"] for pod in pods)


def test_the_report_shows_seconds_memory_and_the_load() -> None:
    failures = [a_failure()]
    moving = Moving(
        scale=Scale(),
        judged=True,
        load_before=0.5,
        load_after=1.5,
        pods=since_written(failures),
        pods_since_seen=since_seen(failures),
        nodes=to_the_last(failures),
        cpu_seconds_each=0.2,
        memory_without=a_memory(),
        memory_with=a_memory(25_000),
        verdicts=verdicts(failures, a_memory(), a_memory(25_000)),
    )
    machine = Machine(cores=2, load=0.5, python="3.11", kubernetes="v1.37.1")
    results = Results(machine=machine, watching=None, remediating=None, moving=moving)
    assert not results.is_broken
    assert "The load was 0.5 before and 1.5 after." in text(results)
    assert "25,000" in text(results)
