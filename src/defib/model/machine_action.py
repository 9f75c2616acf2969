"""What can be done about a machine for a MachineHealthCheck. Each looks at check, machine and node once more, live."""

from typing import Any

import msgspec

from defib.model.health_check import KindRef
from defib.model.target import Because, Target


class Patient(msgspec.Struct, frozen=True, kw_only=True):
    """An unhealthy machine as it was judged. Whoever acts on it looks whether all of this is still so."""

    check: Target
    generation: int  # of the check
    machine: Target
    version: str  # of the machine
    node: str = ""  # empty: it never had one
    node_uid: str = ""  # empty: the node is missing
    because: Because | None = (
        None  # of the node; none where the machine itself is the reason, or that the node is missing
    )
    is_control_plane: bool = False


class AskForPowerCycle(msgspec.Struct, frozen=True, kw_only=True):
    """Set the annotation by which a machine is power-cycled, whoever serves it."""

    patient: Patient
    annotation: str

    @property
    def key(self) -> str:
        return f"ask for a power cycle of {self.patient.machine.uid}"


class RemediateMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Create a remediation from a template, owned by the machine and named after it."""

    patient: Patient
    kind: KindRef
    body: dict[str, Any]

    @property
    def key(self) -> str:
        return f"remediate machine {self.patient.machine.uid} by {self.kind}"


class ReplaceMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a machine that has a controller, which makes another one."""

    patient: Patient

    @property
    def key(self) -> str:
        return f"replace machine {self.patient.machine.uid}"


MachineAction = AskForPowerCycle | RemediateMachine | ReplaceMachine
