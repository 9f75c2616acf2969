"""The built-in kinds as one table, with what the real server was seen to do for each (Kubernetes 1.37)."""

from collections.abc import Iterator

from defib.simulate.kinds.catalog import ScalePaths, Served
from defib.simulate.patches import shapes

_POD_FIELDS = {
    "spec.nodeName": ("spec", "nodeName"),
    "spec.restartPolicy": ("spec", "restartPolicy"),
    "spec.schedulerName": ("spec", "schedulerName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
    "spec.hostNetwork": ("spec", "hostNetwork"),
    "status.phase": ("status", "phase"),
    "status.podIP": ("status", "podIP"),
    "status.nominatedNodeName": ("status", "nominatedNodeName"),
}
_EVENT_FIELDS = {
    **{f"involvedObject.{f}": ("involvedObject", f) for f in ("kind", "namespace", "name", "uid", "apiVersion")},
    "involvedObject.resourceVersion": ("involvedObject", "resourceVersion"),
    "involvedObject.fieldPath": ("involvedObject", "fieldPath"),
    "reason": ("reason",),
    "reportingComponent": ("reportingComponent",),
    "source": ("source", "component"),
    "type": ("type",),
}
# events.k8s.io shows the same events as core, under newer names.
_EVENT_ALIASES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NEW_EVENT_FIELDS = {
    path.replace("involvedObject", "regarding").replace("reportingComponent", "reportingController"): where
    for path, where in _EVENT_FIELDS.items()
    if path != "source"
}
_SCALE = ScalePaths(selector=("spec", "selector"))
_STATUS = ("status",)
_SCALED = ("status", "scale")

CORE = (
    Served(
        plural="nodes",
        kind="Node",
        short_names=("no",),
        namespaced=False,
        subresources=_STATUS,
        selectable={"spec.unschedulable": ("spec", "unschedulable")},
        shape=shapes.NODE,
    ),
    Served(
        plural="pods",
        kind="Pod",
        short_names=("po",),
        categories=("all",),
        subresources=("status", "eviction", "binding"),
        counts_generation=True,
        returns_deleted=True,
        selectable=_POD_FIELDS,
        shape=shapes.POD,
    ),
    Served(
        plural="namespaces",
        kind="Namespace",
        short_names=("ns",),
        namespaced=False,
        subresources=("status", "finalize"),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        returns_deleted=True,
        selectable={"status.phase": ("status", "phase")},
        shape=shapes.WITH_CONDITIONS,
    ),
    Served(plural="events", kind="Event", short_names=("ev",), create_on_update=True, selectable=_EVENT_FIELDS),
    Served(plural="configmaps", kind="ConfigMap", short_names=("cm",)),
    Served(plural="secrets", kind="Secret", selectable={"type": ("type",)}),
    Served(
        plural="services",
        kind="Service",
        short_names=("svc",),
        categories=("all",),
        subresources=_STATUS,
        create_on_update=True,
        returns_deleted=True,
        selectable={"spec.clusterIP": ("spec", "clusterIP"), "spec.type": ("spec", "type")},
        shape=shapes.SERVICE,
    ),
    Served(plural="endpoints", kind="Endpoints", short_names=("ep",), singular="endpoints", create_on_update=True),
    Served(
        plural="persistentvolumes",
        kind="PersistentVolume",
        short_names=("pv",),
        namespaced=False,
        subresources=_STATUS,
        returns_deleted=True,
        shape=shapes.WITH_CONDITIONS,
    ),
    Served(
        plural="persistentvolumeclaims",
        kind="PersistentVolumeClaim",
        short_names=("pvc",),
        subresources=_STATUS,
        returns_deleted=True,
        shape=shapes.WITH_CONDITIONS,
    ),
    Served(
        plural="serviceaccounts",
        kind="ServiceAccount",
        short_names=("sa",),
        returns_deleted=True,
        shape=shapes.SERVICE_ACCOUNT,
    ),
    Served(
        plural="replicationcontrollers",
        kind="ReplicationController",
        short_names=("rc",),
        categories=("all",),
        subresources=_SCALED,
        counts_generation=True,
        scale=_SCALE,
        shape=shapes.WORKLOAD,
    ),
)


def _workload(plural: str, kind: str, short: str, *, scaled: bool = True) -> Served:
    return Served(
        group="apps",
        plural=plural,
        kind=kind,
        short_names=(short,),
        categories=("all",),
        subresources=_SCALED if scaled else _STATUS,
        counts_generation=True,
        scale=_SCALE if scaled else None,
        shape=shapes.WORKLOAD,
    )


def _storage(plural: str, kind: str, *short: str, status: bool = False, unconditional: bool = False) -> Served:
    return Served(
        group="storage.k8s.io",
        plural=plural,
        kind=kind,
        short_names=short,
        namespaced=False,
        subresources=_STATUS if status else (),
        unconditional_update=unconditional,
        returns_deleted=True,
        shape=shapes.CSI_NODE,
    )


GROUPED = (
    Served(
        group="coordination.k8s.io",
        plural="leases",
        kind="Lease",
        unconditional_update=False,
        create_on_update=True,
    ),
    _workload("deployments", "Deployment", "deploy"),
    _workload("statefulsets", "StatefulSet", "sts"),
    _workload("daemonsets", "DaemonSet", "ds", scaled=False),
    _workload("replicasets", "ReplicaSet", "rs"),
    Served(group="apps", plural="controllerrevisions", kind="ControllerRevision"),
    Served(
        group="policy",
        plural="poddisruptionbudgets",
        kind="PodDisruptionBudget",
        short_names=("pdb",),
        subresources=_STATUS,
        counts_generation=True,
        unconditional_update=False,
        shape=shapes.BUDGET,
    ),
    _storage("volumeattachments", "VolumeAttachment", status=True),
    _storage("storageclasses", "StorageClass", "sc", unconditional=True),
    _storage("csinodes", "CSINode", status=True),
    _storage("csidrivers", "CSIDriver"),
    Served(
        group="batch",
        plural="jobs",
        kind="Job",
        categories=("all",),
        subresources=_STATUS,
        counts_generation=True,
        unconditional_update=False,
        selectable={"status.successful": ("status", "succeeded")},
        shape=shapes.WORKLOAD,
    ),
    Served(
        group="batch",
        plural="cronjobs",
        kind="CronJob",
        short_names=("cj",),
        categories=("all",),
        subresources=_STATUS,
        counts_generation=True,
    ),
    Served(
        group="scheduling.k8s.io",
        plural="priorityclasses",
        kind="PriorityClass",
        short_names=("pc",),
        namespaced=False,
        counts_generation=True,
    ),
    Served(group="discovery.k8s.io", plural="endpointslices", kind="EndpointSlice", counts_generation=True),
    Served(
        group="events.k8s.io",
        plural="events",
        kind="Event",
        short_names=("ev",),
        create_on_update=True,
        selectable=_NEW_EVENT_FIELDS,
        stored_as="events",
        aliases=_EVENT_ALIASES,
    ),
)


def _stored_only(group: str, rows: tuple[tuple[str, str, bool], ...], **also: bool) -> Iterator[Served]:
    """Kinds that nothing here looks into: (plural, kind, namespaced)."""
    for plural, kind, namespaced in rows:
        yield Served(group=group, plural=plural, kind=kind, namespaced=namespaced, **also)  # type: ignore[arg-type]


def _created_only(group: str, rows: tuple[tuple[str, str], ...]) -> Iterator[Served]:
    """Questions that are answered and not kept."""
    for plural, kind in rows:
        yield Served(group=group, plural=plural, kind=kind, namespaced=False, verbs=("create",))


_DEFINITION = Served(
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    namespaced=False,
    subresources=_STATUS,
    counts_generation=True,
    unconditional_update=False,
    returns_deleted=True,
    shape=shapes.WITH_CONDITIONS,
)


def all_kinds() -> Iterator[Served]:
    yield from CORE
    yield from GROUPED
    yield _DEFINITION
    yield from _stored_only(
        "rbac.authorization.k8s.io",
        (
            ("clusterroles", "ClusterRole", False),
            ("clusterrolebindings", "ClusterRoleBinding", False),
            ("roles", "Role", True),
            ("rolebindings", "RoleBinding", True),
        ),
        create_on_update=True,
    )
    yield from _stored_only(
        "admissionregistration.k8s.io",
        (
            ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", False),
            ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False),
        ),
        counts_generation=True,
        unconditional_update=False,
    )
    yield from _created_only(
        "authentication.k8s.io",
        (("tokenreviews", "TokenReview"), ("selfsubjectreviews", "SelfSubjectReview")),
    )
    yield from _created_only(
        "authorization.k8s.io",
        (("selfsubjectaccessreviews", "SelfSubjectAccessReview"), ("subjectaccessreviews", "SubjectAccessReview")),
    )
