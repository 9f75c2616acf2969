"""Which accounts are to be opened, written and dropped: one for every remediation that a NodeHealthCheck began.

Level triggered: what is there and has none gets one, and what is gone closes its own. What cannot be seen changes nothing.
Power cycles of ours are not among them: they have incidents, which say more.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from defib.decide.accounts.closing import closing, going_on
from defib.decide.accounts.facts import FactsOf
from defib.decide.accounts.history import drops, surplus
from defib.decide.accounts.news import on_node
from defib.decide.fencing.kinds import METAL3_REMEDIATIONS, are_in_sight
from defib.decide.fencing.ours import BY_REMEDIATION
from defib.decide.fencing.sources import METAL3_REMEDIATION
from defib.decide.plan import Plan
from defib.decide.rules import Rules
from defib.model.account_action import MANY_AT_ONCE, AccountAction, OpenAccount, WriteAccount
from defib.model.action import EndRemediation, StartRemediation
from defib.model.cluster import Cluster, Served, Wanted
from defib.model.health_check import KindRef
from defib.model.incident import (
    API_VERSION,
    INCIDENT,
    INCIDENTS,
    NAME_MAX,
    Cause,
    IncidentSpec,
    NodeIncident,
    account_name,
    is_object_name,
)
from defib.model.meta import Unstructured
from defib.model.reasons import EventReason
from defib.model.remediation import Remediation

UNWRITTEN_FOR = timedelta(minutes=5)  # what was over before it could be written down is given up after this
UNWRITTEN_MAX = 1000
# Whoever may create remediations says of which node they are, and may create any number of them.
OPEN_PER_NODE, OPEN_IN_ALL = 10, 2000
# We may hear of an account before we hear of its remediation: what we never saw may be gone only after this.
SEEN_WITHIN = timedelta(seconds=30)
# While many remediations begin or end at once, by whichever replica, accounts wait, but not for longer than this.
RUSH = timedelta(seconds=10)


class Unwritten(msgspec.Struct, frozen=True):
    """An account that is to be opened, as it was first wanted; and since when its remediation is gone, if it is."""

    action: OpenAccount
    gone_since: datetime | None = None


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """All accounts, looked through once for as long as none of them changes."""

    accounts: Mapping[str, NodeIncident]
    causes: frozenset[str]
    open: tuple[NodeIncident, ...]
    surplus: tuple[NodeIncident, ...]


class Accounts(msgspec.Struct, frozen=True, kw_only=True):
    """What to do and what must be in sight; and what is remembered, which may be lost at any time."""

    actions: tuple[AccountAction, ...] = ()
    kinds: Mapping[KindRef, Wanted] = {}
    unwritten: Mapping[str, Unwritten] = {}  # by the UID of the remediation
    seen: Mapping[str, Remediation] = {}  # by UID, as each was last seen
    closings: Mapping[str, WriteAccount] = {}  # by the UID of the account, as each was decided first
    known: Known | None = None
    rush_since: datetime | None = None
    wake_at: datetime | None = None


NOTHING = Accounts()


class _Pass(msgspec.Struct, frozen=True):
    cluster: Cluster
    plan: Plan
    facts: FactsOf
    there: Mapping[str, Remediation]  # by UID
    before: Accounts


def plan_accounts(cluster: Cluster, rules: Rules, plan: Plan, facts: FactsOf, before: Accounts = NOTHING) -> Accounts:
    rush_since = _rush_since(cluster, plan, before)
    if rush_since is not None and cluster.now < rush_since + RUSH:
        wake_at = rush_since + RUSH
        return msgspec.structs.replace(before, actions=(), rush_since=rush_since, wake_at=wake_at)
    known = _known(cluster, before)
    if INCIDENTS in cluster.absent or any(one.kind == INCIDENTS for one in cluster.blind):
        return Accounts(kinds=before.kinds, seen=before.seen, unwritten=before.unwritten, known=before.known)
    there = {one.uid: one for one in _begun(plan, rules)}
    this = _Pass(cluster, plan, facts, there, before)
    unwritten = _unwritten(this, known)
    closings = {one.uid: _closing(one, this) for one in known.open if _is_over(one, this)}
    return Accounts(
        actions=(
            *_openings(this, known, unwritten),
            *_news(this, known),
            *closings.values(),
            *drops(known.surplus),
        ),
        kinds={_kind(one.spec.cause): Wanted() for one in known.open},
        unwritten=unwritten,
        seen=there | _remembered(known, this),
        closings=closings,
        known=known,
        rush_since=rush_since,
        wake_at=min(_unseen_until(this, known), default=None),
    )


def _rush_since(cluster: Cluster, plan: Plan, before: Accounts) -> datetime | None:
    """It begins with many, and is over with the last one: nobody should come last because of what is written of the first."""
    moving = sum(isinstance(action, StartRemediation | EndRemediation) for action in plan.actions)
    if before.rush_since is not None:
        return before.rush_since if moving else None
    return cluster.now if moving > MANY_AT_ONCE else None


def _begun(plan: Plan, rules: Rules) -> Iterator[Remediation]:
    """Of all checks; but not those of which the machines are switched by us, nor of what cannot be a node."""
    served = METAL3_REMEDIATIONS if METAL3_REMEDIATION in rules.serves else ()
    for by_node in plan.begun.values():
        for found in by_node.values():
            if not found or not is_object_name(found[0].node):
                continue
            yield from (one for one in found if one.kind not in BY_REMEDIATION and one.kind not in served)


def _known(cluster: Cluster, before: Accounts) -> Known:
    accounts = cluster.accounts()
    if before.known is not None and before.known.accounts is accounts:
        return before.known
    return Known(
        accounts=accounts,
        causes=frozenset(one.spec.cause.uid for one in accounts.values()),
        open=tuple(one for _, one in sorted(accounts.items()) if one.is_open),
        surplus=surplus(accounts.values()),
    )


def _kind(cause: Cause) -> KindRef:
    return KindRef(cause.api_version, cause.kind)


# Opening


def _unwritten(this: _Pass, known: Known) -> dict[str, Unwritten]:
    """What has no account yet: what is there, and what was there a moment ago and is over already."""
    now, unread = this.cluster.now, {one.key for one in this.cluster.unread if one.kind == "nodes"}
    found = {}
    for uid, remediation in this.there.items():
        if uid in known.causes:
            continue
        if (was := this.before.unwritten.get(uid)) is not None:
            found[uid] = Unwritten(was.action)
        elif remediation.node in this.cluster.nodes or remediation.node in unread:
            # Of nodes that are not there, somebody could have us write so many that all true ones are pushed out.
            found[uid] = Unwritten(_opening(remediation, this))
    for uid, one in this.before.unwritten.items():
        since = one.gone_since or now
        if uid not in known.causes and uid not in found and now < since + UNWRITTEN_FOR and len(found) < UNWRITTEN_MAX:
            found[uid] = Unwritten(one.action, since)
    return found


def _opening(remediation: Remediation, this: _Pass) -> OpenAccount:
    node = this.cluster.nodes.get(remediation.node)
    cause = Cause(
        api_version=remediation.kind.api_version,
        kind=remediation.kind.name,
        namespace=remediation.namespace,
        name=remediation.name,
        uid=remediation.uid,
    )
    spec = msgspec.structs.replace(
        this.facts(remediation.owner, remediation.node),
        node=remediation.node,
        cause=cause,
        template=remediation.template[:NAME_MAX],
        started=remediation.created,
    )
    name = account_name(remediation.node, remediation.uid)
    why = f": {spec.evidence[0]}" if spec.evidence else ""
    told = f"{remediation} has begun, for NodeHealthCheck {remediation.owner}{why}; see NodeIncident {name}"
    return OpenAccount(
        node=remediation.node,
        name=name,
        body=body_of(name, spec),
        tells=on_node(node, EventReason.INCIDENT_OPENED, told, this.cluster.now),
    )


def body_of(name: str, spec: IncidentSpec) -> dict[str, object]:
    told = {"node": spec.node, **msgspec.to_builtins(spec)}
    return {"apiVersion": API_VERSION, "kind": INCIDENT.name, "metadata": {"name": name}, "spec": told}


def _openings(this: _Pass, known: Known, unwritten: Mapping[str, Unwritten]) -> tuple[OpenAccount, ...]:
    """Where it is forbidden, one of them goes on asking, and is enough to notice when it no longer is."""
    unread = {one.key for one in this.cluster.unread if one.kind == INCIDENTS}
    wanted = [one.action for one in unwritten.values() if one.action.name not in unread]
    failures = this.cluster.failures
    forbidden = [one for one in wanted if one.key in failures and failures[one.key].forbidden]
    return tuple(forbidden[:1] or _with_room(wanted, known))


def _with_room(wanted: list[OpenAccount], known: Known) -> Iterator[OpenAccount]:
    room, of_node = OPEN_IN_ALL - len(known.open), Counter(one.spec.node for one in known.open)
    for action in wanted:
        if room > 0 and of_node[action.node] < OPEN_PER_NODE:
            of_node[action.node] += 1
            room -= 1
            yield action


# Writing


def _news(this: _Pass, known: Known) -> Iterator[WriteAccount]:
    """Of those that go on."""
    latest = _latest(known)
    for account in known.open:
        remediation = this.there.get(account.spec.cause.uid)
        if remediation is None:
            continue
        plan = this.plan.checks.get(account.spec.check)
        is_latest = latest[account.spec.check, account.spec.node] == account.name
        verdict = plan.verdicts.get(account.spec.node) if plan is not None and is_latest else None
        if (action := going_on(account, remediation, this.cluster, verdict)) is not None:
            yield action


def _closing(account: NodeIncident, this: _Pass) -> WriteAccount:
    """As it was when it was noticed, however long it takes until it can be written."""
    known = this.before.closings.get(account.uid)
    if known is not None and known.version == account.metadata.resource_version:
        return known
    return closing(account, this.before.seen.get(account.spec.cause.uid), this.cluster, this.plan)


def _latest(known: Known) -> dict[tuple[str, str], str]:
    """Of those of one node and check, the one whose remediation began last: it speaks for the node."""
    ordered = sorted(known.open, key=lambda one: (str(one.spec.started or ""), one.name))
    return {(one.spec.check, one.spec.node): one.name for one in ordered}


def _is_over(account: NodeIncident, this: _Pass) -> bool:
    uid = account.spec.cause.uid
    if uid in this.there:
        return False
    was_seen = uid in this.before.seen or _seen_by(account, this) <= this.cluster.now
    return was_seen and _is_gone(account.spec.cause, this.cluster)


def _seen_by(account: NodeIncident, this: _Pass) -> datetime:
    return (account.opened or this.cluster.now) + SEEN_WITHIN


def _unseen_until(this: _Pass, known: Known) -> Iterator[datetime]:
    for account in known.open:
        uid, until = account.spec.cause.uid, _seen_by(account, this)
        if uid not in this.there and uid not in this.before.seen and until > this.cluster.now:
            yield until


def _is_gone(cause: Cause, cluster: Cluster) -> bool:
    """Whether it would be in sight, if it were there. It may be nobody's by now, and still be there."""
    kind = _kind(cause)
    if not are_in_sight((kind,), cluster):
        return False
    served = cluster.kinds[kind]
    if not isinstance(served, Served):
        return True
    key = f"{cause.namespace}/{cause.name}" if cause.namespace else cause.name
    if any((one.kind, one.key) == (served.collection, key) for one in cluster.unread):
        return False
    there = cluster.all_of(served.collection, Unstructured).get(key)
    return there is None or there.uid != cause.uid


def _remembered(known: Known, this: _Pass) -> dict[str, Remediation]:
    """Those that are gone, while their accounts do not say so yet."""
    causes = {one.spec.cause.uid for one in known.open} | this.before.unwritten.keys()
    return {uid: one for uid, one in this.before.seen.items() if uid in causes and uid not in this.there}
