"""A command talks to the server it was told, by the server's clock."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from defib.clock import SystemClock
from defib.config import Settings
from defib.console.acting_as import ActingAs
from defib.console.brake import pull
from defib.console.session import NotDone, connected
from defib.kube.kinds import NODES
from defib.simulate.faults import Fault, Refuse
from defib.simulate.http import serving
from defib.simulate.server import ApiServer


class Wrong:
    """The clock of a machine whose clock is wrong."""

    def __init__(self, by: timedelta) -> None:
        self._by = by
        self._right = SystemClock()

    def now(self) -> datetime:
        return self._right.now() + self._by

    def monotonic(self) -> float:
        return self._right.monotonic()

    def jitter(self, span: float) -> float:
        return self._right.jitter(span)


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(SystemClock())


@pytest.fixture
async def settings(server: ApiServer, tmp_path: Path) -> AsyncIterator[Settings]:
    async with serving(server) as front:
        yield Settings(kubeconfig=await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig"))


@pytest.mark.parametrize("by", [timedelta(hours=1), timedelta(days=-2), timedelta()])
async def test_the_servers_clock_counts(settings: Settings, by: timedelta) -> None:
    async with connected(settings, Wrong(by)) as session:
        assert abs(session.clock.now() - SystemClock().now()) < timedelta(seconds=10)


async def test_a_clock_that_is_nearly_right_is_left_alone(settings: Settings) -> None:
    clock = SystemClock()
    async with connected(settings, clock) as session:
        before, now, after = clock.now(), session.clock.now(), clock.now()
    assert before <= now <= after


async def test_a_person_need_not_repeat_what_a_busy_server_has_not_done(server: ApiServer, settings: Settings) -> None:
    server.put("namespaces", {"metadata": {"name": "defib-system"}})
    busy = Fault(effect=Refuse(code=429), verbs=("create", "patch"), times=2)
    server.faults.inject(busy)
    async with connected(settings, SystemClock()) as session:
        said = await pull(session.client, session.clock, "defib-system", "storage")
    assert said.startswith("Defib is paused")
    assert server.faults.struck(busy) == 2


async def test_what_the_server_refuses_is_one_line(settings: Settings) -> None:
    with pytest.raises(NotDone, match='nodes "nobody" not found'):
        async with connected(settings, SystemClock()) as session:
            await session.client.get(NODES.at("nobody"))


async def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    async with serving(ApiServer(SystemClock())) as front:
        kubeconfig = await asyncio.to_thread(front.write_kubeconfig, tmp_path / "kubeconfig")
    with pytest.raises(NotDone, match="connection refused"):
        async with connected(Settings(kubeconfig=kubeconfig), SystemClock()) as session:
            await session.client.get(NODES.at("nobody"))


async def test_a_command_in_somebody_elses_name_says_so_with_every_request(tmp_path: Path) -> None:
    heard: list[tuple[str | None, list[str]]] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append((request.headers.get("Impersonate-User"), request.headers.getall("Impersonate-Group", [])))
        return web.json_response({"kind": "List", "metadata": {}, "items": []})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as front:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(url=front.make_url("")))
        asked = ActingAs(kubeconfig=kubeconfig, as_user="bob", as_groups=("ops", "dev"))
        async with connected(asked, SystemClock()) as session:
            await session.client.list_all(NODES)
    assert set(map(str, heard)) == {str(("bob", ["ops", "dev"]))}
    assert len(heard) == 2  # the time, and the nodes


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{as: eve, as-groups: [admins]}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
