"""How an incident stands, for a person: a word that stays the same and a sentence. Without numbers that run."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType

from defib.decide.fencing.agents import (
    has_outlived,
    heard_by,
    is_by_agent,
    is_proved,
    is_silent,
    is_still_silent,
    ordered,
    safe_time_of,
    told_seconds,
)
from defib.decide.fencing.case import Case
from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.proofs import is_borne_out, is_still_off
from defib.model.duration import say
from defib.model.incident import Grade, Outcome, Phase
from defib.model.power import PowerState

NEVER_REBOOTED = "NeverRebooted"
OUTLIVED = "it reports, with the same boot ID, after it had to be dead: its watchdog did not fire"
ADVICE = "whatever was freed may run twice: reboot it now, then find out why its watchdog failed"
SLOW = timedelta(seconds=10)  # so long a machine may take to go off before that is worth a word


def said(case: Case) -> Obstacle:
    if has_outlived(case):
        return Obstacle(NEVER_REBOOTED, f"{OUTLIVED}; {ADVICE}")
    return _SAID[case.status.phase](case)


def _open(case: Case) -> Obstacle:
    return case.obstacle or Obstacle("Starting", "nothing stands against it")


def _looking(case: Case) -> Obstacle:
    return _trouble(case) or Obstacle("ReadingPower", "the power of the machine is being read")


def _testing(case: Case) -> Obstacle:
    trouble = _trouble(case)
    if trouble is not None or case.was_sent(PowerState.ON) is None:
        return trouble or Obstacle("TestingPower", "it was off before we asked, and was never seen on")
    return Obstacle(
        "PowerDoubtful", "its power was read as off before we asked, and still is after it was told to go on: no proof"
    )


def _powering_off(case: Case) -> Obstacle:
    held = case.hold()
    if held is not None:
        return held
    if case.contradicts:
        return Obstacle("PowerContradicted", "its power is read as off, but its heartbeats go on: this is no proof")
    if trouble := _trouble(case):
        return trouble
    if is_by_agent(case):
        return _taking_itself_down(case)
    sent = case.was_sent(PowerState.OFF)
    if sent is not None and case.reads is PowerState.ON and case.cluster.now > case.since + SLOW:
        return Obstacle("StillOn", "it was told to switch off, and its power is still read as on")
    return Obstacle("PoweringOff", "it is told to switch off, and its power is read until it is off")


def _taking_itself_down(case: Case) -> Obstacle:
    agent, time = ordered(case), safe_time_of(case)
    if agent is None or time is None:
        return Obstacle("Ordering", "its agent is ordered to take the node down")
    told = f"it takes itself down, and is dead after {time}"
    if agent.ordered_seconds < time.seconds:
        return Obstacle("TakingItselfDown", told)
    if not is_silent(case, agent):
        return Obstacle("StillHeard", f"{told}; that time is over, and its agent or its kubelet is still heard")
    heard = heard_by(case, time)
    if agent.ordered_seconds < time.seconds + told_seconds(case):
        return Obstacle("TakingItselfDown", f"{told}; that time is over, and the others are waited for: {heard}")
    return Obstacle("TooFewHeard", f"{told}; that time is over, and {heard}: it may be us who are cut off")


def _doubted(case: Case) -> Obstacle | None:
    """Why nothing is freed, though it stands written that it was proved to be down."""
    if is_proved(case):
        silent = is_still_silent(case)
        return None if silent else Obstacle("HearingAgents", "it is made sure once more that nobody hears of it")
    trouble = None if is_still_off(case) else _trouble(case)
    if trouble is not None or is_borne_out(case):
        return trouble
    return Obstacle("ReadingPower", "its power is read once more, before anything is freed by what is written down")


def _freeing(case: Case) -> Obstacle:
    held = case.hold() or _doubted(case)
    if held is not None:
        return held
    node, failures = case.order.node, case.cluster.failures
    for key in (f"taint {node}", f"delete node {node}"):
        if key in failures:
            return Obstacle("NodeNotWritten", failures[key].why)
    if not case.is_told:
        return Obstacle("TellingKubernetes", "Kubernetes is told that nothing runs there any more")
    if case.pods is None:
        return Obstacle("PodsOutOfSight", "its pods are not in sight yet")
    return Obstacle("PodsLeaving", "it waits until its pods are gone") if case.pods else _detaching(case)


def _detaching(case: Case) -> Obstacle:
    failures = case.cluster.failures
    whys = [failures[key].why for one in case.attachments or () if (key := f"detach {one.uid}") in failures]
    if whys:
        return Obstacle("VolumesNotDetached", whys[0])
    return Obstacle("VolumesDetaching", "it waits until its volumes are detached")


def _powering_on(case: Case) -> Obstacle:
    return _trouble(case) or Obstacle("PoweringOn", "it is told to switch on, and its power is read until it is on")


def _returning(case: Case) -> Obstacle:
    node = case.node
    if node is not None and node.ready == "True":
        return Obstacle("SameBoot", "the node is ready, but has not started anew since it was switched off")
    return Obstacle("WaitingForNode", "it waits until the node is ready, with a new boot ID")


def _restoring(case: Case) -> Obstacle:
    for key in (f"restore {case.order.node}", f"untaint {case.order.node}"):
        if key in case.cluster.failures:
            return Obstacle("NodeNotWritten", case.cluster.failures[key].why)
    return Obstacle("Restoring", "the node is back, and gets what it had before")


def _resting(case: Case) -> Obstacle:
    next_time = f"attempt {case.status.attempt + 1} of {case.policy.attempts} begins {say(case.limit or case.policy.backoff)} after the last"
    return case.obstacle or Obstacle("WaitingToRetry", next_time)


def _cancelling(case: Case) -> Obstacle:
    why = case.order.withdrawn
    if not case.is_on and (trouble := _trouble(case)):
        return trouble
    return Obstacle("Cancelling", f"{why}; the machine is brought back as it was")


def _replacing(case: Case) -> Obstacle:
    held, failure = (
        case.hold(),
        case.cluster.failures.get(f"delete machine {case.order.machine.uid if case.order.machine else ''}"),
    )
    if failure is not None:
        return Obstacle("MachineNotDeleted", failure.why)
    return held or Obstacle(
        "ReplacingMachine", "all attempts have failed; the machine is deleted, so that its owner replaces it"
    )


def _needs_person(case: Case) -> Obstacle:
    """What it says stays: it is about what failed, which nothing here knows any more."""
    status = case.status
    if case.is_by_hand and status.proof is None and Grade.PERSON in case.policy.accepts:
        how = f"switch it off, make sure that it is, and say so: defib confirm-down {case.order.name}"
        return Obstacle("WaitsForConfirmation", f"only a person can switch this machine; {how}")
    if case.is_by_hand:
        return Obstacle("WaitsForPowerOn", "only a person can switch this machine; switch it on again")
    return Obstacle(status.reason, status.message)


def _closed(case: Case) -> Obstacle:
    return Obstacle(case.status.reason, case.status.message)


def why_closed(case: Case, outcome: Outcome) -> str:
    if outcome is Outcome.CANCELLED:
        return case.order.withdrawn
    return "the node is back" if outcome is Outcome.RECOVERED else "it was handed over"


def _trouble(case: Case) -> Obstacle | None:
    """What the way to the power answers, when it does not answer well."""
    path = case.order.path
    if isinstance(path, Obstacle) and case.path is None:
        return path
    if case.refusal:
        return Obstacle("PowerFailed", case.refusal)
    looks = case.looks
    if case.can_read and looks and looks[-1].reading.state is PowerState.UNKNOWN:
        return Obstacle("PowerUnknown", looks[-1].reading.detail or "the power cannot be read")
    return None


_SAID: Mapping[Phase, Callable[[Case], Obstacle]] = MappingProxyType(
    {
        Phase.OPEN: _open,
        Phase.LOOKING: _looking,
        Phase.TESTING: _testing,
        Phase.POWERING_OFF: _powering_off,
        Phase.FREEING: _freeing,
        Phase.POWERING_ON: _powering_on,
        Phase.RETURNING: _returning,
        Phase.RESTORING: _restoring,
        Phase.RESTING: _resting,
        Phase.CANCELLING: _cancelling,
        Phase.REPLACING: _replacing,
        Phase.NEEDS_PERSON: _needs_person,
        Phase.CLOSED: _closed,
    }
)
