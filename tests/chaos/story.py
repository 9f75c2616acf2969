"""What etcd wrote, what the replicas asked for and what machines were told, as one history that checkers can read.

A change is dated by when its author was told of it, where the API server lived to say so; else by when we heard of it. In
etcd's own order none is later than the next one.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from defib.kube.transport import Request
from defib.simulate.store import ADDED, DELETED, MODIFIED, Change, Version
from tests.chaos.books import Books, Mark, Page
from tests.e2e.audit import ACCOUNT
from tests.simulation.history import Asked, Happened, Object, Switched, Written

AUDIT_LOG = "audit.log"
LOGGED_SECONDS = 0.001
_OWN = [
    {"resources": ["nodes", "pods"]},
    {"group": "coordination.k8s.io", "resources": ["leases"]},
    {"group": "storage.k8s.io", "resources": ["volumeattachments"]},
    {"group": "defib.dev"},
    {"group": "remediation.medik8s.io"},
]
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {
            "level": "RequestResponse",
            "users": [ACCOUNT],
            "verbs": ["create", "update", "patch", "delete"],
            "resources": _OWN,
        },
        {"level": "Metadata", "users": [ACCOUNT]},
        {"level": "None"},
    ],
}
_METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
_CREDENTIAL = "authentication.kubernetes.io/credential-id"

Entry = Written | Asked | Switched | Happened
Place = tuple[str, str]  # the resource and the key
Names = Mapping[str, str]  # of replicas, by their credentials


class _Metadata(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 - as the API server writes it


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Status(msgspec.Struct):
    code: int = 0


class _User(msgspec.Struct):
    extra: dict[str, list[str]] = {}


class Audited(msgspec.Struct, rename="camel"):
    """A line of the audit log."""

    verb: str
    request_uri: str = msgspec.field(name="requestURI")
    user: _User
    request_received_timestamp: datetime
    stage_timestamp: datetime
    response_status: _Status = msgspec.field(default_factory=_Status)
    request_object: Any = None
    response_object: _Object | None = None

    @property
    def credential(self) -> str:
        return next(iter(self.user.extra.get(_CREDENTIAL) or ()), "")

    @property
    def version(self) -> str:
        """That it wrote; empty when it wrote nothing."""
        is_write = self.verb in _METHODS and self.response_status.code < 300
        return self.response_object.metadata.resourceVersion if is_write and self.response_object is not None else ""


async def audit_flags(policy: Path) -> tuple[str, ...]:
    """Flags of an API server that writes down what replicas ask, and what they are answered. `policy` is to be written."""
    await asyncio.to_thread(policy.write_text, yaml.safe_dump(_POLICY))
    return f"--audit-policy-file={policy}", f"--audit-log-path={AUDIT_LOG}"


def read_audit(text: bytes) -> list[Audited]:
    """What a dying API server began to write and did not end is left out."""
    decoder, found = msgspec.json.Decoder(Audited), []
    for line in text.splitlines():
        try:
            found.append(decoder.decode(line))
        except msgspec.DecodeError:
            continue
    return found


def tell(books: Books, audit: list[Audited], names: Names, others: list[Entry]) -> list[Entry]:
    """All of it, in order; `others` are what replicas told machines, and what was done to the world."""
    asked = [entry for one in audit for entry in _asked(one, names, books.seconds)]
    written = list(_written(books, _answers(books, audit, names)))
    # Sorting is stable: changes of the same moment stay in their order, and come before what is asked then.
    return sorted([*written, *asked, *others], key=lambda entry: entry.at)


def switched(replica: str, line: Mapping[str, str], seconds: Callable[[datetime], float]) -> Switched:
    """What a replica says in its log, where times are cut off after the thousandth."""
    at = seconds(datetime.fromisoformat(line["time"])) + LOGGED_SECONDS
    return Switched(at=at, replica=replica, node=line["node"], power=line["power"].lower(), holder="")


def _asked(one: Audited, names: Names, seconds: Callable[[datetime], float]) -> Iterator[Asked]:
    if one.credential in names:
        body = json.dumps(one.request_object).encode() if one.request_object is not None else b""
        path = one.request_uri.partition("?")[0]
        request = Request(method=_METHODS.get(one.verb, "GET"), path=path, body=body)
        at = seconds(one.request_received_timestamp)
        yield Asked(at=at, replica=names[one.credential], request=request, holder="")


def _answers(books: Books, audit: list[Audited], names: Names) -> dict[tuple[int, int], tuple[float, str]]:
    """When who was told of which change: by the volume of the books and the revision."""
    restores = [page.at for page in books.pages if isinstance(page, Mark) and page.is_restore]
    found = {}
    for one in audit:
        if one.version:
            at = books.seconds(one.stage_timestamp)
            volume = sum(restore <= at for restore in restores)
            found[volume, int(one.version)] = (at, names.get(one.credential, ""))
    return found


def _written(books: Books, answers: dict[tuple[int, int], tuple[float, str]]) -> Iterator[Written]:
    objects: dict[Place, Page] = {}
    backups: dict[str, dict[Place, Page]] = {}
    known: dict[tuple[int, Place], Object | None] = {}
    for page, at, author in _dated(books, answers):
        if isinstance(page, Page):
            place = page.resource, page.key
            is_repeated = known.get((page.revision, place)) == page.now and page.volume > 0
            known[page.revision, place] = page.now
            objects[place] = page
            yield Written(at=at, change=_change(page, is_news=not is_repeated), by=author)
        elif page.is_restore:
            yield from _undone(at, objects, backups[page.backup])
            objects = dict(backups[page.backup])
        else:
            backups[page.backup] = dict(objects)


def _dated(books: Books, answers: dict[tuple[int, int], tuple[float, str]]) -> Iterator[tuple[Page | Mark, float, str]]:
    latest = books.now
    dated: list[tuple[Page | Mark, float, str]] = []
    for page in reversed(books.pages):
        told, author = page.at, ""
        if isinstance(page, Page):
            told, author = answers.get((page.volume, page.revision), (page.at, ""))
        latest = min(latest, page.at, told)
        dated.append((page, latest, author))
    return reversed(dated)


def _undone(at: float, objects: dict[Place, Page], backup: dict[Place, Page]) -> Iterator[Written]:
    """What a restore does to the objects, as changes: nothing begins by it that had not begun before."""
    for place in sorted(objects.keys() | backup.keys()):
        now, then = objects.get(place), backup.get(place)
        if now is then:
            continue
        was, becomes = (now.now if now else None), (then.now if then else None)
        if was is not None and becomes is None:
            yield Written(at=at, change=_change(Page(at, 0, 0, *place, None, was)))
        elif becomes is not None:
            yield Written(at=at, change=_change(Page(at, 0, 0, *place, becomes, was), is_news=False))


def _change(page: Page, *, is_news: bool = True) -> Change:
    before = Version(page.before, page.revision - 1) if page.before is not None else None
    if page.now is None:
        assert page.before is not None, "what is deleted was there"
        return Change(page.resource, DELETED, before, Version(page.before, page.revision))
    now = Version(page.now, page.revision)
    if before is None and not is_news:
        before = now  # it was there before: nobody makes it now
    return Change(page.resource, MODIFIED if before else ADDED, before, now)
