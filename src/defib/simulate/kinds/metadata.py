"""The metadata the server itself writes, and its rules for the rest."""

import re
from datetime import datetime
from typing import Any

from defib.clock import Clock
from defib.simulate.kinds.catalog import Served
from defib.simulate.kinds.metadata_fields import known_only
from defib.simulate.refusals import Problem, forbidden_field, required, too_long, wrong
from defib.simulate.store import Object

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so that chance spells no words
_NAME_MAX, _GENERATED_MAX = 253, 63
_ANNOTATIONS_MAX = 256 * 1024

_LABEL_RE = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_RE = rf"{_LABEL_RE}(\.{_LABEL_RE})*"
_QUALIFIED_RE = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_RE = f"({_QUALIFIED_RE})?"
_subdomain = re.compile(_SUBDOMAIN_RE).fullmatch
_label = re.compile(_LABEL_RE).fullmatch
_qualified = re.compile(_QUALIFIED_RE).fullmatch
_value = re.compile(_VALUE_RE).fullmatch

_SUBDOMAIN_WHY = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_RE}')"
)
_LABEL_WHY = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL_RE}')"
)
_QUALIFIED_WHY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED_RE}')"
)
_VALUE_WHY = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'(({_QUALIFIED_RE[1:]})?')"
)

# What a writer cannot change, whatever it sends.
_SERVERS_OWN = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def stamp(now: datetime) -> str:
    """A time as Kubernetes writes it: whole seconds, Zulu."""
    return now.isoformat(timespec="seconds")[:19] + "Z"  # several times faster than strftime, and called for each write


def new_uid(clock: Clock) -> str:
    high, low = int(clock.jitter(1 << 52)), int(clock.jitter(1 << 52))
    text = f"{high:013x}{low:013x}"
    return f"{text[:8]}-{text[8:12]}-4{text[12:15]}-a{text[15:18]}-{text[14:26]}"


def generated_name(prefix: str, clock: Clock) -> str:
    suffix = "".join(_NAME_LETTERS[int(clock.jitter(len(_NAME_LETTERS)))] for _ in range(5))
    return prefix[: _GENERATED_MAX - len(suffix)] + suffix


def fresh(proposed: Object, served: Served, clock: Clock) -> Object:
    """The metadata of an object that is about to be."""
    meta = {k: v for k, v in known_only(proposed["metadata"]).items() if k not in _SERVERS_OWN}
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generated_name(meta["generateName"], clock)
    meta["uid"] = new_uid(clock)
    meta["creationTimestamp"] = stamp(clock.now())
    if served.counts_generation:
        meta["generation"] = 1
    return {**proposed, "metadata": meta}


def carried_over(before: Object, proposed: Object) -> Object:
    """A new version of an object keeps what is the server's own."""
    old = before["metadata"]
    meta = {k: v for k, v in known_only(proposed["metadata"]).items() if k not in _SERVERS_OWN}
    for name in _SERVERS_OWN:
        if name in old:
            meta[name] = old[name]
    if "generateName" in old:
        meta["generateName"] = old["generateName"]
    return {**proposed, "metadata": meta}


def _ruled(meta: Object) -> tuple[Any, ...]:
    return meta.get("labels"), meta.get("annotations"), meta.get("finalizers"), meta.get("ownerReferences")


def problems(stored: Object, served: Served, before: Object | None) -> list[Problem]:
    meta = stored["metadata"]
    if before is not None and _ruled(meta) == _ruled(before["metadata"]):
        return []  # it was looked at when it was stored, and its name does not change
    found = _name_problems(meta.get("name", ""), served) if before is None else []
    for key, value in (meta.get("labels") or {}).items():
        found += _key_problems("metadata.labels", key)
        if len(value) > _GENERATED_MAX:
            found.append(wrong("metadata.labels", value, f"must be no more than {_GENERATED_MAX} bytes"))
        elif not _value(value):
            found.append(wrong("metadata.labels", value, _VALUE_WHY))
    found += _annotation_problems(meta.get("annotations") or {})
    found += _finalizer_problems(meta.get("finalizers") or [], served, before)
    return found + _owner_problems(meta.get("ownerReferences") or [])


def _annotation_problems(annotations: dict[str, str]) -> list[Problem]:
    found = [problem for key in annotations for problem in _key_problems("metadata.annotations", key)]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_MAX:
        found.append(too_long("metadata.annotations", _ANNOTATIONS_MAX))
    return found


_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def _finalizer_problems(finalizers: list[str], served: Served, before: Object | None) -> list[Problem]:
    found = []
    for number, finalizer in enumerate(finalizers):
        where = f"metadata.finalizers[{number}]"
        found += _key_problems(where, finalizer)
        if not served.custom and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            found.append(wrong(where, finalizer, "name is neither a standard finalizer name nor is it fully qualified"))
    old = before["metadata"] if before else {}
    added = [f for f in finalizers if f not in (old.get("finalizers") or ())]
    if old.get("deletionTimestamp") and added:
        listed = ", ".join(f'"{f}"' for f in added)
        why = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        )
        found.append(forbidden_field("metadata.finalizers", why))
    return found


def _name_problems(name: str, served: Served) -> list[Problem]:
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    if served.group == "rbac.authorization.k8s.io":
        return []
    if served.resource == "namespaces":
        return [] if _label(name) and len(name) <= _GENERATED_MAX else [wrong("metadata.name", name, _LABEL_WHY)]
    if len(name) > _NAME_MAX:
        return [wrong("metadata.name", name, f"must be no more than {_NAME_MAX} bytes")]
    return [] if _subdomain(name) else [wrong("metadata.name", name, _SUBDOMAIN_WHY)]


def _key_problems(field: str, key: str) -> list[Problem]:
    prefix, slash, name = key.rpartition("/")
    if slash and not _subdomain(prefix):
        return [wrong(field, key, f"prefix part {_SUBDOMAIN_WHY}")]
    if len(name) > _GENERATED_MAX:
        return [wrong(field, key, f"name part must be no more than {_GENERATED_MAX} bytes")]
    return [] if _qualified(name) else [wrong(field, key, _QUALIFIED_WHY)]


def _owner_problems(owners: list[dict[str, Any]]) -> list[Problem]:
    found = []
    for number, owner in enumerate(owners):
        where = f"metadata.ownerReferences[{number}]"
        found += [
            required(f"{where}.{name}", "must not be empty")
            for name in ("apiVersion", "kind", "name", "uid")
            if not owner.get(name)
        ]
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        why = "Only one reference can have Controller set to true."
        found.append(wrong("metadata.ownerReferences", owners, why))
    return found
