"""The timeline of an account, in the order of time: what was known when it was opened, and what came of it."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from defib.model import medik8s
from defib.model.duration import say
from defib.model.incident import MESSAGE_MAX, TIMELINE_MAX, Entry, EntryKind, NodeIncident
from defib.model.moment import is_sensible, read_moment
from defib.model.remediation import Remediation

UNHEALTHY, ADMITTED, CREATED = "Unhealthy", "Admitted", "RemediationCreated"
TIMED_OUT, SUCCEEDED, ENDING, NEEDS_PERSON, CLOSED = "TimedOut", "Succeeded", "Ending", "NeedsPerson", "Closed"


def timeline(account: NodeIncident, *fresh: Entry) -> list[Entry]:
    """All that is written down, or else what is known from the beginning; then what is new, the latest last."""
    known = list(account.status.timeline or ()) or list(_opening(account))
    said = {(entry.phase, entry.at) for entry in known}
    entries = [*known, *(entry for entry in fresh if (entry.phase, entry.at) not in said)]
    return sorted(entries, key=lambda entry: entry.at)[-TIMELINE_MAX:]


def _opening(account: NodeIncident) -> Iterator[Entry]:
    spec = account.spec
    started = spec.started or account.opened
    by = check_of(account)
    if spec.unhealthy_since is not None:
        message = "; ".join(spec.evidence or ()) or "the node is unhealthy"
        yield entry(spec.unhealthy_since, UNHEALTHY, message, EntryKind.EVIDENCE, by)
    if started is None:
        return
    yield entry(started, ADMITTED, _admitted(account), EntryKind.DECISION, by)
    template = f" from template {spec.template}" if spec.template else ""
    yield entry(started, CREATED, f"{spec.cause} was created{template}", EntryKind.ACTION, by)


def _admitted(account: NodeIncident) -> str:
    gates = account.spec.gates or ()
    closed = [gate.name for gate in gates if not gate.open]
    if not gates:
        return "it was admitted"
    if closed:  # seen only after the decision
        return f"it was admitted; by now these gates are closed: {', '.join(closed)}"
    approved = f"; approved by {account.spec.approved_by}" if account.spec.approved_by else ""
    return f"every gate was open: {', '.join(gate.name for gate in gates)}{approved}"


def check_of(account: NodeIncident) -> str:
    return f"{medik8s.CHECK_KIND} {account.spec.check}" if account.spec.check else ""


def entry(at: datetime, phase: str, message: str, kind: EntryKind, by: str) -> Entry:
    return Entry(at=at, phase=phase, message=message[:MESSAGE_MAX], kind=kind.value, by=by)


def timed_out(account: NodeIncident, remediation: Remediation | None, now: datetime) -> tuple[Entry, ...]:
    """That it ran out of time, where that is marked on it and not told yet."""
    if remediation is None or medik8s.TIMED_OUT not in remediation.annotations or has_timed_out(account):
        return ()
    at = read_moment(remediation.annotations[medik8s.TIMED_OUT]) or now
    message = f"{remediation} has failed, or not brought the node back in time"
    return (entry(at, TIMED_OUT, message, EntryKind.DECISION, check_of(account)),)


def has_timed_out(account: NodeIncident) -> bool:
    return any(one.phase == TIMED_OUT for one in account.status.timeline or ())


def last_words(account: NodeIncident, remediation: Remediation | None, now: datetime) -> tuple[Entry, ...]:
    """What the remediation showed when it was last seen; nothing where nobody remembers it."""
    if remediation is None:
        return ()
    ended = remediation.deleting_since
    at = ended if ended is not None and is_sensible(ended) else now
    said = list(timed_out(account, remediation, now))
    if remediation.succeeded == "True":
        said.append(entry(at, SUCCEEDED, "it says that it has succeeded", EntryKind.PROOF, str(remediation)))
    if ended is not None:
        said.append(entry(at, ENDING, f"{remediation} was told to go", EntryKind.ACTION, ""))
    return tuple(said)


def lasted(account: NodeIncident, now: datetime) -> timedelta:
    """From when the node was unhealthy until now; where nobody wrote that down, from when it began."""
    began = account.spec.unhealthy_since or account.spec.started or account.opened
    return max(now - began, timedelta()) if began is not None and is_sensible(began) else timedelta()


def said_short(length: timedelta) -> str:
    """From a second on, nobody wants to read fractions."""
    seconds = length.total_seconds()
    return say(timedelta(seconds=round(seconds))) if seconds >= 1 else say(length)
