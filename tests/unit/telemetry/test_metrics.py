"""What Prometheus reads from us."""

from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from defib import __version__
from defib.telemetry.catalogue import LEFTOVER_KINDS, METRICS
from defib.telemetry.metrics import Metrics
from defib.telemetry.series import Draining


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """`(name, label value, …)` → value, without the process's own."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith(("defib_", "nodehealthcheck_", "upgradeoperator_"))
    }


def lines(metrics: Metrics, name: str) -> list[str]:
    """What is served of one metric, letter for letter."""
    return [line for line in metrics.render().decode().splitlines() if name in line]


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


def test_a_drain_that_has_failed_has_the_series_that_openshift_knows_until_it_is_over() -> None:
    metrics = Metrics()
    metrics.drains(Draining(phases={"Held": 1}, failed=["n1"], pods_left={"n1": 3, "n2": 0}, estimates={"all": 60}))
    assert lines(metrics, "upgradeoperator_node_drain_timeout{") == [
        'upgradeoperator_node_drain_timeout{node_name="n1"} 1.0'
    ]
    seen = samples(metrics)
    assert (seen["defib_drain_failed", "n1"], seen["defib_drain_pods_left", "n2"]) == (1, 0)
    metrics.drains(Draining(phases={"Held": 0}, pods_left={"n1": 2}))
    seen = {key: value for key, value in samples(metrics).items() if "drain" in key[0]}
    assert seen == {("defib_drains", "Held"): 0, ("defib_drain_pods_left", "n1"): 2}
    metrics.drains(Draining())
    assert not any("drain" in key[0] for key in samples(metrics))


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
    served = {f.name: f for f in text_string_to_metric_families(Metrics().render().decode())}
    ours = {name: (f.type, f.documentation) for name, f in served.items() if not name.startswith("process_")}
    assert ours == {row.name.removesuffix("_total"): (row.type, row.help) for row in METRICS}


def test_a_check_has_counts_until_it_is_gone() -> None:
    metrics = Metrics()
    metrics.checked({"workers": (5, 3, 2, 1, ()), "masters": (3, 3, 0, 0, ())})
    seen = samples(metrics)
    states = ("observed", "healthy", "unhealthy", "remediating")
    assert [seen["defib_check_nodes", "workers", state] for state in states] == [5, 3, 2, 1]
    metrics.checked({"masters": (3, 2, 1, 0, ())})
    seen = samples(metrics)
    assert not any("workers" in key for key in seen)
    assert seen["defib_check_nodes", "masters", "unhealthy"] == 1


def test_a_gate_is_there_while_it_is_closed() -> None:
    metrics = Metrics()
    metrics.checked({"workers": (5, 5, 0, 0, ("Brake", "Paused")), "masters": (3, 3, 0, 0, ("Brake",))})
    metrics.checked({"workers": (5, 5, 0, 0, ["Paused"]), "masters": (3, 3, 0, 0, ())})
    assert lines(metrics, "defib_gate_closed{") == ['defib_gate_closed{check="workers",gate="Paused"} 1.0']
    metrics.checked({})
    assert lines(metrics, "defib_gate_closed{") == []


def test_remediations_and_failures_are_counted() -> None:
    metrics = Metrics()
    metrics.started("workers")
    metrics.ended("n1", "ns", "FooRemediation", 61.0, "workers")
    metrics.action_failed("StartRemediation")
    metrics.decided(0.001)
    seen = samples(metrics)
    assert seen["defib_remediations_started_total", "workers"] == 1
    assert seen["defib_remediations_ended_total", "workers"] == 1
    assert seen["defib_actions_failed_total", "StartRemediation"] == 1
    assert seen["defib_decide_seconds_count",] == 1


def test_the_counter_of_upstream_keeps_its_name_in_every_line() -> None:
    metrics = Metrics()
    metrics.old("n1")
    metrics.old("n1")
    name = "nodehealthcheck_old_remediation_cr"
    about, kind, sample = lines(metrics, name)
    assert about.startswith(f"# HELP {name} ")
    assert kind == f"# TYPE {name} counter"
    assert sample == f'{name}{{name="n1",namespace=""}} 2.0'


def test_the_histogram_of_upstream_keeps_its_buckets() -> None:
    metrics = Metrics()
    metrics.ended("n1", "ns", "FooRemediation", 300.0, "workers")
    name = "nodehealthcheck_unhealthy_node_duration_seconds"
    buckets = [line.split('"')[1] for line in lines(metrics, f"{name}_bucket")]
    assert buckets == ["30", "60", "120", "180", "240", "300", "600", "1200", "2400", "3600", "+Inf"]
    labels = 'name="n1",namespace="ns",remediation="FooRemediation"'
    assert f'{name}_bucket{{le="240",{labels}}} 0.0' in lines(metrics, name)
    assert f'{name}_bucket{{le="300",{labels}}} 1.0' in lines(metrics, name)
    assert f"{name}_sum{{{labels}}} 300.0" in lines(metrics, name)
    assert f"# TYPE {name} histogram" in lines(metrics, name)


def test_a_remediation_is_ongoing_until_it_is_over_and_may_come_again() -> None:
    metrics = Metrics()
    foo, bar = ("n1", "ns", "FooRemediation"), ("n1", "ns", "BarRemediation")
    told = []
    for present in ({foo}, {foo, bar}, {bar}, set(), {foo}):
        metrics.ongoing(frozenset(present))
        seen = samples(metrics)
        told.append([seen.get(("nodehealthcheck_ongoing_remediation", *one)) for one in (foo, bar)])
    assert told == [[1, None], [1, 1], [0, 1], [0, 0], [1, 0]]


def test_of_nodes_that_are_done_with_only_the_latest_hundred_are_told() -> None:
    metrics = Metrics()
    everybody = [(f"n{number:03}", "ns", "FooRemediation") for number in range(150)]
    metrics.ongoing(everybody)
    assert len(lines(metrics, "nodehealthcheck_ongoing_remediation{")) == 150, "what is ongoing is always told"
    metrics.ongoing(everybody[:1])
    for node, namespace, kind in everybody:
        metrics.ended(node, namespace, kind, 60.0, "workers")
        metrics.old(node)
    left = lines(metrics, "nodehealthcheck_ongoing_remediation{")
    assert sum(line.endswith(" 0.0") for line in left) == 100
    assert sum(line.endswith(" 1.0") for line in left) == 1
    assert not any('"n001"' in line or '"n049"' in line for line in left)
    assert any('"n050"' in line for line in left)
    for name in ("nodehealthcheck_old_remediation_cr{", "nodehealthcheck_unhealthy_node_duration_seconds_count{"):
        assert [line.split('name="')[1][:4] for line in lines(metrics, name)] == [node for node, _, _ in everybody[50:]]


def test_a_node_that_comes_back_is_not_the_next_to_be_forgotten() -> None:
    metrics = Metrics()
    first = ("first", "ns", "FooRemediation")
    metrics.ongoing({first})
    metrics.ongoing(())
    metrics.ongoing({first})
    for number in range(101):
        metrics.ongoing({first, (f"n{number}", "ns", "FooRemediation")})
    metrics.ongoing({first})
    assert samples(metrics)["nodehealthcheck_ongoing_remediation", *first] == 1


def test_pods_are_counted_by_how_they_left_and_timed_where_nobody_had_to_be_waited_for() -> None:
    metrics = Metrics()
    metrics.pod_moved("forced", 0.4)
    metrics.pod_moved("graceful", 2.0)
    metrics.pod_moved("freed")
    seen = samples(metrics)
    assert {how: seen["defib_pods_moved_total", how] for how in ("forced", "graceful", "freed")} == {
        "forced": 1,
        "graceful": 1,
        "freed": 1,
    }
    assert (seen["defib_pod_move_seconds_count",], seen["defib_pod_move_seconds_sum",]) == (2, 2.4)


def test_what_waits_and_what_is_held_is_as_it_is_now() -> None:
    metrics = Metrics()
    metrics.failover(7, {"Budget": 2, "Brake": 1})
    assert samples(metrics)["defib_pods_waiting_for_proof",] == 7
    assert len(lines(metrics, "defib_failover_held_nodes{")) == 2
    metrics.failover(0, {})
    assert samples(metrics)["defib_pods_waiting_for_proof",] == 0
    assert lines(metrics, "defib_failover_held_nodes{") == []


def test_every_kind_of_leftover_is_counted_from_0_so_that_the_first_one_is_an_increase() -> None:
    text = Metrics().render().decode()
    assert all(f'defib_leftovers_collected_total{{kind="{kind}"}} 0.0' in text for kind in LEFTOVER_KINDS)


def test_a_gate_that_holds_nodes_back_has_a_series_until_it_holds_none() -> None:
    metrics = Metrics()
    metrics.held({("workers", "Approval"): 2, ("workers", "Lock"): 1})
    assert samples(metrics)["defib_nodes_held", "workers", "Approval"] == 2
    metrics.held({("workers", "Lock"): 3})
    assert lines(metrics, "defib_nodes_held{") == ['defib_nodes_held{check="workers",gate="Lock"} 3.0']
