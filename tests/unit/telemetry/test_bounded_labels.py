"""How many series there can be: labels come from small closed sets, and what names a node is kept for few of them."""

from defib.telemetry.catalogue import METRICS
from defib.telemetry.metrics import Metrics
from defib.telemetry.series import COUNTED, KEPT_MAX, Draining

# Of each label, how many values there can be, at most.
CLOSED = {
    "version": 1,
    "python": 1,
    "verb": 8,
    "code": 64,
    "kind": 64,  # what is watched, remediations of others included
    "reason": 16,
    "state": len(COUNTED),
    "gate": 32,
    "action": 64,
    "phase": 16,
    "how": 3,
    "rung": 5,
    "result": 3,
    "to": 2,
}
# As many as people have written of these.
WRITTEN_BY_PEOPLE = {"check", "policy"}
# Those that name a node, and why that is no series for every node.
OF_NODES = {
    "nodehealthcheck_old_remediation_cr": "of what is over, the latest hundred",
    "nodehealthcheck_ongoing_remediation": "of what is over, the latest hundred",
    "nodehealthcheck_unhealthy_node_duration_seconds": "of what is over, the latest hundred",
    "defib_fence_ready": "nodes that a template covers: it must say which cannot be fenced",
    "defib_drain_failed": "nodes that are being drained",
    "upgradeoperator_node_drain_timeout": "nodes that are being drained",
    "defib_drain_pods_left": "nodes that are being drained",
}


def test_every_label_is_bounded_or_its_metric_says_why_it_names_nodes() -> None:
    for metric in METRICS:
        unbounded = set(metric.labels) - CLOSED.keys() - WRITTEN_BY_PEOPLE
        assert bool(unbounded) == (metric.name in OF_NODES), metric.name


def test_no_pod_no_namespace_of_a_workload_and_no_message_is_a_label() -> None:
    names = {label for metric in METRICS if metric.name not in OF_NODES for label in metric.labels}
    assert names & {"pod", "namespace", "message", "why", "uid", "url", "node"} == set()


def series(metrics: Metrics) -> int:
    return sum(1 for line in metrics.render().decode().splitlines() if not line.startswith("#"))


def test_a_year_of_nodes_that_come_and_go_does_not_make_more_series_than_a_bad_day() -> None:
    def suffer(metrics: Metrics, first: int, nodes: int) -> int:
        for number in range(first, first + nodes):
            labels = (f"n{number}", "x", "Foo")
            metrics.ongoing([labels])
            metrics.old(labels[0])
            metrics.ended(*labels, 1.0, "workers")
            metrics.fences({labels[0]: True}, None)
            metrics.drains(Draining(phases={"Draining": 1}, failed=[labels[0]], pods_left={labels[0]: 1}))
        metrics.ongoing([])
        return series(metrics)

    metrics = Metrics()
    bad_day = suffer(metrics, 0, 2 * KEPT_MAX)
    assert suffer(metrics, 2 * KEPT_MAX, 2000) == bad_day
