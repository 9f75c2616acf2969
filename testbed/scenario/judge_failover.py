"""Conditions about PodFailoverPolicies, judged by what their statuses say."""

from functools import singledispatch

from defib.model.failover_policy import PolicyStatus, read_policy_status
from testbed.scenario import failover_conditions as conditions
from testbed.scenario.failover_sight import policy_texts
from testbed.scenario.story import OfRemediation
from testbed.scenario.telling import Telling


@singledispatch
def holds_of_failover(condition: OfRemediation, telling: Telling) -> bool:
    raise AssertionError(f"nobody knows how to judge {condition} in {telling}")


def _status(policy: str, telling: Telling) -> PolicyStatus:
    found = telling.remediation.policy(policy)
    return read_policy_status(found) if found is not None else PolicyStatus()


@holds_of_failover.register
def _(condition: conditions.PolicyIs, telling: Telling) -> bool:
    settled = _status(condition.policy, telling).condition("Settled")
    return settled is not None and settled.reason == condition.standing.value


@holds_of_failover.register
def _(condition: conditions.PolicySays, telling: Telling) -> bool:
    return any(condition.text in text for text in policy_texts(_status(condition.policy, telling)))


@holds_of_failover.register
def _(condition: conditions.PolicyLists, telling: Telling) -> bool:
    listed = _status(condition.policy, telling).nodes or ()
    return telling.name_of(condition.node) in {one.name for one in listed}


@holds_of_failover.register
def _(condition: conditions.PolicyMoved, telling: Telling) -> bool:
    return _status(condition.policy, telling).moved == condition.count


@holds_of_failover.register
def _(condition: conditions.PolicyWaits, telling: Telling) -> bool:
    return _status(condition.policy, telling).waiting == condition.count


@holds_of_failover.register
def _(condition: conditions.PolicyProofs, telling: Telling) -> bool:
    return _status(condition.policy, telling).proofs == condition.text
