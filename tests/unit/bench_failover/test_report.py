"""How the failover benchmark is summed up, written as a table and drawn."""

from xml.etree import ElementTree as ET

from tests.bench_failover.picture import COLOURS, MEANINGS, picture
from tests.bench_failover.results import Benchmark, Failover, Phase, Row, Workload
from tests.bench_failover.table import table

SVG = "{http://www.w3.org/2000/svg}"


def a_failover(workload: Workload, *, run: int = 1, corrupted: bool | None = None, **seconds: float) -> Failover:
    """Phases by their names, in capitals as the enum has them."""
    return Failover(
        fault="power off",
        workload=workload,
        run=run,
        seconds={Phase[name.upper()]: value for name, value in seconds.items()},
        corrupted=corrupted,
    )


def a_row(*failovers: Failover, mode: str = "no operator", decides: bool = False) -> Row:
    return Row(
        mode=mode,
        says="nobody",
        setting="heartbeat 1 s",
        limit_seconds=45,
        decides=decides,
        faults=("power off",),
        failovers=failovers,
    )


def a_benchmark(*rows: Row) -> Benchmark:
    return Benchmark(kubernetes="v1.37.1", rows=rows)


WEB = a_failover(Workload.DEPLOYMENT, unknown=5.2, terminating=15.3, running=15.6)
STUCK = a_failover(Workload.STATEFUL_SET, unknown=5.2, terminating=15.3, corrupted=False)
TORN = a_failover(Workload.STATEFUL_SET, unknown=5.0, deleted=5.1, detached=17.5, running=18.8, corrupted=True)
PATIENT, NAIVE = a_row(WEB, STUCK), a_row(TORN, mode="naive")


def test_the_table_is_aligned_and_says_which_timers_it_is_about() -> None:
    assert table(a_benchmark(PATIENT, NAIVE)).splitlines() == [
        "Failover on Kubernetes v1.37.1, seconds from the fault, medians where there are several runs",
        "",
        "mode         fault      workload           runs  Unknown  verdict  fenced  terminating  deleted  detached  running       disk",
        "no operator  power off  Deployment            1      5.2        -       -         15.3    never         -     15.6          -",
        "                        StatefulSet + RWO     1      5.2        -       -         15.3    never     never    never     intact",
        "naive        power off  StatefulSet + RWO     1      5.0        -       -            -      5.1      17.5     18.8  CORRUPTED",
        "",
        "no operator: nobody; heartbeat 1 s; never: not within 45 s",
        "naive: nobody; heartbeat 1 s; never: not within 45 s",
    ]


def test_several_runs_are_summed_up_by_their_median_and_by_their_worst() -> None:
    runs = [
        a_failover(Workload.STATEFUL_SET, run=1, unknown=5, running=10, corrupted=False),
        a_failover(Workload.STATEFUL_SET, run=2, unknown=7, running=14, corrupted=True),
        a_failover(Workload.STATEFUL_SET, run=3, unknown=6, corrupted=False),
    ]
    (summary,) = a_row(*runs).summaries()
    assert summary.seconds == {Phase.UNKNOWN: 6}
    assert summary.text(Phase.RUNNING) == "never"
    assert summary.disk == "CORRUPTED"
    assert summary.runs == 3


def test_only_a_mode_that_decides_can_miss_its_verdict() -> None:
    (patient,) = a_row(STUCK).summaries()
    (operator,) = a_row(STUCK, decides=True).summaries()
    assert (patient.text(Phase.VERDICT), operator.text(Phase.VERDICT)) == ("-", "never")


def test_the_picture_has_a_piece_for_each_phase_and_one_for_never() -> None:
    drawn = ET.fromstring(picture(a_benchmark(PATIENT, NAIVE)))
    pieces = [title.text for title in drawn.iter(f"{SVG}title")]
    assert pieces == [
        "until Ready is Unknown: 5.2 s",
        "until the pod is told to go: 15.3 s",
        "until a new pod runs: 15.6 s",
        "until Ready is Unknown: 5.2 s",
        "until the pod is told to go: 15.3 s",
        "never: not within 45 s",
        "until Ready is Unknown: 5.0 s",
        "until the pod is deleted: 5.1 s",
        "until the volume is detached: 17.5 s",
        "until a new pod runs: 18.8 s",
    ]
    said = [text.text for text in drawn.iter(f"{SVG}text")]
    assert said.count("corrupted") == 1
    assert "no operator, power off" in said
    assert "Kubernetes v1.37.1, medians where there are several runs" in said


def test_every_phase_has_a_colour_and_a_meaning_of_its_own() -> None:
    assert set(COLOURS) == set(MEANINGS) == set(Phase)
    assert len(set(COLOURS.values())) == len(set(MEANINGS.values())) == len(Phase)


def test_what_comes_after_the_new_pod_runs_delays_nobody() -> None:
    late = a_failover(Workload.DEPLOYMENT, unknown=5, running=6, deleted=30)
    drawn = ET.fromstring(picture(a_benchmark(a_row(late))))
    assert [title.text for title in drawn.iter(f"{SVG}title")] == [
        "until Ready is Unknown: 5.0 s",
        "until a new pod runs: 6.0 s",
    ]


def test_what_was_over_before_kubernetes_noticed_was_never_unknown_and_missed_nothing() -> None:
    quick = a_failover(Workload.DEPLOYMENT, verdict=20, fenced=24, deleted=25, running=26)
    (summary,) = a_row(quick, decides=True).summaries()
    assert (summary.text(Phase.UNKNOWN), summary.text(Phase.RUNNING)) == ("-", "26.0")
