"""Guards of nodes that take themselves down: in their agents, and in whoever counts them as dead."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from defib.agent.answering import Found, Relay
from defib.agent.words import Word
from defib.decide.fencing.agents import ordered, safe_time_of
from defib.decide.fencing.case import Case
from defib.decide.self_fence.heard import Heard, Meant, Witness
from defib.decide.self_fence.memory import Memory
from defib.decide.self_fence.verdict import Reason, Says, Sight, Verdict
from defib.model.agents import AgentSeen
from defib.model.incident import SafeTime
from defib.model.node import Lease
from defib.model.self_fence import ORDER, Pace, Report, read_order, text_of
from tests.simulation.mutants.days import Drawn
from tests.simulation.mutants.switching import Mutant, Swap, always
from tests.simulation.runs import SELF_FENCE

FAR_FUTURE = 1e12


def _without_watchdog(good: Callable[[Report], SafeTime]) -> Any:
    def safe_time(report: Report) -> SafeTime:
        parts = [part for part in good(report).parts if part.name != "watchdog"]
        return SafeTime(seconds=sum(part.seconds for part in parts), parts=parts)

    return safe_time


def _since_it_was_heard(good: Callable[..., AgentSeen]) -> Any:
    def seen(known: Any, now: datetime, *more: Any) -> AgentSeen:
        found, renewed = good(known, now, *more), known.lease.spec.renew_time
        if found.order is None or renewed is None:
            return found
        return msgspec.structs.replace(found, ordered_seconds=(now - renewed).total_seconds())

    return seen


def _stands_for_ever(good: Callable[..., Any]) -> Any:
    """What was seen once is believed to be there still."""

    def after(before: Any, lease: Lease, *when: float) -> Any:
        known = good(before, lease, *when)
        if before is None or before.order is None or known.order is not None:
            return known
        return msgspec.structs.replace(known, order=before.order, ordered=before.ordered)

    return after


def _deaf(good: Callable[..., Memory]) -> Any:
    def was_answered(memory: Memory, **told: Any) -> Memory:
        return good(memory, **(told | {"has_order": False}))

    return was_answered


def _tells_nothing(good: Callable[..., Says | None]) -> Any:
    def says(*told: Any) -> Says | None:
        said = good(*told)
        return Says.NO_ORDER if said is Says.ORDER else said

    return says


def _whoever_is_meant(good: Callable[..., Awaitable[Lease]]) -> Any:
    """An order is read as one for this boot."""

    async def renew(leases: Any, report: Report) -> Lease:
        lease = await good(leases, report)
        order = read_order(lease)
        if order is None:
            return lease
        meant = text_of(msgspec.structs.replace(order, boot_id=report.boot_id))
        metadata = msgspec.structs.replace(lease.metadata, annotations={**lease.annotations, ORDER: meant})
        return msgspec.structs.replace(lease, metadata=metadata)

    return renew


def _however_few(_: Callable[..., Heard]) -> Any:
    def enough_heard(_witnesses: Iterable[Witness], meant: Meant) -> Heard:
        is_over = meant.ordered_seconds >= meant.safe_seconds + meant.dead_by_seconds
        return Heard(1, 1 if is_over else 0)

    return enough_heard


def _whose_lease_is_there(good: Callable[..., Heard]) -> Any:
    def enough_heard(witnesses: Iterable[Witness], meant: Meant) -> Heard:
        there = tuple(witnesses)
        known = Counter(witness.domain for witness in there)
        return good(there, msgspec.structs.replace(meant, known=known))

    return enough_heard


def _forgets_what_it_said(good: Callable[..., Awaitable[tuple[Found, float]]]) -> Any:
    async def ask(relay: Relay, node: str) -> tuple[Found, float]:
        since = relay.steady_since
        told = await good(relay, node)
        relay.steady_since = since
        return told

    return ask


def _says_nothing_in_an_outage(good: Callable[..., Awaitable[Found]]) -> Any:
    async def look(leases: Any, node: str) -> Found:
        found = await good(leases, node)
        return Found(Word.UNKNOWN) if found.word is Word.CUT_OFF else found

    return look


def _patient(good: Callable[[Sight, Pace], Verdict]) -> Any:
    def judge(sight: Sight, pace: Pace) -> Verdict:
        verdict = good(sight, pace)
        is_silent = verdict.reason is Reason.SILENCE
        return msgspec.structs.replace(verdict, feed=True, until=FAR_FUTURE) if is_silent else verdict

    return judge


def _dies_with_all(good: Any) -> Any:
    return tuple(row for row in good if row.reason is not Reason.NOBODY_REACHES)


def _too_sure(good: Callable[[Case], bool]) -> Any:
    """However few were heard meanwhile."""

    def has_outlived(case: Case) -> bool:
        agent, time = ordered(case), safe_time_of(case)
        if agent is None or agent.report is None or time is None or agent.report.boot_id != case.status.boot_id:
            return good(case)
        return good(case) or agent.ordered_seconds - agent.silent_seconds > time.seconds

    return has_outlived


def _where_it_can_be_written(good: Callable[[Case], bool]) -> Any:
    return lambda case: case.node is not None and good(case)


def _is_broken(day: Drawn) -> bool:
    return bool(day.shape.unguarded)


def _is_sound(day: Drawn) -> bool:
    return not day.shape.unguarded


SELF_FENCING = tuple(
    msgspec.structs.replace(mutant, series=SELF_FENCE)
    for mutant in (
        Mutant(
            name="too few heard",
            invariant="I1",
            broken="a silent node is counted as dead however few agents are heard",
            needs=lambda day: _is_sound(day) and day.has("network: is split off with most zones"),
            swaps=(Swap("defib.decide.self_fence.heard:enough_heard", _however_few),),
        ),
        Mutant(
            name="deleted Leases forgotten",
            invariant="I1",
            broken="only agents whose Lease is still there count, and not all that the silent node knows",
            needs=lambda day: _is_sound(day) and day.has("lease: is deleted") and day.has("network"),
            swaps=(Swap("defib.decide.self_fence.heard:enough_heard", _whose_lease_is_there),),
        ),
        Mutant(
            name="word forgotten",
            invariant="I1",
            broken="an agent that has told a peer that it is cut off reports as if it had not",
            needs=lambda day: _is_sound(day) and day.has("network: is split off with most zones"),
            swaps=(Swap("defib.agent.answering:Relay.ask", _forgets_what_it_said),),
        ),
        Mutant(
            name="watchdog not waited for",
            invariant="I1",
            broken="the time after which a node is dead leaves out the timeout of its watchdog",
            needs=lambda day: _is_sound(day) and day.has("network"),
            swaps=(Swap("defib.decide.self_fence.safe_time:safe_time", _without_watchdog),),
        ),
        Mutant(
            name="time begins too early",
            invariant="I1",
            broken="the time is counted from when the agent was last heard, and not from its order",
            needs=lambda day: _is_sound(day) and day.has("network"),
            swaps=(Swap("defib.observe.agent_memory:_seen", _since_it_was_heard),),
        ),
        Mutant(
            name="order need not stand",
            invariant="I1",
            broken="an order that was seen once counts, although somebody has taken it out again",
            needs=lambda day: _is_sound(day) and day.has("lease: loses its order"),
            swaps=(Swap("defib.observe.agent_memory:_after", _stands_for_ever),),
        ),
        Mutant(
            name="order ignored",
            invariant="I1",
            broken="agents do not care for orders, whether they read them or are told",
            needs=lambda day: _is_sound(day) and day.has("network: is cut off from the API server"),
            swaps=(
                Swap("defib.decide.self_fence.memory:was_answered", _deaf),
                Swap("defib.agent.words:says", _tells_nothing),
            ),
        ),
        Mutant(
            name="silence survived",
            invariant="I1",
            broken="an agent that has no word from anybody feeds its watchdog all the same",
            needs=lambda day: _is_sound(day) and day.has("network: is isolated", "network: is isolated with its zone"),
            swaps=(Swap("defib.decide.self_fence.verdict:judge", _patient),),
        ),
        Mutant(
            name="order read in vain",
            invariant="I10",
            broken="an agent that reads an order for its own boot feeds its watchdog all the same",
            needs=lambda day: _is_sound(day) and day.has("node: hangs", "machine: hangs on"),
            swaps=(Swap("defib.decide.self_fence.memory:was_answered", _deaf),),
        ),
        Mutant(
            name="outage kills",
            invariant="I5",
            broken="an agent does not live by the word of peers that are cut off as well",
            needs=lambda day: day.has("server: is down"),
            swaps=(Swap("defib.decide.self_fence.verdict:ROWS", _dies_with_all),),
        ),
        Mutant(
            name="outage not told",
            invariant="I5",
            broken="an agent that is asked by a peer and finds no API server says nothing",
            needs=lambda day: day.has("server: is down"),
            swaps=(Swap("defib.agent.lease:Leases.look", _says_nothing_in_an_outage),),
        ),
        Mutant(
            name="boot not compared",
            invariant="I5",
            broken="an agent obeys an order that was for the boot before",
            needs=lambda day: day.acts,
            swaps=(Swap("defib.agent.lease:Leases.renew", _whoever_is_meant),),
        ),
        Mutant(
            name="return believed",
            invariant="I8",
            broken="a node that comes back counts as rebooted, whichever boot it is",
            needs=_is_broken,
            swaps=(Swap("defib.decide.fencing.agents:has_outlived", always(False)),),
        ),
        Mutant(
            name="innocent accused",
            invariant="I8",
            broken="a node that lives by the word of others that are cut off is said never to have rebooted",
            needs=lambda day: _is_sound(day) and day.has("network: is split off with most zones"),
            swaps=(Swap("defib.decide.fencing.agents:has_outlived", _too_sure),),
        ),
        Mutant(
            name="told on Nodes alone",
            invariant="I8",
            broken="that a node never rebooted is not said where its Node was deleted",
            needs=lambda day: _is_broken(day) and day.shape.workloads == "DeleteNode",
            swaps=(Swap("defib.decide.fencing.agents:has_outlived", _where_it_can_be_written),),
        ),
    )
)
