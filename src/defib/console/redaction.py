"""What must not leave a cluster in a dump: passwords, tokens, keys, wherever somebody has put them.

Two rules. A value under a key that sounds like a secret goes, unless the key says that it only names one. And whatever
looks like a secret by itself goes, under any key. Labels stay: selectors are made of them, and everybody can see them.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from defib.model.cluster import CONFIG_MAPS, Cluster
from defib.model.incident import NodeIncident
from defib.model.meta import Resource, Unstructured
from defib.model.pod import Pod

REDACTED = "redacted"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # the whole object once more, as a text

_WORDS = r"passw(?:or)?d|passphrase|passwd|secret|token|credential|bearer|cookie|authorization|(?:private|api|access)[-_]?key"
_SOUNDS_SECRET = re.compile(rf"(?i){_WORDS}|^-*pass$|^community$").search
_ONLY_NAMES_ONE = re.compile(r"(?i)(?:names?|refs?|namespace|type|kind|path|mode|seconds|enabled|url)$").search
# In a map that belongs to a secret, these say where it is.
_WHERE = frozenset(
    {
        *("name", "namespace", "kind", "apiVersion", "key", "path", "uid", "secretName", "fieldPath", "audience"),
        *("mode", "defaultMode", "expirationSeconds"),
    }
)
_LABELS = frozenset({"labels", "matchLabels", "nodeSelector"})
# The name of a Secret, and which replica gave an order: both are called like secrets and are none.
_OF_AN_INCIDENT = frozenset({("status", "power", "secret"), ("status", "command", "token")})

_LOOKS_SECRET = (
    (re.compile(r"eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*"), REDACTED),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), REDACTED),
    (re.compile(r"(://)[^/\s@]*@"), rf"\1{REDACTED}@"),
    (re.compile(r"(?i)\b(bearer|basic) +[\w.~+/=-]{8,}"), rf"\1 {REDACTED}"),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_\w{20,}|\bxox[abprs]-[\w-]{10,}"), REDACTED),
    (re.compile(rf"(?i)((?:{_WORDS})\w*(?:\\?[\"']\s*:\s*|=)\\?[\"']?)[^\s\"'\\,;&]+"), rf"\1{REDACTED}"),
)
# Whatever has none of these has nothing to hide. Searched for as bytes, since there may be hundreds of thousands.
_WORDS_OF_SECRETS = tuple(
    word.encode()
    for word in (
        *("passw", "passphrase", "secret", "token", "credential", "bearer", "cookie", "authorization", "basic "),
        *('pass"', "community", "last-applied", "-----begin", "://"),
        *(f"{kind}{dash}key" for kind in ("private", "api", "access") for dash in ("", "-", "_")),
    )
)
_MARKS_OF_SECRETS = (b"eyJ", b"AKIA", b"ASIA", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"xox")

DEEPEST = 100  # levels: twice as many calls as that are still far from what Python allows

R = TypeVar("R", bound=Resource)

_encode = msgspec.json.Encoder().encode


def without_secrets(cluster: Cluster, read: frozenset[str]) -> Cluster:
    """`read` are the ConfigMaps that deciding reads, by namespace/name. All others, whatever they hold, are left out."""
    others = {name: {key: clean(item) for key, item in items.items()} for name, items in cluster.others.items()}
    if CONFIG_MAPS in others:
        others[CONFIG_MAPS] = {key: item for key, item in others[CONFIG_MAPS].items() if key in read}
    return msgspec.structs.replace(
        cluster,
        nodes={name: clean(node) for name, node in cluster.nodes.items()},
        heartbeats={key: clean(lease) for key, lease in cluster.heartbeats.items()},
        locks={key: clean(lease) for key, lease in cluster.locks.items()},
        others=others,
        blind=tuple(msgspec.structs.replace(one, why=clean_text(one.why)) for one in cluster.blind),
        absent={name: clean_text(why) for name, why in cluster.absent.items()},
        unread=tuple(msgspec.structs.replace(one, why=clean_text(one.why)) for one in cluster.unread),
        failures={key: msgspec.structs.replace(one, why=clean_text(one.why)) for key, one in cluster.failures.items()},
    )


def clean(item: R) -> R:
    """The same object where there is nothing to hide in it, which is nearly always."""
    lean = _lean(item)
    try:
        return _clean(lean)
    except RecursionError:
        cut: R = _cut(lean, DEEPEST)
        return _clean(cut)


def _clean(item: R) -> R:
    written = _encode(item)
    lowered = written.lower()
    if not any(word in lowered for word in _WORDS_OF_SECRETS) and not any(
        mark in written for mark in _MARKS_OF_SECRETS
    ):
        return item
    exempt = _OF_AN_INCIDENT if isinstance(item, NodeIncident) else frozenset()
    return msgspec.json.decode(_encode(_walk(msgspec.json.decode(written), (), exempt)), type=type(item))


def clean_text(text: str) -> str:
    for pattern, instead in _LOOKS_SECRET:
        text = pattern.sub(instead, text)
    return text


def _lean(item: R) -> R:
    """Of a pod only what somebody decides by: of its volumes the sort and the claim, and nothing of its containers."""
    if isinstance(item, Pod):
        volumes = [_lean_volume(volume) for volume in item.spec.volumes or ()]
        return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, volumes=volumes or None))
    if not isinstance(item, Unstructured) or item.kind != "Pod" or not item.spec:
        return item
    kept = {name: value for name, value in item.spec.items() if not name.lower().endswith("containers")}
    return msgspec.structs.replace(item, spec=kept)


def _lean_volume(volume: dict[str, Any]) -> dict[str, Any]:
    claim = volume.get("persistentVolumeClaim")
    named = {"claimName": str(claim.get("claimName", ""))} if isinstance(claim, dict) else None
    return {
        name: value if name == "name" else named if name == "persistentVolumeClaim" and named else {}
        for name, value in volume.items()
    }


def _cut(value: Any, levels: int) -> Any:
    """Without what is nested deeper than anybody but a joker writes it."""
    if not isinstance(value, dict | list | msgspec.Struct):
        return value
    if not levels:
        return REDACTED
    if isinstance(value, dict):
        return {name: _cut(inner, levels - 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut(one, levels - 1) for one in value]
    fields = {name: _cut(getattr(value, name), levels - 1) for name in value.__struct_fields__}
    return msgspec.structs.replace(value, **fields)


def _walk(value: Any, path: tuple[str, ...], exempt: frozenset[tuple[str, ...]]) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_walk(one, path, exempt) for one in value]
    if not isinstance(value, dict):
        return value
    is_labels = bool(path) and path[-1] in _LABELS
    hides = _hidden_names(value)
    return {
        name: (
            _walk(inner, (*path, name), exempt)
            if is_labels or (*path, name) in exempt
            else _hidden(inner)
            if name in hides or _holds_one(name)
            else _walk(inner, (*path, name), exempt)
        )
        for name, inner in value.items()
    }


def _holds_one(name: str) -> bool:
    return name == LAST_APPLIED or (_SOUNDS_SECRET(name) is not None and _ONLY_NAMES_ONE(name) is None)


def _hidden_names(pair: Mapping[str, Any]) -> frozenset[str]:
    """As environments are written: `name: DB_PASSWORD`, `value: …`."""
    name = pair.get("name")
    return frozenset({"value"}) if isinstance(name, str) and _holds_one(name) else frozenset()


def _hidden(value: Any) -> Any:
    """Everything that a map or list of secrets holds, except where they are. Flags and nothing say nothing."""
    if isinstance(value, dict):
        return {name: _where(inner) if name in _WHERE else _hidden(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(one) for one in value]
    return value if value is None or isinstance(value, bool) or value in ("", REDACTED) else REDACTED


def _where(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    return value if isinstance(value, int) else _hidden(value)
