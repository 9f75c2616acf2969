"""Conditions about incidents, proofs and machines, judged by what is seen, and of machines by what they are."""

from functools import singledispatch

from defib.model.node import OUT_OF_SERVICE
from defib.model.power_cycle import FINALIZER
from testbed.scenario import power_conditions as conditions
from testbed.scenario.remediation_deeds import Switch
from testbed.scenario.story import OfRemediation
from testbed.scenario.telling import Telling


@singledispatch
def holds_of_power(condition: OfRemediation, telling: Telling) -> bool:
    raise AssertionError(f"nobody knows how to judge {condition} in {telling}")


@holds_of_power.register
def _(condition: conditions.IncidentIs, telling: Telling) -> bool:
    incident = telling.remediation.incident(telling.name_of(condition.node))
    return incident is not None and incident.status.phase is condition.phase


@holds_of_power.register
def _(condition: conditions.IncidentSays, telling: Telling) -> bool:
    incident = telling.remediation.incident(telling.name_of(condition.node))
    if incident is None or incident.status.phase is not condition.phase:
        return False
    return any(condition.text in text for text in (incident.status.reason, incident.status.message))


@holds_of_power.register
def _(condition: conditions.IncidentAttempt, telling: Telling) -> bool:
    incident = telling.remediation.incident(telling.name_of(condition.node))
    return incident is not None and incident.status.attempt == condition.count


@holds_of_power.register
def _(condition: conditions.Proved, telling: Telling) -> bool:
    incident = telling.remediation.incident(telling.name_of(condition.node))
    return incident is not None and incident.status.proof is not None


@holds_of_power.register
def _(condition: conditions.ProvedAs, telling: Telling) -> bool:
    incident = telling.remediation.incident(telling.name_of(condition.node))
    proof = incident.status.proof if incident is not None else None
    return proof is not None and proof.grade is condition.grade


@holds_of_power.register
def _(condition: conditions.MachineIs, telling: Telling) -> bool:
    return telling.hollow(condition.node).machine.is_on == (condition.power is Switch.ON)


@holds_of_power.register
def _(condition: conditions.NoTrace, telling: Telling) -> bool:
    name = telling.name_of(condition.node)
    node, incident = telling.sight.node(name), telling.remediation.incident(name)
    is_held = any(FINALIZER in (one.item.metadata.finalizers or ()) for one in telling.remediation.remedies(name))
    return (
        node is not None
        and all(taint.key != OUT_OF_SERVICE for taint in node.spec.taints or ())
        and not (incident is not None and incident.is_open)
        and not is_held
        and not telling.remediation.holder(name)
    )
