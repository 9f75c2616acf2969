"""What a person sees: tables, ages, printer columns."""

from datetime import timedelta
from typing import Any

import pytest

from defib.simulate.kinds.metadata import stamp
from defib.simulate.views import json_path
from defib.simulate.views.tables import age
from defib.simulate.virtual_time import START
from tests.unit.simulate.asking import NODES, Asker, simulated

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (190, "3m10s"),
        (3600, "60m"),
        (4 * 3600 + 300, "4h5m"),
        (20 * 3600, "20h"),
        (3 * 86400 + 3600, "3d1h"),
        (100 * 86400, "100d"),
        (800 * 86400, "2y70d"),
        (-1, "0s"),
        (-60, "<invalid>"),
    ],
)
def test_an_age_is_told_as_kubectl_tells_it(seconds: int, shown: str) -> None:
    assert age(stamp(START), START + timedelta(seconds=seconds)) == shown


def test_nothing_has_an_unknown_age() -> None:
    assert age(None, START) == "<unknown>"


DOCUMENT: dict[str, Any] = {
    "spec": {"size": 3, "list": [{"n": 1}, {"n": 2}], "a.b": "dotted"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        ("spec.size", [3]),
        (".spec.list[1].n", [2]),
        (".spec.list[*].n", [1, 2]),
        (".spec.list[-1].n", [2]),
        (".spec.list[7].n", []),
        (".spec.a\\.b", ["dotted"]),
        (".spec['a.b']", ["dotted"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Disk')].status", ["False"]),
        (".none.at.all", []),
    ],
)
def test_a_column_finds_its_value(path: str, found: list[Any]) -> None:
    assert json_path.find(path, DOCUMENT) == found


def test_a_node_is_shown_with_its_state_and_roles() -> None:
    async def story(server: Any, _asker: Asker) -> list[Any]:
        labels = {"node-role.kubernetes.io/worker": ""}
        status = {"conditions": [{"type": "Ready", "status": "Unknown"}], "nodeInfo": {"kubeletVersion": "v1"}}
        server.put(
            "nodes", {"metadata": {"name": "n", "labels": labels}, "spec": {"unschedulable": True}, "status": status}
        )
        version = server.store.get("nodes", "n")
        table = server.printer.table(server.catalog.of_resource("nodes"), [version], {})
        cells: list[Any] = table["rows"][0]["cells"][:5]
        return cells

    assert simulated(story) == ["n", "NotReady,SchedulingDisabled", "worker", "0s", "v1"]
    assert NODES
