"""A dump of a live cluster: what is in it, what is not, and that it can be planned and replayed."""

import asyncio
import gzip
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from defib.console.dump import Dumped, record
from defib.console.plan import PlanTold, plan_of_dump, tell_plan
from defib.console.recording import read_recording
from defib.console.replay import replay
from defib.console.session import NotDone
from defib.console.thorough import look_at_all
from defib.kube.kinds import PODS
from defib.simulate.server import ApiServer
from tests.unit.console.desk import TEMPLATES, Desk, add_check, add_node, add_nodes, at_the_desk, put_config

NOW = timedelta()


def add_pod(server: ApiServer, node: str) -> None:
    container = {"name": "c", "image": "i", "env": [{"name": "X", "value": "letmein"}]}
    server.put(
        str(PODS), {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": node, "containers": [container]}}
    )


def test_it_holds_the_look_the_plan_the_settings_and_the_pods(tmp_path: Path) -> None:
    path = tmp_path / "d.json.gz"

    async def scene(desk: Desk) -> tuple[Dumped, PlanTold]:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        add_pod(desk.server, "n2")
        dumped = await record(path, NOW, desk.client, desk.clock, desk.rules)
        seen = await look_at_all(desk.client, desk.clock, desk.rules, with_pods=False)
        return dumped, tell_plan(seen, desk.rules, source=str(path))

    dumped, live = at_the_desk(scene)
    assert (dumped.frames, dumped.nodes, dumped.pods, dumped.unknown) == (1, 5, 1, ())
    assert dumped.bytes == path.stat().st_size
    assert plan_of_dump(path) == live
    assert [deed.what for deed in live.all_deeds if deed.effect == "acts"] == [
        "remediate node n1: create FooRemediation ns/n1, because Ready is Unknown since 23:00:00 UTC"
    ]
    assert replay(path).is_same
    recording = read_recording(path)
    assert recording.header.rules == Desk.__struct_defaults__[0]
    assert list(recording.pods or ()) == ["n2"]


def test_nothing_gets_in_that_nobody_reads_and_no_secret_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "d.json.gz"

    async def scene(desk: Desk) -> ApiServer:
        annotations = {"kubectl.kubernetes.io/last-applied-configuration": "letmein", "bmc/password": "letmein"}
        add_node(desk.server, "n1", annotations=annotations)
        add_pod(desk.server, "n1")
        add_check(desk.server)
        put_config(desk.server, "notes", text="letmein")
        spec = {"template": {"spec": {"size": 1, "note": "password=letmein"}}}
        desk.server.put(TEMPLATES, {"metadata": {"name": "other", "namespace": "ns"}, "spec": spec})
        await record(path, NOW, desk.client, desk.clock, desk.rules)
        return desk.server

    server = at_the_desk(scene)
    assert b"letmein" not in gzip.decompress(path.read_bytes())
    assert not [asked.path for asked in server.audit if "secrets" in asked.path]
    assert {asked.verb for asked in server.audit} <= {"get", "list"}


def test_for_a_while_it_records_every_change(tmp_path: Path) -> None:
    path = tmp_path / "d.json.gz"

    async def scene(desk: Desk) -> Dumped:
        add_nodes(desk.server)
        add_check(desk.server)
        return await record(path, timedelta(seconds=25), desk.client, desk.clock, desk.rules)

    assert at_the_desk(scene).frames == 4
    told = replay(path)
    assert told.is_same
    seconds = [(frame.now - told.frames[0].now).total_seconds() for frame in told.frames]
    assert seconds == [0, 10, 20, 25]


def test_a_recording_goes_on_while_the_api_server_is_away(tmp_path: Path) -> None:
    path = tmp_path / "d.json.gz"

    async def scene(desk: Desk) -> Dumped:
        add_nodes(desk.server)
        add_check(desk.server)
        async with asyncio.TaskGroup() as group:
            recording = group.create_task(record(path, timedelta(minutes=5), desk.client, desk.clock, desk.rules))
            await asyncio.sleep(5)  # virtual: after the first look
            desk.server.stop()
            await asyncio.sleep(60)  # virtual
            desk.server.start()
        return recording.result()

    dumped = at_the_desk(scene)
    assert "nothing could be read: " in dumped.unknown[0]
    assert replay(path).is_same
    assert 1 < len(replay(path).frames) == dumped.frames


def test_a_recording_that_is_broken_off_keeps_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "d.json.gz"

    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_check(desk.server)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(15):
                await record(path, timedelta(hours=1), desk.client, desk.clock, desk.rules)

    at_the_desk(scene)
    assert len(replay(path).frames) == 2


def test_what_may_not_be_read_is_noted_and_the_rest_is_dumped(tmp_path: Path) -> None:
    async def scene(desk: Desk) -> Dumped:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        desk.refuse("pods", "list")
        desk.refuse("configmaps", "list")
        return await record(tmp_path / "d", NOW, desk.client, desk.clock, desk.rules)

    dumped = at_the_desk(scene)
    assert dumped.pods is None
    assert [note.partition(" could")[0] for note in dumped.unknown] == ["the ConfigMaps of defib-system", "pods"]


def test_without_nodes_there_is_no_dump_and_no_half_a_file(tmp_path: Path) -> None:
    async def scene(desk: Desk) -> Any:
        desk.refuse("nodes", "list")
        return await record(tmp_path / "d", NOW, desk.client, desk.clock, desk.rules)

    with pytest.raises(NotDone, match="ask for the right to list it"):
        at_the_desk(scene)
    assert list(tmp_path.iterdir()) == []


def test_where_another_version_decides_otherwise_replay_says_what(tmp_path: Path) -> None:
    path = tmp_path / "d.json.gz"

    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        await record(path, NOW, desk.client, desk.clock, desk.rules)

    at_the_desk(scene)
    header, pods, frame, end = gzip.decompress(path.read_bytes()).splitlines()
    changed = msgspec.json.decode(frame)
    actions = changed["decided"]["actions"]
    actions["remediate n9 for workers by FooRemediation n9"] = actions.pop(
        "remediate n1 for workers by FooRemediation n1"
    )
    actions["status workers"]["version"] = "0"
    changed["decided"]["verdicts"]["workers"]["n2"] = "Suspect (x): y"
    path.write_bytes(gzip.compress(b"\n".join([header, pods, msgspec.json.encode(changed), end, b""])))
    told = replay(path)
    assert not told.is_same
    (frame_told,) = told.frames
    assert [line.partition(": version")[0] for line in frame_told.differences] == [
        "no longer done: remediate n9 for workers by FooRemediation n9",
        "newly done: remediate n1 for workers by FooRemediation n1",
        "done otherwise: status workers",
        "check workers, node n2: now well; then Suspect (x): y",
    ]
