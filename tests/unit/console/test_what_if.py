"""What would happen if nodes died: when they count as unhealthy, what is begun, what is held back and by what."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.console.mishap import Mishap
from defib.console.session import NotDone
from defib.console.thorough import Seen, look_at_all
from defib.console.what_if import Fate, WhatIf, what_if
from defib.decide.rules import Rules
from defib.kube.kinds import PODS
from defib.manifests import definitions
from defib.model.node import ZONE_LABEL
from tests.unit.console.desk import DEFINITIONS, Desk, add_check, add_node, at_the_desk, put_config, template_ref

FAILOVER_TEMPLATES = "podfailoverremediationtemplates.defib.dev"
HALF_AN_HOUR = timedelta(minutes=30)
FAILOVER = {
    "apiVersion": "defib.dev/v1alpha1",
    "kind": "PodFailoverRemediationTemplate",
    "namespace": "ns",
    "name": "failover",
}


def a_seen(*, nodes: int = 9, **spec: Any) -> Seen:
    """Nodes n1 and so on, in zones a, b and c by turns, under one check."""

    async def scene(desk: Desk) -> Seen:
        for number in range(1, nodes + 1):
            add_node(desk.server, f"n{number}", labels={ZONE_LABEL: "abc"[number % 3]})
        add_pods(desk)
        add_check(desk.server, **spec)
        return await look_at_all(desk.client, desk.clock, desk.rules, with_pods=True)

    return at_the_desk(scene)


def add_pods(desk: Desk) -> None:
    """On n1 and n2: two of the StatefulSet db, which has no other, one of three of web, and one that nobody owns."""
    for name, node, kind, owner in (
        ("db-0", "n1", "StatefulSet", "db"),
        ("db-1", "n2", "StatefulSet", "db"),
        ("web-a", "n1", "ReplicaSet", "web"),
        ("web-b", "n4", "ReplicaSet", "web"),
        ("web-c", "n5", "ReplicaSet", "web"),
        ("agent", "n1", "DaemonSet", "agent"),
        ("bare", "n2", "", ""),
    ):
        owners = [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}]
        meta = {"name": name, "namespace": "ns"} | ({"ownerReferences": owners} if kind else {})
        body = {"metadata": meta, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}}
        desk.server.put(str(PODS), body)


def tried(seen: Seen, *nodes: str, **mishap: Any) -> WhatIf:
    return what_if(Mishap(nodes=nodes, **mishap), HALF_AN_HOUR, seen, Rules(), source="")


def fate_of(told: WhatIf, node: str) -> Fate:
    (fate,) = [fate for fate in told.fates if fate.node == node]
    return fate


def story(told: WhatIf) -> list[tuple[float, str]]:
    return [(one.after_seconds, one.what) for one in told.happenings]


def test_a_node_that_dies_is_noticed_counts_as_unhealthy_and_is_remediated() -> None:
    told = tried(a_seen(), "n1")
    assert [(at, what.partition(":")[0]) for at, what in story(told)] == [
        (0.0, "node n1 dies"),
        (50.0, "Kubernetes notices"),
        (50.0, "not well"),
        (350.001, "remediated"),
    ]
    fate = fate_of(told, "n1")
    assert (fate.state, fate.by, fate.held_by) == ("Remediating", "FooRemediation n1", "")
    assert fate.remediated_at == told.begins + timedelta(seconds=350.001)
    (check,) = told.checks
    assert (check.phase, check.remediating, check.most_remediating) == ("Remediating", 1, 1)


def test_the_cluster_that_was_looked_at_stays_as_it_was() -> None:
    seen = a_seen()
    before = msgspec.json.encode([*seen.cluster.nodes.values(), *seen.cluster.heartbeats.values()])
    tried(seen, "n1", "n2", "n3", "n4", "n5", "n6")
    assert msgspec.json.encode([*seen.cluster.nodes.values(), *seen.cluster.heartbeats.values()]) == before
    assert seen.cluster.locks == {}


def test_a_lost_zone_is_held_back_by_the_threshold_and_calls_a_storm() -> None:
    told = tried(a_seen(maxUnhealthy="20%", stormCooldownDuration="5m"), zones=("a",))
    assert told.killed == ("n3", "n6", "n9")
    said = [what for _, what in story(told)]
    assert "gate Storm CLOSES: too many nodes have failed at once: a storm" in said
    assert {(fate.state, fate.held_by) for fate in told.fates} == {("Unhealthy", "Threshold")}
    (check,) = told.checks
    assert (check.most_remediating, [gate.name for gate in check.gates if not gate.is_open]) == (
        0,
        ["Threshold", "Storm"],
    )


def test_a_budget_lets_only_so_many_through() -> None:
    told = tried(a_seen(guards={"maxInFlight": 2}), zones=("a",))
    (check,) = told.checks
    assert check.most_remediating == 2
    assert sorted(fate.held_by for fate in told.fates) == ["", "", "InFlight"]


def test_when_most_nodes_die_nobody_believes_it() -> None:
    told = tried(a_seen(), zones=("a", "b"))
    assert {fate.held_by for fate in told.fates} == {"SelfDoubt"}


def test_a_step_that_runs_out_of_time_is_told() -> None:
    steps = [{"remediationTemplate": template_ref(), "order": 1, "timeout": "2m"}]
    told = tried(a_seen(escalatingRemediations=steps), "n1")
    assert fate_of(told, "n1").message.startswith("every remediation has been tried and the node is still unhealthy")


def test_while_the_api_server_is_away_nothing_is_done_and_then_doubt_ends() -> None:
    told = tried(a_seen(), "n1", api_down=True)
    found = story(told)
    assert found[:4] == [
        (0.0, "node n1 dies"),
        (0.0, "the API server does not answer: Defib sees nothing any more, and begins nothing"),
        (600.0, "the API server answers again"),
        (610.0, "the nodes that live have renewed their heartbeats"),
    ]
    assert fate_of(told, "n1").remediated_at == told.begins + timedelta(seconds=950.001)


def test_with_the_brake_on_everything_is_held_back() -> None:
    async def scene(desk: Desk) -> Seen:
        for number in range(1, 5):
            add_node(desk.server, f"n{number}")
        add_check(desk.server)
        put_config(desk.server, "defib-brake", paused="true", reason="storage")
        return await look_at_all(desk.client, desk.clock, desk.rules, with_pods=True)

    assert fate_of(tried(at_the_desk(scene), "n1"), "n1").held_by == "Brake"


def test_a_node_that_no_check_selects_is_told_as_that() -> None:
    told = tried(a_seen(selector={"matchLabels": {"pool": "x"}}), "n1")
    assert fate_of(told, "n1").state == "Unseen"
    assert fate_of(told, "n1").message == "no NodeHealthCheck selects the node"


def test_what_runs_on_dead_nodes_is_told_with_what_loses_all_of_its_pods_first() -> None:
    blast = tried(a_seen(), "n1", "n2").blast
    assert blast is not None
    assert (blast.pods, blast.of, blast.bare, blast.of_daemon_sets, blast.stateful_sets) == (5, 7, 1, 1, 1)
    assert [(one.kind, one.name, one.lost, one.of, one.is_gone) for one in blast.workloads] == [
        ("StatefulSet", "db", 2, 2, True),
        ("ReplicaSet", "web", 1, 3, False),
    ]


def test_without_pods_in_sight_nobody_counts_any() -> None:
    seen = msgspec.structs.replace(a_seen(), pods=None)
    assert tried(seen, "n1").blast is None


@pytest.mark.parametrize(
    ("mishap", "message"),
    [
        (Mishap(nodes=("n",)), "there is no node n; did you mean n1 or n2 or n3?"),
        (Mishap(nodes=("x77",)), "there is no node x77 among the 9 of the cluster (kubectl get nodes)"),
        (Mishap(zones=("A",)), "there is no zone A; the zones are a, b, c"),
        (Mishap(zones=("aa",)), "there is no zone aa; did you mean a?"),
    ],
)
def test_what_is_not_there_cannot_die(mishap: Mishap, message: str) -> None:
    with pytest.raises(NotDone) as caught:
        what_if(mishap, HALF_AN_HOUR, a_seen(), Rules(), source="")
    assert str(caught.value) == message


def test_without_zones_it_is_told_which_label_is_missing() -> None:
    async def scene(desk: Desk) -> Seen:
        add_node(desk.server, "n1")
        add_check(desk.server)
        return await look_at_all(desk.client, desk.clock, desk.rules, with_pods=True)

    with pytest.raises(
        NotDone, match=r"no node has the label topology\.kubernetes\.io/zone; name nodes with --kill-node"
    ):
        tried(at_the_desk(scene), zones=("a",))


def test_pods_leave_a_dead_node_where_pod_failover_is_the_remedy() -> None:
    told = tried(a_failover_cluster(), "n1")
    said = [what for _, what in story(told)]
    assert "1 pod deleted, to run elsewhere" in said
    (told_of_pods,) = fate_of(told, "n1").pods
    assert told_of_pods.startswith("ProofNeeded: ")


def a_failover_cluster() -> Seen:
    async def scene(desk: Desk) -> Seen:
        for number in range(1, 6):
            add_node(desk.server, f"n{number}")
        add_pods(desk)
        (definition,) = [one for one in definitions() if one["metadata"]["name"] == FAILOVER_TEMPLATES]
        desk.server.put(DEFINITIONS, definition)
        desk.server.put(
            FAILOVER_TEMPLATES,
            {"metadata": {"name": "failover", "namespace": "ns"}, "spec": {"template": {"spec": {}}}},
        )
        add_check(desk.server, remediationTemplate=FAILOVER)
        return await look_at_all(desk.client, desk.clock, desk.rules, with_pods=True)

    return at_the_desk(scene)
