"""What the spells of a check say about its settings: alternatives side by side, and a duration that would have been right."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from defib.decide.answers.regret import (
    AT_ONCE,
    SOON,
    Budget,
    Crowd,
    Fate,
    Outage,
    Tally,
    Wait,
    always,
    as_silences,
    outages_of,
    tally,
)
from defib.decide.answers.told import Told
from defib.model.duration import say
from defib.model.health_check import SPELLS_MAX, SPELLS_OPEN_MAX, Check, CheckStatus, Spell
from defib.model.target import HEARTBEAT

DURATIONS = tuple(timedelta(seconds=seconds) for seconds in (10, 20, 30, 60, 120, 300))
BUDGETS = (1, 2, 3, 5, 10, 20, 50)
FEWEST = 5  # outages: fewer are chance
MANY, FEW_OF_MANY = 20, 0.05  # of so many acts, this share may be in vain
OFTEN = 2
OFTEN_SHOWN = 3
READY = "Ready"
UNKNOWN_POOL = "(not known: the node is gone, or has no such label)"


class Alternative(Told, frozen=True, kw_only=True):
    """What would have come of it. `at_most`: it may have been fewer, since nobody asked for evidence then."""

    name: str
    is_now: bool = msgspec.field(name="now")
    acted: int
    came_back: int
    stayed: int
    not_known: int
    held: int
    unsure: int
    sooner_seconds: float
    at_most: bool = False


class Advice(Told, frozen=True, kw_only=True):
    """`duration` is empty where there is none to recommend."""

    duration: str
    message: str


class ConditionReport(Told, frozen=True, kw_only=True):
    type: str
    outages: int
    came_back: int
    longest_seconds: float | None  # that came back by itself
    alternatives: tuple[Alternative, ...]
    fast_path: Alternative | None
    advice: Advice


class OftenIll(Told, frozen=True, kw_only=True):
    node: str
    outages: int


class Pool(Told, frozen=True, kw_only=True):
    """The nodes of a check, or those of them with one value of a label."""

    name: str
    outages: int
    nodes: int
    often: tuple[OftenIll, ...]
    conditions: tuple[ConditionReport, ...]


class CheckReport(Told, frozen=True, kw_only=True):
    check: str
    mode: str
    nodes: int
    since: datetime | None  # of the first spell
    spells: int
    upgrades: int  # spells that are left out, since somebody took nodes down on purpose
    most_at_once: int
    pools: tuple[Pool, ...]
    budgets: tuple[Alternative, ...]
    unknown: tuple[str, ...]


def report_on(check: Check, status: CheckStatus, now: datetime, pool_of: Mapping[str, str] | None) -> CheckReport:
    """`pool_of`: to which pool a node belongs, where somebody wants them apart."""
    spells = status.spells or []
    counted = [spell for spell in spells if not spell.upgrade]
    every = outages_of(spells, now)
    total = status.observed_nodes or 0
    case = _Case(check=check, budget=Budget(Crowd(every), total - check.fewest_healthy(total)), now=now)
    by_pool: dict[str, list[Spell]] = {}
    for spell in counted:
        by_pool.setdefault("" if pool_of is None else pool_of.get(spell.node, UNKNOWN_POOL), []).append(spell)
    return CheckReport(
        check=check.name,
        mode=check.mode.value,
        nodes=total,
        since=min((spell.began for spell in spells), default=None),
        spells=len(spells),
        upgrades=len(spells) - len(counted),
        most_at_once=case.budget.crowd.most,
        pools=tuple(_pool(name, by_pool[name], case) for name in sorted(by_pool)),
        budgets=_budgets(counted, case),
        unknown=tuple(_unknown(case, len(spells))),
    )


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    check: Check
    budget: Budget
    now: datetime

    def own_wait(self) -> Wait:
        own = {(one.type, one.status): one.duration for one in self.check.conditions}
        return lambda stretch: own.get((stretch.type, stretch.status))

    def own_of(self, kind: str) -> dict[str, timedelta]:
        return {one.status: one.duration for one in self.check.conditions if one.type == kind}


def _pool(name: str, spells: list[Spell], case: _Case) -> Pool:
    shown = [spell for spell in spells if spell.type != HEARTBEAT]
    outages = outages_of(shown, case.now)
    times = Counter(one.node for one in outages)
    ranked = sorted(times.items(), key=lambda item: (-item[1], item[0]))
    return Pool(
        name=name,
        outages=len(outages),
        nodes=len(times),
        often=tuple(OftenIll(node=node, outages=count) for node, count in ranked[:OFTEN_SHOWN] if count >= OFTEN),
        conditions=tuple(_condition(kind, spells, case) for kind in sorted({spell.type for spell in shown})),
    )


def _condition(kind: str, spells: list[Spell], case: _Case) -> ConditionReport:
    outages = outages_of((spell for spell in spells if spell.type == kind), case.now)
    back = [one.until - one.began for one in outages if one.came_back]
    rows = _durations(kind, outages, case)
    return ConditionReport(
        type=kind,
        outages=len(outages),
        came_back=len(back),
        longest_seconds=max(back).total_seconds() if back else None,
        alternatives=tuple(row for _, row in rows),
        fast_path=_fast_path(spells, outages, case) if kind == READY else None,
        advice=_advice(rows, len(outages), back),
    )


Row = tuple[timedelta | None, Alternative]  # None: not one duration for all


def _durations(kind: str, outages: Sequence[Outage], case: _Case) -> list[Row]:
    own = case.own_of(kind)
    same = next(iter(own.values())) if len(set(own.values())) == 1 else None
    rows: list[Row] = []
    for length in sorted({*DURATIONS, *([same] if same is not None else [])}):
        told = tally(outages, always(length), case.budget)
        rows.append((length, _told(say(length), told, is_now=length == same)))
    if own and same is None:
        name = ", ".join(f"{status} {say(length)}" for status, length in sorted(own.items()))
        rows.append((None, _told(name, tally(outages, case.own_wait(), case.budget), is_now=True)))
    return rows


def _fast_path(spells: list[Spell], outages: Sequence[Outage], case: _Case) -> Alternative:
    """What it was sure of, where there is one; else what it might have been."""
    is_there = case.check.fast_path is not None
    if is_there or any(spell.type == HEARTBEAT for spell in spells):
        silent = outages_of((spell for spell in spells if spell.type == HEARTBEAT), case.now)
        return _told("fast path", tally(silent, always(AT_ONCE), case.budget), is_now=is_there)
    told = tally(as_silences(outages), always(AT_ONCE), case.budget)
    return msgspec.structs.replace(_told("fast path", told, is_now=False), at_most=True)


def _budgets(spells: list[Spell], case: _Case) -> tuple[Alternative, ...]:
    """With the durations as they are."""
    outages = outages_of((spell for spell in spells if spell.type != HEARTBEAT), case.now)
    own = case.budget.most_ill
    sizes = sorted({size for size in BUDGETS if size <= case.budget.crowd.most} | {own})  # larger ones are all alike
    return tuple(
        _told(str(size), tally(outages, case.own_wait(), Budget(case.budget.crowd, size)), is_now=size == own)
        for size in sizes
    )


def _told(name: str, told: Tally, *, is_now: bool) -> Alternative:
    return Alternative(
        name=name,
        is_now=is_now,
        acted=told.acted,
        came_back=told.fates[Fate.CAME_BACK],
        stayed=told.fates[Fate.STAYED],
        not_known=told.fates[Fate.NOT_KNOWN],
        held=told.fates[Fate.HELD],
        unsure=told.fates[Fate.UNSURE],
        sooner_seconds=told.sooner.total_seconds(),
    )


def _advice(rows: Sequence[Row], outages: int, back: Sequence[timedelta]) -> Advice:
    if outages < FEWEST:
        told = f"{outages} outage{'s are' if outages != 1 else ' is'} written down, and {FEWEST} are needed to say anything"
        return Advice(duration="", message=f"too little history: {told}")
    plain = [row for length, row in rows if length is not None]
    right = next((row for row in plain if _is_right(row)), None)
    if right is None:
        worst = plain[-1]
        message = (
            f"none of these: even at {worst.name}, {worst.came_back} of {worst.acted} came back by themselves within "
            f"{say(SOON)}; the longest that came back took {say(max(back))}. Wait longer than that, or find out what ails them"
        )
        return Advice(duration="", message=message)
    shorter = [row for row in plain[: plain.index(right)] if row.came_back]
    return Advice(duration=right.name, message="; ".join(_why(right, shorter[-1] if shorter else None)))


def _is_right(row: Alternative) -> bool:
    allowed = FEW_OF_MANY * row.acted if row.acted >= MANY else 0
    return row.came_back <= allowed


def _why(right: Alternative, shorter: Alternative | None) -> Iterator[str]:
    now = ", as it is now" if right.is_now else ""
    if not right.acted:
        yield f"{right.name}{now}: no outage lasted so long"
    else:
        back = f"{right.came_back} came back soon" if right.came_back else "none is known to have come back soon"
        times = "once" if right.acted == 1 else f"{right.acted} times"
        yield f"{right.name}{now}: it would have acted {times}, and of those {back} by itself (within {say(SOON)})"
    if shorter is not None:
        yield f"at {shorter.name}, {shorter.came_back} of {shorter.acted} did"
    if right.not_known:
        yield f"of {right.not_known} nobody can know: remediated since, gone, or still ill"


def _unknown(case: _Case, spells: int) -> Iterator[str]:
    if not spells:
        yield (
            "nothing is written down: no operator has seen an unhealthy node yet, or the CRD is older than the operator "
            "(kubectl apply -f deploy/crds)"
        )
        return
    if spells >= SPELLS_MAX:
        yield f"only {SPELLS_MAX} spells are kept, of each node the last: what was before is not counted"
    if case.budget.crowd.most >= SPELLS_OPEN_MAX:
        yield f"only {SPELLS_OPEN_MAX} nodes that are ill at once are written down: there may have been more"
    if case.check.fast_path is None:
        yield (
            "the check has no fast path: who was silent and spoke again before Kubernetes noticed is not written down, and "
            "nobody asked for evidence"
        )
    yield "a node that a person mended counts as come back by itself; of the gates, only the budget is played"
