"""How the failover benchmark is summed up, written as a table and drawn."""

from xml.etree import ElementTree as ET

from tests.bench_failover.picture import COLOURS, MEANINGS, picture
from tests.bench_failover.results import Benchmark, Failover, Phase, Workload, summarise
from tests.bench_failover.table import table

SVG = "{http://www.w3.org/2000/svg}"


def a_failover(
    workload: Workload, *, run: int = 1, mode: str = "no operator", corrupted: bool | None = None, **seconds: float
) -> Failover:
    """Phases by their names, in capitals as the enum has them."""
    return Failover(
        mode=mode,
        fault="power off",
        workload=workload,
        run=run,
        seconds={Phase[name.upper()]: value for name, value in seconds.items()},
        corrupted=corrupted,
    )


def a_benchmark(*failovers: Failover, deciding: tuple[str, ...] = ()) -> Benchmark:
    return Benchmark(
        kubernetes="v1.37.1",
        profile="compressed",
        timers="compressed timers: heartbeat 1 s",
        limit_seconds=45,
        failovers=failovers,
        summaries=summarise(failovers, deciding),
    )


WEB = a_failover(Workload.DEPLOYMENT, unknown=5.2, terminating=15.3, running=15.6)
STUCK = a_failover(Workload.STATEFUL_SET, unknown=5.2, terminating=15.3, corrupted=False)
TORN = a_failover(
    Workload.STATEFUL_SET, mode="naive", unknown=5.0, deleted=5.1, detached=17.5, running=18.8, corrupted=True
)


def test_the_table_is_aligned_and_says_which_timers_it_is_about() -> None:
    assert table(a_benchmark(WEB, STUCK, TORN)).splitlines() == [
        "Failover on Kubernetes v1.37.1, compressed timers: heartbeat 1 s",
        "Seconds from the fault, one run; never: not within 45 s",
        "",
        "mode         fault      workload           Unknown  verdict  fenced  terminating  deleted  detached  running       disk",
        "no operator  power off  Deployment             5.2        -       -         15.3    never         -     15.6          -",
        "                        StatefulSet + RWO      5.2        -       -         15.3    never     never    never     intact",
        "naive        power off  StatefulSet + RWO      5.0        -       -            -      5.1      17.5     18.8  CORRUPTED",
    ]


def test_several_runs_are_summed_up_by_their_median_and_by_their_worst() -> None:
    runs = [
        a_failover(Workload.STATEFUL_SET, run=1, unknown=5, running=10, corrupted=False),
        a_failover(Workload.STATEFUL_SET, run=2, unknown=7, running=14, corrupted=True),
        a_failover(Workload.STATEFUL_SET, run=3, unknown=6, corrupted=False),
    ]
    (summary,) = summarise(runs, ())
    assert summary.seconds == {Phase.UNKNOWN: 6}
    assert summary.text(Phase.RUNNING) == "never"
    assert summary.disk == "CORRUPTED"
    assert "medians of 3 runs" in table(a_benchmark(*runs))


def test_only_a_mode_that_decides_can_miss_its_verdict() -> None:
    (patient,) = summarise([STUCK], ())
    (operator,) = summarise([STUCK], ("no operator",))
    assert (patient.text(Phase.VERDICT), operator.text(Phase.VERDICT)) == ("-", "never")


def test_the_picture_has_a_piece_for_each_phase_and_one_for_never() -> None:
    drawn = ET.fromstring(picture(a_benchmark(WEB, STUCK, TORN)))
    pieces = [title.text for title in drawn.iter(f"{SVG}title")]
    assert pieces == [
        "until Ready is Unknown: 5.2 s",
        "until the pod is told to go: 15.3 s",
        "until a new pod runs: 15.6 s",
        "until Ready is Unknown: 5.2 s",
        "until the pod is told to go: 15.3 s",
        "never",
        "until Ready is Unknown: 5.0 s",
        "until the pod is deleted: 5.1 s",
        "until the volume is detached: 17.5 s",
        "until a new pod runs: 18.8 s",
    ]
    said = [text.text for text in drawn.iter(f"{SVG}text")]
    assert said.count("corrupted") == 1
    assert "no operator, power off" in said
    assert "Kubernetes v1.37.1, compressed timers: heartbeat 1 s" in said


def test_every_phase_has_a_colour_and_a_meaning_of_its_own() -> None:
    assert set(COLOURS) == set(MEANINGS) == set(Phase)
    assert len(set(COLOURS.values())) == len(set(MEANINGS.values())) == len(Phase)


def test_what_comes_after_the_new_pod_runs_delays_nobody() -> None:
    late = a_failover(Workload.DEPLOYMENT, unknown=5, running=6, deleted=30)
    drawn = ET.fromstring(picture(a_benchmark(late)))
    assert [title.text for title in drawn.iter(f"{SVG}title")] == [
        "until Ready is Unknown: 5.0 s",
        "until a new pod runs: 6.0 s",
    ]
