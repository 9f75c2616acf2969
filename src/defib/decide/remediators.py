"""Our own work together: pods that leave a failed node, machines that are power-cycled or checked, drains that must end.

And what all of them have left behind when they were ended by force.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.decide.accounts.facts import Memory, facts_of, remember
from defib.decide.accounts.plan import NOTHING as NO_ACCOUNTS
from defib.decide.accounts.plan import Accounts, plan_accounts
from defib.decide.drains.plan import NOTHING as NO_DRAINS
from defib.decide.drains.plan import Drains, plan_drains
from defib.decide.failover.plan import NOTHING as NO_FAILOVER
from defib.decide.failover.plan import Failover, plan_failover
from defib.decide.fencing.plan import NOTHING as NO_FENCING
from defib.decide.fencing.plan import Fencing, plan_fencing
from defib.decide.fencing.readiness import NOTHING as NO_READINESS
from defib.decide.fencing.readiness import Readiness, plan_readiness
from defib.decide.leftovers import NOTHING as NO_LEFTOVERS
from defib.decide.leftovers import Leftovers, plan_leftovers
from defib.decide.machine_health.plan import NOTHING as NO_MACHINE_HEALTH
from defib.decide.machine_health.plan import MachineHealth, plan_machine_health
from defib.decide.plan import Plan
from defib.decide.rules import Rules
from defib.decide.wanted import widest
from defib.model import drain_policy, failover_policy, node_drain, pod_failover, power_cycle, self_fencing
from defib.model.action import Action
from defib.model.cluster import Cluster, Wanted
from defib.model.health_check import KindRef

_ALWAYS: Mapping[KindRef, Wanted] = dict.fromkeys(
    (
        drain_policy.POLICY,
        node_drain.DRAIN,
        failover_policy.POLICY,
        pod_failover.REMEDIATION,
        pod_failover.TEMPLATE,
        power_cycle.REMEDIATION,
        power_cycle.TEMPLATE,
        self_fencing.REMEDIATION,
        self_fencing.TEMPLATE,
    ),
    Wanted(can_wait=True),
)


class OwnWork(msgspec.Struct, frozen=True, kw_only=True):
    failover: Failover = NO_FAILOVER
    fencing: Fencing = NO_FENCING
    machine_health: MachineHealth = NO_MACHINE_HEALTH
    readiness: Readiness = NO_READINESS
    leftovers: Leftovers = NO_LEFTOVERS
    drains: Drains = NO_DRAINS
    accounts: Accounts = NO_ACCOUNTS  # of what checks began, so it is done only where those are ours
    memory: Memory = {}  # what was known when nodes were admitted

    @property
    def actions(self) -> tuple[Action, ...]:
        others = (*self.readiness.actions, *self.machine_health.actions, *self.leftovers.actions)
        return (*self.fencing.actions, *self.failover.actions, *self.drains.actions, *others)

    @property
    def nodes(self) -> frozenset[str]:
        """Those of which the pods must be in sight."""
        return self.failover.nodes | self.fencing.nodes | self.drains.nodes

    @property
    def claims(self) -> frozenset[str]:
        """Those of which the modes are to be remembered."""
        return self.failover.claims | self.drains.claims

    @property
    def moments(self) -> tuple[datetime, ...]:
        """When to look again even if nothing changes."""
        others = (self.fencing.wake_at, self.readiness.wake_at, self.machine_health.wake_at, self.leftovers.wake_at)
        moments = (*self.failover.moments, *others, self.drains.wake_at, self.accounts.wake_at)
        return tuple(moment for moment in moments if moment is not None)

    @property
    def kinds(self) -> Mapping[KindRef, Wanted]:
        """Those that must be in sight: ours always, where the cluster has them, and others while they are needed."""
        others = (
            self.leftovers.kinds,
            self.machine_health.kinds,
            self.fencing.kinds,
            self.drains.kinds,
            self.accounts.kinds,
        )
        return widest(_ALWAYS, *others)


NO_WORK = OwnWork()


def plan_own_work(cluster: Cluster, rules: Rules, plan: Plan, before: OwnWork = NO_WORK) -> OwnWork:
    memory = remember(cluster, plan, before.memory)
    facts = facts_of(cluster, plan, memory)
    readiness = plan_readiness(cluster, rules, plan, before.readiness)
    failover = plan_failover(cluster, rules, plan.checks, before.failover)
    return OwnWork(
        failover=failover,
        drains=plan_drains(cluster, rules, plan.checks, failover, before.drains),
        fencing=plan_fencing(cluster, rules, before.fencing, readiness, facts),
        machine_health=plan_machine_health(cluster, rules),
        readiness=readiness,
        leftovers=plan_leftovers(cluster, rules, plan, before.leftovers),
        accounts=plan_accounts(cluster, rules, plan, facts, before.accounts),
        memory=memory,
    )
