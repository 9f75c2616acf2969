"""How the lists and maps of a kind merge: which lists have keys, which are sets, which are one indivisible value.

Server-side apply, field ownership and strategic merge all read this. Built-in kinds have theirs here, taken from the
OpenAPI of the real server; a custom kind's comes from its schema.
"""

from collections.abc import Mapping
from typing import Any

import msgspec


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Of one field. By default a map is merged field by field, and a list is one value."""

    atomic: bool = False
    keys: tuple[str, ...] = ()  # a list of maps, told apart by these
    is_set: bool = False  # a list of scalars, each owned for itself
    fields: Mapping[str, "Shape"] = {}
    items: "Shape | None" = None
    key_defaults: Mapping[str, Any] = {}

    def field(self, name: str) -> "Shape":
        """A map with free keys has the same shape under each of them."""
        if name in self.fields:
            return self.fields[name]
        return PLAIN if self.items is None or self.keys or self.is_set else self.items

    @property
    def item(self) -> "Shape":
        return self.items or PLAIN


PLAIN = Shape()
ATOMIC = Shape(atomic=True)
SET = Shape(is_set=True)


def struct(**fields: Shape) -> Shape:
    return Shape(fields=fields)


def keyed(*keys: str, of: Shape = PLAIN, **defaults: Any) -> Shape:
    return Shape(keys=keys, items=of, key_defaults=defaults)


META = struct(finalizers=SET, ownerReferences=keyed("uid", of=ATOMIC))
_CONDITIONS = struct(conditions=keyed("type"))
_VALUE_FROM = struct(configMapKeyRef=ATOMIC, fieldRef=ATOMIC, resourceFieldRef=ATOMIC, secretKeyRef=ATOMIC)
_CONTAINER = struct(
    env=keyed("name", of=struct(valueFrom=_VALUE_FROM)),
    ports=keyed("containerPort", "protocol", protocol="TCP"),
    volumeMounts=keyed("mountPath"),
    volumeDevices=keyed("devicePath"),
    resources=struct(claims=keyed("name")),
)
_POD_SPEC = struct(
    containers=keyed("name", of=_CONTAINER),
    initContainers=keyed("name", of=_CONTAINER),
    ephemeralContainers=keyed("name", of=_CONTAINER),
    volumes=keyed("name"),
    hostAliases=keyed("ip"),
    imagePullSecrets=keyed("name", of=ATOMIC),
    schedulingGates=keyed("name"),
    resourceClaims=keyed("name"),
    topologySpreadConstraints=keyed("topologyKey", "whenUnsatisfiable", of=struct(labelSelector=ATOMIC)),
    nodeSelector=ATOMIC,
)
POD = struct(metadata=META, spec=_POD_SPEC, status=struct(conditions=keyed("type"), podIPs=keyed("ip")))
NODE = struct(
    metadata=META,
    spec=struct(podCIDRs=SET),
    status=struct(conditions=keyed("type"), addresses=keyed("type")),
)
WITH_CONDITIONS = struct(metadata=META, spec=struct(selector=ATOMIC), status=_CONDITIONS)
WORKLOAD = struct(
    metadata=META,
    spec=struct(selector=ATOMIC, template=struct(metadata=META, spec=_POD_SPEC)),
    status=_CONDITIONS,
)
BUDGET = WITH_CONDITIONS
SERVICE = struct(
    metadata=META,
    spec=struct(ports=keyed("port", "protocol", protocol="TCP"), selector=ATOMIC),
    status=_CONDITIONS,
)
SERVICE_ACCOUNT = struct(metadata=META, secrets=keyed("name", of=ATOMIC))
CSI_NODE = struct(metadata=META, spec=struct(drivers=keyed("name")))
JUST_META = struct(metadata=META)


def from_schema(schema: Mapping[str, Any]) -> Shape:
    """Of an OpenAPI schema as a CustomResourceDefinition carries it."""
    if schema.get("type") == "array":
        return _of_list(schema)
    if schema.get("x-kubernetes-map-type") == "atomic":
        return ATOMIC
    fields = {name: from_schema(sub) for name, sub in (schema.get("properties") or {}).items()}
    free = schema.get("additionalProperties")
    return Shape(fields=fields, items=from_schema(free) if isinstance(free, dict) else None)


def _of_list(schema: Mapping[str, Any]) -> Shape:
    kind = schema.get("x-kubernetes-list-type", "atomic")
    items = schema.get("items") or {}
    if kind == "set":
        return SET
    if kind != "map":
        return PLAIN
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    properties = items.get("properties") or {}
    defaults = {k: properties[k]["default"] for k in keys if "default" in properties.get(k, {})}
    return Shape(keys=keys, items=from_schema(items), key_defaults=defaults)


def custom_root(schema: Mapping[str, Any]) -> Shape:
    """Of a whole custom object: what its schema says, and the metadata that all objects have."""
    root = from_schema(schema)
    return Shape(fields={**root.fields, "metadata": META}, items=root.items)
