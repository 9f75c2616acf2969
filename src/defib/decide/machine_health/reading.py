"""Understands a MachineHealthCheck of either project, in each of its versions; or says all that is wrong with it."""

from datetime import timedelta

import msgspec

from defib.decide.fencing.kinds import CLUSTER_API
from defib.decide.fencing.machines import Machine, text_in
from defib.decide.field import Field, Problems
from defib.decide.machine_health.budget import Most, read_most
from defib.decide.reading import (
    API_VERSION,
    CONDITION_STATUS,
    CONDITION_TYPE,
    KIND,
    MOST_CONDITIONS,
    NAME,
    read_selector,
)
from defib.model.duration import LONGEST, read_duration
from defib.model.health_check import KindRef, TemplateRef, UnhealthyCondition
from defib.model.machine import EXTERNAL_BAREMETAL, PAUSED, STRATEGY
from defib.model.meta import Unstructured
from defib.model.selector import EVERYTHING, Selector
from defib.model.target import Target

STARTUP = timedelta(minutes=10)
NEWER = "v1beta2"
OFF = ("0", "0s")


class MachineCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Means something only if it has no problems."""

    item: Unstructured
    kind: KindRef
    selector: Selector = EVERYTHING
    cluster: str = ""  # of Cluster API: only machines of this cluster
    conditions: tuple[UnhealthyCondition, ...] = ()
    startup: timedelta | None = STARTUP  # within it a machine must have a node; None: whenever
    most: Most = Most()
    template: TemplateRef | None = None
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.item.key

    @property
    def machines(self) -> KindRef:
        return KindRef(self.kind.api_version, "Machine")

    @property
    def target(self) -> Target:
        return target_of(self.item, self.kind)

    @property
    def is_still(self) -> bool:
        """Somebody wants it to do nothing."""
        return PAUSED in self.item.annotations or self.item.metadata.deletion_timestamp is not None

    @property
    def asks_for_power_cycles(self) -> bool:
        return self.item.annotations.get(STRATEGY) == EXTERNAL_BAREMETAL

    @property
    def is_of_cluster_api(self) -> bool:
        return self.kind.group == CLUSTER_API

    def selects(self, machine: Machine) -> bool:
        """Checks and machines live in one namespace."""
        item = machine.item
        if item.namespace != self.item.namespace or not self.selector.selects(item.labels):
            return False
        return not self.is_of_cluster_api or text_in(item.spec, "clusterName") == self.cluster


def target_of(item: Unstructured, kind: KindRef) -> Target:
    return Target(kind=kind, namespace=item.namespace, name=item.name, uid=item.uid)


def read_machine_check(item: Unstructured, kind: KindRef) -> MachineCheck:
    problems = Problems()
    spec = Field("spec", item.spec or {}, problems)
    check = _newer(item, kind, spec) if kind.version == NEWER else _older(item, kind, spec)
    return msgspec.structs.replace(check, problems=problems.sentences)


def _older(item: Unstructured, kind: KindRef, spec: Field) -> MachineCheck:
    """OpenShift's, and v1beta1 of Cluster API."""
    _refuse(spec["unhealthyRange"])
    _refuse(spec["unhealthyMachineConditions"])
    return MachineCheck(
        item=item,
        kind=kind,
        selector=read_selector(spec["selector"]),
        cluster=_cluster(spec, kind),
        conditions=_conditions(spec["unhealthyConditions"], "timeout"),
        startup=_startup(spec["nodeStartupTimeout"]),
        most=read_most(spec["maxUnhealthy"]),
        template=_template(spec["remediationTemplate"], item.namespace),
    )


def _newer(item: Unstructured, kind: KindRef, spec: Field) -> MachineCheck:
    """The same in v1beta2 of Cluster API, under other names."""
    checks, remediation = spec["checks"], spec["remediation"]
    _refuse(remediation["triggerIf"]["unhealthyInRange"])
    _refuse(checks["unhealthyMachineConditions"])
    return MachineCheck(
        item=item,
        kind=kind,
        selector=read_selector(spec["selector"]),
        cluster=_cluster(spec, kind),
        conditions=_conditions(checks["unhealthyNodeConditions"], "timeoutSeconds"),
        startup=_startup(checks["nodeStartupTimeoutSeconds"]),
        most=read_most(remediation["triggerIf"]["unhealthyLessThanOrEqualTo"]),
        template=_template(remediation["templateRef"], item.namespace),
    )


def _refuse(field: Field) -> None:
    """What we do not know could be a reason to do nothing, so nothing is done."""
    if field.is_given and field.value not in ("", []):
        field.wrong("is not supported here, so this check does nothing")


def _cluster(spec: Field, kind: KindRef) -> str:
    return spec["clusterName"].text(NAME) if kind.group == CLUSTER_API else ""


def _conditions(field: Field, length: str) -> tuple[UnhealthyCondition, ...]:
    entries = [entry for entry in field.entries(MOST_CONDITIONS) if entry.is_a(dict)]
    return tuple(
        UnhealthyCondition(
            entry["type"].text(CONDITION_TYPE), entry["status"].text(CONDITION_STATUS), _length(entry[length])
        )
        for entry in entries
    )


def _startup(field: Field) -> timedelta | None:
    if not field.is_given:
        return STARTUP
    return None if field.value in OFF else _length(field) or None


def _length(field: Field) -> timedelta:
    """A text like 5m, or a number of seconds."""
    value = field.value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONGEST.total_seconds():
        return timedelta(seconds=value)
    try:
        length = timedelta() if value in OFF else read_duration(value)
    except ValueError as error:
        field.wrong(str(error))
        return timedelta()
    if length < timedelta():
        field.wrong(f"{value} is negative")
    return length


def _template(field: Field, namespace: str) -> TemplateRef | None:
    """Whatever namespace it names: it is looked for beside the check, as everybody does."""
    if not field.is_given or field.value == {} or not field.is_a(dict):
        return None
    kind = KindRef(field["apiVersion"].text(API_VERSION), field["kind"].text(KIND))
    return TemplateRef(kind, namespace, field["name"].text(NAME))
