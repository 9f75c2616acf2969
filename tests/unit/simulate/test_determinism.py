"""The same seed gives the same run, byte for byte."""

import asyncio

import msgspec

from defib.kube.errors import Unreachable
from defib.simulate import controllers
from defib.simulate.faults import Fault, LoseAnswer, Refuse, Slow
from defib.simulate.server import ApiServer
from tests.unit.simulate.asking import CONFIG_MAPS, LEASES, NODES, Asker, owned_by, simulated


async def a_busy_life(server: ApiServer, asker: Asker) -> tuple[bytes, bytes]:
    """Several clients, faults by chance, generated names, controllers: everything that could differ."""
    controllers.attach(server)
    server.faults.inject(
        Fault(effect=Refuse(code=500), chance=0.1),
        Fault(effect=Slow(seconds=1, jitter_seconds=3), chance=0.3),
        Fault(effect=LoseAnswer(), verbs=("create",), chance=0.2),
    )
    server.put("nodes", {"metadata": {"name": "owner"}})
    owner = msgspec.json.decode(msgspec.json.encode(server.store.get("nodes", "owner").object))  # type: ignore[union-attr]

    async def work(client: str) -> None:
        mine = Asker(server, client)
        for number in range(20):
            await asyncio.sleep(server.clock.jitter(5))
            try:
                await mine.ask("POST", LEASES, {"metadata": {"generateName": f"{client}-"}})
                await mine.ask("POST", CONFIG_MAPS, {"metadata": {"name": f"c{number}", **owned_by(owner, "Node")}})
                await mine.ask("DELETE", f"{CONFIG_MAPS}/c{number // 2}")
            except Unreachable:
                continue

    async with asyncio.TaskGroup() as group:
        for client in ("one", "two", "three"):
            group.create_task(work(client))
    await asker.delete(f"{NODES}/owner")
    stored = {name: list(c.at(server.store.revision).values()) for name, c in server.store.collections().items()}
    objects = {name: [version.object for version in versions] for name, versions in stored.items()}
    return msgspec.json.encode(list(server.audit)), msgspec.json.encode(objects)


def test_the_same_seed_gives_the_same_audit_and_the_same_store() -> None:
    assert simulated(a_busy_life, seed=11) == simulated(a_busy_life, seed=11)


def test_another_seed_gives_another_run() -> None:
    assert simulated(a_busy_life, seed=11) != simulated(a_busy_life, seed=12)


def test_the_audit_tells_who_wrote_what() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[tuple[str, str, str, int]]:
        watcher = Asker(server, "watcher")
        await asker.create(NODES, {"metadata": {"name": "a"}})
        await watcher.get(f"{NODES}/a")
        await asker.ask("POST", NODES, {"metadata": {"name": "a"}})
        assert server.audit.writes("watcher") == []
        return [(a.client, a.verb, a.path, a.status) for a in server.audit]

    assert simulated(story) == [
        ("tester", "create", NODES, 201),
        ("watcher", "get", f"{NODES}/a", 200),
        ("tester", "create", NODES, 409),
    ]


def test_the_audit_is_bounded() -> None:
    async def story(server: ApiServer, _asker: Asker) -> int:
        small = ApiServer(server.clock, audited=3)
        asker = Asker(small)
        for _ in range(9):
            await asker.get(NODES)
        return len(list(small.audit))

    assert simulated(story) == 3
