"""Traces: how an incident went, for OpenTelemetry. One trace for each that is over, a span for each of its phases.

The times are those of the incident's own timeline, so a trace is right even if another replica began it. Its number is
made from the uid of the incident: sent twice, it is the same trace. The packages are an optional extra, and are imported
only where traces are wanted. They write a trace, and our outbox sends it: their own exporter would block a thread, and
retry by rules of its own.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from defib import __version__
from defib.model.incident import Entry, NodeIncident, Phase
from defib.outbox import Outbox

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

PROTOBUF = "application/x-protobuf"
DEFAULT_PATH = "/v1/traces"
EXTRA = "pip install 'defib[otel]'"
ROOT = "incident"
UNHEALTHY = "Unhealthy"  # until anything was written down
LOW_64 = 2**64 - 1


class NoTraces(Exception):
    """Traces are wanted and cannot be made. `str()` says why and what to do."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of an incident. The first of a trace is the whole."""

    name: str
    begins: datetime
    ends: datetime
    attributes: dict[str, str | int | float] = {}
    notes: tuple[Entry, ...] = ()


def spans_of(incident: NodeIncident) -> tuple[Span, ...]:
    """The whole incident, then its phases in their order. Nothing where it does not say when anything was."""
    entries = sorted(incident.status.timeline or (), key=lambda entry: entry.at)
    if not entries:
        return ()
    opened = incident.spec.unhealthy_since or incident.opened or entries[0].at
    begins, ends = min(opened, entries[0].at), max(incident.status.closed_at or entries[-1].at, entries[-1].at)
    whole = Span(name=ROOT, begins=begins, ends=ends, attributes=_attributes(incident))
    return (whole, *_phases(entries, begins, ends))


def _phases(entries: list[Entry], begins: datetime, ends: datetime) -> Iterator[Span]:
    """What was written down when it came into a phase lasts until the next one. Being closed is no phase, but the end."""
    stretches = [(name, tuple(notes)) for name, notes in groupby(entries, key=lambda entry: entry.phase)]
    if entries[0].at > begins:
        yield Span(name=UNHEALTHY, begins=begins, ends=entries[0].at)
    for number, (name, notes) in enumerate(stretches):
        until = stretches[number + 1][1][0].at if number + 1 < len(stretches) else ends
        if name != Phase.CLOSED:
            yield Span(name=name, begins=notes[0].at, ends=until, notes=notes)


def _attributes(incident: NodeIncident) -> dict[str, str | int | float]:
    spec, status = incident.spec, incident.status
    said: dict[str, str | int | float] = {
        "k8s.node.name": spec.node,
        "defib.incident": incident.name,
        "defib.check": spec.check,
        "defib.mode": spec.mode,
        "defib.cause": str(spec.cause) if spec.cause.kind else "",
        "defib.outcome": status.outcome,
        "defib.attempts": status.attempt,
        "defib.proof": status.proof.grade.value if status.proof is not None else "",
        "defib.message": status.message,
    }
    return {name: value for name, value in said.items() if value != ""}


def traces_address(url: str) -> str:
    """A collector's own address has no path; traces have theirs below it."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    return url if path else f"{scheme}://{host}{DEFAULT_PATH}"


def tracing(cluster: str) -> Callable[[NodeIncident], bytes]:
    """What makes the trace of an incident, as a collector takes it; nothing to tell is empty. Raises NoTraces."""
    try:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    except ImportError as error:
        raise NoTraces(f"traces_url is set, and {error.name} is not installed: {EXTRA}") from error
    resource = Resource.create({"service.name": "defib", "service.version": __version__, "k8s.cluster.name": cluster})
    scope = InstrumentationScope("defib", __version__)

    def encode(incident: NodeIncident) -> bytes:
        spans = [_readable(incident, number, span, resource, scope) for number, span in enumerate(spans_of(incident))]
        return encode_spans(spans).SerializeToString() if spans else b""

    return encode


def _readable(incident: NodeIncident, number: int, span: Span, resource: Any, scope: Any) -> "ReadableSpan":
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    def context(of: int) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(trace_id(incident).int, _span_number(incident, of), is_remote=False, trace_flags=flags)

    code = StatusCode.OK if incident.status.outcome else StatusCode.UNSET
    return ReadableSpan(
        name=span.name,
        context=context(number),
        parent=context(0) if number else None,
        resource=resource,
        attributes=span.attributes,
        events=[Event(note.message, timestamp=_nanoseconds(note.at)) for note in span.notes],
        status=Status(code),
        start_time=_nanoseconds(span.begins),
        end_time=_nanoseconds(span.ends),
        instrumentation_scope=scope,
    )


def trace_id(incident: NodeIncident) -> UUID:
    """Made from the uid, so that one who has the incident finds the trace; a server may have uids of another form."""
    try:
        return UUID(incident.uid)
    except ValueError:
        return uuid5(NAMESPACE_URL, f"defib:{incident.name}/{incident.uid}")


def _span_number(incident: NodeIncident, number: int) -> int:
    """Never 0, which means that there is none."""
    return (uuid5(trace_id(incident), str(number)).int & LOW_64) or 1


def _nanoseconds(moment: datetime) -> int:
    """Of an incident some moments were written down by others, and may be of any year; a trace can hold only so many."""
    return min(max(int(moment.timestamp() * 1_000_000) * 1000, 0), LOW_64)


class Traces:
    """Of incidents that are over, on their way."""

    def __init__(self, outbox: Outbox, encode: Callable[[NodeIncident], bytes]) -> None:
        self._outbox = outbox
        self._encode = encode

    def tell(self, incident: NodeIncident) -> None:
        if trace := self._encode(incident):
            self._outbox.put(trace)

    async def run(self) -> NoReturn:
        await self._outbox.run()
