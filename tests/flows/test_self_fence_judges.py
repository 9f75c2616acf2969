"""What the judges of days with agents find, and what they let pass: histories made by hand."""

from typing import Any

import pytest

from defib.decide.fencing.said import NEVER_REBOOTED as REASON
from defib.model.incident import INCIDENTS
from defib.model.self_fence import ORDER, Order, lease_name, text_of
from defib.model.self_fencing import NEVER_REBOOTED
from tests.simulation.faults import Trouble
from tests.simulation.history import OnNode
from tests.simulation.self_fence.guarded import BY_ORDER, WITHOUT_CAUSE
from tests.simulation.self_fence.guarding import Guarding
from tests.simulation.self_fence.judges import EXPOSED_SECONDS, judge
from tests.simulation.self_fence.machines import BOOTED, DISOBEYED, IN_VAIN, LOST_POWER
from tests.simulation.self_fence.reached import BY_NEW_BOOT, BY_TIME, EXPOSED, OUTAGE, reached_in
from tests.simulation.shape import HOME
from tests.simulation.tales import Tale, lease
from tests.simulation.world import LEASES

BOOT = "boot-1"
C = {"grade": "C", "at": "x", "how": "36 s have passed"}


class Guarded(Tale):
    """n1 runs, is ordered to die, and nobody hears of it."""

    def __init__(self) -> None:
        super().__init__()
        self.becomes(BOOTED)
        self.agent_writes()

    def becomes(self, what: str, boot: str = BOOT) -> None:
        self.entries.append(OnNode(self.at, "n1", boot, what))

    def agent_writes(self, boot: str = BOOT) -> None:
        known = lease(HOME, lease_name("n1"), "n1", self.at, 15)
        order = {ORDER: text_of(Order(remediation="x", boot_id=boot))}
        self.put(LEASES, {**known, "metadata": {**known["metadata"], "annotations": order}})

    def counts(self, **more: Any) -> None:
        self.is_in("n1", "FreeingWorkloads", proof={**C, **more})

    def found(self, *broken: str) -> list[str]:
        return [finding.invariant for finding in judge(self.entries, broken, self.at)]

    def is_marked(self) -> None:
        known = self.there("nodes", "n1")
        metadata = {**known["metadata"], "annotations": {NEVER_REBOOTED: "now"}}
        self.put("nodes", {**known, "metadata": metadata})


def test_whoever_is_counted_as_dead_and_runs_is_found() -> None:
    tale = Guarded()
    tale.counts()
    assert tale.found() == ["I1"]


@pytest.mark.parametrize("how", [BY_ORDER, LOST_POWER, WITHOUT_CAUSE])
def test_whoever_is_counted_as_dead_and_is_down_is_not(how: str) -> None:
    tale = Guarded()
    tale.becomes(how)
    tale.counts()
    assert "I1" not in tale.found()


def test_a_boot_that_nobody_ordered_to_die_is_none_that_should_be_dead() -> None:
    tale = Guarded()
    tale.becomes(BY_ORDER)
    tale.becomes(BOOTED, "boot-2")
    tale.counts()
    assert tale.found() == []


def test_other_proofs_are_for_other_judges() -> None:
    tale = Guarded()
    tale.counts(grade="A")
    assert tale.found() == []


def test_a_node_that_takes_itself_down_without_a_cause_is_found() -> None:
    tale = Guarded()
    tale.becomes(WITHOUT_CAUSE)
    assert tale.found() == ["I5"]


def test_an_agent_that_feeds_although_it_has_read_its_order_is_found() -> None:
    tale = Guarded()
    tale.becomes(DISOBEYED)
    assert tale.found() == ["I10"]


def exposed() -> Guarded:
    """It was counted as dead with a broken watchdog, and is heard of again."""
    tale = Guarded()
    tale.becomes(IN_VAIN)
    tale.after(100)
    tale.counts()
    tale.after(20)
    tale.agent_writes()
    return tale


def test_a_broken_watchdog_is_no_fault_of_the_operator_if_it_says_so_in_time() -> None:
    tale = exposed()
    assert tale.found("n1") == []
    tale.is_marked()
    tale.is_in("n1", "NeedsPerson", reason=REASON)
    tale.after(10 * EXPOSED_SECONDS)
    assert tale.found("n1") == []


@pytest.mark.parametrize("half", ["nothing", "the Node alone", "the incident alone"])
def test_whoever_was_counted_as_dead_comes_back_and_is_not_told_of_is_found(half: str) -> None:
    tale = exposed()
    if half == "the Node alone":
        tale.is_marked()
    if half == "the incident alone":
        tale.is_in("n1", "NeedsPerson", reason=REASON)
    tale.after(10 * EXPOSED_SECONDS)
    assert tale.found("n1") == ["I8"]


def test_where_we_have_deleted_its_node_the_incident_alone_tells_of_it() -> None:
    tale = exposed()
    tale.drop("nodes", "n1")
    tale.is_in("n1", "NeedsPerson", reason=REASON)
    tale.after(10 * EXPOSED_SECONDS)
    assert tale.found("n1") == []


def test_whoever_goes_down_before_it_is_heard_of_need_not_be_told_of() -> None:
    tale = Guarded()
    tale.becomes(IN_VAIN)
    tale.counts()
    tale.becomes(LOST_POWER)
    tale.after(20)
    tale.agent_writes()
    tale.after(10 * EXPOSED_SECONDS)
    assert tale.found("n1") == []


def test_a_node_with_a_good_watchdog_that_is_called_a_liar_is_found() -> None:
    tale = Guarded()
    tale.is_marked()
    assert tale.found() == ["I8"]
    assert tale.found("n1") == []


def test_what_days_reach_is_counted_by_its_kind() -> None:
    tale = exposed()
    tale.is_marked()
    tale.is_in("n1", "FreeingWorkloads", proof={**C, "how": "its agent has reported another boot since"})
    outage = Trouble(layer="server", what="is down", at=0.0, seconds=50.0)
    short = Trouble(layer="server", what="is down", at=0.0, seconds=5.0)
    reached = reached_in(tale.entries, (outage, short), Guarding())
    assert (reached[BY_TIME], reached[BY_NEW_BOOT], reached[EXPOSED]) == (1, 1, 1)
    assert reached[f"machine {IN_VAIN}"] == 1
    assert not reached[OUTAGE], "a machine was not well meanwhile"
    assert reached_in([], (outage, short), Guarding())[OUTAGE] == 1


def test_an_incident_that_is_deleted_counts_nobody_as_dead() -> None:
    tale = Guarded()
    tale.becomes(BY_ORDER)
    tale.counts()
    tale.becomes(BOOTED)
    tale.drop(INCIDENTS, "n1")
    assert tale.found() == []
