"""The doctor says of every pod why it is still there, or would not leave well, in words."""

import pytest

from defib.decide.drains.doctor import State
from defib.decide.drains.findings import Details, Reason, owner_of
from defib.model.cluster import Blindness
from defib.model.node_drain import DO_NOT_DISRUPT
from tests.builders import MINUTE, SECOND, T0
from tests.unit.decide.drains.ward import (
    a_budget,
    a_drain_policy,
    a_drained_node,
    a_leaving_pod,
    a_ward,
    a_web_pod,
    examined,
    reasons,
    the_finding,
    the_pod,
)
from tests.unit.decide.failover.failovers import DAEMON_SET, JOB, RWO, RWX, a_pod, change

# Budgets.


def test_a_budget_that_wants_all_of_its_pods_never_lets_one_go() -> None:
    found = the_finding(a_web_pod(), budgets=[a_budget(minAvailable=3)])
    assert (found.reason, found.blocks, found.budget) == (Reason.BUDGET_NEVER, True, "apps/web")
    assert found.message == "disruption budget apps/web never lets a pod go: minAvailable 3 of 3 pods"
    assert found.advice == "set maxUnavailable 1 instead"


def test_no_pod_may_be_unavailable_is_the_same_in_other_words() -> None:
    found = the_finding(a_web_pod(), budgets=[a_budget(maxUnavailable=0)])
    assert found.message == "disruption budget apps/web never lets a pod go: maxUnavailable 0 of 3 pods"


def test_half_of_one_pod_is_one_pod() -> None:
    budget = a_budget(minAvailable="50%", expected=1, desired=1, healthy=1)
    found = the_finding(a_web_pod(), budgets=[budget])
    assert found.message == (
        "disruption budget apps/web never lets a pod go: minAvailable 50% of 1 pod, which is rounded up to 1"
    )
    assert found.advice == "run a second pod and set maxUnavailable 1 instead"


def test_a_budget_that_has_none_to_spare_says_how_many_are_healthy() -> None:
    found = the_finding(a_web_pod(), budgets=[a_budget(minAvailable=2, healthy=2, desired=2)])
    assert (found.reason, found.blocks) == (Reason.BUDGET_NONE_NOW, True)
    assert found.message == (
        "disruption budget apps/web allows none now: 2 of 3 pods are healthy, 2 must stay (minAvailable 2)"
    )
    assert found.advice == "it lets one go when 3 are healthy; see kubectl -n apps get pods -l app=web"


def test_a_budget_whose_pod_is_just_leaving_lets_the_next_go_later() -> None:
    found = the_finding(a_web_pod(), budgets=[a_budget(minAvailable=2, healthy=3, desired=2)])
    assert found.message.endswith("(minAvailable 2), and one is leaving")


def test_a_budget_that_waits_for_a_pod_without_a_place_names_it_and_the_schedulers_words() -> None:
    said = {"type": "PodScheduled", "status": "False", "message": "0/5 nodes are available: 5 Insufficient cpu."}
    pending = a_web_pod("web-9", node="", phase="Pending")
    pending = change(pending, status=change(pending.status, conditions=[said]))
    foreign = a_pod("other", node="", phase="Pending")
    told = the_pod(
        a_web_pod(),
        budgets=[a_budget(minAvailable=2, healthy=2, desired=2)],
        details=Details(pending=(pending, foreign)),
    )
    assert reasons(told) == ["BudgetAllowsNone", "ReplacementPending"]
    assert told.findings[1].message == (
        "the budget waits for pod apps/web-9, which is Pending: 0/5 nodes are available: 5 Insufficient cpu."
    )


def test_a_budget_that_was_just_changed_refuses_until_its_pods_are_counted() -> None:
    found = the_finding(a_web_pod(), budgets=[a_budget(allowed=1, changed=True)])
    assert (found.reason, found.blocks) == (Reason.BUDGET_STALE, True)


def test_a_budget_whose_pods_cannot_be_counted_says_why() -> None:
    why = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "found no controllers"}
    found = the_finding(a_web_pod(), budgets=[a_budget(expected=0, desired=0, healthy=0, conditions=[why])])
    assert found.reason is Reason.BUDGET_UNCOUNTED
    assert found.message.endswith("has not counted its pods: found no controllers")


def test_two_budgets_on_one_pod_make_the_api_server_refuse_every_eviction() -> None:
    both = [a_budget(allowed=1), a_budget("everything", allowed=1, selector={}, minAvailable=1)]
    found = the_finding(a_web_pod(), budgets=both)
    assert (found.reason, found.blocks) == (Reason.BUDGETS_SEVERAL, True)
    assert "2 disruption budgets select it, apps/everything and apps/web" in found.message


def test_a_budget_that_lets_one_go_is_not_in_the_way() -> None:
    assert reasons(the_pod(a_web_pod(), budgets=[a_budget(allowed=1)])) == []


def test_a_budget_of_another_namespace_or_of_other_labels_is_not_in_the_way() -> None:
    elsewhere = a_web_pod(namespace="elsewhere")
    assert reasons(the_pod(elsewhere, budgets=[a_budget()])) == []
    assert reasons(the_pod(a_web_pod(labels={"app": "db"}), budgets=[a_budget()])) == []


def test_a_pod_that_is_not_ready_may_go_while_enough_others_are_healthy() -> None:
    budget = a_budget(minAvailable=2, healthy=2, desired=2)
    assert reasons(the_pod(a_web_pod(ready=False), budgets=[budget])) == []


def test_a_pod_that_is_not_ready_is_protected_when_too_few_are_healthy() -> None:
    found = the_finding(a_web_pod(ready=False), budgets=[a_budget(minAvailable=2, healthy=1, desired=2)])
    assert (found.reason, found.blocks) == (Reason.UNHEALTHY_PROTECTED, True)
    assert "unhealthyPodEvictionPolicy AlwaysAllow" in found.advice


def test_a_budget_may_let_all_pods_go_that_are_not_ready() -> None:
    budget = a_budget(minAvailable=2, healthy=1, desired=2, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert reasons(the_pod(a_web_pod(ready=False), budgets=[budget])) == []


def test_a_pod_that_never_ran_is_protected_by_nobody() -> None:
    assert reasons(the_pod(a_web_pod(phase="Pending"), budgets=[a_budget(), a_budget("second")])) == []


def test_a_terminating_pod_is_past_its_budgets() -> None:
    told = the_pod(a_leaving_pod(ended=T0 + 10 * SECOND), budgets=[a_budget()])
    assert reasons(told) == ["Terminating"]


def test_budgets_that_are_out_of_sight_are_not_known_and_not_guessed() -> None:
    blind = (Blindness("budgets", T0, "forbidden"),)
    told = examined(a_ward(a_drained_node(), a_web_pod(), budgets=[a_budget()], blind=blind))
    assert told.unknown == ("disruption budgets are out of sight: forbidden",)
    assert reasons(told.pods[0]) == ["BudgetsUnknown"]
    assert not told.is_stuck


# Pods that are on their way out, and do not get there.


def test_a_pod_that_has_time_left_is_not_stuck() -> None:
    found = the_finding(a_leaving_pod(ended=T0 + 20 * SECOND, grace=60))
    assert (found.reason, found.blocks) == (Reason.TERMINATING, False)
    assert found.message == "it was told to end 40s ago, with 1m of grace, of which 20s is left"


def test_a_pod_that_should_have_ended_long_ago_is_stuck() -> None:
    found = the_finding(a_leaving_pod(ended=T0 - 10 * MINUTE))
    assert (found.reason, found.blocks) == (Reason.STUCK, True)
    assert found.message == "it was told to end 10m30s ago, with 30s of grace, and is overdue by 10m"


@pytest.mark.parametrize(
    ("finalizer", "owner"),
    [
        ("batch.kubernetes.io/job-tracking", "the Job controller"),
        ("foregroundDeletion", "the garbage collector"),
        ("service.kubernetes.io/load-balancer-cleanup", "the cloud's service controller"),
        ("kubernetes.io/pvc-protection", "on claims and volumes, not on pods"),
        ("example.com/backup", "whoever uses the domain example.com"),
        ("mystery", "nobody can tell whose it is"),
    ],
)
def test_a_finalizer_has_a_likely_owner(finalizer: str, owner: str) -> None:
    assert owner in owner_of(finalizer)


def test_a_terminating_pod_with_a_finalizer_is_held_by_its_owner() -> None:
    told = the_pod(a_leaving_pod(ended=T0 - MINUTE, finalizers=["example.com/backup"]))
    assert reasons(told) == ["Finalizer", "StuckTerminating"]
    assert told.findings[0].message == (
        "it is terminating, and held by example.com/backup (likely owner: whoever uses the domain example.com)"
    )


def test_a_terminating_pod_that_still_has_time_is_not_held_yet() -> None:
    told = the_pod(a_leaving_pod(ended=T0 + MINUTE, finalizers=["example.com/backup"]))
    assert [(finding.reason, finding.blocks) for finding in told.findings] == [
        (Reason.FINALIZER, False),
        (Reason.TERMINATING, False),
    ]


def test_a_finalizer_of_a_pod_that_runs_is_worth_knowing_but_that_of_a_job_is_not() -> None:
    found = the_finding(a_web_pod(finalizers=["example.com/backup"]))
    assert (found.reason, found.blocks) == (Reason.FINALIZER, False)
    assert reasons(the_pod(a_pod("job", owner=JOB, finalizers=["batch.kubernetes.io/job-tracking"]))) == []


def test_on_a_dead_kubelet_nobody_ends_a_pod() -> None:
    node = a_drained_node(ready="Unknown", since=T0 - 7 * MINUTE)
    cluster = a_ward(node, a_leaving_pod(ended=T0 - MINUTE))
    told = examined(cluster)
    assert told.unready == "the node is not ready (Ready is Unknown for 7m)"
    assert reasons(told.pods[0]) == ["StuckTerminating", "KubeletSilent"]


def test_a_pod_that_only_a_finalizer_holds_needs_no_kubelet() -> None:
    node = a_drained_node(ready="Unknown", since=T0 - 7 * MINUTE)
    told = the_pod(a_leaving_pod(ended=T0 - MINUTE, grace=0, finalizers=["a.b/c"]), node=node)
    assert "KubeletSilent" not in reasons(told)


def test_a_pre_stop_hook_may_take_the_whole_grace() -> None:
    pod = a_leaving_pod(ended=T0 + MINUTE, grace=600)
    told = the_pod(pod, details=Details(hooks={pod.uid: ("web", "proxy")}))
    assert reasons(told) == ["Terminating", "PreStopHook"]
    assert told.findings[1].message == (
        "containers web, proxy run a preStop hook when it ends, which may take its whole grace of 10m"
    )


def test_a_pre_stop_hook_of_a_pod_that_runs_matters_only_when_it_may_take_long() -> None:
    short, long = a_web_pod("short"), a_web_pod("long")
    long = change(long, spec=change(long.spec, termination_grace_period_seconds=3600))
    hooks = Details(hooks={short.uid: ("web",), long.uid: ("web",)})
    told = examined(a_ward(a_drained_node(), short, long), hooks)
    assert {pod.pod: reasons(pod) for pod in told.pods} == {"apps/long": ["PreStopHook"], "apps/short": []}


def test_a_grace_beyond_the_calendar_is_survived() -> None:
    pod = a_web_pod()
    pod = change(pod, spec=change(pod.spec, termination_grace_period_seconds=2**63 - 1))
    assert reasons(the_pod(pod, details=Details(hooks={pod.uid: ("web",)}))) == ["PreStopHook"]


# What a pod takes with it.


def test_a_claim_that_one_pod_may_have_is_told_and_one_that_many_may_have_is_not() -> None:
    pod = a_web_pod(claims=["data"])
    found = the_finding(pod, claims={"apps/data": RWO})
    assert (found.reason, found.blocks) == (Reason.EXCLUSIVE_VOLUME, False)
    assert "claim data (ReadWriteOnce)" in found.message
    assert reasons(the_pod(pod, claims={"apps/data": RWX})) == []


def test_data_on_the_node_is_lost_or_stays_behind() -> None:
    volumes = [{"name": "cache", "emptyDir": {}}, {"name": "logs", "hostPath": {"path": "/var/log"}}]
    found = the_finding(a_web_pod(volumes=volumes))
    assert (found.reason, found.blocks) == (Reason.LOCAL_DATA, False)
    assert "emptyDir cache is lost" in found.message
    assert "hostPath logs stays on this node" in found.message


def test_a_claim_on_a_disk_of_the_node_cannot_follow_the_pod() -> None:
    told = the_pod(a_web_pod(claims=["data"]), details=Details(local=frozenset({"apps/data"})))
    assert told.findings[0].message == (
        "claim data is on a volume of this node: no other node can run the pod with that"
    )


def test_nobody_makes_another_one_of_a_bare_pod() -> None:
    found = the_finding(a_pod("alone", owner=None))
    assert (found.reason, found.blocks) == (Reason.BARE, False)


def test_a_pod_that_asks_to_stay_is_left_alone_by_whoever_has_a_policy() -> None:
    pod = a_web_pod(annotations={DO_NOT_DISRUPT: "true"})
    with_policy = the_finding(pod, policies=[a_drain_policy()])
    assert (with_policy.reason, with_policy.blocks) == (Reason.LEFT_ALONE, True)
    assert not the_finding(pod).blocks


def test_a_namespace_that_the_policy_ignores_is_told() -> None:
    told = the_pod(a_web_pod(), policies=[a_drain_policy(ignoredNamespaces=["ap*"])])
    assert told.findings[0].message == "Defib leaves it alone: the policy ignores namespace apps"
    assert told.next is not None
    assert told.next.message == "nothing: the policy ignores namespace apps"


def test_pods_that_no_drain_waits_for_are_one_line() -> None:
    static = a_pod("static", annotations={"kubernetes.io/config.mirror": "x"})
    told = examined(
        a_ward(
            a_drained_node(),
            a_pod("logs-1", owner=DAEMON_SET),
            a_pod("logs-2", owner=DAEMON_SET),
            static,
            a_pod("done", owner=JOB, phase="Succeeded"),
        )
    )
    assert told.pods == ()
    assert told.staying == {"of a DaemonSet": 2, "static": 1, "finished": 1}
    assert told.state is State.DRAINED
