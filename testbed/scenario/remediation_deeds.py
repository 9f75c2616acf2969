"""What can be done in a story to checks, policies, templates, remediations, locks, upgrades, and to Defib itself."""

from enum import Enum

from testbed.scenario.story import (
    CheckName,
    Pair,
    Part,
    Phrase,
    PolicyName,
    PolicyPart,
    Remediator,
    TemplateName,
    Where,
    Word,
)


class ToRemediation(Phrase, frozen=True):
    """Done to checks, policies, templates, remediations, locks, or to Defib itself: only where the story has an operator."""


class Finish(ToRemediation, frozen=True):
    sentence = "remediator {template} finishes {node}"
    template: TemplateName
    node: Where


class Fail(ToRemediation, frozen=True):
    sentence = "remediator {template} fails {node}"
    template: TemplateName
    node: Where


class Replace(ToRemediation, frozen=True):
    """The machine is exchanged, so the node goes for good and on purpose."""

    sentence = "remediator {template} replaces {node}"
    template: TemplateName
    node: Where


class Hold(ToRemediation, frozen=True):
    sentence = "remediator {template} holds {node}"
    template: TemplateName
    node: Where


class LetGo(ToRemediation, frozen=True):
    sentence = "remediator {template} lets go {node}"
    template: TemplateName
    node: Where


class RemoveRemediation(ToRemediation, frozen=True):
    sentence = "delete remediation of {node} by {template}"
    node: Where
    template: TemplateName


class CreateRemediation(ToRemediation, frozen=True):
    sentence = "create remediation of {node} by {template}"
    node: Where
    template: TemplateName


class CreateTemplate(ToRemediation, frozen=True):
    sentence = "create template {template} [multiple] [broken]"
    template: TemplateName
    multiple: bool
    broken: bool


class MendTemplate(ToRemediation, frozen=True):
    sentence = "mend template {template}"
    template: TemplateName


class DeleteTemplate(ToRemediation, frozen=True):
    sentence = "delete template {template}"
    template: TemplateName


class InstallCrd(ToRemediation, frozen=True):
    sentence = "install crd {remediator}"
    remediator: Remediator


class DeleteCrd(ToRemediation, frozen=True):
    sentence = "delete crd {remediator}"
    remediator: Remediator


class EditCheck(ToRemediation, frozen=True):
    sentence = "edit check {check} {parts}"
    check: CheckName
    parts: tuple[Part, ...]


class PauseCheck(ToRemediation, frozen=True):
    sentence = "pause check {check}"
    check: CheckName


class ResumeCheck(ToRemediation, frozen=True):
    sentence = "resume check {check}"
    check: CheckName


class DeleteCheck(ToRemediation, frozen=True):
    sentence = "delete check {check}"
    check: CheckName


class AnnotateCheck(ToRemediation, frozen=True):
    sentence = "annotate check {check} {annotation}"
    check: CheckName
    annotation: Pair


class EditPolicy(ToRemediation, frozen=True):
    sentence = "edit policy {policy} {parts}"
    policy: PolicyName
    parts: tuple[PolicyPart, ...]


class DeletePolicy(ToRemediation, frozen=True):
    sentence = "delete policy {policy}"
    policy: PolicyName


class TakeLock(ToRemediation, frozen=True):
    sentence = "lock {node} held by {holder} for {seconds}"
    node: Where
    holder: Word
    seconds: float


class ReleaseLock(ToRemediation, frozen=True):
    sentence = "release lock {node}"
    node: Where


class Switch(Enum):
    ON = "on"
    OFF = "off"


class Brake(ToRemediation, frozen=True):
    sentence = "brake {switch}"
    switch: Switch


class Approve(ToRemediation, frozen=True):
    sentence = "approve {node} for {seconds}"
    node: Where
    seconds: float


class AnnounceUpgrade(ToRemediation, frozen=True):
    sentence = "announce upgrade for {seconds}"
    seconds: float


class AnnounceUpgradeOf(ToRemediation, frozen=True):
    sentence = "announce upgrade of {node} for {seconds}"
    node: Where
    seconds: float


class BeginClusterUpgrade(ToRemediation, frozen=True):
    """As OpenShift's ClusterVersion says it."""

    sentence = "begin cluster upgrade"


class FinishClusterUpgrade(ToRemediation, frozen=True):
    sentence = "finish cluster upgrade"


class CreateMachineHealthCheck(ToRemediation, frozen=True):
    sentence = "create machine-health-check {name}"
    name: Word


class DeleteMachineHealthCheck(ToRemediation, frozen=True):
    sentence = "delete machine-health-check {name}"
    name: Word


class EndUpgrade(ToRemediation, frozen=True):
    sentence = "end upgrade"


class RestartOperator(ToRemediation, frozen=True):
    """Killed at that moment, with whatever it was about to do undone, and started anew."""

    sentence = "restart operator"


class StopOperator(ToRemediation, frozen=True):
    sentence = "stop operator"


class StartOperator(ToRemediation, frozen=True):
    sentence = "start operator"


REMEDIATION_DEEDS: tuple[type[Phrase], ...] = (
    Finish,
    Fail,
    Replace,
    Hold,
    LetGo,
    RemoveRemediation,
    CreateRemediation,
    CreateTemplate,
    MendTemplate,
    DeleteTemplate,
    InstallCrd,
    DeleteCrd,
    EditCheck,
    PauseCheck,
    ResumeCheck,
    DeleteCheck,
    AnnotateCheck,
    EditPolicy,
    DeletePolicy,
    TakeLock,
    ReleaseLock,
    Brake,
    Approve,
    AnnounceUpgrade,
    AnnounceUpgradeOf,
    BeginClusterUpgrade,
    FinishClusterUpgrade,
    CreateMachineHealthCheck,
    DeleteMachineHealthCheck,
    EndUpgrade,
    RestartOperator,
    StopOperator,
    StartOperator,
)
