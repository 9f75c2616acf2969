"""A real Prometheus reads a running operator: its alerts load and fire, its dashboard gets answers; and a webhook and a
collector are told what happens meanwhile.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from defib.telemetry.catalogue import METRICS
from testbed.programs import Programs
from tests.contract.api_server.steps import eventually
from tests.e2e.check_cluster import SOON_SECONDS, CheckCluster, check_cluster
from tests.e2e.running_operator import RunningOperator, defib_run
from tests.e2e.running_prometheus import RunningPrometheus, rules_without_waiting, running_prometheus
from tests.unit.receiver import Receiver, receiving

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "defib.json"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CheckCluster]:
    async with check_cluster(programs, tmp_path_factory.mktemp("audit") / "policy.yaml") as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def webhook() -> AsyncIterator[Receiver]:
    """Which is busy at first."""
    async with receiving(429, 503, 200) as receiver:
        yield receiver


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def collector() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(
    cluster: CheckCluster, webhook: Receiver, collector: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningOperator]:
    url = tmp_path_factory.mktemp("secret") / "url"
    await asyncio.to_thread(url.write_text, webhook.url)
    options = (f"--notify-url-file={url}", "--notify-format=cloudevents", "--notify-about=all", "--cluster-name=east")
    traces = f"--traces-url=http://127.0.0.1:{collector.port}"
    async with defib_run(cluster, *options, traces) as operator:
        yield operator


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reads(
    operator: RunningOperator, prometheus: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningPrometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    async with running_prometheus(prometheus, folder, urlsplit(operator.address).netloc) as running:
        yield running


async def test_prometheus_loads_every_alert_and_can_evaluate_it(reads: RunningPrometheus) -> None:
    async def are_evaluated() -> bool:
        return all(rule["health"] != "unknown" for rule in await reads.rules())

    await eventually(are_evaluated, within=SOON_SECONDS)
    rules = await reads.rules()
    wanted = {rule["alert"] for group in rules_without_waiting()["groups"] for rule in group["rules"]}
    assert {rule["name"] for rule in rules} == wanted
    assert [rule for rule in rules if rule["health"] != "ok"] == []


async def test_prometheus_knows_our_metrics_by_the_types_that_the_catalogue_gives_them(
    reads: RunningPrometheus,
) -> None:
    told = {name: entries[0]["type"] for name, entries in (await reads.asked("metadata")).items()}
    ours = {metric.name: metric.type for metric in METRICS}
    # In this format a counter is described by its name without the ending, or with it: both are read.
    known = {name: told.get(name) or told.get(name.removesuffix("_total")) for name in ours}
    assert known == ours


async def test_every_question_of_the_dashboard_has_an_answer(reads: RunningPrometheus) -> None:
    board = json.loads(await asyncio.to_thread(DASHBOARD.read_text))
    exprs = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert exprs
    for expr in exprs:
        asked = expr.replace("$__rate_interval", "10s").replace("$check", ".*")
        assert await reads.asked("query", query=asked)


async def until_fires(reads: RunningPrometheus, name: str, *, check: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def fires() -> bool:
        found[:] = [alert for alert in await reads.firing(name) if alert["labels"]["check"] == check]
        return bool(found)

    await eventually(fires, within=SOON_SECONDS)
    return found[0]


async def until_quiet(reads: RunningPrometheus, name: str) -> None:
    async def is_quiet() -> bool:
        return not await reads.firing(name)

    await eventually(is_quiet, within=SOON_SECONDS)


async def test_an_alert_fires_while_a_gate_holds_remediation_back_and_ends_with_it(
    cluster: CheckCluster, reads: RunningPrometheus
) -> None:
    pool = await cluster.pool("held", minHealthy="100%")
    await pool.fails("held-1")
    alert = await until_fires(reads, "DefibRemediationHeldBack", check="held")
    assert alert["labels"]["severity"] == "warning"
    said = "NodeHealthCheck held has unhealthy nodes, and something holds remediation back."
    assert alert["annotations"]["summary"] == said
    assert alert["annotations"]["runbook_url"].endswith("/DefibRemediationHeldBack.html")
    assert await reads.value('defib_check_nodes{check="held",state="unhealthy"}') == 1
    await pool.recovers("held-1")
    await until_quiet(reads, "DefibRemediationHeldBack")


async def test_a_person_is_called_to_approve(cluster: CheckCluster, reads: RunningPrometheus) -> None:
    pool = await cluster.pool("asks", mode="Approve")
    await pool.fails("asks-1")
    alert = await until_fires(reads, "DefibNodeWaitsForApproval", check="asks")
    said = "1 unhealthy node(s) of NodeHealthCheck asks wait for a person to approve remediation."
    assert alert["annotations"]["summary"] == said
    await pool.recovers("asks-1")
    await until_quiet(reads, "DefibNodeWaitsForApproval")


async def test_a_webhook_is_told_once_what_was_told_as_events(
    cluster: CheckCluster, webhook: Receiver, reads: RunningPrometheus
) -> None:
    pool = await cluster.pool("told")
    await pool.fails("told-1")
    await pool.expect_remedy("told-1")
    await pool.recovers("told-1")
    await pool.expect_at_rest()

    def heard() -> list[dict[str, Any]]:
        read = [msgspec.json.decode(one.body) for one in webhook.received]
        return [
            one for one in {event["id"]: event for event in read}.values() if one["subject"] == "NodeHealthCheck/told"
        ]

    wanted = ["dev.defib.DetectedUnhealthy", "dev.defib.RemediationCreated", "dev.defib.RemediationRemoved"]

    async def has_heard() -> bool:
        return {event["type"] for event in heard()} >= set(wanted)

    await eventually(has_heard, within=SOON_SECONDS)
    about_node = [event for event in heard() if event["type"] in wanted]
    assert [event["type"] for event in about_node] == wanted
    assert {(event["source"], event["data"]["node"]) for event in about_node} == {("/defib/east", "told-1")}
    events = {(event.reason, event.message) for event in await pool.events()}
    assert {(event["data"]["reason"], event["data"]["message"]) for event in about_node} <= {
        (reason, message.removeprefix("[remediation] ")) for reason, message in events
    }
    assert await reads.value('defib_deliveries_total{to="webhook",result="failed"}') == 0


async def test_a_collector_gets_the_trace_of_a_remediation_that_is_over(
    cluster: CheckCluster, collector: Receiver
) -> None:
    pool = await cluster.pool("traced")
    await pool.fails("traced-1")
    await pool.expect_remedy("traced-1")
    await pool.recovers("traced-1")
    await pool.expect_at_rest()

    def spans() -> list[Span]:
        requests = [ExportTraceServiceRequest.FromString(one.body) for one in collector.received]
        found = [list(scope.spans) for one in requests for of in one.resource_spans for scope in of.scope_spans]
        return [span for trace in found if _says(trace[0], "k8s.node.name", "traced-1") for span in trace]

    async def is_there() -> bool:
        return bool(spans())

    await eventually(is_there, within=SOON_SECONDS)
    whole, *phases = spans()
    assert whole.name == "incident"
    assert _says(whole, "defib.outcome", "Recovered")
    assert _says(whole, "defib.check", "traced")
    names = [span.name for span in phases]
    assert names[:3] == ["Unhealthy", "Admitted", "RemediationCreated"]
    assert all(whole.start_time_unix_nano <= span.start_time_unix_nano for span in phases)
    assert max(span.end_time_unix_nano for span in phases) == whole.end_time_unix_nano > whole.start_time_unix_nano
    assert len({span.trace_id for span in (whole, *phases)}) == 1


def _says(span: Span, name: str, value: str) -> bool:
    return any((one.key, one.value.string_value) == (name, value) for one in span.attributes)
