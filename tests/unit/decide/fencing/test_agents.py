"""A node that takes itself down: what proves that it is dead, and what shows that it never was."""

from typing import Any

import msgspec
import pytest

from defib.decide.fencing.agents import HEARD_SECONDS, has_outlived, listen
from defib.decide.fencing.case import Case
from defib.decide.fencing.said import said
from defib.decide.fencing.work import work
from defib.decide.self_fence.safe_time import safe_time
from defib.model.action import SwitchPower, UntaintNode
from defib.model.agents import AgentSeen, AgentsSeen, DistrustNode, HearAgents
from defib.model.cluster import Cluster
from defib.model.incident import Grade, Phase, Proof
from defib.model.node import Condition, Node, NodeInfo, NodeStatus
from defib.model.power import AGENT, PowerPath
from defib.model.self_fence import PEERS_EVERY, Order, Report
from defib.model.self_fencing import NEVER_REBOOTED
from tests.builders import SECOND, T0, a_node
from tests.unit.decide.fencing.cases import (
    NODE,
    OFF,
    a_case,
    a_command,
    a_look,
    a_policy,
    after,
    an_incident,
    an_order,
    back,
    change,
    goes_to,
    seen,
    writes,
)
from tests.unit.decide.self_fence.test_safe_time import REPORTED

BY_AGENT = PowerPath(driver=AGENT)
KNOWN = {"east": 1, "h0": 1, "h1": 1, "s0": 1}
BOOTED = msgspec.structs.replace(REPORTED, boot_id="boot-1", known=KNOWN)
SAFE = safe_time(BOOTED).seconds
TOLD = BOOTED.pace.recent_seconds + BOOTED.pace.late_seconds + HEARD_SECONDS
DIES = Order(remediation="r", boot_id="boot-1")
ORDER = an_order(path=BY_AGENT, policy=a_policy(accepts=(Grade.TIME,)))
DEAD = Proof(grade=Grade.TIME, at=after(80), how="time")


def an_agent(report: Report | None = BOOTED, **changes: Any) -> AgentSeen:
    """Its order stands since so long, and nobody hears of it."""
    usual: dict[str, Any] = {
        "domain": "east",
        "order": DIES,
        "known_seconds": 9999,
        "silent_seconds": 90.0,
        "quiet_seconds": 90.0,
        "renewed_seconds": 90.0,
        "ordered_seconds": SAFE,
    }
    return AgentSeen(report=report, **(usual | changes))


def others(*, heard: int = 2, silent: int = 1) -> dict[str, AgentSeen]:
    heard_ones = {f"h{one}": an_agent(domain=f"h{one}", order=None, silent_seconds=1) for one in range(heard)}
    return heard_ones | {f"s{one}": an_agent(domain=f"s{one}", order=None) for one in range(silent)}


def listened(agent: AgentSeen | None, around: dict[str, AgentSeen] | None = None, *, at: float = 89) -> AgentsSeen:
    known = others() if around is None else around
    return AgentsSeen(after(at), known | ({"n1": agent} if agent is not None else {}))


def dying(
    agent: AgentSeen | None,
    around: dict[str, AgentSeen] | None = None,
    *,
    phase: Phase = Phase.POWERING_OFF,
    node: Node | None = NODE,
    heartbeat: float = -20,
    **more: Any,
) -> Case:
    look = a_look(
        at=90, node=node, heartbeat=after(heartbeat), **{key: more.pop(key) for key in ("pods",) if key in more}
    )
    return a_case(
        phase,
        cluster=msgspec.structs.replace(look, agents=listened(agent, around)),
        order=ORDER,
        power=BY_AGENT,
        command=a_command(OFF),
        seen=seen(told=OFF, can_read=False),
        **more,
    )


# Proofs


def test_it_is_dead_when_its_order_has_stood_for_the_safe_time_and_enough_others_are_heard() -> None:
    case = dying(an_agent())
    assert goes_to(case) is Phase.FREEING
    proof = writes(case)["proof"]
    assert proof.grade is Grade.TIME
    assert str(safe_time(BOOTED)) in proof.how
    assert "2 of 4 failure domains are heard" in proof.how


@pytest.mark.parametrize(
    ("agent", "around"),
    [
        (an_agent(ordered_seconds=SAFE - 0.1), None),
        (an_agent(order=None), None),
        (an_agent(order=Order(remediation="r", boot_id="boot-0")), None),
        (an_agent(None), None),
        (an_agent(msgspec.structs.replace(BOOTED, armed=False)), None),
        (an_agent(quiet_seconds=BOOTED.pace.recent_seconds - 0.1), None),
        (an_agent(), others(heard=1)),
        (an_agent(), {}),
        (None, None),
    ],
)
def test_it_is_not_while_anything_of_that_is_missing(
    agent: AgentSeen | None, around: dict[str, AgentSeen] | None
) -> None:
    assert dying(agent, around).proof is None


def test_nor_while_it_may_not_know_those_who_are_heard() -> None:
    """It read no list since the API server last answered it, so it lives by the word of those whom it knew then."""
    pace = BOOTED.pace
    listed = 2 * PEERS_EVERY * pace.interval_seconds
    for renewed, before, knows in ((9999 - listed, 0, True), (9999 - listed + 1, 0, False), (9999 - listed, 1, False)):
        report = msgspec.structs.replace(BOOTED, answered_seconds=before)
        assert (dying(an_agent(report, renewed_seconds=renewed)).proof is not None) is knows


def test_nor_while_its_kubelet_is_heard() -> None:
    assert dying(an_agent(), heartbeat=60).proof is None
    assert dying(an_agent(), heartbeat=-20).proof is not None


def test_nor_where_the_policy_does_not_name_the_grade() -> None:
    case = dying(an_agent())
    strict = an_order(path=BY_AGENT, policy=a_policy(accepts=(Grade.POWER, Grade.PERSON)))
    assert msgspec.structs.replace(case, order=strict).proof is None


def test_another_boot_of_its_agent_proves_it_earlier_while_its_kubelet_is_silent() -> None:
    anew = an_agent(msgspec.structs.replace(BOOTED, boot_id="boot-2"), ordered_seconds=45, quiet_seconds=0)
    assert goes_to(dying(anew, {})) is Phase.FREEING
    assert dying(anew, {}, heartbeat=60).proof is None


def test_a_kubelet_that_has_started_anew_is_waited_for_and_nothing_is_freed() -> None:
    ill = change(NODE, status=NodeStatus(conditions=NODE.status.conditions, node_info=NodeInfo(boot_id="boot-2")))
    case = dying(an_agent(), node=ill)
    assert (case.proof, goes_to(case)) == (None, Phase.POWERING_ON)
    assert goes_to(dying(an_agent(), node=ill, phase=Phase.POWERING_ON)) is Phase.RETURNING
    assert goes_to(dying(an_agent(), node=back())) is Phase.RESTORING


def test_it_has_as_much_longer_than_the_safe_time_and_the_reports_of_the_others_as_the_policy_says() -> None:
    case = dying(an_agent(ordered_seconds=0))
    assert case.limit == case.policy.off_within + (SAFE + TOLD) * SECOND


# What is done meanwhile


def test_an_order_that_is_gone_is_written_again_and_one_that_stands_is_not() -> None:
    assert any(isinstance(action, SwitchPower) for action in work(dying(an_agent(order=None))))
    assert not any(isinstance(action, SwitchPower) for action in work(dying(an_agent())))


def test_what_stands_written_is_believed_when_this_process_hears_nothing_either() -> None:
    heard = an_agent(quiet_seconds=0)
    assert work(dying(heard, phase=Phase.FREEING, proof=DEAD, tainted=True)) == ()
    assert work(dying(an_agent(), phase=Phase.FREEING, proof=DEAD, tainted=True)) != ()


def test_the_sum_is_told_while_it_is_waited_for() -> None:
    so = said(dying(an_agent(ordered_seconds=3)))
    assert so.reason == "TakingItselfDown"
    assert str(safe_time(BOOTED)) in so.message
    waits = said(dying(an_agent(ordered_seconds=SAFE + TOLD - 1), {}))
    assert (waits.reason, "the others are waited for" in waits.message) == ("TakingItselfDown", True)
    assert said(dying(an_agent(ordered_seconds=SAFE + TOLD), {})).reason == "TooFewHeard"
    assert said(dying(an_agent(quiet_seconds=0))).reason == "StillHeard"


def test_agents_are_listened_to_every_few_seconds() -> None:
    needs = [an_incident(Phase.POWERING_OFF, power=BY_AGENT)]
    assert listen("home", needs, Cluster(now=T0)) == (HearAgents(namespace="home"),)
    for nobody in ([], [an_incident(Phase.POWERING_OFF)], [an_incident(Phase.NEEDS_PERSON, power=BY_AGENT)]):
        assert listen("home", nobody, Cluster(now=T0)) == ()
    heard = Cluster(now=T0 + HEARD_SECONDS * SECOND - SECOND, agents=AgentsSeen(T0, {}))
    assert listen("home", needs, heard) == ()
    assert listen("home", needs, msgspec.structs.replace(heard, now=T0 + HEARD_SECONDS * SECOND)) == (
        HearAgents(namespace="home", after=T0),
    )


# Never assumed in vain


def returned(since: float = 85) -> Node:
    """Ready again, in the very boot that had to be dead."""
    ready = Condition(type="Ready", status="True", last_transition_time=after(since))
    return change(a_node("n1"), status=NodeStatus(conditions=[ready], node_info=NodeInfo(boot_id="boot-1")))


@pytest.mark.parametrize("phase", [Phase.FREEING, Phase.POWERING_ON, Phase.RETURNING, Phase.CANCELLING])
def test_a_node_that_returns_in_the_same_boot_had_never_rebooted_and_is_told_so(phase: Phase) -> None:
    case = dying(an_agent(), phase=phase, node=returned(), heartbeat=88, proof=DEAD)
    assert has_outlived(case)
    assert [type(action) for action in work(case)] == [DistrustNode]
    assert said(case).reason == "NeverRebooted"
    marked = change(
        returned(), metadata=msgspec.structs.replace(returned().metadata, annotations={NEVER_REBOOTED: "now"})
    )
    told = dying(an_agent(), phase=phase, node=marked, heartbeat=88, proof=DEAD)
    assert goes_to(told) is Phase.NEEDS_PERSON
    assert writes(told) == {"proof": None}


def test_so_had_one_whose_agent_reports_after_it_had_to_be_dead() -> None:
    """It was heard 5 s ago, and by then its order had stood for the safe time."""
    alive: dict[str, Any] = {"quiet_seconds": 0, "silent_seconds": 5}
    assert has_outlived(dying(an_agent(ordered_seconds=SAFE + 5, **alive)))
    assert not has_outlived(dying(an_agent(ordered_seconds=SAFE + 4, **alive)))
    assert not has_outlived(dying(an_agent(ordered_seconds=SAFE + 5, **alive), others(heard=1))), "it may live rightly"
    other_boot = msgspec.structs.replace(BOOTED, boot_id="boot-2")
    assert not has_outlived(dying(an_agent(other_boot, ordered_seconds=SAFE + 5, **alive)))


@pytest.mark.parametrize(("silent", "outlived"), [(9, True), (11, False)])
def test_once_it_is_proved_only_a_report_after_the_proof_says_so(silent: float, outlived: bool) -> None:
    """The proof is 10 s old. While most were cut off it may have lived rightly, for longer than the safe time."""
    case = dying(an_agent(ordered_seconds=SAFE + 200, silent_seconds=silent), phase=Phase.FREEING, proof=DEAD)
    assert has_outlived(case) is outlived


def test_what_kubernetes_said_of_a_node_before_it_was_proved_dead_says_nothing() -> None:
    assert not has_outlived(dying(an_agent(), phase=Phase.RETURNING, node=returned(-300), heartbeat=88, proof=DEAD))


def test_it_is_noticed_also_when_its_node_was_deleted_and_registers_anew() -> None:
    other = change(returned(), metadata=msgspec.structs.replace(returned().metadata, uid="another"))
    case = dying(an_agent(), phase=Phase.RETURNING, node=other, heartbeat=88, proof=DEAD)
    assert has_outlived(case)
    assert goes_to(case) is None
    assert [type(action) for action in work(case)] == [DistrustNode]


def test_one_that_stays_away_is_a_persons_and_what_was_counted_as_dead_is_not_forgotten() -> None:
    case = dying(an_agent(), phase=Phase.RETURNING, proof=DEAD, since=after(-3600))
    assert goes_to(case) is Phase.NEEDS_PERSON
    assert "proof" not in writes(case)
    withdrawn = msgspec.structs.replace(ORDER, withdrawn="nobody wants it")
    here = dying(None, phase=Phase.NEEDS_PERSON, node=returned(), heartbeat=88, proof=DEAD)
    here = msgspec.structs.replace(here, order=withdrawn)
    assert goes_to(here) is None
    assert [type(action) for action in work(here)] == [DistrustNode]


def test_one_that_has_rebooted_is_fine() -> None:
    case = dying(an_agent(), phase=Phase.RETURNING, node=back(), heartbeat=88, proof=DEAD)
    assert not has_outlived(case)
    assert goes_to(case) is Phase.RESTORING
    assert not any(isinstance(action, UntaintNode | DistrustNode) for action in work(case))
