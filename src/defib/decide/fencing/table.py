"""The life of an incident as one table: from where, to where, and when. The first row that fits is taken.

Rows are about what is written down, so a crash between any two writes changes nothing: whoever comes next finds the
same row. Withdrawing stands above going on, and going on above giving up. The picture in docs/reference is drawn
from this table.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from defib.decide.fencing.agents import has_outlived, has_started_anew, is_by_agent, is_exposed, is_proved
from defib.decide.fencing.case import Case
from defib.decide.fencing.order import cause_of
from defib.decide.fencing.proofs import is_borne_out, is_disproved
from defib.model.incident import Outcome, Phase
from defib.model.power import PowerState
from defib.model.power_cycle import HandOver
from defib.model.saved import to_save

Changes = dict[str, Any]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`name` says when, for a person; `also` are further changes of the incident's status that go with it."""

    source: Phase
    target: Phase
    name: str
    when: Callable[[Case], bool]
    also: Callable[[Case], Changes] = lambda _: {}


def next_row(case: Case) -> Row | None:
    phase = case.status.phase
    return next((row for row in TRANSITIONS if row.source is phase and row.when(case)), None)


def _withdrawn(case: Case) -> bool:
    return bool(case.order.withdrawn)


def _time_is_up(case: Case) -> bool:
    return case.time_is_up


def _has_attempts_left(case: Case) -> bool:
    """One that took itself down and stays away cannot be ordered once more; and which boot it was must not be forgotten."""
    return case.time_is_up and case.status.attempt < case.policy.attempts and not is_proved(case)


def _can_be_replaced(case: Case) -> bool:
    return case.time_is_up and case.policy.hand_over is HandOver.DELETE_MACHINE and case.order.machine is not None


def _is_to_be_told(case: Case) -> bool:
    """It had never rebooted, and that does not stand on its Node yet."""
    return has_outlived(case) and not is_exposed(case)


def _is_over_with(case: Case) -> bool:
    """Nothing has to be undone: it was never switched, or it is on again, and its node is as it was."""
    if is_proved(case) and case.node is not None:  # it is waited for, to see whether it is another boot
        return False
    return case.is_clean and (not case.was_commanded or case.is_on)


def _begin(case: Case) -> Changes:
    node = case.node
    return {
        "node_uid": node.uid if node is not None else "",
        "boot_id": node.status.node_info.boot_id if node is not None else "",
        "power": case.path,
    }


def _proved(case: Case) -> Changes:
    proof, node = case.proof, case.node
    assert proof is not None, "asked for only where there is one"
    if node is None:
        return {"proof": proof}
    # It may have started or registered since we began: that has ended, too, and is not taken for its return.
    return {"proof": proof, "node_uid": node.uid, "boot_id": node.status.node_info.boot_id} | telling(case)


def telling(case: Case) -> Changes:
    """What must be written down before Kubernetes is told.

    A taint that is there already is somebody else's, or of an incident of ours that somebody has deleted.
    """
    if case.node is None:
        return {}
    if case.deletes_node:
        return {"saved": to_save(case.node, case.status.saved)}
    return {"tainted": case.status.tainted or case.taint is None or case.node.our_taint is not None}


def _once_more(case: Case) -> Changes:
    """Nothing that was proved in an earlier attempt counts for the next one. The node may have come back since, ill."""
    return {"attempt": case.status.attempt + 1, "proof": None, "was_off": False, "seen_on": None} | (
        _begin(case) if case.node else {}
    )


def _closed(outcome: Outcome) -> Callable[[Case], Changes]:
    return lambda _: {"outcome": outcome}


def _from(
    source: Phase, *rows: tuple[Phase, str, Callable[[Case], bool], Callable[[Case], Changes]]
) -> tuple[Row, ...]:
    return tuple(Row(source=source, target=to, name=name, when=when, also=also) for to, name, when, also in rows)


def _handing_over(case: Case) -> Changes:
    """By its own name: a Machine that is being deleted may no longer say which node it has."""
    return {"machine": cause_of(case.order.machine)} if case.order.machine is not None else {}


def _nothing(_: Case) -> Changes:
    return {}


def _and_in_doubt(when: Callable[[Case], bool]) -> Callable[[Case], bool]:
    return lambda case: when(case) and not is_borne_out(case)


def _with_no_proof(also: Callable[[Case], Changes]) -> Callable[[Case], Changes]:
    """A person may still confirm it, which nobody asks for where there is a proof."""
    return lambda case: also(case) | {"proof": None}


def _stirred(case: Case) -> Changes:
    return {"proof": None} if is_disproved(case) else {}


_FAILED = (
    (Phase.RESTING, "the time is up, and another attempt is left", _has_attempts_left, _nothing),
    (Phase.REPLACING, "the time is up, and the machine can be replaced", _can_be_replaced, _handing_over),
    (Phase.NEEDS_PERSON, "the time is up", _time_is_up, _nothing),
)
_NOT_BORNE_OUT = tuple(
    (to, f"{name}; its power could not be read once more", _and_in_doubt(when), _with_no_proof(also))
    for to, name, when, also in _FAILED
)
_NEVER_REBOOTED = (
    Phase.NEEDS_PERSON,
    "the same boot reports after it had to be dead",
    is_exposed,
    lambda _: {"proof": None},
)
_WITHDRAWN = (Phase.CANCELLING, "it is not wanted any more", _withdrawn, _nothing)
_BY_HAND = (Phase.NEEDS_PERSON, "only a person can switch this machine", lambda case: case.is_by_hand, _nothing)
_BACK = (Phase.RESTORING, "the node is back", lambda case: case.is_back, _nothing)
_BACK_FOR_GOOD = (Phase.RESTORING, "the node is back", lambda case: case.is_back_for_good, _nothing)

TRANSITIONS: tuple[Row, ...] = (
    *_from(
        Phase.OPEN,
        (Phase.CLOSED, "it is not wanted any more", _withdrawn, _closed(Outcome.CANCELLED)),
        (Phase.LOOKING, "nothing stands against it", lambda case: case.obstacle is None, _begin),
    ),
    *_from(
        Phase.LOOKING,
        _WITHDRAWN,
        (Phase.POWERING_OFF, "it cannot be read", lambda case: not case.can_read, _nothing),
        (
            Phase.POWERING_OFF,
            "it is a Metal3 host, of which nothing is known before it is asked to stay off",
            lambda case: case.is_metal3,
            lambda case: {"was_off": not case.host_is_on},
        ),
        (
            Phase.POWERING_OFF,
            "it is on",
            lambda case: case.reads is PowerState.ON,
            lambda case: {"seen_on": case.seen_on, "was_off": False},
        ),
        (
            Phase.POWERING_OFF,
            "it is off already, and a person says so",  # whoever did that does not expect it to be switched on
            lambda case: case.reads is PowerState.OFF and case.confirmation is not None,
            lambda _: {"was_off": True, "seen_on": None},
        ),
        (
            Phase.TESTING,
            "it is off already",
            lambda case: case.reads is PowerState.OFF,
            lambda _: {"was_off": True},
        ),
        *_FAILED,
    ),
    *_from(
        Phase.TESTING,
        _WITHDRAWN,
        (
            Phase.POWERING_OFF,
            "it went on when it was told to",
            lambda case: case.was_sent(PowerState.ON) is not None and case.reads is PowerState.ON,
            lambda case: {"seen_on": case.seen_on},
        ),
        *_FAILED,
    ),
    *_from(
        Phase.POWERING_OFF,
        _NEVER_REBOOTED,
        _WITHDRAWN,
        (Phase.FREEING, "it is proved to be down", lambda case: case.proof is not None, _proved),
        (Phase.RESTORING, "the node is back", lambda case: is_by_agent(case) and case.is_back, _nothing),
        (Phase.POWERING_ON, "the node has started anew", has_started_anew, _nothing),
        _BY_HAND,
        *_FAILED,
    ),
    *_from(
        Phase.FREEING,
        _NEVER_REBOOTED,
        (
            Phase.CANCELLING,
            "it is not wanted any more",
            # Whoever sees the Node gone may withdraw because of that; it is down, and what ran there is freed all the same.
            lambda case: _withdrawn(case) and not (case.status.saved is not None and case.node is None),
            _nothing,
        ),
        (Phase.POWERING_ON, "it shows life", lambda case: case.has_stirred, _stirred),
        (Phase.POWERING_ON, "its node may not be touched", lambda case: case.is_forbidden, _nothing),
        (Phase.POWERING_ON, "its workloads are free", lambda case: case.is_freed, _nothing),
        *_NOT_BORNE_OUT,
        (Phase.POWERING_ON, "the time is up", _time_is_up, _nothing),
    ),
    *_from(
        Phase.POWERING_ON,
        _NEVER_REBOOTED,
        (
            Phase.RESTORING,
            "the node is back",
            lambda case: case.is_back and (case.is_new or case.was_sent(PowerState.ON) is not None),
            _nothing,
        ),
        (Phase.RETURNING, "it is on", lambda case: case.is_on, _nothing),
        _BY_HAND,
        *_FAILED,
    ),
    *_from(Phase.RETURNING, _NEVER_REBOOTED, _BACK, _WITHDRAWN, *_FAILED),
    *_from(
        Phase.RESTORING,
        (
            Phase.CLOSED,
            "nothing of ours is left",
            lambda case: case.is_clean and not case.order.finish,
            _closed(Outcome.RECOVERED),
        ),
        (Phase.NEEDS_PERSON, "the time is up", _time_is_up, _nothing),
    ),
    *_from(
        Phase.RESTING,
        _BACK_FOR_GOOD,
        _WITHDRAWN,
        (Phase.LOOKING, "it has rested", lambda case: case.time_is_up and case.obstacle is None, _once_more),
    ),
    *_from(
        Phase.CANCELLING,
        _NEVER_REBOOTED,
        _BACK_FOR_GOOD,
        (Phase.CLOSED, "nothing of ours is left", _is_over_with, _closed(Outcome.CANCELLED)),
        _BY_HAND,
        (
            Phase.RESTORING,
            "the time is up, and the node is ready as it is",
            lambda case: case.time_is_up and case.is_alive and case.is_on and not _is_to_be_told(case),
            _nothing,
        ),
        (Phase.NEEDS_PERSON, "the time is up", _time_is_up, _nothing),
    ),
    *_from(
        Phase.REPLACING,
        (
            Phase.CLOSED,
            "the machine is gone",
            lambda case: case.order.machine is None and case.order.knows_machine and case.node is None,
            _closed(Outcome.REPLACED),
        ),
        (Phase.NEEDS_PERSON, "the time is up", _time_is_up, _nothing),
    ),
    *_from(
        Phase.NEEDS_PERSON,
        _BACK_FOR_GOOD,
        (
            Phase.FREEING,
            "a person confirms that it is off",
            lambda case: not _withdrawn(case) and case.status.proof is None and case.proof is not None,
            _proved,
        ),
        (
            Phase.CLOSED,
            "it is not wanted any more, and nothing of ours is left",
            lambda case: _withdrawn(case) and _is_over_with(case),
            _closed(Outcome.CANCELLED),
        ),
        (
            Phase.RESTORING,
            "it is not wanted any more, and the node is ready as it is",
            lambda case: _withdrawn(case) and case.is_heard and case.is_settled and not _is_to_be_told(case),
            _nothing,
        ),
    ),
)
