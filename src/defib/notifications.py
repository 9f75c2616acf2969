"""Notifications: what is told as an Event in the cluster, told to people or programs outside it as well.

The source is an Event that this replica has written, so several replicas tell it once. A notification is a copy for
people: nothing depends on it, and nothing waits for it.
"""

import asyncio
import hashlib
import re
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Any, NoReturn

import msgspec

from defib.model.action import CHECK, TellEvent
from defib.model.drain_policy import POLICY as DRAIN_POLICY
from defib.model.node_drain import DRAIN
from defib.model.reasons import EventReason
from defib.outbox import NoAddress, Outbox
from defib.telemetry.printable import printable

CLOUD_EVENTS = "application/cloudevents+json; charset=UTF-8"
JSON = "application/json; charset=UTF-8"
TYPE_PREFIX = "dev.defib."
URL_BYTES_MAX = 4096
TEMPLATE_BYTES_MAX = 65536
WORDS_MAX = 1024
DEPTH_MAX = 50
UNSEEN = "\u200b"  # a blank without any width
_CALLS = re.compile(r"(?<!\w)@")  # not that of an address
ID_LENGTH = 32
PLACES = (
    "about",
    "check",
    "cluster",
    "kind",
    "mark",
    "message",
    "name",
    "namespace",
    "node",
    "reason",
    "severity",
    "time",
)
ONE_LINE = "$mark *$reason* in $cluster, $about: $message"

# What holds remediation back, and that it no longer does.
OF_GATES = frozenset(
    {
        EventReason.REMEDIATION_SKIPPED,
        EventReason.DISABLED,
        EventReason.ENABLED,
        EventReason.STORM_STARTED,
        EventReason.STORM_COOLDOWN,
        EventReason.STORM_ENDED,
        EventReason.UPGRADE_STUCK,
        EventReason.FAILOVER_HELD,
        EventReason.BRAKE,
        EventReason.SELF_DOUBT,
    }
)
# The incident that is opened and closed says the same of a remediation, and more.
OF_NO_TOPIC = frozenset(
    {EventReason.DEFAULT_CHECK_CREATED, EventReason.REMEDIATION_CREATED, EventReason.REMEDIATION_REMOVED}
)
# Told of an incident and of its node, for those who look only there.
TOLD_TWICE = frozenset({EventReason.INCIDENT_CLOSED, EventReason.NEEDS_PERSON})
REMEMBERED = 100

Body = Callable[["Notice"], bytes]


class BadTemplate(Exception):
    """The template cannot be used. `str()` says why."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One event in words, each of which has a place in a template."""

    event: TellEvent
    cluster: str

    @property
    def severity(self) -> str:
        return "warning" if self.event.is_warning else "info"

    @property
    def about(self) -> str:
        where = f"{self.event.namespace}/" if self.event.namespace else ""
        return f"{self.event.kind.name} {where}{self.event.check}"

    @property
    def words(self) -> dict[str, str]:
        event = self.event
        words = {
            "reason": event.reason,
            "message": event.message,
            "severity": self.severity,
            "mark": ":warning:" if event.is_warning else ":information_source:",
            "node": event.node,
            "check": event.check if event.kind == CHECK else "",
            "about": self.about,
            "kind": event.kind.name,
            "namespace": event.namespace,
            "name": event.check,
            "cluster": self.cluster,
            "time": moment(event),
        }
        return {name: printable(value)[:WORDS_MAX] for name, value in words.items()}


def is_wanted(event: TellEvent, about: tuple[str, ...]) -> bool:
    return "all" in about or (event.is_warning and "warnings" in about) or _topic(event) in about


def _topic(event: TellEvent) -> str:
    if event.kind in (DRAIN, DRAIN_POLICY):
        return "drains"
    if event.reason in OF_GATES:
        return "gates"
    return "" if event.reason in OF_NO_TOPIC else "incidents"


def moment(event: TellEvent) -> str:
    return f"{event.at:%Y-%m-%dT%H:%M:%SZ}"


def slack_by(text: str) -> Body:
    """How a notice is written, by a template. Raises BadTemplate.

    What begins like a JSON object is one, and its texts are the templates: so nothing that is filled in can change its
    shape. Anything else is the text of a message.
    """
    shape: Any = {"text": text.strip("\n")}
    if text.lstrip().startswith("{"):
        try:
            shape = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadTemplate(f"it begins with {{ and is no JSON: {error}") from None
    if _depth(shape) > DEPTH_MAX:
        raise BadTemplate(f"it has more than {DEPTH_MAX} objects and lists within each other")
    _fill(shape, dict.fromkeys(PLACES, ""))
    return lambda notice: msgspec.json.encode(_fill(shape, _for_slack(notice.words)))


def read_template(path: Path) -> str:
    """Raises BadTemplate."""
    try:
        with path.open("rb") as file:
            text = file.read(TEMPLATE_BYTES_MAX + 1)
        if len(text) > TEMPLATE_BYTES_MAX:
            raise BadTemplate(f"{path} has more than {TEMPLATE_BYTES_MAX} bytes")
        return text.decode()
    except OSError as error:
        raise BadTemplate(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadTemplate(f"{path} is not text") from None


def _depth(shape: Any) -> int:
    """Level by level: no template is too deep to be told so."""
    depth, level = 0, [shape]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [one for each in level for one in (each.values() if isinstance(each, dict) else each)]
    return depth


def _fill(shape: Any, words: dict[str, str]) -> Any:
    match shape:
        case str():
            return _filled(shape, words)
        case dict():
            return {name: _fill(value, words) for name, value in shape.items()}
        case list():
            return [_fill(value, words) for value in shape]
        case _:
            return shape


def _filled(text: str, words: dict[str, str]) -> str:
    try:
        return Template(text).substitute(words)
    except KeyError as error:
        raise BadTemplate(f"there is no ${error.args[0]}; there are ${', $'.join(PLACES)}") from None
    except ValueError:
        raise BadTemplate("a single $ means nothing: write $$ for the sign itself") from None


def _for_slack(words: dict[str, str]) -> dict[str, str]:
    """By three signs Slack tells links and calls to everybody from text; a message may quote anybody's words.

    Mattermost and Rocket.Chat also take an @ before a word for a call, and ]( for a link under another name: in these,
    something that nobody sees comes between.
    """
    plain = {name: _CALLS.sub(f"@{UNSEEN}", value).replace("](", f"]{UNSEEN}(") for name, value in words.items()}
    return {
        name: value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for name, value in plain.items()
    }


def cloud_event(notice: Notice) -> bytes:
    """In structured mode. The same event has the same id, however often it is sent."""
    event, words = notice.event, notice.words
    news = f"{event.uid}\n{event.reason}\n{event.message}\n{event.at.isoformat()}"
    about = {"apiVersion": event.kind.api_version, "kind": event.kind.name, "namespace": event.namespace}
    return msgspec.json.encode(
        {
            "specversion": "1.0",
            "id": hashlib.sha256(news.encode(errors="backslashreplace")).hexdigest()[:ID_LENGTH],
            "source": f"/defib/{notice.cluster}",
            "type": f"{TYPE_PREFIX}{event.reason}",
            "subject": "/".join(filter(None, (event.kind.name, event.namespace, event.check))),
            "time": words["time"],
            "datacontenttype": "application/json",
            "data": {
                **{name: words[name] for name in ("reason", "message", "severity", "node", "check", "cluster")},
                "about": about | {"name": event.check, "uid": event.uid},
            },
        }
    )


class UrlFile(msgspec.Struct, frozen=True):
    """Read anew each time: a mounted Secret changes under us. It is a secret, so no error holds it."""

    path: Path

    async def __call__(self) -> str:
        return await asyncio.to_thread(self.read)

    def read(self) -> str:
        """Raises NoAddress."""
        try:
            with self.path.open("rb") as file:
                url = file.read(URL_BYTES_MAX + 1).strip()
        except OSError as error:
            raise NoAddress(f"the file of notify_url_file cannot be read: {error.strerror}") from None
        if not url:
            raise NoAddress("the file of notify_url_file is empty")
        if len(url) > URL_BYTES_MAX or len(url.split()) > 1 or not url.isascii():
            raise NoAddress("the file of notify_url_file holds something else than one URL")
        return url.decode()


class Notifications:
    """What is worth it, in the form that was chosen, on its way."""

    def __init__(self, outbox: Outbox, body: Body, cluster: str, about: tuple[str, ...]) -> None:
        self._outbox = outbox
        self._body = body
        self._cluster = cluster
        self._about = about
        self._told: deque[tuple[str, str, datetime]] = deque(maxlen=REMEMBERED)

    def tell(self, event: TellEvent) -> None:
        if is_wanted(event, self._about) and not self._is_twin(event):
            self._outbox.put(self._body(Notice(event=event, cluster=self._cluster)))

    def _is_twin(self, event: TellEvent) -> bool:
        if event.reason not in TOLD_TWICE:
            return False
        news = (event.node, event.reason, event.at)
        is_known = news in self._told
        self._told.append(news)
        return is_known

    async def run(self) -> NoReturn:
        await self._outbox.run()
