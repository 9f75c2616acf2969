"""The controllers of the embedded server where the contract suite does not look: the arithmetic of budgets, corners of collection."""

import pytest

from defib.simulate import controllers
from defib.simulate.server import ApiServer
from tests.unit.simulate.asking import CONFIG_MAPS, NODES, PODS, Asker, Json, a_pod, owned_by, simulated

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


async def a_ready_pod(asker: Asker, name: str, **owner: Json) -> Json:
    pod = a_pod(name, app="a")
    pod["metadata"].update(owner)
    await asker.create(PODS, pod)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await asker.merge(f"{PODS}/{name}/status", {"status": status})


async def a_budget(asker: Asker, **limit: int | str) -> None:
    spec = {**limit, "selector": {"matchLabels": {"app": "a"}}}
    await asker.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})


async def counted(asker: Asker) -> tuple[int, int, int]:
    status = (await asker.get(f"{BUDGETS}/b"))["status"]
    return status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"]


async def evict(asker: Asker, name: str) -> int:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return (await asker.ask("POST", f"{PODS}/{name}/eviction", body))[0]


def test_a_budget_counts_ready_pods_and_grants_what_it_can_spare() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[object]:
        controllers.attach(server)
        await a_budget(asker, minAvailable=1)
        seen: list[object] = [await counted(asker)]
        for name in ("p1", "p2"):
            await a_ready_pod(asker, name)
        seen.append(await counted(asker))
        seen.append([await evict(asker, "p1"), await evict(asker, "p2")])
        seen.append(await counted(asker))
        return seen

    assert simulated(story) == [(0, 1, 0), (2, 1, 1), [201, 429], (1, 1, 0)]


@pytest.mark.parametrize(
    ("limit", "desired"),
    [
        ({"maxUnavailable": 1}, 3),
        ({"maxUnavailable": "30%"}, 2),
        ({"minAvailable": "60%"}, 3),
        ({"maxUnavailable": "100%"}, 0),
    ],
)
def test_a_share_is_of_what_the_owner_wishes_for(limit: dict[str, int | str], desired: int) -> None:
    async def story(server: ApiServer, asker: Asker) -> int:
        controllers.attach(server)
        selector = {"matchLabels": {"app": "a"}}
        spec = {"replicas": 4, "selector": selector, "template": {}}
        deployment = await asker.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
        above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": deployment["metadata"]["uid"]}
        meta = {"name": "r", "ownerReferences": [{**above, "controller": True}]}
        replica_set = await asker.create(REPLICA_SETS, {"metadata": meta, "spec": {**spec, "replicas": 1}})
        owner = {**owned_by(replica_set, "ReplicaSet")["ownerReferences"][0], "controller": True}
        await a_ready_pod(asker, "p1", ownerReferences=[owner])  # type: ignore[arg-type]
        await a_budget(asker, **limit)
        return (await counted(asker))[1]

    assert simulated(story) == desired


def test_a_pod_that_is_going_is_not_healthy_any_more() -> None:
    async def story(server: ApiServer, asker: Asker) -> tuple[int, int, int]:
        controllers.attach(server)
        await a_budget(asker, minAvailable=0)
        await a_ready_pod(asker, "p1")
        await asker.delete(f"{PODS}/p1")
        return await counted(asker)

    assert simulated(story) == (0, 0, 0)


def test_collection_goes_down_all_generations() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[bool]:
        controllers.attach(server)
        top = await asker.create(NODES, {"metadata": {"name": "top"}})
        middle = await asker.create(CONFIG_MAPS, {"metadata": {"name": "middle", **owned_by(top, "Node")}})
        await asker.create(CONFIG_MAPS, {"metadata": {"name": "bottom", **owned_by(middle, "ConfigMap")}})
        await asker.delete(f"{NODES}/top")
        return [await asker.exists(f"{CONFIG_MAPS}/{name}") for name in ("middle", "bottom")]

    assert simulated(story) == [False, False]


def test_in_the_foreground_a_held_dependent_holds_its_owner() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[bool]:
        controllers.attach(server)
        owner = await asker.create(CONFIG_MAPS, {"metadata": {"name": "owner"}})
        meta = {"name": "held", "finalizers": ["x.y/z"], **owned_by(owner, "ConfigMap", blocks=True)}
        await asker.create(CONFIG_MAPS, {"metadata": meta})
        await asker.delete(f"{CONFIG_MAPS}/owner", propagationPolicy="Foreground")
        before = await asker.exists(f"{CONFIG_MAPS}/owner")
        await asker.merge(f"{CONFIG_MAPS}/held", {"metadata": {"finalizers": None}})
        return [before, await asker.exists(f"{CONFIG_MAPS}/owner")]

    assert simulated(story) == [True, False]


def test_controllers_know_what_was_there_before_them() -> None:
    async def story(server: ApiServer, asker: Asker) -> bool:
        owner = await asker.create(NODES, {"metadata": {"name": "n"}})
        await asker.create(CONFIG_MAPS, {"metadata": {"name": "c", **owned_by(owner, "Node")}})
        controllers.attach(server)
        await asker.delete(f"{NODES}/n")
        return await asker.exists(f"{CONFIG_MAPS}/c")

    assert not simulated(story)
