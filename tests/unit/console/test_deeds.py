"""Whatever Defib can do is told in a sentence, and nothing that changes a cluster is told as a mere note."""

from typing import get_args

from defib.console.deeds import ACTS, ASKS, SENTENCES, WRITES, deed_of, effect_of
from defib.model.action import Action, MovePod
from tests.builders import T0

KINDS = get_args(Action)


def test_every_action_has_a_sentence() -> None:
    assert {kind.__name__ for kind in KINDS if kind not in SENTENCES} == set()


def test_only_records_and_locks_of_our_own_are_notes() -> None:
    """Whoever adds an action decides here what it is."""
    assert {kind.__name__ for kind in KINDS if effect_of(kind) == WRITES} == {
        *("WriteStatus", "TellEvent", "HoldLock", "ReleaseLock", "MarkRemediation", "SetFinalizers"),
        *("ReportRemediation", "OpenIncident", "DropIncident", "OpenDrain", "DropDrain", "DropMember"),
        *("ClearNodeAnnotation", "OpenAccount", "WriteAccount", "DropAccount", "DistrustNode"),
    }
    assert {kind.__name__ for kind in KINDS if effect_of(kind) == ASKS} == {
        *("ReadPower", "CheckPower", "ReadClaim", "GatherEvidence", "ReadMembers", "HearAgents"),
    }


def test_a_sentence_says_what_is_done_to_what_and_for_whom() -> None:
    move = MovePod(
        node="n1", node_uid="u", namespace="ns", name="p", uid="1", because="check c", since=T0, grace_seconds=0
    )
    deed = deed_of(move)
    assert (deed.effect, deed.node) == (ACTS, "n1")
    assert deed.what == "have pod ns/p leave node n1: delete it without waiting for its node, for check c"
