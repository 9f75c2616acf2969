"""What a person should look at first, and the command that says more: the worst first, each thing once."""

from collections.abc import Iterator

from defib.decide.answers.overview import CheckBrief, NodeBrief, Overview
from defib.decide.answers.told import Told
from defib.model.incident import Phase as IncidentPhase
from defib.model.node_drain import Phase as DrainPhase
from defib.model.verdict import State

NAMES_SHOWN = 3
APPROVAL = "Approval"
# Nobody has to do anything about a check that is held back by these, as long as no node waits behind them.
QUIET = frozenset({"ModeObserve", "Storm", "Upgrade", "Brake", "SelfDoubt", "Threshold"})


class Attention(Told, frozen=True, kw_only=True):
    """`command` is what to type next; empty where there is nothing better than to wait."""

    message: str
    command: str = ""


def look_at_first(told: Overview) -> tuple[Attention, ...]:
    """Empty when everything is well."""
    return (
        *_people(told),
        *_brake(told),
        *_in_common(told),
        *_checks(told),
        *_held(told),
        *_under_way(told),
        *_suspects(told),
        *_drains(told),
        *_fences(told),
        *_unwatched(told),
    )


def _people(told: Overview) -> Iterator[Attention]:
    for one in told.incidents:
        if one.phase == IncidentPhase.NEEDS_PERSON:
            words = f"the incident of node {one.node} needs a person: {one.message}"
            yield Attention(message=words, command=f"defib timeline {one.name}")


def _brake(told: Overview) -> Iterator[Attention]:
    if told.brake:
        yield Attention(message=f"the brake is on, so no node is remediated: {told.brake}", command="defib resume")


def _in_common(told: Overview) -> Iterator[Attention]:
    for one in told.in_common:
        yield Attention(message=f"this is hardly chance: {one.words}", command="defib incidents")


def _checks(told: Overview) -> Iterator[Attention]:
    if not told.checks:
        how = "kubectl apply -f a NodeHealthCheck, or let Defib make one (--default-check on)"
        yield Attention(message=f"there is no NodeHealthCheck, so no node is looked after: {how}")
    for check in told.checks:
        closed = [gate for gate in check.closed if gate.name not in QUIET]
        if closed:
            words = f"check {check.name} does nothing ({check.phase}): {closed[0].message}"
            yield Attention(message=words, command=f"kubectl describe nodehealthcheck {check.name}")


def _held(told: Overview) -> Iterator[Attention]:
    """Nodes that wait behind the same gate are one thing to look at."""
    stopped = {check.name for check in told.checks if any(gate.name not in QUIET for gate in check.closed)}
    together: dict[tuple[str, str], list[NodeBrief]] = {}
    known = {one.node for one in told.incidents if one.phase == IncidentPhase.NEEDS_PERSON}
    for one in told.ill:
        if one.state == State.UNHEALTHY and one.check not in stopped and one.node not in known:
            together.setdefault((one.check, one.held_by or one.reason), []).append(one)
    for (_, gate), nodes in together.items():
        command = f"defib {'approve' if gate == APPROVAL else 'why'} {nodes[0].node}"
        why = nodes[0].message.removesuffix(f": {command}")
        words = f"{_nodes(nodes)} unhealthy{' and held back' if nodes[0].held_by else ''}: {why}"
        yield Attention(message=words, command=command)


def _under_way(told: Overview) -> Iterator[Attention]:
    nodes = [one for one in told.ill if one.state == State.REMEDIATING]
    if nodes:
        words = f"{_nodes(nodes)} being remediated: {nodes[0].message}"
        yield Attention(message=words, command=f"defib timeline {nodes[0].node}")


def _suspects(told: Overview) -> Iterator[Attention]:
    """Nothing is done about them yet; but whoever sees a node that is not ready must not read that all is well."""
    nodes = [one for one in told.ill if one.state == State.SUSPECT]
    if nodes:
        words = f"{_nodes(nodes)} suspect: {nodes[0].message}"
        yield Attention(message=words, command=f"defib why {nodes[0].node}")


def _drains(told: Overview) -> Iterator[Attention]:
    for one in told.drains:
        ask = f"defib drain {one.node}"
        if one.has_failed:
            yield Attention(
                message=f"the drain of node {one.node} takes longer than it may: {one.message}", command=ask
            )
        elif one.phase == DrainPhase.APPROVAL:
            words = f"the drain of node {one.node} waits for approval: {one.message}"
            yield Attention(message=words, command=f"defib approve {one.node} --drain")
        elif one.phase == DrainPhase.HELD:
            yield Attention(message=f"the drain of node {one.node} is held back: {one.message}", command=ask)


def _fences(told: Overview) -> Iterator[Attention]:
    for one in told.fences:
        if one.ready < one.covered:
            name, why = next(iter(one.not_ready.items()), ("", "nobody has tried yet"))
            what = f"{one.covered - one.ready} of {one.covered} machines could not be switched off if they failed now"
            where = f"{name}: " if name else ""
            command = f"kubectl -n {one.template.replace('/', ' get powercycleremediationtemplate ')} -o yaml"
            yield Attention(message=f"{what} ({one.template}); {where}{why}", command=command)


def _unwatched(told: Overview) -> Iterator[Attention]:
    if told.checks and told.unwatched_ill:
        names = told.unwatched_ill
        words = f"{_named(names)} not ready, and no check looks after {'it' if len(names) == 1 else 'them'}"
        yield Attention(message=words, command=f"defib why {names[0]}")


def _nodes(nodes: list[NodeBrief]) -> str:
    return _named(tuple(one.node for one in nodes))


def _named(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return f"node {names[0]} is"
    more = len(names) - NAMES_SHOWN
    shown = ", ".join(names[:NAMES_SHOWN])
    return f"{len(names)} nodes ({shown}{f' and {more} more' if more > 0 else ''}) are"


def headline(told: Overview, *, is_well: bool) -> str:
    """How the cluster stands, in one line."""
    ill = [one for one in told.ill if one.state in (State.UNHEALTHY, State.REMEDIATING)]
    nodes = "1 node" if told.nodes == 1 else f"{told.nodes:,} nodes"
    if ill:
        return f"{len(ill)} of {nodes} {'is' if len(ill) == 1 else 'are'} not well"
    suspects = told.states.get(State.SUSPECT.value, 0)
    if suspects:
        return f"{suspects} of {nodes} may be about to fail"
    watched = told.nodes - told.states.get("Unwatched", 0)
    if not is_well:
        return f"{_all(told.ready, told.nodes)} ready, but not everything is as it should be"
    return f"All is well: {_all(told.ready, told.nodes)} ready, {watched:,} looked after"


def _all(number: int, total: int) -> str:
    if number == total:
        return "the node is" if total == 1 else f"all {total:,} nodes are"
    return f"{number:,} of {total:,} nodes are"


def held_by(check: CheckBrief) -> str:
    return ", ".join(gate.name for gate in check.closed)
