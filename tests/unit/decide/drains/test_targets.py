"""Which pods a drain has to see off, and which are left alone."""

import pytest

from defib.decide.drains.ladder import next_step
from defib.decide.drains.targets import left_alone, must_leave, stays
from defib.model.drain_policy import Ignored
from defib.model.meta import OwnerReference
from defib.model.node_drain import CLUSTER_API_SKIP, DO_NOT_DISRUPT, UPGRADER
from defib.model.pod import MIRROR, Pod
from defib.model.pod_failover import KEEP
from tests.unit.decide.drains.drains import a_case, a_policy, terminating
from tests.unit.decide.failover.failovers import DAEMON_SET, JOB, STATEFUL_SET, a_pod, change


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("daemon", owner=DAEMON_SET),
        a_pod("static", owner=None, annotations={MIRROR: "hash"}),
        a_pod("done", owner=JOB, phase="Succeeded"),
        a_pod("evicted", phase="Failed"),
        terminating(a_pod("leaving-daemon", owner=DAEMON_SET), ended=0),
    ],
)
def test_dk_08_pods_of_daemon_sets_static_pods_and_finished_ones_are_no_targets(pod: Pod) -> None:
    assert must_leave([pod]) == ()
    assert stays(pod)


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("web"),
        a_pod("db", owner=STATEFUL_SET),
        a_pod("bare", owner=None),
        a_pod("pending", phase="Pending"),
        a_pod("lost", phase="Unknown"),
    ],
)
def test_all_others_are(pod: Pod) -> None:
    assert must_leave([pod]) == (pod,)


def test_the_pod_that_upgrades_the_node_is_not_made_to_leave_it() -> None:
    assert must_leave([a_pod("apply-plan", owner=JOB, labels={UPGRADER: "plan"})]) == ()


def test_dk_08_only_the_controller_of_a_pod_makes_it_one_of_a_daemon_set() -> None:
    friend = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="agent", controller=None)
    pod = a_pod("web")
    pod = change(pod, metadata=change(pod.metadata, owner_references=[*(pod.metadata.owner_references or ()), friend]))
    assert must_leave([pod]) == (pod,)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_that_is_terminating_is_seen_off(phase: str) -> None:
    pod = terminating(a_pod("held", phase=phase), ended=0)
    assert must_leave([pod]) == (pod,)


def test_the_most_important_pods_go_last() -> None:
    pods = [a_pod("b", priority=10), a_pod("c", priority=-1), a_pod("a", priority=10), a_pod("z", namespace="aa")]
    assert [pod.name for pod in must_leave(pods)] == ["c", "z", "a", "b"]


@pytest.mark.parametrize(
    ("namespace", "ignored"),
    [
        ("kube-system", True),
        ("kube-systems", False),
        ("my-kube-system", False),
        ("openshift-dns", True),
        ("my-openshift-dns", False),
        ("team-1", True),
        ("team-12", False),
    ],
)
def test_dk_09_pods_of_ignored_namespaces_are_left_alone_by_whole_names(namespace: str, ignored: bool) -> None:
    policy = a_policy(ignored=Ignored(patterns=("kube-system", "openshift-*", "team-?")))
    pod = a_pod("web-1", namespace=namespace)
    assert bool(left_alone(pod, policy)) is ignored
    assert (next_step(a_case(pod, at=10_000, policy=policy)).rung is None) is ignored


def test_dk_09_expressions_of_nodekeeper_match_anywhere_in_a_name() -> None:
    policy = a_policy(ignored=Ignored(expressions=("^openshift-.*", "system$", "db")))
    ignored = [
        name
        for name in ("openshift-dns", "my-openshift-dns", "kube-system", "systems", "my-db-1", "web")
        if left_alone(a_pod("web-1", namespace=name), policy)
    ]
    assert ignored == ["openshift-dns", "kube-system", "my-db-1"]


@pytest.mark.parametrize(
    ("pod", "stays_alone"),
    [
        (a_pod("web-1", annotations={KEEP: ""}), True),
        (a_pod("web-1", annotations={KEEP: "until Monday"}), True),
        (a_pod("web-1", annotations={DO_NOT_DISRUPT: "true"}), True),
        (a_pod("web-1", annotations={DO_NOT_DISRUPT: "false"}), False),
        (a_pod("web-1", labels={CLUSTER_API_SKIP: "skip"}), True),
        (a_pod("web-1", labels={CLUSTER_API_SKIP: "now"}), False),
        (a_pod("web-1", annotations={CLUSTER_API_SKIP: "skip"}), False),
        (a_pod("web-1"), False),
    ],
)
def test_a_pod_that_somebody_asked_to_be_kept_is_left_alone(pod: Pod, stays_alone: bool) -> None:
    assert bool(left_alone(pod, a_policy())) is stays_alone
    for one in (pod, terminating(pod, ended=0, grace=0)):
        step = next_step(a_case(one, at=10_000))
        assert (step.rung is None) is stays_alone
        assert step.why
