"""DELETE: when an object goes at once, when it is only marked, and who it still waits for."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.clock import Clock
from defib.simulate.bodies import decoded
from defib.simulate.kinds import metadata
from defib.simulate.kinds.catalog import Served
from defib.simulate.refusals import Refusal, bad_request, conflict, invalid_options, unsupported
from defib.simulate.routing import Call
from defib.simulate.store import Object, Store, Version

_POLICIES = ("Foreground", "Background", "Orphan", "nil")
_WAITS_FOR = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
_PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None

    @property
    def only_tries(self) -> bool:
        return bool(self.dry_run)


def options_of(call: Call) -> DeleteOptions:
    """From the body, and from the query where the body says nothing."""
    body = decoded(call) if call.request.body else {}
    if not isinstance(body, dict):
        raise bad_request("the body of a delete must be DeleteOptions")
    query = call.request.query
    for name in ("gracePeriodSeconds", "propagationPolicy", "orphanDependents"):
        if name in query and name not in body:
            body[name] = query[name]
    if "dryRun" in query and "dryRun" not in body:
        body["dryRun"] = [query["dryRun"]]
    return read_options(body)


def read_options(body: dict[str, Any]) -> DeleteOptions:
    try:
        options = msgspec.convert(body, DeleteOptions, strict=False)
    except msgspec.ValidationError as error:
        raise bad_request(f"invalid DeleteOptions: {error}") from error
    if options.propagation_policy not in (None, "", *_POLICIES[:-1]):
        problem = unsupported("propagationPolicy", options.propagation_policy, _POLICIES)
        raise invalid_options("DeleteOptions", problem)
    if options.dry_run and options.dry_run != ["All"]:
        raise invalid_options("DeleteOptions", unsupported("dryRun", options.dry_run, ("All",)))
    return options


def check_preconditions(served: Served, stored: Object, wanted: Preconditions | None) -> None:
    if wanted is None:
        return
    meta = stored["metadata"]
    why = ""
    if wanted.uid is not None and wanted.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
    elif wanted.resource_version is not None and wanted.resource_version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the ResourceVersion "
            f"in record ({meta['resourceVersion']}). The object might have been modified"
        )
    if why:
        raise conflict(served.kind, served.group, meta["name"], why)


def _grace_seconds(served: Served, stored: Object, options: DeleteOptions) -> int:
    """Only pods have time to say goodbye, and only those a kubelet looks after and that still run."""
    if served.resource != "pods":
        return 0
    spec, status = stored.get("spec") or {}, stored.get("status") or {}
    planned = _planned(stored)
    grace = options.grace_period_seconds
    if grace is None:  # one that is leaving already goes on as it was told
        grace = spec.get("terminationGracePeriodSeconds", 30) if planned is None else planned
    if grace < 0:
        grace = 1
    if planned is not None:
        return int(min(grace, planned))
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(grace)


def _planned(stored: Object) -> int | None:
    """The grace that an earlier deletion gave it."""
    planned: int | None = stored["metadata"].get("deletionGracePeriodSeconds")
    return planned


def _finalizers(stored: Object, options: DeleteOptions) -> list[str]:
    """What it waits for: its own finalizers, and what the propagation policy adds to or takes from them."""
    kept = list(stored["metadata"].get("finalizers") or [])
    policy = "Orphan" if options.orphan_dependents else options.propagation_policy
    if options.orphan_dependents is False:
        policy = "Background"
    if not policy:
        return kept
    kept = [f for f in kept if f not in _WAITS_FOR.values()]
    if policy in _WAITS_FOR:
        kept.append(_WAITS_FOR[policy])
    return kept


class Deleter:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def delete(self, served: Served, before: Version, options: DeleteOptions) -> tuple[Version, bool]:
        """The object as it then is, and whether it is gone."""
        stored = before.object
        check_preconditions(served, stored, options.preconditions)
        if served.resource == "namespaces":
            return self._end_namespace(served, before, options)
        grace = _grace_seconds(served, stored, options)
        if served.resource == "pods" and grace == _planned(stored):
            return before, False  # a deletion that brings nothing closer changes nothing else either
        finalizers = _finalizers(stored, options)
        if finalizers or grace > 0:
            marked = self._marked(stored, finalizers, grace)
            if marked == stored:
                return before, False
            return self._keep(served, marked, options), False
        if options.only_tries:
            return before, True
        if served.resource == "pods":
            # The real server writes twice: watchers see a pod marked with no grace left before they see it go.
            marked = self._marked(stored, finalizers, grace)
            stored = stored if marked == stored else self._store.put(served.place, marked).object
        return self._store.remove(served.place, stored), True

    def _keep(self, served: Served, marked: Object, options: DeleteOptions) -> Version:
        if options.only_tries:
            return Version(marked, self._store.revision)
        return self._store.put(served.place, marked)

    def _marked(self, stored: Object, finalizers: list[str], grace: int) -> Object:
        """With the time of its deletion. A second one can only bring that closer, counted from when it was first told."""
        meta = dict(stored["metadata"])
        if finalizers:
            meta["finalizers"] = finalizers
        elif "finalizers" in meta:
            del meta["finalizers"]
        planned, ends = _planned(stored), meta.get("deletionTimestamp")
        if not ends or (planned is not None and grace < planned):
            told = datetime.fromisoformat(ends) - timedelta(seconds=planned or 0) if ends else self._clock.now()
            meta["deletionTimestamp"] = metadata.stamp(told + timedelta(seconds=grace))
            meta["deletionGracePeriodSeconds"] = grace
            if planned is None and "generation" in meta:
                meta["generation"] += 1
        return {**stored, "metadata": meta}

    def _end_namespace(self, served: Served, before: Version, options: DeleteOptions) -> tuple[Version, bool]:
        stored = before.object
        name = stored["metadata"]["name"]
        if name in _PROTECTED_NAMESPACES:
            why = "this namespace may not be deleted"
            message = f'namespaces "{name}" is forbidden: {why}'
            raise Refusal(403, "Forbidden", message, {"name": name, "kind": "namespaces"})
        if not (stored.get("spec") or {}).get("finalizers") and not stored["metadata"].get("finalizers"):
            return (before, True) if options.only_tries else (self._store.remove(served.place, stored), True)
        if stored["metadata"].get("deletionTimestamp"):
            return before, False
        meta = {**stored["metadata"], "deletionTimestamp": metadata.stamp(self._clock.now())}
        ending = {**stored, "metadata": meta, "status": {**(stored.get("status") or {}), "phase": "Terminating"}}
        return self._keep(served, ending, options), False


def success(served: Served, stored: Object) -> dict[str, Any]:
    """The Status that tells of a deletion."""
    details = {"name": stored["metadata"]["name"]}
    if served.group:
        details["group"] = served.group
    details["kind"] = served.plural
    details["uid"] = stored["metadata"]["uid"]
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
