"""How an answer is written: whole objects, their metadata alone, or a table for people. The Accept header chooses."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from defib.simulate.kinds.catalog import Served, as_shown
from defib.simulate.refusals import Refusal
from defib.simulate.store import Version
from defib.simulate.views import tables
from defib.simulate.watching import Form

_json = msgspec.json.Encoder()
_END = "k8s.io/initial-events-end"
_PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


@lru_cache(maxsize=256)
def asked_form(accept: str) -> str:
    """`full`, `partial` or `table`: the first of the accepted ones that we can write."""
    for one in accept.split(",") if accept else ["*/*"]:
        media, *parameters = [part.strip() for part in one.split(";")]
        if media not in ("application/json", "*/*", "application/*", ""):
            continue
        said = dict(p.split("=", 1) for p in parameters if "=" in p)
        wanted = said.get("as", "")
        if not wanted:
            return "full"
        if said.get("v") == "v1" and said.get("g") == "meta.k8s.io":
            if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return "partial"
            if wanted == "Table":
                return "table"
    supported = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    raise Refusal(406, "NotAcceptable", f"only the following media types are accepted: {supported}")


def _bookmark_meta(revision: int, end: bool) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if end:
        meta["annotations"] = {_END: "true"}
    return meta


def _encoded(served: Served, version: Version) -> bytes:
    return _json.encode(as_shown(served, version.object)) if served.aliases else version.encoded


def _whole(served: Served, version: Version) -> bytes:
    return served.envelope + b"," + _encoded(served, version)[1:]


def full(served: Served) -> Form:
    envelope = served.envelope

    def show(version: Version) -> bytes:
        return _whole(served, version)

    def bookmark(revision: int, end: bool) -> bytes:
        return envelope + b',"metadata":%b}' % _json.encode(_bookmark_meta(revision, end))

    return Form(show, bookmark)


def partial() -> Form:
    def show(version: Version) -> bytes:
        return _json.encode({**_PARTIAL, "metadata": version.object["metadata"]})

    def bookmark(revision: int, end: bool) -> bytes:
        return _json.encode({**_PARTIAL, "metadata": _bookmark_meta(revision, end)})

    return Form(show, bookmark)


def table(served: Served, printer: tables.Printer) -> Form:
    untold = True

    def show(version: Version) -> bytes:
        """The columns are told once, with the first row of a watch."""
        nonlocal untold
        made = printer.table(served, [version], {"resourceVersion": str(version.revision)})
        if not untold:
            made["columnDefinitions"] = None
        untold = False
        return _json.encode(made)

    def bookmark(revision: int, end: bool) -> bytes:
        empty = printer.table(served, [], {"resourceVersion": str(revision)})
        row = {"cells": [], "object": {**_PARTIAL, "metadata": _bookmark_meta(revision, end)}}
        return _json.encode({**empty, "rows": [row]})

    return Form(show, bookmark)


def form_of(served: Served, accept: str, printer: tables.Printer) -> Form:
    match asked_form(accept):
        case "partial":
            return partial()
        case "table":
            return table(served, printer)
        case _:
            return full(served)


def shown(served: Served, accept: str, printer: tables.Printer, version: Version) -> bytes:
    """One object, as most requests want it."""
    if asked_form(accept) == "full":
        return _whole(served, version)
    return form_of(served, accept, printer).show(version)


def whole_list(served: Served, found: Sequence[Version], meta: dict[str, Any]) -> bytes:
    """Items of built-in kinds carry no kind of their own, those of custom kinds do: as the real server writes them."""
    kind = served.list_kind or f"{served.kind}List"
    head = _json.encode({"kind": kind, "apiVersion": served.api_version, "metadata": meta})[:-1]
    if served.custom:
        envelope = served.envelope + b","
        items = b",".join([envelope + version.encoded[1:] for version in found])
    else:
        items = b",".join([_encoded(served, version) for version in found])
    return head + b',"items":[' + items + b"]}"


def list_of(
    served: Served, accept: str, printer: tables.Printer, found: Sequence[Version], meta: dict[str, Any]
) -> bytes:
    match asked_form(accept):
        case "partial":
            items = [{**_PARTIAL, "metadata": version.object["metadata"]} for version in found]
            kind = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            return _json.encode({**kind, "metadata": meta, "items": items})
        case "table":
            return _json.encode(printer.table(served, found, meta))
        case _:
            return whole_list(served, found, meta)
