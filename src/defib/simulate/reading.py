"""GET, LIST and WATCH: what a reader gets, from which moment, page by page or as it happens."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from defib.clock import Clock
from defib.simulate.answers import Answer
from defib.simulate.refusals import (
    Refusal,
    bad_request,
    expired,
    forbidden_field,
    internal,
    invalid_options,
    not_found,
    too_large_version,
    unsupported,
)
from defib.simulate.routing import Call
from defib.simulate.selectors import selection
from defib.simulate.store import ADDED, Collection, Store, Version
from defib.simulate.views.forms import form_of, list_of, shown
from defib.simulate.views.tables import Printer
from defib.simulate.watching import Watch, WatchOptions

_TOO_OLD_TO_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_WATCH_MIN_SECONDS = 1800.0  # without a wish of its own a watch lasts this long, and up to as long again


class Continue(msgspec.Struct, frozen=True):
    """What a continue token says; a revision of -1 means: from what is there now."""

    rv: int
    start: str
    v: str = "meta.k8s.io/v1"


def _token(where: Continue) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(where)).decode().rstrip("=")


def _read_token(text: str) -> Continue:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=Continue)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def revision_of(text: str) -> int:
    if not text:
        return 0
    if not text.isdecimal():
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: {why}")
    return int(text)


def _check_list_options(query: Mapping[str, str]) -> None:
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    problem = None
    if "sendInitialEvents" in query:
        problem = forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
    elif match and query.get("continue"):
        problem = forbidden_field("resourceVersionMatch", "resourceVersionMatch is forbidden for continue")
    elif match and not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        problem = forbidden_field("resourceVersionMatch", why)
    elif match not in ("", "Exact", "NotOlderThan"):
        problem = unsupported("resourceVersionMatch", match, ("Exact", "NotOlderThan", ""))
    elif match == "Exact" and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        problem = forbidden_field("resourceVersionMatch", why)
    if problem:
        raise invalid_options("ListOptions", problem)


def _check_watch_options(query: Mapping[str, str]) -> None:
    match = query.get("resourceVersionMatch", "")
    why = ""
    if "sendInitialEvents" in query and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif match and "sendInitialEvents" not in query:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    if why:
        raise invalid_options("ListOptions", forbidden_field("resourceVersionMatch", why))


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not text.removeprefix("-").isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(0, int(text))


def _limit(query: Mapping[str, str]) -> int:
    """A read at version 0 comes from the server's cache, which knows no pages."""
    limit = _number(query, "limit")
    return 0 if query.get("resourceVersion") == "0" else limit


class Reader:
    """Answers questions. It never changes anything."""

    def __init__(self, store: Store, clock: Clock, printer: Printer) -> None:
        self._store = store
        self._clock = clock
        self._printer = printer

    def get(self, call: Call, *, stale: int = 0) -> Answer:
        found = self._moment(call, stale).get(call.key) if stale else self._store.get(call.served.place, call.key)
        if found is None:
            raise not_found(call.served, call.name)
        asked = revision_of(call.request.query.get("resourceVersion", ""))
        if asked > self._store.revision:
            raise too_large_version(asked, self._store.revision)
        return Answer(200, self.show(call, found))

    def show(self, call: Call, version: Version) -> bytes:
        return shown(call.served, call.request.accept, self._printer, version)

    def list(self, call: Call, *, stale: int = 0) -> Answer:
        query = call.request.query
        _check_list_options(query)
        token = query.get("continue")
        if token:
            return self._continue(call, _read_token(token))
        asked = revision_of(query.get("resourceVersion", ""))
        if asked > self._store.revision:
            raise too_large_version(asked, self._store.revision)
        revision = asked if query.get("resourceVersionMatch") == "Exact" else stale or self._store.revision
        collection = self._store.collection(call.served.place)
        if revision < collection.floor:
            raise expired(f"The provided resource version is too old: {revision}, oldest available: {collection.floor}")
        return self._page(call, collection.at(revision), revision, after="")

    def _continue(self, call: Call, where: Continue) -> Answer:
        if call.request.query.get("resourceVersion", "0") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        collection = self._store.collection(call.served.place)
        revision = self._store.revision if where.rv == -1 else where.rv
        if revision < collection.floor:
            refusal = expired(_TOO_OLD_TO_CONTINUE)
            refusal.metadata = {"continue": _token(Continue(-1, where.start))}
            raise refusal
        return self._page(call, collection.at(revision), revision, after=where.start)

    def _page(self, call: Call, then: dict[str, Version], revision: int, *, after: str) -> Answer:
        query = call.request.query
        selected = selection(call.served, call.namespace, query)
        found = [(k, v) for k, v in then.items() if k > after and (selected is None or selected(v.object))]
        meta: dict[str, Any] = {"resourceVersion": str(revision)}
        limit = _limit(query)
        if limit and len(found) > limit:
            meta["continue"] = _token(Continue(revision, found[limit - 1][0]))
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                meta["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        versions = [v for _, v in found]
        return Answer(200, list_of(call.served, call.request.accept, self._printer, versions, meta))

    def _moment(self, call: Call, revision: int) -> dict[str, Version]:
        return self._store.collection(call.served.place).at(revision)

    def watch(self, call: Call) -> Answer:
        query = call.request.query
        _check_watch_options(query)
        text = query.get("resourceVersion", "")
        if text and not text.isdecimal():
            why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
            raise internal(f'resourceVersion: Invalid value: "{text}": {why}')
        collection = self._store.collection(call.served.place)
        selected = selection(call.served, call.namespace, query)
        form = form_of(call.served, call.request.accept, self._printer)
        watch = Watch(self._store, collection, form, selected)
        bookmarks = query.get("allowWatchBookmarks") in ("1", "true")
        watch.open(self._clock, WatchOptions(timeout_seconds=self._duration(query), bookmarks=bookmarks))
        initial = query.get("sendInitialEvents") in ("1", "true")
        if initial or (not int(text or 0) and "sendInitialEvents" not in query):
            self._replay_state(watch, collection, call)
            if initial and bookmarks:
                watch.bookmark(initial_events_end=True)
        else:
            self._replay_history(watch, collection, int(text or 0) or self._store.revision)
        return Answer(200, watch=watch)

    def _duration(self, query: Mapping[str, str]) -> float:
        asked = _number(query, "timeoutSeconds")
        if asked:
            return float(asked)
        return _WATCH_MIN_SECONDS + self._clock.jitter(_WATCH_MIN_SECONDS)

    def _replay_state(self, watch: Watch, collection: Collection, call: Call) -> None:
        selected = selection(call.served, call.namespace, call.request.query)
        for key in collection.keys():  # noqa: SIM118 - sorted, not the order of the dict
            version = collection.objects[key]
            if selected is None or selected(version.object):
                watch.show(ADDED, version)

    def _replay_history(self, watch: Watch, collection: Collection, revision: int) -> None:
        oldest = max(collection.floor, self._store.watched_since)
        if revision < oldest:
            watch.refuse(too_old(revision, oldest))
            return
        watch.begin_after(revision)
        for change in collection.since(revision):
            watch.offer(change)


def too_old(revision: int, oldest: int) -> Refusal:
    return expired(f"too old resource version: {revision} ({oldest})")
