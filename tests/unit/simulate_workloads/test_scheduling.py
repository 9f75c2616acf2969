"""The scheduler places pods where they fit, always in the same way, and says why when they fit nowhere."""

from tests.unit.simulate_workloads.stage import (
    DEPLOYMENTS,
    NODES,
    PODS,
    a_pod,
    a_pod_spec,
    a_workload,
    node_of,
    says,
)
from tests.unit.simulate_workloads.virtual import VirtualStage, play

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
GPU = {"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}


async def place(stage: VirtualStage, name: str, **spec: object) -> str:
    """Where a new pod goes; empty when nowhere."""
    labels = spec.pop("labels", None)
    assert labels is None or isinstance(labels, dict)
    await stage.make(PODS, a_pod(name, labels=labels, **spec))
    await stage.pass_time(1)
    return node_of((await stage.pods())[name])


async def why_not(stage: VirtualStage, name: str) -> str:
    condition = says((await stage.pods())[name], "PodScheduled")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    return str(condition["message"])


def required(**terms: object) -> dict[str, object]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": value} for kind, value in terms.items()}


def together(key: str, **labels: str) -> list[dict[str, object]]:
    return [{"topologyKey": key, "labelSelector": {"matchLabels": labels}}]


def test_the_node_with_the_fewest_pods_wins_then_the_first_by_name() -> None:
    async def story(stage: VirtualStage) -> None:
        for name in ("n2", "n1", "n3"):
            await stage.add_node(name)
        assert [await place(stage, f"p{number}") for number in range(4)] == ["n1", "n2", "n3", "n1"]

    play(story)


def test_a_pod_waits_for_a_node_that_fits_and_is_placed_when_one_comes() -> None:
    async def story(stage: VirtualStage) -> None:
        assert await place(stage, "p") == ""
        assert await why_not(stage, "p") == "no nodes available to schedule pods"
        await stage.add_node("n1")
        await stage.pass_time(1)
        pod = (await stage.pods())["p"]
        assert (node_of(pod), says(pod, "PodScheduled")["status"]) == ("n1", "True")

    play(story)


def test_node_selector_and_affinity_are_obeyed() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1", zone="a")
        await stage.add_node("n2", zone="b")
        assert await place(stage, "selected", nodeSelector={ZONE: "b"}) == "n2"
        not_a = {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]}
        affinity = required(nodeAffinity={"nodeSelectorTerms": [not_a]})
        assert await place(stage, "drawn", affinity=affinity) == "n2"
        assert await place(stage, "lost", nodeSelector={ZONE: "c"}) == ""
        expected = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
        assert await why_not(stage, "lost") == expected

    play(story)


def test_taints_keep_pods_away_that_do_not_tolerate_them() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.taint("n1", GPU)
        assert await place(stage, "plain") == ""
        toleration = {"key": "example.com/gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
        assert await place(stage, "fitting", tolerations=[toleration]) == "n1"
        await stage.taint("n1")
        await stage.pass_time(1)
        assert node_of((await stage.pods())["plain"]) == "n1"

    play(story)


def test_nodes_that_are_cordoned_or_not_ready_get_no_pods() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.add_node("n2")
        await stage.change(NODES, "n1", {"spec": {"unschedulable": True}})
        await stage.set_ready("n2", "Unknown")
        assert await place(stage, "p") == ""
        await stage.set_ready("n2", "True")
        await stage.pass_time(1)
        assert node_of((await stage.pods())["p"]) == "n2"

    play(story)


def test_a_full_node_takes_no_more_until_a_pod_leaves() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1", most_pods=1)
        assert await place(stage, "first") == "n1"
        assert await place(stage, "second") == ""
        assert await why_not(stage, "second") == "0/1 nodes are available: 1 Too many pods."
        await stage.delete(PODS, "first", grace_seconds=0)
        await stage.pass_time(1)
        assert node_of((await stage.pods())["second"]) == "n1"

    play(story)


def test_requests_must_fit_into_what_is_left() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        big = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "5000m", "memory": "1Gi"}}}
        assert await place(stage, "first", containers=[big]) == "n1"
        assert await place(stage, "second", containers=[big]) == ""
        assert await why_not(stage, "second") == "0/1 nodes are available: 1 Insufficient cpu."
        assert await place(stage, "third") == "n1"

    play(story)


def test_pods_that_keep_apart_share_no_domain() -> None:
    async def story(stage: VirtualStage) -> None:
        for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
            await stage.add_node(name, zone=zone)
        affinity = required(podAntiAffinity=together(ZONE, app="db"))
        spec = a_pod_spec(affinity=affinity)
        await stage.make(DEPLOYMENTS, a_workload("db", 3, spec=spec))
        await stage.pass_time(1)
        placed = sorted(node_of(pod) for pod in (await stage.pods()).values())
        assert placed == ["", "n1", "n3"]

    play(story)


def test_who_wants_to_be_alone_is_left_alone() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        affinity = required(podAntiAffinity=together(HOST, noise="loud"))
        assert await place(stage, "shy", affinity=affinity) == "n1"
        assert await place(stage, "quiet", labels={"noise": "none"}) == "n1"
        assert await place(stage, "loud", labels={"noise": "loud"}) == ""

    play(story)


def test_pods_that_stay_together_share_a_domain() -> None:
    async def story(stage: VirtualStage) -> None:
        for name in ("n1", "n2"):
            await stage.add_node(name)
        affinity = required(podAffinity=together(HOST, app="pair"))
        placed = [await place(stage, f"p{n}", labels={"app": "pair"}, affinity=affinity) for n in range(3)]
        assert placed == ["n1", "n1", "n1"]

    play(story)


def test_a_hard_spread_constraint_is_kept() -> None:
    async def story(stage: VirtualStage) -> None:
        for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
            await stage.add_node(name, zone=zone)
        rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        rule["labelSelector"] = {"matchLabels": {"app": "web"}}
        for number in range(4):
            await place(stage, f"p{number}", labels={"app": "web"}, topologySpreadConstraints=[rule])
        zones = {"n1": "a", "n2": "a", "n3": "b"}
        placed = [zones[node_of(pod)] for pod in (await stage.pods()).values()]
        assert sorted(placed) == ["a", "a", "b", "b"]

    play(story)


def test_important_pods_are_placed_first() -> None:
    async def story(stage: VirtualStage) -> None:
        for name, priority in (("low", 0), ("high", 100)):
            await stage.make(PODS, a_pod(name, priority=priority))
        await stage.add_node("n1", most_pods=1)
        await stage.pass_time(1)
        assert {name: node_of(pod) for name, pod in (await stage.pods()).items()} == {"high": "n1", "low": ""}

    play(story)


def test_a_pod_of_another_scheduler_is_not_touched() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        assert await place(stage, "p", schedulerName="my-scheduler") == ""
        assert says((await stage.pods())["p"], "PodScheduled") == {}

    play(story)
