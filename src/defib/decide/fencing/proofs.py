"""What proves that a machine is down: its power, the time, or a person. Each of them is worth nothing while it reports."""

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from defib.decide.fencing.agents import CLOCKS_DIFFER, is_by_agent, is_proved, is_still_silent, proof_by_agent
from defib.model.incident import Confirmation, Grade, Phase, PowerReading, Proof
from defib.model.power import Look, PowerState

if TYPE_CHECKING:
    from defib.decide.fencing.case import Case

BMO_POLL = timedelta(seconds=60)  # so old may be what the baremetal operator says of a host that nobody had switched
UNREADABLE_WAIT = timedelta(seconds=30)  # after an off that nobody can read back
OFF_IS_FRESH = timedelta(seconds=30)  # so long after it was read as off, something may be freed by that


def proof_of(case: "Case") -> Proof | None:
    """The first of a grade that is accepted here."""
    found = (_by_power(case), _by_time(case), _by_person(case))
    return next((proof for proof in found if proof is not None and proof.grade in case.policy.accepts), None)


# Machines do not go back in time when etcd is restored from a backup. So whoever frees something by a proof of power
# holds it against the machine first.


def is_still_off(case: "Case") -> bool:
    """Whether this very process has read it as off a moment ago, or hears nothing of a node that took itself down.

    Other proofs cannot be looked at once more.
    """
    if is_proved(case):
        return is_still_silent(case)
    looks = _telling(case)
    is_fresh = bool(looks) and looks[-1].reading.at >= case.cluster.now - OFF_IS_FRESH
    return not _is_by_power(case) or (is_fresh and is_borne_out(case))


def is_borne_out(case: "Case") -> bool:
    """Whether this process has seen for itself what the record says."""
    looks = _telling(case)
    if not _is_by_power(case):
        return True
    if is_disproved(case) or not looks:
        return False
    # What a Metal3 host says is a record as well, and as old, until the baremetal operator has looked.
    is_of_now = case.seen.sent is not None or looks[-1].reading.at >= looks[0].reading.at + BMO_POLL
    return is_of_now or not case.is_metal3


def is_disproved(case: "Case") -> bool:
    """Whether it was read as on since it was proved to be off, or this process itself has told it to go on."""
    looks, sent = _telling(case), case.seen.sent
    is_on = bool(looks) and looks[-1].reading.state is PowerState.ON
    return _is_by_power(case) and (is_on or (sent is not None and sent.power is PowerState.ON))


def _is_by_power(case: "Case") -> bool:
    return case.status.proof is not None and case.status.proof.grade is Grade.POWER


def _telling(case: "Case") -> list[Look]:
    """What is known of this machine, by the way that is named now."""
    looks = (look for look in case.seen.looks if look.path in (None, case.path))
    return [look for look in looks if look.reading.state is not PowerState.UNKNOWN]


def _by_power(case: "Case") -> Proof | None:
    sent = case.was_sent(PowerState.OFF)
    if sent is None or (case.status.seen_on is None and not case.is_metal3):
        return None
    if case.status.was_off and case.is_metal3:
        sent += BMO_POLL
    pair = case.twice(PowerState.OFF, sent)
    if pair is None or any(look.heartbeat != case.heartbeat for look in pair):
        return None
    how = "its power was read as off twice, after it was switched off, and no heartbeat came since"
    return Proof(grade=Grade.POWER, at=case.cluster.now, how=how, readings=[written(look) for look in pair])


def _by_time(case: "Case") -> Proof | None:
    if is_by_agent(case):
        return proof_by_agent(case)
    sent = case.was_sent(PowerState.OFF)
    if case.can_read or sent is None or case.cluster.now < sent + UNREADABLE_WAIT or not case.is_silent_since(sent):
        return None
    how = f"off was accepted {UNREADABLE_WAIT.total_seconds():g} s ago, and this driver cannot read the power back"
    return Proof(grade=Grade.TIME, at=case.cluster.now, how=how)


def _by_person(case: "Case") -> Proof | None:
    said = confirmation_of(case)
    if said is None or not case.is_silent_since(said.at):
        return None
    looks = case.seen.looks
    if looks and looks[-1].reading.state is PowerState.ON and looks[-1].reading.at >= said.at:
        return None
    how = f"{said.by} confirmed at {said.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC that it is off"
    return Proof(grade=Grade.PERSON, at=case.cluster.now, how=how, by=said.by)


def confirmation_of(case: "Case") -> Confirmation | None:
    """Of this attempt, and not from before we told it to go on, or saw it on. People do not count microseconds."""
    said, command, seen_on = case.incident.spec.confirmed_off, case.status.command, case.status.seen_on
    if said is None or said.at > case.cluster.now + CLOCKS_DIFFER:
        return None
    if seen_on is not None and seen_on.at >= said.at:
        return None
    if command is not None and command.power == PowerState.ON.value and command.at >= said.at:
        return None
    looked = [entry.at for entry in case.status.timeline or () if entry.phase == Phase.LOOKING]
    began = looked[-1].replace(microsecond=0) if looked else case.incident.metadata.creation_timestamp
    return said if began is None or said.at >= began else None


def written(look: Look) -> PowerReading:
    reading = look.reading
    return PowerReading(state=reading.state.value, at=reading.at, detail=reading.detail)
