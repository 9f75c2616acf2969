"""What every Kubernetes object has in common."""

from datetime import datetime
from typing import Any

import msgspec


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False, omit_defaults=True):
    """Base of all structs that are read from the API server.

    Unknown fields are skipped while decoding, which is what makes the cache small. `gc=False` is safe because
    decoded JSON has no cycles, and it spares the garbage collector thousands of objects.
    """


class OwnerReference(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Meta(Wire, frozen=True):
    """The API server sends null for absent lists and maps in places, so those are optional here."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class Resource(Wire, frozen=True):
    """Any object, seen through its metadata alone. Every typed object extends it."""

    metadata: Meta = Meta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.annotations or {}

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for cluster-wide kinds."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class Unstructured(Resource, frozen=True):
    """An object of a kind unknown at build time: the metadata typed, the rest as it came."""

    api_version: str = ""
    kind: str = ""
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    data: Any = None  # of the few kinds that have it instead, such as ConfigMap; any other may mean anything by it
