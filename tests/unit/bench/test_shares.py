"""What the bench makes of several replicas that act at once: who did how much, and whether that is even enough."""

from defib.coordinate.seats import BUCKETS
from defib.coordinate.shards import preferences
from tests.bench.fleet import name_of
from tests.bench.moves import spread_of
from tests.bench.report import Results, text
from tests.bench.results import Machine
from tests.bench.shares import (
    NODES,
    REPLICAS,
    Fleet,
    Load,
    Moved,
    Sharing,
    added_up,
    looked_after,
    most_of_mean,
    verdicts,
)
from tests.bench.spent import Counted, Spent
from tests.bench.turns import Remediating, Watched


def some_spent(replica: str = REPLICAS[0], *, cpu: float = 1.0, pods: int = 0, writes: int = 5) -> Spent:
    counted = Counted(writes=writes, heartbeats=100, node_events=10, passes=20, pods_moved=pods)
    return Spent(replica=replica, cpu_seconds=cpu, counted=counted)


def a_load(replica: str = REPLICAS[0], *, failures: int = 10, pods: int | None = None, cpu: float = 1.0) -> Load:
    """Each failed node had ten pods."""
    return Load(
        replica=replica,
        buckets=11,
        nodes=failures * 10,
        failures=failures,
        moving=some_spent(replica, cpu=cpu, pods=failures * 10 if pods is None else pods),
        remediating=some_spent(replica),
        watching=some_spent(replica),
    )


def some_moved(pods: int = 300, *, gone: int | None = None, strays: int = 0) -> Moved:
    return Moved(pods=pods, gone=pods if gone is None else gone, strays=strays, seconds=spread_of([0.5, 0.7]))


def broken(*loads: Load, moved: Moved | None = None) -> list[str]:
    return [verdict.what for verdict in verdicts(loads, moved or some_moved()) if not verdict.ok]


def test_the_most_is_compared_with_the_mean_of_all() -> None:
    assert most_of_mean([1.0, 1.0, 4.0]) == 2.0
    assert most_of_mean([0, 0, 0]) == 1.0


def test_a_node_belongs_to_whoever_holds_its_bucket() -> None:
    names = [name_of(number) for number in range(NODES)]
    found = looked_after(preferences(BUCKETS, REPLICAS), names)
    assert sum(found.values()) == NODES
    assert most_of_mean(list(found.values())) <= 1.5
    assert looked_after(dict.fromkeys(range(BUCKETS), REPLICAS[1]), names) == dict.fromkeys(REPLICAS, 0) | {
        REPLICAS[1]: NODES
    }


def test_what_was_spent_in_several_measurements_is_added_up() -> None:
    total = added_up([some_spent(cpu=1.0, writes=5), some_spent(cpu=2.0, writes=7)])
    assert (total.cpu_seconds, total.counted.writes) == (3.0, 12)


def test_equal_shares_keep_all_promises() -> None:
    assert broken(*map(a_load, REPLICAS)) == []


def test_a_replica_that_works_for_the_others_breaks_the_promise() -> None:
    one, two, three = REPLICAS
    assert broken(a_load(one, cpu=3.0), a_load(two), a_load(three)) == ["CPU while pods are moved: most of the mean"]


def test_pods_that_another_one_moved_break_it() -> None:
    one, two, three = REPLICAS
    loads = [a_load(one, pods=110), a_load(two, pods=90), a_load(three)]
    assert broken(*loads) == ["pods moved, by whoever looks after their node"]


def test_pods_that_stayed_break_it() -> None:
    assert broken(*map(a_load, REPLICAS), moved=some_moved(gone=299)) == ["pods of failed nodes deleted"]


def test_a_small_fleet_is_a_trial() -> None:
    assert Fleet().is_whole
    assert not Fleet(nodes=500, failures=30).is_whole


def test_the_report_shows_each_replica_and_how_even_it_was() -> None:
    loads = [a_load(REPLICAS[0], failures=12), a_load(REPLICAS[1], failures=9), a_load(REPLICAS[2], failures=9)]
    watched = Watched(
        nodes=5_000,
        seconds=60.0,
        cpu_share=0.02,
        heartbeats_per_second=300.0,
        heartbeats_per_second_wanted=300.0,
        node_events_per_second=16.0,
        passes_per_second=1.0,
        writes=0,
        resident_mib=90.0,
        each=[],
    )
    sharing = Sharing(
        fleet=Fleet(),
        judged=True,
        load_before=0.5,
        load_after=1.5,
        moved=some_moved(),
        loads=loads,
        remediating=Remediating(judged=True, turns=[], watched=watched, verdicts=[]),
        verdicts=verdicts(loads, some_moved()),
    )
    results = Results(machine=Machine(cores=2, load=0.5, python="3.11", kubernetes="v1.37.1"), sharing=sharing)
    told = text(results)
    assert not results.is_broken
    assert "most, times the mean" in told
    assert all(name in told for name in REPLICAS)
    assert "1.20" in told
