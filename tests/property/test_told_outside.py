"""Whatever words the cluster has, what is told outside of it keeps its shape; and a trace is a tree that fits into time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from defib.model.action import TellEvent
from defib.model.incident import Entry, IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.meta import Meta
from defib.notifications import Notice, cloud_event, slack_by
from defib.telemetry.printable import STEERING
from defib.traces import spans_of, tracing

T0 = datetime(2030, 1, 1, tzinfo=UTC)
WORDS = st.text(max_size=60)
MOMENTS = st.integers(-100_000, 100_000).map(lambda tenths: T0 + timedelta(seconds=tenths / 10))
ENCODE = tracing("east")
AS_BLOCKS = slack_by('{"blocks": [{"text": "$reason $message $node"}], "more": [1, null, {"$message": "$about"}]}')
AS_TEXT = slack_by("$mark $reason $message $name $namespace $node $check $about")


@st.composite
def notices(draw: st.DrawFn) -> Notice:
    event = TellEvent(
        check=draw(WORDS),
        uid=draw(WORDS),
        is_warning=draw(st.booleans()),
        reason=draw(WORDS),
        message=draw(WORDS),
        at=draw(MOMENTS),
        namespace=draw(WORDS),
        node=draw(WORDS),
    )
    return Notice(event=event, cluster="east")


@given(notices())
def test_words_never_change_the_shape_of_a_message(notice: Notice) -> None:
    told: dict[str, Any] = msgspec.json.decode(AS_BLOCKS(notice))
    assert told.keys() == {"blocks", "more"}
    assert told["more"][:2] == [1, None]
    assert told["more"][2].keys() == {"$message"}, "names are not filled in"
    for text in (told["blocks"][0]["text"], msgspec.json.decode(AS_TEXT(notice))["text"]):
        assert not set("<>") & set(text)
        assert not STEERING.search(text)


@given(notices())
def test_every_event_makes_a_cloud_event(notice: Notice) -> None:
    told: dict[str, Any] = msgspec.json.decode(cloud_event(notice))
    assert told["specversion"] == "1.0"
    assert all(isinstance(told[name], str) and told[name] for name in ("id", "source", "type", "time", "subject"))


@given(
    st.lists(st.tuples(MOMENTS, st.sampled_from([*Phase, "Admitted"]), WORDS), max_size=12),
    MOMENTS,
    st.none() | MOMENTS,
    st.none() | MOMENTS,
)
def test_every_trace_is_a_tree_that_fits_into_its_time(
    entries: list[tuple[datetime, str, str]],
    opened: datetime,
    unhealthy: datetime | None,
    closed: datetime | None,
) -> None:
    timeline = [Entry(at=at, phase=phase, message=message) for at, phase, message in entries]
    incident = NodeIncident(
        metadata=Meta(name="n1", uid="7f3a1c52-0d4e-4b8e-9c11-2f6a5b7c8d9e", creation_timestamp=opened),
        spec=IncidentSpec(node="n1", unhealthy_since=unhealthy),
        status=IncidentStatus(phase=Phase.CLOSED, closed_at=closed, timeline=timeline),
    )
    spans = spans_of(incident)
    assert bool(spans) == bool(entries)
    for span in spans:
        assert spans[0].begins <= span.begins <= span.ends <= spans[0].ends
    request = ExportTraceServiceRequest.FromString(ENCODE(incident))
    sent = [span for of in request.resource_spans for scope in of.scope_spans for span in scope.spans]
    assert len({span.span_id for span in sent}) == len(sent) == len(spans)
    assert {span.parent_span_id for span in sent[1:]} <= {sent[0].span_id for _ in sent[:1]}
