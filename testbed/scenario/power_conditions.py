"""What can be expected in a story of incidents, of proofs that a machine is down, and of machines themselves."""

from defib.model.incident import Grade
from defib.model.incident import Phase as IncidentPhase
from testbed.scenario.remediation_deeds import Switch
from testbed.scenario.story import OfRemediation, Phrase, Text, Where


class IncidentIs(OfRemediation, frozen=True):
    sentence = "incident {node} {phase}"
    node: Where
    phase: IncidentPhase


class IncidentSays(OfRemediation, frozen=True):
    """In its reason, or in its message."""

    sentence = "incident {node} {phase} says {text}"
    node: Where
    phase: IncidentPhase
    text: Text


class IncidentAttempt(OfRemediation, frozen=True):
    sentence = "incident {node} attempt {count}"
    node: Where
    count: int


class Proved(OfRemediation, frozen=True):
    """Of whatever grade; what was proved in an incident that is closed counts as well."""

    sentence = "proof {node}"
    node: Where


class ProvedAs(OfRemediation, frozen=True):
    sentence = "proof {node} {grade}"
    node: Where
    grade: Grade


class MachineIs(OfRemediation, frozen=True):
    """Its real power, whatever its BMC says."""

    sentence = "machine {node} {power}"
    node: Where
    power: Switch


class NoTrace(OfRemediation, frozen=True):
    """Nobody could tell from the node that something was done to it, and nothing is open."""

    sentence = "no trace on {node}"
    node: Where


POWER_CONDITIONS: tuple[type[Phrase], ...] = (
    IncidentIs,
    IncidentSays,
    IncidentAttempt,
    Proved,
    ProvedAs,
    MachineIs,
    NoTrace,
)
