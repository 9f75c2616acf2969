"""What `defib drain` prints: at most 100 columns, calm, and nothing that steers a terminal; and how it ends."""

from typing import Any

import msgspec
import pytest
from rich.console import Console, RenderableType

from defib.cli.drain import STUCK, forecast_page, page
from defib.cli.main import execute
from defib.decide.drains.doctor import Diagnosis, Moment, PodDiagnosis, RecordTold, State
from defib.decide.drains.findings import Finding, Reason
from defib.decide.drains.forecast import BudgetForecast, Forecast, PodForecast, SlowBudget
from tests.builders import MINUTE, T0

BLOCKED = PodDiagnosis(
    pod="shop/web-1",
    owner="ReplicaSet web-5d4",
    findings=(
        Finding(
            reason=Reason.BUDGET_NEVER,
            message="disruption budget shop/web never lets a pod go: minAvailable 3 of 3 pods",
            blocks=True,
            advice="set maxUnavailable 1 instead",
            budget="shop/web",
        ),
        Finding(reason=Reason.LOCAL_DATA, message="what is in its emptyDir cache is lost when it leaves"),
    ),
    next=Moment(message="Defib asks for its eviction: it is asked to leave", at=T0 + 35 * MINUTE),
    later=Moment(message="if its budget still refuses, it is deleted past it", at=T0 + 58 * MINUTE),
)
QUIET = PodDiagnosis(pod="shop/db-0", owner="", findings=(), next=BLOCKED.next)

WIDTH = 100


def a_diagnosis(*pods: PodDiagnosis, **changes: Any) -> Diagnosis:
    told = Diagnosis(
        node="n1",
        now=T0,
        state=State.DRAINING,
        summary="being drained: the node is cordoned, and marked with defib.dev/watch-drain; 2 pods have to leave",
        since=T0 - 10 * MINUTE,
        unready="",
        source="Kubectl",
        policy="workers",
        mode="Automatic",
        defib="watches the drain, by DrainPolicy workers, mode Automatic",
        peer_deadline=None,
        fails_at=T0 + 66 * MINUTE,
        record=None,
        holds=(),
        pods=pods,
        staying={"of a DaemonSet": 2},
    )
    return msgspec.structs.replace(told, **changes)


def a_forecast(**changes: Any) -> Forecast:
    told = Forecast(
        now=T0,
        nodes=40,
        pods=380,
        blocked=(),
        budgets=(),
        stuck=(),
        unready=(),
        slow=(),
        bare=(),
        with_local_data={},
        left_alone={},
    )
    return msgspec.structs.replace(told, **changes)


def drawn(drawing: RenderableType, width: int = WIDTH) -> str:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(drawing)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_a_diagnosis_reads_like_this() -> None:
    assert (
        drawn(page(a_diagnosis(BLOCKED, QUIET)))
        == """\
Node n1
  drain        being drained: the node is cordoned, and marked with defib.dev/watch-drain; 2 pods
               have to leave
  since        2029-12-31 23:50:00 UTC (10m ago)
  Defib        watches the drain, by DrainPolicy workers, mode Automatic
  fails        01:06:00 UTC (in 1h6m) it counts as failed, if pods are still there
  staying      pods that no drain waits for: 2 of a DaemonSet

Pod shop/web-1 (ReplicaSet web-5d4)
  blocked by   disruption budget shop/web never lets a pod go: minAvailable 3 of 3 pods
               -> set maxUnavailable 1 instead
  note         what is in its emptyDir cache is lost when it leaves
  next         00:35:00 UTC (in 35m): Defib asks for its eviction: it is asked to leave
  later        00:58:00 UTC (in 58m): if its budget still refuses, it is deleted past it

Nothing is in the way of
  1 pod        shop/db-0
  next         00:35:00 UTC (in 35m): Defib asks for its eviction: it is asked to leave

Worked out from the cluster as it is now, by the operator's rules. What only a running operator
knows is not in it: evictions that have just been refused, its turn among other nodes."""
    )


def test_what_holds_a_drain_and_what_is_not_known_are_told() -> None:
    record = RecordTold(
        phase="Held", reason="Lock", message="bob works on it", is_begun=True, has_failed=True, paused_at=None
    )
    told = a_diagnosis(
        unready="the node is not ready (Ready is Unknown for 7m)",
        record=record,
        holds=("the brake is on: storage",),
        peer_deadline=T0 + MINUTE,
        unknown=("claims could not be read",),
    )
    said = drawn(page(told))
    for words in (
        "kubelet      the node is not ready (Ready is Unknown for 7m)",
        "its record   Held (Lock): bob works on it",
        "held         nothing is forced: the brake is on: storage",
        "deadline     whoever drains it forces by itself from 00:01:00 UTC (in 1m) on",
        "failed       the drain takes longer than it may",
        "not known    claims could not be read",
    ):
        assert words in said
    assert told.is_stuck


def test_a_forecast_reads_like_this() -> None:
    budget = BudgetForecast(
        budget="shop/web",
        reason=Reason.BUDGET_NEVER,
        message="disruption budget shop/web never lets a pod go: minAvailable 3 of 3 pods",
        advice="set maxUnavailable 1 instead",
        nodes=("n1", "n2"),
        pods=3,
    )
    told = a_forecast(
        blocked=("n1", "n2", "n3"),
        budgets=(budget,),
        stuck=(PodForecast(pod="shop/x", node="n3", reason=Reason.STUCK, message="it should have ended 4m ago"),),
        slow=(SlowBudget(budget="shop/db", allowed=1, nodes=("n4",)),),
        bare=(PodForecast(pod="shop/alone", node="n5", reason=Reason.BARE, message="it has no controller"),),
        with_local_data={"n1": 4, "n2": 1},
        left_alone={"its annotation defib.dev/keep says that it stays": 1},
    )
    assert (
        drawn(forecast_page(told))
        == """\
3 of 40 nodes could not be drained as things are
  pods         380 pods would have to leave
  slow         shop/db lets 1 go at a time, and has more on n4
  bare         nobody would make another one of shop/alone on n5
  local data   5 pods on 2 nodes with emptyDir or hostPath volumes
  asks to stay 1 pod: its annotation defib.dev/keep says that it stays

Disruption budget shop/web
  blocks       2 nodes with 3 pods: n1, n2
  why          disruption budget shop/web never lets a pod go: minAvailable 3 of 3 pods
  change       set maxUnavailable 1 instead

Pods that hang already
  shop/x on n3: it should have ended 4m ago"""
    )


def test_a_forecast_without_trouble_is_one_good_line() -> None:
    assert drawn(forecast_page(a_forecast())).startswith("40 nodes could be drained as things are")


def test_a_forecast_that_has_not_seen_the_budgets_promises_nothing() -> None:
    said = drawn(forecast_page(a_forecast(is_sure=False, unknown=("budgets could not be read",))))
    assert said.startswith("Whether 40 nodes could be drained is not known")


def test_long_lists_are_cut_and_said_to_be() -> None:
    nodes = tuple(f"n{number}" for number in range(40))
    assert "n11 and\n               28 more" in drawn(forecast_page(a_forecast(unready=nodes, blocked=nodes)))


@pytest.mark.parametrize("width", [60, 100])
def test_nothing_is_wider_than_asked_for_and_nothing_steers_a_terminal(width: int) -> None:
    hostile = msgspec.structs.replace(BLOCKED, pod="shop/\x1b[31mred" + "x" * 200)
    said = drawn(page(a_diagnosis(hostile)), width)
    assert max(map(len, said.splitlines())) <= width
    assert "\x1b" not in said


def test_a_machine_reads_stable_reasons() -> None:
    read = msgspec.json.decode(msgspec.json.encode(a_diagnosis(BLOCKED)))
    (pod,) = read["pods"]
    assert [(one["reason"], one["blocks"], one["budget"]) for one in pod["findings"]] == [
        ("BudgetNeverAllows", True, "shop/web"),
        ("LocalData", False, ""),
    ]
    assert (read["state"], read["failsAt"]) == ("Draining", "2030-01-01T01:06:00Z")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["drain"], "which node? Give its name, or --forecast for all nodes"),
        (["drain", "n1", "--forecast"], "give a node or --forecast, not both"),
        (["drain", "n1", "--selector", "a=b"], "--selector says which nodes --forecast is about"),
    ],
)
def test_half_a_question_is_a_wrong_command_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(arguments, program="defib") == 2
    assert words in capsys.readouterr().err


def test_help_says_what_the_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["drain", "--help"], program="defib") == 0
    said = capsys.readouterr().out
    assert f"{STUCK} a pod does not leave, or could not" in said
    assert "defib drain --forecast" in said
