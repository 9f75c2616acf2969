"""All that is to be done about pods of failed nodes: for NodeHealthChecks, and for policies of teams."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.decide.check_plan import CheckPlan
from defib.decide.doubt import why_held
from defib.decide.failover.policies import NO_POLICIES, Policies, plan_policies
from defib.decide.failover.remediation import plan_remediation
from defib.decide.failover.todo import NOTHING as NOTHING_TO_DO
from defib.decide.failover.todo import Todo, together
from defib.decide.once import Once
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import Action
from defib.model.cluster import Cluster, Served
from defib.model.failover_policy import POLICY
from defib.model.pod_failover import REMEDIATION


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    remediations: Todo = NOTHING_TO_DO
    policies: Policies = NO_POLICIES

    @property
    def actions(self) -> tuple[Action, ...]:
        return (*self.policies.todo.actions, *self.remediations.actions)

    @property
    def nodes(self) -> frozenset[str]:
        return self.policies.todo.nodes | self.remediations.nodes

    @property
    def moments(self) -> tuple[datetime | None, ...]:
        return self.policies.todo.wake_at, self.remediations.wake_at

    @property
    def claims(self) -> frozenset[str]:
        return self.policies.todo.claims | self.remediations.claims


NOTHING = Failover()


def plan_failover(
    cluster: Cluster, rules: Rules, checks: Mapping[str, CheckPlan], before: Failover = NOTHING
) -> Failover:
    """`before` spares work; beyond that it only remembers when a node was first seen to have failed, and what was moved."""
    hold = Once(lambda: why_held(_needed(cluster), cluster, rules))
    items = sorted(cluster.every(REMEDIATION), key=lambda one: one.key)
    return Failover(
        remediations=together(plan_remediation(item, cluster, hold, before.remediations) for item in items),
        policies=plan_policies(cluster, rules, checks, hold, before.policies),
    )


def _needed(cluster: Cluster) -> frozenset[str]:
    """What must be in sight before anything destructive is done."""
    followed = [cluster.kinds.get(kind) for kind in (REMEDIATION, POLICY)]
    needed = {"nodes", "heartbeats", "configmaps", *(one.collection for one in followed if isinstance(one, Served))}
    needed |= {"locks", medik8s.CHECKS} - cluster.absent.keys()  # where there are any, they have their say
    return frozenset(needed)
