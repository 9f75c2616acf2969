"""What to do for PodFailoverPolicies: pods leave failed nodes at once, so many nodes at a time, and each is told of.

    node fails ──▶ its pods come into sight ──▶ written down in the policy ──▶ pods are deleted ──▶ Moved
                                                 │ brake, doubt, budget: Held, and told why
                                                 └ pods that must not run twice: WaitingForProof

Nothing depends on having seen a node fail: what counts is how it is now, and what stands in the policies. Only where a
node does not say since when, or says what cannot be, it counts from when it was first seen so.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from defib.decide.check_plan import CheckPlan
from defib.decide.doubt import SELF_DOUBT
from defib.decide.failover.failing import Failing, failure_of, look_for_failed
from defib.decide.failover.node_plan import Failed, Look, Pass, is_about, plan_node, plan_unseen, trigger_of
from defib.decide.failover.policy_status import Known, being_written, left_alone, read_known, report_policy
from defib.decide.failover.reading import read_policy
from defib.decide.failover.remediation import Hold
from defib.decide.failover.sight import out_of_sight
from defib.decide.failover.todo import NOTHING, Todo, together
from defib.decide.failover.turns import Held, Turns, is_out
from defib.decide.rules import LOOK_AGAIN, Rules
from defib.model.action import ReportRemediation
from defib.model.cluster import Cluster
from defib.model.failover_policy import POLICY, FailedNode, Policy, State
from defib.model.meta import Unstructured
from defib.model.node import Node

LOOKED_AT_ONCE = 50  # nodes of which the pods are in sight at a time, however many have failed
# So long after a failure a pod may turn up that was on its way to the node already.
STRAGGLING = timedelta(minutes=1)
OFF = "PodFailoverPolicies are switched off in this cluster (setting pod_failover_policies)"


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the last look at a node, for as long as it has failed in the same way and all want the same."""

    failed: Failed
    wants: "Wants"
    look: Look

    def is_about(self, failed: Failed, wants: "Wants") -> bool:
        was, node = self.failed.node, failed.node
        is_same_node = (was.uid, was.labels) == (node.uid, node.labels)  # by its labels they may select it
        return self.wants is wants and is_same_node and self.failed.due == failed.due


Wants = tuple[tuple[str, Policy], ...]
"""Of all policies that are served, by their UIDs."""


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, and what is remembered until the next pass. Most of that only spares work."""

    todo: Todo = NOTHING
    known: Mapping[str, Known] = {}
    wants: Wants = ()
    failing: Failing = Failing()
    looks: Mapping[str, Remembered] = {}
    quiet: frozenset[str] = frozenset()  # policies of which everything is said, and nothing has failed


NO_POLICIES = Policies()


def plan_policies(
    cluster: Cluster, rules: Rules, checks: Mapping[str, CheckPlan], hold: Hold, before: Policies = NO_POLICIES
) -> Policies:
    items = sorted(cluster.every(POLICY), key=lambda one: one.key)
    if not items:
        return NO_POLICIES
    known = {item.key: _read(item, rules, before) for item in items}
    if any(blindness.kind == "nodes" for blindness in cluster.blind):
        # Nobody knows which nodes are there, or how they are.
        return msgspec.structs.replace(before, todo=NOTHING, known=known, quiet=frozenset())
    failing = look_for_failed(cluster.nodes, cluster.now, before.failing)
    served = [one for one in known.values() if _is_served(one, rules)]
    wants = _wants(served, before)
    statuses = (*(one.status for one in known.values()), *being_written(cluster, before.todo.actions))
    this = Pass(
        cluster=cluster,
        turns=Turns(cluster, rules, checks, statuses),
        hold=_hold(failing, hold),
        by_namespace=_by_namespace(served),
        judged=before.todo.judged,
        seen=failing.seen,
        written=_written(served),
    )
    found, wake_at = _failed_nodes(served, failing, cluster.now)
    looks, nodes = _look_at(found, this, wants, before)
    entries = _entries(known, found, looks, cluster)
    reports = _reports(known, entries, before, cluster, "" if rules.failover.serves_policies else OFF)
    told = Todo(actions=tuple(reports.values()), nodes=nodes, wake_at=wake_at)
    return Policies(
        todo=together((told, _todo(looks, this))),
        known=known,
        wants=wants,
        failing=failing,
        looks=looks,
        quiet=frozenset(key for key in known if key not in reports and not entries[key]),
    )


def _todo(looks: Mapping[str, Remembered], this: Pass) -> Todo:
    """Claims are remembered of nodes in sight alone: one that nobody sees any more may be another one by now.

    Of what holds a node back, not all tells us that it has ended: heartbeats do not, nor does a lock.
    """
    seen = [one.look for name, one in looks.items() if out_of_sight(name, this.cluster) is None]
    is_held = any(entry.state is State.HELD for one in looks.values() for entry in one.look.entries.values())
    waits = is_held or any(one.look.is_unsure for one in looks.values())
    moments = [look.later for look in seen] + [this.cluster.now + LOOK_AGAIN if waits else None]
    return Todo(
        wake_at=min(filter(None, moments), default=None),
        actions=tuple(action for one in looks.values() for action in one.look.actions),
        judged={name: judged for one in looks.values() for name, judged in one.look.judged.items()},
        claims=frozenset(claim for look in seen for judged in look.judged.values() for claim in judged.sorted.claims),
    )


def _read(item: Unstructured, rules: Rules, before: Policies) -> Known:
    known = before.known.get(item.key)
    if known is not None and known.item is item:
        return known
    if known is not None and known.item.spec == item.spec:
        return read_known(item, known.policy)
    return read_known(item, read_policy(item.spec, rules.failover))


def _is_served(known: Known, rules: Rules) -> bool:
    is_leaving = known.item.metadata.deletion_timestamp is not None
    return rules.failover.serves_policies and isinstance(known.policy, Policy) and not is_leaving


def _wants(served: list[Known], before: Policies) -> Wants:
    """The very same as before, for as long as they are equal: then it is enough to compare that."""
    wants = tuple((one.item.uid, one.policy) for one in served if isinstance(one.policy, Policy))
    return before.wants if wants == before.wants else wants


def _by_namespace(served: list[Known]) -> dict[str, list[Known]]:
    found: dict[str, list[Known]] = {}
    for one in served:
        found.setdefault(one.item.namespace, []).append(one)
    return found


def _written(served: list[Known]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in served:
        for entry in one.status.nodes or ():
            found.setdefault(entry.name, set()).add(one.item.namespace)
    return found


def _hold(failing: Failing, hold: Hold) -> Held | None:
    """Why no pod of any node may be deleted now. Not asked for while no node has failed: it is dear."""
    if not failing.not_ready and not failing.tainted:
        return None
    reason, message = hold()
    if reason:
        return Held(reason, message)
    if 2 * len(failing.not_ready) > len(failing.nodes):
        message = "more than half of all nodes are not ready at once, so it may be the network or the control plane"
        return Held(SELF_DOUBT, message)
    return None


def _failed_nodes(served: list[Known], failing: Failing, now: datetime) -> tuple[list[Failed], datetime | None]:
    """Those that have failed for long enough for some policy, the longest first; and when the next one will have."""
    triggers = {trigger_of(one.policy): one.policy for one in served if isinstance(one.policy, Policy)}
    wants_tainted = any(policy.taints for policy in triggers.values())
    nodes = (*failing.not_ready.values(), *(failing.tainted.values() if wants_tainted else ()))
    found: list[Failed] = []
    later: list[datetime] = []
    for node in nodes:
        failures = {trigger: failure_of(node, policy, failing) for trigger, policy in triggers.items()}
        known = {trigger: failure for trigger, failure in failures.items() if failure is not None}
        due = {trigger: failure for trigger, failure in known.items() if failure.at + triggers[trigger].dwell <= now}
        later += [failure.at + triggers[trigger].dwell for trigger, failure in known.items() if trigger not in due]
        if due:
            found.append(Failed(node=node, due=due))
    found.sort(key=lambda one: (min(failure.at for failure in one.due.values()), one.node.name))
    return found, min(later, default=None)


def _look_at(
    found: list[Failed], this: Pass, wants: Wants, before: Policies
) -> tuple[dict[str, Remembered], frozenset[str]]:
    """What came of it for each node, and of which nodes the pods are to be in sight from now on."""
    looks: dict[str, Remembered] = {}
    turns: list[tuple[int, int, str]] = []
    for place, failed in enumerate(found):
        name = failed.node.name
        known = before.looks.get(name)
        known = known if known is not None and known.is_about(failed, wants) else None
        unseen = out_of_sight(name, this.cluster)
        if unseen is None:
            known = Remembered(
                failed=failed, wants=wants, look=plan_node(failed, this, known.look if known is not None else None)
            )
        elif unseen.why:
            known = Remembered(failed=failed, wants=wants, look=plan_unseen(failed, this, unseen.why))
        elif known is not None:  # of those out of sight nothing can be done
            known = msgspec.structs.replace(known, look=msgspec.structs.replace(known.look, actions=()))
        if known is not None:
            looks[name] = known
        rank = _rank(known, failed.node, this)
        if rank is not None:
            turns.append((rank, place, name))
    return looks, frozenset(name for _, _, name in sorted(turns)[:LOOKED_AT_ONCE])


def _rank(known: Remembered | None, node: Node, this: Pass) -> int | None:
    """How much its pods must be in sight; None when they need not be."""
    if known is None:
        return 1
    if known.look.is_unsure:
        return 0
    states = {entry.state for entry in known.look.entries.values()}
    if State.MOVING in states or (State.HELD in states and this.held(node) is None):
        return 0
    if State.FAILING in states:
        return 2  # behind those at which nobody has looked: what cannot be done must not be in the way of what can
    is_fresh = any(this.cluster.now < failure.at + STRAGGLING for failure in known.failed.due.values())
    return 3 if is_fresh or State.WAITING in states else None


def _entries(
    known: Mapping[str, Known], found: list[Failed], looks: Mapping[str, Remembered], cluster: Cluster
) -> dict[str, dict[str, FailedNode]]:
    """By policy and node. Where nobody has looked yet, what stands written about the same failure stays."""
    entries: dict[str, dict[str, FailedNode]] = {key: {} for key in known}
    for name, remembered in looks.items():
        for key, entry in remembered.look.entries.items():
            entries[key][name] = entry
    unseen = {one.node.name: one for one in found if one.node.name not in looks}
    for key, one in known.items():
        for entry in one.status.nodes or ():
            if entry.name in entries[key]:
                continue
            if _is_due(entry, one, unseen.get(entry.name)):
                entries[key][entry.name] = entry
            elif entry.begun and is_out(entry, cluster.nodes.get(entry.name)):
                entries[key][entry.name] = left_alone(entry)
    return entries


def _is_due(entry: FailedNode, known: Known, failed: Failed | None) -> bool:
    if failed is None or not isinstance(known.policy, Policy):
        return False
    failure = failed.due.get(trigger_of(known.policy))
    return failure is not None and is_about(entry, failed.node, failure)


def _reports(
    known: Mapping[str, Known],
    entries: Mapping[str, Mapping[str, FailedNode]],
    before: Policies,
    cluster: Cluster,
    off: str,
) -> dict[str, ReportRemediation]:
    reports = {}
    for key, one in known.items():
        if key in before.quiet and before.known.get(key) is one and not entries[key]:
            continue
        if (report := report_policy(one, entries[key], cluster, off)) is not None:
            reports[key] = report
    return reports
