"""Create and replace: every write of an object, whichever verb it came by, ends in one of the two.

The order of the steps is the real server's: what is proposed is first made whole (metadata, status, defaults), then
checked, then compared with what is there, then stored. A proposal that changes nothing is not stored.
"""

from collections.abc import Callable

from defib.clock import Clock
from defib.simulate.kinds import defaults, metadata, validation
from defib.simulate.kinds.catalog import Served
from defib.simulate.kinds.metadata_fields import known_only
from defib.simulate.patches.ownership import UPDATE, Manager, after_update
from defib.simulate.refusals import (
    Problem,
    Refusal,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    internal,
    invalid,
    modified,
    not_found,
    wrong,
)
from defib.simulate.routing import Call
from defib.simulate.schema import checks, structural
from defib.simulate.schema.fitting import is_whole
from defib.simulate.store import Object, Store, Version, key_of

Owners = Callable[[Object], list[dict[str, object]]]


class Writer:
    """Brings objects into the store, and takes them out when their last finalizer goes."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def create(self, call: Call, proposed: Object, owners: Owners | None = None) -> Version:
        served = call.served
        if proposed["metadata"].get("resourceVersion"):
            raise internal("resourceVersion should not be set on objects to be created")
        whole = metadata.fresh(proposed, served, self._clock)
        self._check_namespace(call, whole["metadata"].get("name", ""))
        whole, found = self._made_whole(call, _status_at_birth(served, whole), None)
        self._check(served, whole, None, found)
        there = self._store.get(served.place, key_of(whole))
        if there:
            dying = bool(there.object["metadata"].get("deletionTimestamp"))
            raise already_exists(served, whole["metadata"]["name"], dying=dying)
        whole = self._owned(call, None, whole, owners)
        return self._keep(call, whole)

    def replace(self, call: Call, before: Version, proposed: Object, owners: Owners | None = None) -> Version:
        """`proposed` may be stale, partial in its metadata, and hold parts this call may not write."""
        served = call.served
        old = before.object
        self._check_version(call, before, proposed)
        self._check_death(call, before, proposed)
        whole = _only_writable(call, old, metadata.carried_over(old, proposed))
        whole, found = self._made_whole(call, whole, old)
        whole = _counted(served, old, whole)
        self._check(served, whole, old, found)
        whole = self._owned(call, old, whole, owners)
        whole["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if _finished(whole):
            return self._remove(call, whole)
        if whole == old:
            return before
        return self._keep(call, whole)

    def _check_namespace(self, call: Call, name: str) -> None:
        if not call.namespace:
            return
        namespace = self._store.get("namespaces", call.namespace)
        if namespace is None:
            raise Refusal(
                404,
                "NotFound",
                f'namespaces "{call.namespace}" not found',
                {"name": call.namespace, "kind": "namespaces"},
            )
        if namespace.object["metadata"].get("deletionTimestamp"):
            raise _namespace_ending(call, name)

    def _check_version(self, call: Call, before: Version, proposed: Object) -> None:
        asked = proposed["metadata"].get("resourceVersion", "")
        name = call.name or proposed["metadata"]["name"]
        if asked and not asked.isdecimal():
            raise internal(f'strconv.ParseUint: parsing "{asked}": invalid syntax')
        if asked in ("", "0"):
            if not call.served.unconditional_update and call.verb == "update":
                problem = wrong("metadata.resourceVersion", 0, "must be specified for an update")
                raise invalid(call.served.plural, call.served.group, name, [problem])
        elif int(asked) != before.revision:
            raise modified(call.served, name)
        self._check_uid(call, before, proposed)

    def _check_death(self, call: Call, before: Version, proposed: Object) -> None:
        """A writer may forget the time of deletion, but neither set nor move it."""
        asked = proposed["metadata"].get("deletionTimestamp")
        if asked and asked != before.object["metadata"].get("deletionTimestamp"):
            problem = wrong("metadata.deletionTimestamp", asked, "field is immutable")
            raise invalid(call.served.kind, call.served.group, call.name, [problem])

    def _check_uid(self, call: Call, before: Version, proposed: Object) -> None:
        served, uid = call.served, before.object["metadata"]["uid"]
        asked = proposed["metadata"].get("uid") or uid
        if asked == uid:
            return
        if call.verb == "patch":
            problem = wrong("metadata.uid", asked, "field is immutable")
            raise invalid(served.kind, served.group, call.name, [problem])
        why = f"Precondition failed: UID in precondition: {asked}, UID in object meta: {uid}"
        raise conflict(served.plural, served.group, call.name, why)

    def _made_whole(self, call: Call, proposed: Object, before: Object | None) -> tuple[Object, list[Problem]]:
        """With what the schema of a custom kind finds wrong with it."""
        served = call.served
        if not served.schema:
            return defaults.completed(served, proposed, before), []
        if call.request.query.get("fieldValidation") == "Strict":
            unknown = structural.unknown_fields(served.schema, proposed)
            if unknown:
                raise bad_request(_strictly(served, unknown))
        if is_whole(served.schema, proposed):
            return {"metadata": proposed["metadata"], **proposed}, []  # it comes first, however it was sent
        whole = structural.completed(served.schema, proposed)
        return whole, checks.problems(served.schema, whole)

    def _check(self, served: Served, whole: Object, before: Object | None, by_schema: list[Problem]) -> None:
        found: list[Problem] = metadata.problems(whole, served, before)
        found += by_schema if served.schema else validation.problems(served, whole, before)
        if found:
            raise invalid(served.kind, served.group, whole["metadata"].get("name", ""), found)

    def _owned(self, call: Call, before: Object | None, whole: Object, owners: Owners | None) -> Object:
        if owners is None:
            served = call.served
            manager = Manager(
                name=call.manager,
                operation=UPDATE,
                api_version=served.api_version,
                subresource=call.subresource,
                split_status=served.has_status,
            )
            entries = after_update(before, whole, served.shape, manager, self._time)
        else:
            entries = owners(whole)
        meta = dict(whole["metadata"])
        meta.pop("managedFields", None)
        if entries:
            meta["managedFields"] = entries
        return {**whole, "metadata": meta}

    def _time(self) -> str:
        return metadata.stamp(self._clock.now())

    def _keep(self, call: Call, whole: Object) -> Version:
        if call.dry_run:
            return Version(whole, self._store.revision)
        return self._store.put(call.served.place, whole)

    def _remove(self, call: Call, whole: Object) -> Version:
        if call.dry_run:
            return Version(whole, self._store.revision)
        self._store.remove(call.served.place, whole)
        return Version(whole, self._store.revision)  # the answer shows the revision it had, the watchers the new one

    def find(self, call: Call) -> Version:
        found = self._store.get(call.served.place, call.key)
        if found is None:
            raise not_found(call.served, call.name)
        return found


def _strictly(served: Served, unknown: list[str]) -> str:
    listed = ", ".join(f'unknown field "{name}"' for name in unknown)
    why = f"strict decoding error: {listed}"
    return f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}: {why}'


def _namespace_ending(call: Call, name: str) -> Refusal:
    why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": f"namespace {call.namespace} is being terminated"}
    cause["field"] = "metadata.namespace"
    details = {"name": name, "kind": call.served.plural, "causes": [cause]}
    if call.served.group:
        details["group"] = call.served.group
    return forbidden(call.served.resource, name, why, details)


def _status_at_birth(served: Served, proposed: Object) -> Object:
    """A status subresource means that nobody is born with a status; a node registers with its own, though."""
    if served.has_status and served.resource != "nodes" and "status" in proposed:
        return {k: v for k, v in proposed.items() if k != "status"}
    return proposed


def _only_writable(call: Call, old: Object, proposed: Object) -> Object:
    """The status belongs to its subresource, everything else to the main one."""
    if not call.served.has_status:
        return proposed
    if call.subresource == "status":
        return _status_only(call, old, proposed)
    rest = {k: v for k, v in proposed.items() if k != "status"}
    return {**rest, "status": old["status"]} if "status" in old else rest


def _status_only(call: Call, old: Object, proposed: Object) -> Object:
    rest = {k: v for k, v in old.items() if k != "status"}
    if not call.served.custom:
        # Built-in kinds let labels and annotations through here: a kubelet annotates its node this way.
        meta = proposed["metadata"]
        if call.served.resource == "pods":
            meta = {**meta, "ownerReferences": old["metadata"].get("ownerReferences")}
            meta = known_only(meta)
        elif call.served.group == "apps":
            meta = {**meta, "labels": old["metadata"].get("labels")}
            meta = known_only(meta)
        rest["metadata"] = meta
    return {**rest, "status": proposed["status"]} if "status" in proposed else rest


def _counted(served: Served, old: Object, whole: Object) -> Object:
    """The generation grows with every change of what is wished for: not of metadata, not of status."""
    if not served.counts_generation or "generation" not in old["metadata"]:
        return whole
    apart = ("metadata", "status") if served.has_status else ("metadata",)
    names = (old.keys() | whole.keys()).difference(apart)
    if all(old.get(name) == whole.get(name) for name in names):
        return whole
    meta = {**whole["metadata"], "generation": old["metadata"]["generation"] + 1}
    return {**whole, "metadata": meta}


def _finished(whole: Object) -> bool:
    """Marked for deletion, with nobody left to wait for."""
    meta = whole["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if whole.get("spec", {}).get("finalizers") and "phase" in whole.get("status", {}):
        return False  # a namespace also waits for its own kind of finalizers
    return not meta.get("deletionGracePeriodSeconds")
