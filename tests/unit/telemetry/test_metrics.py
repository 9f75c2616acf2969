"""What Prometheus reads from us."""

from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from defib import __version__
from defib.telemetry.metrics import METRICS, Metrics


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """`(name, label value, …)` → value, without the process's own."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("defib_")
    }


def test_a_request_is_counted_by_verb_and_code_and_timed() -> None:
    metrics = Metrics()
    metrics.answered("GET", "200", 0.02)
    metrics.answered("GET", "none", 30.0)
    seen = samples(metrics)
    assert seen["defib_api_requests_total", "200", "GET"] == 1
    assert seen["defib_api_requests_total", "none", "GET"] == 1
    assert seen["defib_api_request_seconds_count", "GET"] == 2


def test_a_kind_is_blind_since_a_moment_until_it_is_seen_again() -> None:
    metrics = Metrics()
    since = datetime(2026, 1, 1, tzinfo=UTC)
    metrics.blind("nodes", since)
    assert samples(metrics)["defib_watch_blind_since_seconds", "nodes"] == since.timestamp()
    metrics.blind("nodes", None)
    assert samples(metrics)["defib_watch_blind_since_seconds", "nodes"] == 0


def test_a_kind_that_is_no_longer_watched_leaves_no_values_behind() -> None:
    metrics = Metrics()
    metrics.holds("pods", cached=7, set_aside=1)
    assert samples(metrics)["defib_cached_objects", "pods"] == 7
    assert samples(metrics)["defib_set_aside_objects", "pods"] == 1
    metrics.forget("pods")
    metrics.forget("never-watched")
    assert not any("pods" in key for key in samples(metrics))


def test_events_relists_and_passes_are_counted() -> None:
    metrics = Metrics()
    metrics.watched("nodes", 3)
    metrics.relisted("nodes", "Gone")
    metrics.passed(0.002)
    seen = samples(metrics)
    assert seen["defib_watch_events_total", "nodes"] == 3
    assert seen["defib_relists_total", "nodes", "Gone"] == 1
    assert seen["defib_passes_total",] == 1
    assert seen["defib_pass_seconds_count",] == 1


def test_two_operators_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.passed(0.1)
    assert samples(one)["defib_passes_total",] == 1
    assert samples(other)["defib_passes_total",] == 0


def test_what_runs_is_told() -> None:
    assert any(key[0] == "defib_build_info" and __version__ in key for key in samples(Metrics()))


def test_what_is_served_and_what_the_table_says_are_the_same() -> None:
    served = {f.name: f.documentation for f in text_string_to_metric_families(Metrics().render().decode())}
    ours = {name: text for name, text in served.items() if name.startswith("defib_")}
    assert ours == {row.name.removesuffix("_total"): row.help for row in METRICS}
