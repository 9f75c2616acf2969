"""Replicas that share the work follow the pods of the nodes that they look after, and of no others."""

from defib.coordinate.keys import ADMISSION
from defib.model.pod import PODS_ON, pods_on
from tests.sharded_replicas import Replicas, replicas_on, seconds
from tests.unit.three_nodes import FAILOVERS, HOME, Cluster3, play

NAMES = ("a", "b", "c")
NODES = tuple(f"n{number}" for number in range(1, 13))
PASS_SECONDS = 5.0


async def order_all(stage: Cluster3) -> None:
    """A person wants the pods of all nodes to be moved; they wait for a proof that the node is down."""
    for node in NODES:
        if stage.server.store.get("nodes", node) is None:
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            stage.server.put("nodes", {"metadata": {"name": node}, "status": ready})
        stage.put_pod(f"db-on-{node}", node)
        await stage.turn("Unknown", node)
        await stage.admin.create(FAILOVERS, {"metadata": {"name": node}, "spec": {}}, namespace=HOME)


def should_follow(replicas: Replicas, name: str) -> set[str]:
    holders = replicas.holders
    return {pods_on(node) for node in NODES if name in (holders.of_node(node), holders.of_node(ADMISSION))}


def follows(replicas: Replicas, name: str) -> set[str]:
    return {kind for kind in replicas[name].picture.cluster.others if kind.startswith(PODS_ON)}


def test_who_admits_follows_the_pods_of_all_nodes_and_the_others_those_in_their_buckets() -> None:
    async def scenario(stage: Cluster3) -> None:
        async with replicas_on(stage.server, stage.clock) as replicas:
            replicas.start(*NAMES)
            await replicas.settle()
            await order_all(stage)
            await seconds(PASS_SECONDS)
            admits = replicas.holders.of_node(ADMISSION)
            assert follows(replicas, admits) == {pods_on(node) for node in NODES}
            for name in NAMES:
                assert follows(replicas, name) == should_follow(replicas, name)
                assert all(
                    replicas[name].leadership.looks_after(node) == (pods_on(node) in follows(replicas, name))
                    for node in NODES
                )
            assert any(0 < len(follows(replicas, name)) < len(NODES) for name in NAMES)

    play(scenario)


def test_whoever_takes_over_follows_what_it_did_not() -> None:
    async def scenario(stage: Cluster3) -> None:
        async with replicas_on(stage.server, stage.clock) as replicas:
            replicas.start(*NAMES)
            await replicas.settle()
            await order_all(stage)
            admits = replicas.holders.of_node(ADMISSION)
            await replicas.stop(admits)
            await seconds(PASS_SECONDS)
            assert replicas.holders.unowned == []
            left = [name for name in NAMES if name != admits]
            assert [follows(replicas, name) for name in left] == [should_follow(replicas, name) for name in left]
            assert set.union(*(follows(replicas, name) for name in left)) == {pods_on(node) for node in NODES}

    play(scenario)
