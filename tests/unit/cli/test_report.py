"""`defib report` as a person types it: the text, what machines read, dumps, and what goes wrong."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from defib.clock import SystemClock
from defib.model.health_check import Spell
from defib.simulate.faults import Fault, Refuse
from defib.simulate.server import ApiServer
from tests.unit.cli.at_the_prompt import Defib
from tests.unit.console.desk import CHECKS, a_server, add_check, add_nodes

MINUTE = timedelta(minutes=1)
ZONE = "topology.kubernetes.io/zone"


def remembered(server: ApiServer, *lengths: float, **more: Any) -> list[Any]:
    """Spells of n1, n2 and so on, each so many seconds long, in the last hours."""
    now = server.clock.now().replace(microsecond=0)
    began = [now - (len(lengths) - place) * 20 * MINUTE for place in range(len(lengths))]
    spells = [
        Spell(
            node=f"n{place + 1}",
            type="Ready",
            status="Unknown",
            began=at,
            ended=at + timedelta(seconds=length),
            healed=True,
            **more,
        )
        for place, (at, length) in enumerate(zip(began, lengths, strict=True))
    ]
    return list(msgspec.to_builtins(spells))


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    """Four nodes have flapped, and one was away for a quarter of an hour."""
    monkeypatch.delenv("COLUMNS", raising=False)  # of whoever runs the tests
    server = a_server(SystemClock())
    add_nodes(server)
    status = {"observedNodes": 5, "spells": remembered(server, 12, 15, 25, 45, 900)}
    add_check(server, mode="Observe", status=status)
    return server


async def test_a_report_says_what_each_duration_would_have_done_and_recommends_one(defib: Defib) -> None:
    code, out, err = await defib("report")
    assert (code, err) == (0, "")
    assert out.startswith("Report on the cluster as it is now\n")
    assert "\nCheck workers, mode Observe\n  remembers    5 spells of illness, since " in out
    assert "\n  Ready        5 outages, 5 came back by themselves, the longest after 15m\n" in out
    assert "\n  advice       1m: it would have acted once, and of those none is known to have come back soon" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["10s", "5", "4", "1", "0", "0", "14m50s"] in rows
    assert ["1m", "1", "0", "1", "0", "0", "14m"] in rows
    assert ["5m", "now", "1", "0", "1", "0", "0", "10m"] in rows
    assert "\n  budget       1 of 5 nodes ill at once at most; now up to 3 may be\n" in out
    assert out.endswith("Worked out from what the checks remember. Nothing was changed.\n")


async def test_machines_read_the_same(defib: Defib) -> None:
    as_json = msgspec.json.decode((await defib("report", "-o", "json"))[1])
    as_yaml = yaml.safe_load((await defib("report", "-o", "yaml"))[1])
    assert as_json["checks"][0]["pools"][0]["conditions"][0]["advice"]["duration"] == "1m"
    assert as_json["checks"][0].keys() == as_yaml["checks"][0].keys()


async def test_a_dump_remembers_as_well(defib: Defib, tmp_path: Path) -> None:
    file = str(tmp_path / "d.json.gz")
    assert (await defib("dump", file))[0] == 0
    code, out, err = await defib("report", "workers", "--dump", file)
    assert (code, err) == (0, "")
    assert out.startswith("Report on dump ")
    assert "advice       1m: " in out


async def test_nodes_can_be_told_apart_by_a_label(defib: Defib, server: ApiServer) -> None:
    for name in ("n1", "n2"):
        node = server.store.collection("nodes").objects[name].object
        meta = {**node["metadata"], "labels": {**node["metadata"]["labels"], ZONE: "a"}}
        server.store.put("nodes", {**node, "metadata": meta})
    code, out, _ = await defib("report", "--by", ZONE)
    assert code == 0
    assert f"\n  {ZONE}=a\n  outages      2 of 2 nodes\n" in out
    assert f"\n  {ZONE}=(not known: the node is gone, or has no such label)\n  outages      3 of 3 nodes\n" in out
    assert "too little history: 2 outages are written down, and 5 are needed to say anything" in out


async def test_what_was_remediated_is_shown_as_not_known(defib: Defib, server: ApiServer) -> None:
    now = server.clock.now().replace(microsecond=0)
    status = {"observedNodes": 5, "spells": remembered(server, 600, remediated=now - 19 * MINUTE)}
    add_check(server, "second", status=status)
    _, out, _ = await defib("report", "second")
    rows = [line.split() for line in out.splitlines()]
    assert ["10s", "1", "0", "0", "1", "0", "50s"] in rows
    assert ["2m", "0", "0", "0", "0+1", "0", "0s"] in rows


async def test_a_check_that_remembers_nothing_and_a_cluster_without_checks_say_so(
    defib: Defib, server: ApiServer
) -> None:
    add_check(server, "new")
    _, out, _ = await defib("report", "new")
    assert "not known    nothing is written down: no operator has seen an unhealthy node yet" in out
    assert "advice" not in out
    for item in list(server.store.collection(CHECKS).objects.values()):
        server.store.remove(CHECKS, item.object)
    _, out, _ = await defib("report")
    assert "checks       there is no NodeHealthCheck to report on" in out


async def test_a_check_that_makes_no_sense_is_named_and_the_others_are_told(defib: Defib, server: ApiServer) -> None:
    item = server.store.collection(CHECKS).objects["workers"].object
    broken = {**item, "metadata": {**item["metadata"], "name": "broken", "uid": "other"}, "spec": {"mode": "What"}}
    server.store.put(CHECKS, broken)
    code, out, _ = await defib("report")
    assert code == 0
    assert "not known    check broken makes no sense, so nobody can say what it would do: spec." in out
    assert "Check workers, mode Observe" in out


async def test_a_check_that_is_not_there_is_said_to_be_missing_with_what_may_have_been_meant(defib: Defib) -> None:
    assert await defib("report", "worker") == (
        1,
        "",
        "defib: there is no NodeHealthCheck worker; did you mean workers?\n",
    )
    code, _, err = await defib("report", "zzz")
    assert (code, err) == (
        1,
        "defib: there is no NodeHealthCheck zzz among the 1 of the cluster (kubectl get nhc)\n",
    )


async def test_who_may_not_list_checks_is_told_what_to_ask_for(defib: Defib, server: ApiServer) -> None:
    server.faults.inject(Fault(effect=Refuse(code=403, message="no"), verbs=("list",), resource=CHECKS))
    code, out, err = await defib("report")
    assert (code, out) == (1, "")
    assert err.endswith(f"ask for the right to list it (kubectl auth can-i list {CHECKS})\n")


async def test_a_cluster_without_the_kind_is_told_how_to_get_it(defib: Defib, server: ApiServer) -> None:
    server.faults.inject(Fault(effect=Refuse(code=404, message="no"), verbs=("list",), resource=CHECKS))
    code, _, err = await defib("report")
    assert code == 1
    assert err == (
        "defib: the cluster has no NodeHealthChecks: their CRD is not installed (kubectl apply -f deploy/crds)\n"
    )


async def test_nothing_is_written_to_the_cluster(defib: Defib, server: ApiServer) -> None:
    before = len(server.audit.writes())
    await defib("report", "--by", ZONE)
    assert len(server.audit.writes()) == before
