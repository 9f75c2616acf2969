"""The trace of an incident: what it says, and that a real collector's endpoint gets it."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from defib.act.outcome import Done
from defib.announcements import announcements_of
from defib.clock import SystemClock
from defib.config import BadSettings, Settings
from defib.model.account_action import WriteAccount
from defib.model.action import ReportRemediation, Target
from defib.model.incident import (
    INCIDENT,
    Cause,
    Entry,
    EntryKind,
    IncidentSpec,
    IncidentStatus,
    NodeIncident,
    Phase,
    account_name,
)
from defib.model.meta import Meta
from defib.telemetry.metrics import Metrics
from defib.traces import spans_of, trace_id, traces_address, tracing
from tests.unit.receiver import receiving

UID = "7f3a1c52-0d4e-4b8e-9c11-2f6a5b7c8d9e"
START = datetime(2030, 1, 1, 10, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def entry(seconds: float, phase: str, message: str = "", kind: str = "") -> Entry:
    return Entry(at=at(seconds), phase=phase, message=message, kind=kind)


def a_power_cycle(uid: str = UID) -> NodeIncident:
    timeline = [
        entry(1, Phase.OPEN, "nothing stands against it"),
        entry(2, Phase.POWERING_OFF, "told to go off"),
        entry(7.5, Phase.FREEING, "power read as off, twice"),
        entry(8, Phase.FREEING, "pods without a controller were lost"),
        entry(12, Phase.POWERING_ON, "its volumes are free"),
        entry(60, Phase.CLOSED, "its node is ready"),
    ]
    cause = Cause(kind="PowerCycleRemediation", namespace="default", name="n1", uid="r1")
    return NodeIncident(
        metadata=Meta(name="n1", uid=uid, creation_timestamp=at(0)),
        spec=IncidentSpec(node="n1", cause=cause, check="workers"),
        status=IncidentStatus(phase=Phase.CLOSED, outcome="Recovered", attempt=2, timeline=timeline),
    )


def an_account() -> NodeIncident:
    timeline = [
        entry(-300, "Unhealthy", "Ready is Unknown", EntryKind.EVIDENCE),
        entry(0, "Admitted", "every gate was open", EntryKind.DECISION),
        entry(0.2, "RemediationCreated", "FooRemediation was created", EntryKind.ACTION),
        entry(90, "Closed", "the node is healthy", EntryKind.END),
    ]
    return NodeIncident(
        metadata=Meta(name=account_name("n1", "r1-uid-long"), uid=UID, creation_timestamp=at(0)),
        spec=IncidentSpec(node="n1", cause=Cause(kind="FooRemediation", name="n1", uid="r1-uid-long")),
        status=IncidentStatus(phase=Phase.CLOSED, outcome="Recovered", closed_at=at(90), timeline=timeline),
    )


def stretches(incident: NodeIncident) -> list[tuple[str, float, float]]:
    return [
        (span.name, (span.begins - START).total_seconds(), (span.ends - START).total_seconds())
        for span in spans_of(incident)
    ]


def test_there_is_a_span_for_the_whole_and_one_for_each_phase_with_its_own_times() -> None:
    assert stretches(a_power_cycle()) == [
        ("incident", 0, 60),
        ("Unhealthy", 0, 1),
        ("Open", 1, 2),
        ("PoweringOff", 2, 7.5),
        ("FreeingWorkloads", 7.5, 12),
        ("PoweringOn", 12, 60),
    ]


def test_the_trace_of_an_account_begins_when_its_node_was_unhealthy() -> None:
    assert stretches(an_account()) == [
        ("incident", -300, 90),
        ("Unhealthy", -300, 0),
        ("Admitted", 0, 0.2),
        ("RemediationCreated", 0.2, 90),
    ]


def test_an_incident_that_says_nothing_of_times_has_no_trace() -> None:
    assert spans_of(NodeIncident()) == ()
    assert tracing("east")(NodeIncident()) == b""


def test_the_number_of_a_trace_is_the_uid_of_its_incident() -> None:
    assert str(trace_id(a_power_cycle())) == UID
    odd = [trace_id(a_power_cycle(uid)) for uid in ("uid-1", "uid-2", "uid-1")]
    assert odd[0] == odd[2] != odd[1]


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://[::1]:4318", "https://[::1]:4318/v1/traces"),
        ("http://gateway/otlp/v1/traces", "http://gateway/otlp/v1/traces"),
    ],
)
def test_the_path_for_traces_is_added_where_none_is_given(given: str, used: str) -> None:
    assert traces_address(given) == used


def closing(incident: NodeIncident, phase: str = Phase.CLOSED) -> ReportRemediation:
    target = Target(kind=INCIDENT, namespace="", name=incident.name, uid=incident.uid)
    return ReportRemediation(target=target, version="1", status={"phase": phase})


async def sent(
    *told: tuple[ReportRemediation | WriteAccount, NodeIncident], codes: tuple[int, ...] = (200,), wanted: int = 1
) -> list[Any]:
    """What a collector got, decoded."""
    async with receiving(*codes) as receiver:
        settings = Settings(traces_url=f"http://127.0.0.1:{receiver.port}", cluster_name="east")
        announcements = announcements_of(settings, SystemClock(), Metrics())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(announcements.run())
            for action, incident in told:
                announcements.ended(action, Done(incident))
            await receiver.until(lambda: len(receiver.received) == wanted)
            running.cancel()
    assert {(one.path, one.headers["content-type"]) for one in receiver.received} == {
        ("/v1/traces", "application/x-protobuf")
    }
    return [ExportTraceServiceRequest.FromString(one.body) for one in receiver.received]


@pytest.mark.parametrize("year", ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00+14:00", "3000-01-01T00:00:00Z"])
async def test_a_moment_that_no_trace_can_hold_does_not_keep_it_from_being_told(year: str) -> None:
    """Whoever may annotate a remediation says when it ran out of time."""
    incident = a_power_cycle()
    odd = Entry(at=datetime.fromisoformat(year), phase="TimedOut", message="by somebody's hand")
    status = msgspec.structs.replace(incident.status, timeline=[*(incident.status.timeline or ()), odd])
    (request,) = await sent((closing(incident), msgspec.structs.replace(incident, status=status)))
    names = [span.name for span in request.resource_spans[0].scope_spans[0].spans]
    assert {"incident", "TimedOut", "FreeingWorkloads"} <= set(names)


async def test_a_collector_gets_the_trace_of_an_incident_that_is_over() -> None:
    incident = a_power_cycle()
    (request,) = await sent((closing(incident), incident))
    (of_resource,) = request.resource_spans
    said = {one.key: one.value.string_value for one in of_resource.resource.attributes}
    assert (said["service.name"], said["k8s.cluster.name"]) == ("defib", "east")
    (of_scope,) = of_resource.scope_spans
    whole, *phases = of_scope.spans
    assert {span.trace_id.hex() for span in of_scope.spans} == {UID.replace("-", "")}
    assert whole.parent_span_id == b""
    assert {span.parent_span_id for span in phases} == {whole.span_id}
    assert len({span.span_id for span in of_scope.spans}) == len(of_scope.spans)
    attributes = {one.key: one.value.string_value or one.value.int_value for one in whole.attributes}
    assert attributes == {
        "k8s.node.name": "n1",
        "defib.incident": "n1",
        "defib.check": "workers",
        "defib.cause": "PowerCycleRemediation default/n1",
        "defib.outcome": "Recovered",
        "defib.attempts": 2,
    }
    freeing = next(span for span in phases if span.name == "FreeingWorkloads")
    assert freeing.start_time_unix_nano == int(at(7.5).timestamp() * 1e9)
    assert [(event.name, event.time_unix_nano) for event in freeing.events] == [
        ("power read as off, twice", int(at(7.5).timestamp() * 1e9)),
        ("pods without a controller were lost", int(at(8).timestamp() * 1e9)),
    ]


async def test_a_collector_that_fails_gets_the_very_same_again() -> None:
    incident = a_power_cycle()
    first, again = await sent((closing(incident), incident), codes=(503, 200), wanted=2)
    assert first == again


async def test_only_the_write_that_closes_an_incident_makes_a_trace() -> None:
    incident = a_power_cycle()
    (request,) = await sent(
        (closing(incident, Phase.FREEING), incident),
        (more_words(incident), incident),
        (told_by_account(an_account()), an_account()),
    )
    assert "Admitted" in str(request)


def told_by_account(account: NodeIncident) -> WriteAccount:
    target = Target(kind=INCIDENT, namespace="", name=account.name, uid=account.uid)
    return WriteAccount(node="n1", account=target, version="1", status={"phase": "Closed"})


def more_words(incident: NodeIncident) -> ReportRemediation:
    target = Target(kind=INCIDENT, namespace="", name=incident.name, uid=incident.uid)
    return ReportRemediation(target=target, version="1", status={"message": "more words"})


def test_without_the_package_it_says_at_the_start_what_to_install() -> None:
    """Each is told to be missing, as the import system says it itself."""
    hidden = {name: module for name, module in sys.modules.items() if name.startswith("opentelemetry")}
    for name in hidden:
        del sys.modules[name]
    sys.modules["opentelemetry"] = None  # type: ignore[assignment]
    try:
        with pytest.raises(BadSettings) as caught:
            announcements_of(Settings(traces_url="http://127.0.0.1:4318"), SystemClock(), Metrics())
    finally:
        del sys.modules["opentelemetry"]
        sys.modules.update(hidden)
    (problem,) = caught.value.problems
    assert problem.startswith("--traces-url: ")
    assert problem.endswith("is not installed: pip install 'defib[otel]'")
