"""What is told outside the cluster's own records, gathered: in the log, to a webhook, to a collector of traces.

Upgrades that somebody announced in a way that does not count stand in the log: they rely on it. What was told as an
Event, and incidents that are over, go out by a box of their own each, if there is a place for them.
"""

import asyncio
from urllib.parse import urlsplit

import msgspec
import structlog

from defib.act.outcome import Done, Outcome
from defib.clock import Clock
from defib.config import BadSettings, Settings
from defib.decide.rules import Rules
from defib.decide.upgrade import problems
from defib.model.account_action import WriteAccount
from defib.model.action import Action, ReportRemediation, TellEvent
from defib.model.cluster import Cluster
from defib.model.incident import NodeIncident, Phase
from defib.notifications import (
    CLOUD_EVENTS,
    JSON,
    ONE_LINE,
    BadTemplate,
    Body,
    Notifications,
    UrlFile,
    cloud_event,
    read_template,
    slack_by,
)
from defib.outbox import NoAddress, Outbox, Place
from defib.telemetry.metrics import Metrics
from defib.traces import PROTOBUF, NoTraces, Traces, traces_address, tracing

log = structlog.get_logger("app")

PAUSE_SECONDS = 30.0
HERE = ("localhost", "127.0.0.1", "::1")


class Announcements:
    def __init__(self, clock: Clock, notify: Notifications | None = None, trace: Traces | None = None) -> None:
        self._clock = clock
        self._notify = notify
        self._trace = trace
        self._due = 0.0
        self._known: tuple[str, ...] = ()

    def look(self, cluster: Cluster, rules: Rules) -> None:
        """Now and then: it goes through all nodes, and a mistake of a minute ago is still one."""
        if "announced" not in rules.upgrade_signals or self._clock.monotonic() < self._due:
            return
        self._due = self._clock.monotonic() + PAUSE_SECONDS
        wrong = problems(cluster, rules.namespace)
        for why in wrong:
            if why not in self._known:
                log.warning("announced upgrade ignored", why=why)
        self._known = wrong

    def ended(self, action: Action, outcome: Outcome) -> None:
        """By whoever wrote it, so that of several replicas one tells it."""
        match action, outcome:
            case TellEvent(), Done() if self._notify is not None:
                self._notify.tell(action)
            case ReportRemediation() | WriteAccount(), Done(result=NodeIncident() as incident) if (
                self._trace is not None
            ):
                if action.status.get("phase") == Phase.CLOSED:
                    self._trace.tell(incident)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._notify is not None:
                group.create_task(self._notify.run(), name="notifications")
            if self._trace is not None:
                group.create_task(self._trace.run(), name="traces")


def announcements_of(settings: Settings, clock: Clock, metrics: Metrics) -> Announcements:
    """Reads files: not for the event loop. Raises BadSettings."""
    notify = trace = None
    try:
        if settings.notify_url_file is not None:
            content = CLOUD_EVENTS if settings.notify_format == "cloudevents" else JSON
            place = Place(name="webhook", content_type=content, address=UrlFile(settings.notify_url_file))
            outbox = Outbox(place, clock, metrics)
            _look_at(UrlFile(settings.notify_url_file))
            notify = Notifications(outbox, _body(settings), settings.cluster_name, settings.notify_about)
        if settings.traces_url is not None:
            encode, address = tracing(settings.cluster_name), _Fixed(traces_address(settings.traces_url))
            _mind("traces", address.url)
            place = Place(name="traces", content_type=PROTOBUF, address=address)
            trace = Traces(Outbox(place, clock, metrics), encode)
    except BadTemplate as error:
        raise BadSettings([f"--notify-template-file: {error}"]) from error
    except NoTraces as error:
        raise BadSettings([f"--traces-url: {error}"]) from error
    return Announcements(clock, notify, trace)


def _look_at(file: UrlFile) -> None:
    """Told now, and not when the first node fails in the night. It may come yet, so it is no reason to end."""
    try:
        _mind("notifications", file.read())
    except NoAddress as error:
        log.warning("notifications cannot be sent yet", why=str(error), advice="it is read anew for each of them")


def _mind(what: str, url: str) -> None:
    """Whoever chose it may have had no choice, but should know. On this machine there is nobody to listen."""
    where = urlsplit(url)
    if where.scheme == "http" and where.hostname not in HERE:
        log.warning("sent without encryption", what=what, advice="give an address that begins with https://")


def _body(settings: Settings) -> Body:
    path = settings.notify_template_file
    if settings.notify_format == "slack":
        return slack_by(read_template(path) if path is not None else ONE_LINE)
    if path is not None:
        raise BadTemplate("a CloudEvent has a form of its own: leave it out, or choose --notify-format slack")
    return cloud_event


class _Fixed(msgspec.Struct, frozen=True):
    url: str

    async def __call__(self) -> str:
        return self.url
