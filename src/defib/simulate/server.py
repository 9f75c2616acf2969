"""The API server: takes a request, gives an answer, at once. Waiting, faults and connections are the front's business."""

from collections import deque
from collections.abc import Callable
from typing import Any

from defib.clock import Clock
from defib.kube.transport import Request
from defib.simulate.answers import Answer, as_json, refused
from defib.simulate.audit import Asked, Audit
from defib.simulate.bodies import object_of
from defib.simulate.connections import Connections
from defib.simulate.deleting import Deleter, options_of, success
from defib.simulate.evicting import Evictor
from defib.simulate.faults import Faults
from defib.simulate.kinds import builtin
from defib.simulate.kinds.catalog import Catalog
from defib.simulate.kinds.crds import Registrar
from defib.simulate.patches.patching import Patcher
from defib.simulate.reading import Reader
from defib.simulate.refusals import (
    Refusal,
    internal,
    invalid_options,
    method_not_allowed,
    too_large_request,
    unsupported,
)
from defib.simulate.routing import Call, understand
from defib.simulate.selectors import selection
from defib.simulate.store import Change, Object, Store, Version
from defib.simulate.subresources import Subresources
from defib.simulate.views import discovery
from defib.simulate.views.forms import list_of
from defib.simulate.views.tables import Printer
from defib.simulate.writing import Writer

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
HISTORY = 10_000  # changes per resource that a watch can still ask for
AUDITED = 100_000
BODY_MAX = 3 * 1024 * 1024
STORED_MAX = 3 * 512 * 1024  # what etcd takes, which has the last word

Reaction = Callable[[Change], None]


class ApiServer:
    """One cluster's worth of objects and the rules for them."""

    def __init__(self, clock: Clock, *, history: int = HISTORY, audited: int = AUDITED) -> None:
        self.clock = clock
        self.store = Store(history)
        self.catalog = Catalog(builtin.all_kinds())
        self.audit = Audit(audited)
        self.printer = Printer(clock)
        self.reader = Reader(self.store, clock, self.printer)
        self.writer = Writer(self.store, clock)
        self.patcher = Patcher(self.store, clock, self.writer)
        self.deleter = Deleter(self.store, clock)
        self.evictor = Evictor(self.store, clock, self.deleter)
        self.subresources = Subresources(self.store, clock, self.writer)
        self.faults = Faults(clock)
        self.watches = Connections()
        self.registrar = Registrar(self.store, self.catalog)
        self.reactions: list[Reaction] = [self.registrar.react]
        self.down_since: float | None = None
        self._happened: deque[Change] = deque()
        self._settling = False
        self.store.on_change = self._happened.append
        for name in NAMESPACES:
            self.put("namespaces", {"metadata": {"name": name}})

    def put(self, resource: str, stored: Object, client: str = "kube-apiserver") -> Version:
        """Creates an object as the control plane itself would, past audit and faults."""
        served = self.catalog.of_resource(resource)
        request = Request(method="POST", path="")
        namespace = stored["metadata"].get("namespace", "")
        call = Call(request=request, client=client, verb="create", served=served, namespace=namespace)
        made = self.writer.create(call, stored)
        self.settle()
        return made

    def answer(self, request: Request, client: str, *, stale: int = 0) -> Answer:
        """Never raises for what a client can do wrong. `stale` is an old revision to read from."""
        verb = request.method.lower()
        try:
            special = discovery.answer(self.catalog, request)
            if special:
                answer = special
            else:
                call = understand(self.catalog, request, client)
                verb = call.verb
                answer = self._objects(call, stale)
        except Refusal as refusal:
            answer = refused(refusal)
        self.settle()
        self.audit.note(Asked(client, verb, request.path, answer.status, self.clock.now()))
        return answer

    def settle(self) -> None:
        """Lets the controllers react to what happened, and to what they did themselves, until all is quiet."""
        if self._settling:
            return
        self._settling = True
        try:
            while self._happened:
                change = self._happened.popleft()
                for reaction in self.reactions:
                    reaction(change)
        finally:
            self._settling = False

    def check_reachable(self, client: str) -> None:
        """Raises ConnectionError when a client cannot get through to us."""
        if self.down_since is not None:
            raise ConnectionRefusedError("the API server is down")
        if self.faults.is_partitioned(client):
            raise ConnectionError(f"no route from {client} to the API server")

    def partition(self, client: str) -> None:
        """From now on a client reaches nothing; its open watches fall silent, as they would behind a dead link."""
        self.faults.partition(client)
        for watch in self.watches.of(client):
            watch.silence()

    def heal(self, client: str) -> None:
        """The client gets through again; what was open before is cut."""
        self.faults.heal(client)
        for watch in self.watches.of(client):
            watch.cut()

    def stop(self) -> None:
        """Down: open watches break, requests are refused."""
        self.down_since = self.clock.monotonic()
        for watch in self.watches.of():
            watch.cut()

    def start(self) -> None:
        """Up again, as a new process: what is stored is all there, but a watch can only go on from here."""
        self.down_since = None
        self.store.watched_since = self.store.revision

    def restart(self) -> None:
        self.stop()
        self.start()

    def earlier(self, call: Call, revisions: int) -> int:
        """A revision some way back, as far as history reaches."""
        return max(self.store.collection(call.served.place).floor, self.store.revision - revisions, 1)

    def compact(self, revision: int | None = None) -> None:
        self.store.compact(revision)

    def _objects(self, call: Call, stale: int) -> Answer:
        if call.subresource == "scale":
            return self.subresources.scale(call)
        match call.verb:
            case "get":
                return self.reader.get(call, stale=stale)
            case "list":
                return self.reader.list(call, stale=stale)
            case "watch":
                return self.reader.watch(call)
        return self._write(call)

    def _write(self, call: Call) -> Answer:
        if len(call.request.body) > BODY_MAX:
            raise too_large_request(BODY_MAX)
        _check_dry_run(call)
        if len(call.request.body) > STORED_MAX and call.verb in ("create", "update"):
            raise internal("etcdserver: request is too large")
        match call.verb:
            case "create":
                return self._create(call)
            case "update":
                return self._update(call)
            case "patch":
                made, created = self.patcher.patch(call)
                return Answer(201 if created else 200, self.reader.show(call, made))
            case "delete":
                return self._delete(call)
            case "deletecollection":
                return self._delete_collection(call)
        raise method_not_allowed()

    def _create(self, call: Call) -> Answer:
        if call.subresource == "eviction":
            return as_json(self.evictor.evict(call, self.writer.find(call)), 201)
        if call.subresource == "binding":
            return self.subresources.bind(call)
        if call.served.verbs == ("create",):
            return self.subresources.review(call)
        made = self.writer.create(call, object_of(call))
        return Answer(201, self.reader.show(call, made))

    def _update(self, call: Call) -> Answer:
        if call.subresource == "finalize":
            return Answer(200, self.reader.show(call, self.subresources.finalize(call)))
        proposed = object_of(call)
        before = self.store.get(call.served.place, call.key)
        if before is None and call.served.create_on_update and not call.subresource:
            return Answer(201, self.reader.show(call, self.writer.create(call, proposed)))
        return Answer(200, self.reader.show(call, self.writer.replace(call, self.writer.find(call), proposed)))

    def _delete(self, call: Call) -> Answer:
        options = options_of(call)
        last, gone = self.deleter.delete(call.served, self.writer.find(call), options)
        if gone and not call.served.returns_deleted:
            return as_json(success(call.served, last.object))
        return Answer(200, self.reader.show(call, last))

    def _delete_collection(self, call: Call) -> Answer:
        options = options_of(call)
        collection = self.store.collection(call.served.place)
        selected = selection(call.served, call.namespace, call.request.query)
        doomed = [collection.objects[key] for key in collection.keys()]  # noqa: SIM118 - sorted
        doomed = [version for version in doomed if selected is None or selected(version.object)]
        revision = self.store.revision
        for version in doomed:
            self.deleter.delete(call.served, version, options)
        meta: dict[str, Any] = {"resourceVersion": str(revision)}
        return Answer(200, list_of(call.served, call.request.accept, self.printer, doomed, meta))


_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}


def _check_dry_run(call: Call) -> None:
    asked = call.request.query.get("dryRun", "All")
    if asked != "All" and call.verb in _OPTIONS:
        raise invalid_options(_OPTIONS[call.verb], unsupported("dryRun", [asked], ("All",)))
