"""How the whole cluster stands, asked of it as it is now. Nothing is changed."""

from collections.abc import Mapping

from defib.clock import SystemClock
from defib.config import Settings
from defib.console.look import for_checks, look
from defib.console.session import NotDone, Session, connected
from defib.console.shards import Sharing, look_at
from defib.console.why import BASIS
from defib.decide.answers.attention import Attention, headline, look_at_first
from defib.decide.answers.overview import Overview, overview
from defib.decide.answers.told import Told
from defib.decide.fencing.ours import BY_TEMPLATE
from defib.decide.plan import decide
from defib.decide.rules import Rules
from defib.decide.wanted import widest
from defib.model.cluster import Cluster, Wanted
from defib.model.health_check import KindRef
from defib.model.node_drain import DRAIN


class Status(Told, frozen=True, kw_only=True):
    """`first` is what to look at, the worst first; empty when all is well."""

    headline: str
    first: tuple[Attention, ...]
    cluster: Overview
    operator: Sharing | None
    unknown: tuple[str, ...]
    basis: str = BASIS

    @property
    def is_well(self) -> bool:
        return not self.first


async def status(settings: Settings, rules: Rules) -> Status:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await stand(session, settings, rules)


async def stand(session: Session, settings: Settings, rules: Rules) -> Status:
    seen = await look(session.client, session.clock, rules, _wishes)
    unknown = list(seen.unknown)
    operator = await _operator(session, settings, seen.cluster, unknown)
    told = overview(seen.cluster, decide(seen.cluster, rules), rules)
    first = (*_nobody(operator, settings), *look_at_first(told))
    unknown += (f"{one.kind} {one.key} cannot be read: {one.why}" for one in seen.cluster.unread)
    return Status(
        headline=headline(told, is_well=not first),
        first=first,
        cluster=told,
        operator=operator,
        unknown=tuple(unknown),
    )


def _wishes(cluster: Cluster, rules: Rules) -> Mapping[KindRef, Wanted]:
    return widest(for_checks(cluster, rules), dict.fromkeys((DRAIN, *BY_TEMPLATE), Wanted()))


async def _operator(session: Session, settings: Settings, cluster: Cluster, unknown: list[str]) -> Sharing | None:
    try:
        return await look_at(session, settings, known=cluster.nodes)
    except NotDone as error:
        unknown.append(f"which replica of the operator leads: {error}")
        return None


def _nobody(operator: Sharing | None, settings: Settings) -> tuple[Attention, ...]:
    """Without an operator, nothing else that is told here is being done by anybody."""
    pods = f"kubectl -n {settings.namespace} get pods"
    if operator is None or operator.is_well:
        return ()
    if operator.idle:
        buckets = ", ".join(str(one.bucket) for one in operator.idle)
        word = "bucket" if len(operator.idle) == 1 else "buckets"
        return (Attention(message=f"no replica looks after {word} {buckets} of the nodes", command="defib shards"),)
    return (Attention(message=f"no operator is at work: nobody holds the lock {operator.lock}", command=pods),)
