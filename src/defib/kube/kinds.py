"""Where a kind lives on the API server, and the struct its objects are read into."""

from typing import Generic, TypeVar

import msgspec

from defib.model import medik8s
from defib.model.config_map import ConfigMap
from defib.model.health_check import NodeHealthCheck
from defib.model.incident import NodeIncident
from defib.model.meta import Resource, Unstructured
from defib.model.node import Lease, Node
from defib.model.pod import Pod
from defib.model.secret import SecretData

R = TypeVar("R", bound=Resource)


class Kind(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """A resource of the API: its address, its scope, its type."""

    group: str = ""
    version: str
    plural: str
    name: str
    namespaced: bool
    type: type[R]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str = "") -> str:
        """The path to list or create at; without a namespace, all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"

    def at(self, name: str, namespace: str = "") -> "Ref[R]":
        assert bool(namespace) == self.namespaced, f"{self.name} {name!r}: wrong scope (namespace {namespace!r})"
        assert name, f"{self.name}: an object's address needs a name"
        return Ref(kind=self, name=name, namespace=namespace)

    def of(self, item: R) -> "Ref[R]":
        return self.at(item.metadata.name, item.metadata.namespace)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Ref(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """The address of one object."""

    kind: Kind[R]
    name: str
    namespace: str = ""

    def path(self, subresource: str = "") -> str:
        path = f"{self.kind.collection(self.namespace)}/{self.name}"
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


NODES = Kind(version="v1", plural="nodes", name="Node", namespaced=False, type=Node)
LEASES = Kind(group="coordination.k8s.io", version="v1", plural="leases", name="Lease", namespaced=True, type=Lease)
CONFIG_MAPS = Kind(version="v1", plural="configmaps", name="ConfigMap", namespaced=True, type=ConfigMap)
PODS = Kind(version="v1", plural="pods", name="Pod", namespaced=True, type=Pod)
EVENTS = Kind(version="v1", plural="events", name="Event", namespaced=True, type=Resource)
NAMESPACES = Kind(version="v1", plural="namespaces", name="Namespace", namespaced=False, type=Resource)
NODE_HEALTH_CHECKS = Kind(
    group=medik8s.GROUP,
    version=medik8s.VERSION,
    plural="nodehealthchecks",
    name=medik8s.CHECK_KIND,
    namespaced=False,
    type=NodeHealthCheck,
)
NODE_INCIDENTS = Kind(
    group="defib.dev",
    version="v1alpha1",
    plural="nodeincidents",
    name="NodeIncident",
    namespaced=False,
    type=NodeIncident,
)
SECRETS = Kind(version="v1", plural="secrets", name="Secret", namespaced=True, type=SecretData)


def metadata_only(kind: Kind[R]) -> Kind[Resource]:
    """The same kind, of which only the metadata is asked for and kept."""
    return Kind(
        group=kind.group,
        version=kind.version,
        plural=kind.plural,
        name=kind.name,
        namespaced=kind.namespaced,
        type=Resource,
    )


def unstructured(group: str, version: str, plural: str, name: str, *, namespaced: bool) -> Kind[Unstructured]:
    return Kind(group=group, version=version, plural=plural, name=name, namespaced=namespaced, type=Unstructured)


CLAIMS = unstructured("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
