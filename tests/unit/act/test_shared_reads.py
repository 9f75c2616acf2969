"""Many who ask after one object at once share a read, and nobody is ever answered by one that began before the question."""

import asyncio

import pytest

from defib.act.outcome import Done
from defib.act.shared_reads import SharedReads
from defib.kube.errors import ServerFailed
from defib.kube.kinds import NODES
from defib.model.action import MovePod
from defib.model.mandate import Mandate
from defib.simulate.faults import Fault, Refuse
from tests.unit.act.stage import Stage, play


class Server:
    """Answers when it is told to. Each answer is the number of its read."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self._answers: list[asyncio.Future[int]] = []

    async def read(self, name: str) -> int:
        self.began.append(name)
        self._answers.append(asyncio.get_running_loop().create_future())
        return await self._answers[-1]

    def answer(self, place: int) -> None:
        self._answers[place].set_result(place)


class Crowd:
    def __init__(self, group: asyncio.TaskGroup, server: Server) -> None:
        self._group = group
        self._server = server
        self._reads = SharedReads()

    def asks(self, count: int, name: str = "n1") -> list[asyncio.Task[int]]:
        return [self._group.create_task(self._ask(name)) for _ in range(count)]

    async def _ask(self, name: str) -> int:
        return await self._reads.ask(name, lambda: self._server.read(name))


def answers(tasks: list[asyncio.Task[int]]) -> set[int]:
    return {task.result() for task in tasks}


async def until_all_wait() -> None:
    """Each step of a task needs a turn of the loop; a few hundred are enough for everybody here."""
    for _ in range(300):
        await asyncio.sleep(0)


async def test_those_who_ask_in_the_same_moment_share_one_read() -> None:
    server = Server()
    async with asyncio.TaskGroup() as group:
        asked = Crowd(group, server).asks(64)
        await until_all_wait()
        server.answer(0)
    assert server.began == ["n1"]
    assert answers(asked) == {0}


async def test_who_asks_while_a_read_is_under_way_is_answered_by_the_next_one() -> None:
    server = Server()
    async with asyncio.TaskGroup() as group:
        crowd = Crowd(group, server)
        first = crowd.asks(2)
        await until_all_wait()
        later = crowd.asks(30)
        await until_all_wait()
        assert server.began == ["n1"]
        server.answer(0)
        await until_all_wait()
        server.answer(1)
    assert (answers(first), answers(later)) == ({0}, {1})
    assert server.began == ["n1", "n1"]


async def test_an_answer_is_kept_for_nobody_who_comes_later() -> None:
    server = Server()
    async with asyncio.TaskGroup() as group:
        crowd = Crowd(group, server)
        first = crowd.asks(1)
        await until_all_wait()
        server.answer(0)
        await until_all_wait()
        later = crowd.asks(1)
        await until_all_wait()
        server.answer(1)
    assert (answers(first), answers(later)) == ({0}, {1})


async def test_reads_of_different_objects_do_not_wait_for_each_other() -> None:
    server = Server()
    async with asyncio.TaskGroup() as group:
        crowd = Crowd(group, server)
        one, other = crowd.asks(3, "n1"), crowd.asks(3, "n2")
        await until_all_wait()
        assert server.began == ["n1", "n2"]
        server.answer(1)
        await until_all_wait()
        assert [task.done() for task in (*one, *other)] == [False] * 3 + [True] * 3
        server.answer(0)


async def test_when_the_one_who_reads_is_stopped_the_next_reads_anew() -> None:
    server = Server()
    async with asyncio.TaskGroup() as group:
        stopped, *others = Crowd(group, server).asks(4)
        await until_all_wait()
        stopped.cancel()
        await until_all_wait()
        assert server.began == ["n1", "n1"]
        server.answer(1)
    assert stopped.cancelled()
    assert answers(others) == {1}


def put_pods(stage: Stage, count: int) -> list[MovePod]:
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}]}
    names = [f"web-{number}" for number in range(count)]
    for name in names:
        stage.server.put("pods", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    return [
        MovePod(
            node="n1",
            node_uid=stage.uid("nodes", "n1"),
            namespace="default",
            name=name,
            uid=stage.uid("pods", f"default/{name}"),
            because="a test",
            since=stage.clock.now(),
        )
        for name in names
    ]


def test_a_live_read_of_the_node_comes_before_every_deletion_of_its_pods() -> None:
    async def scenario(stage: Stage) -> None:
        moves = put_pods(stage, 50)
        executor, all_ended = stage.executor(), asyncio.Event()
        stage.then = lambda _: all_ended.set() if len(stage.ended) == len(moves) else None
        async with asyncio.TaskGroup() as group:
            running = group.create_task(executor.run())
            await until_all_wait()
            executor.carry_out(moves, Mandate("test"))
            await all_ended.wait()
            running.cancel()
        assert [outcome for _, outcome in stage.ended] == [Done()] * 50
        assert stage.asked() == ["get nodes 200"] + ["delete pods 200"] * 50

    play(scenario)


def test_a_read_that_fails_fails_for_all_who_share_it() -> None:
    async def scenario(stage: Stage) -> None:
        stage.fault(Fault(effect=Refuse(code=500), verbs=("get",), resource="nodes"))
        means = stage.means()

        async def refused() -> None:
            with pytest.raises(ServerFailed):
                await means.live_for_many(NODES.at("n1"))

        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(refused())
        assert len(stage.asked()) < 20  # one read, as often as it is repeated after such an answer

    play(scenario)
