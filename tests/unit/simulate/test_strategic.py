"""Strategic merge: what kubectl sends when it labels, cordons, taints and edits."""

from typing import Any

import pytest

from defib.simulate.patches import shapes
from defib.simulate.patches.strategic import strategic_merge
from defib.simulate.refusals import Refusal


def conditions(**states: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": state} for kind, state in states.items()]}}


def test_items_of_a_keyed_list_merge_by_their_key() -> None:
    merged = strategic_merge(conditions(Ready="True", Disk="False"), conditions(Disk="True"), shapes.NODE)
    assert merged == conditions(Ready="True", Disk="True")


def test_new_items_come_before_those_that_only_the_server_has() -> None:
    merged = strategic_merge(conditions(Scheduled="True"), conditions(Ready="True"), shapes.POD)
    assert merged == conditions(Ready="True", Scheduled="True")


def test_an_item_can_be_deleted_by_its_key() -> None:
    patch = {"status": {"conditions": [{"type": "Disk", "$patch": "delete"}]}}
    assert strategic_merge(conditions(Ready="True", Disk="False"), patch, shapes.NODE) == conditions(Ready="True")


def test_a_whole_keyed_list_can_be_replaced() -> None:
    patch = {"status": {"conditions": [{"$patch": "replace"}, {"type": "New", "status": "True"}]}}
    assert strategic_merge(conditions(Ready="True"), patch, shapes.NODE) == conditions(New="True")


def test_a_map_can_be_replaced_or_emptied() -> None:
    target = {"spec": {"a": 1, "b": 2}}
    assert strategic_merge(target, {"spec": {"$patch": "replace", "c": 3}}, shapes.NODE) == {"spec": {"c": 3}}
    assert strategic_merge(target, {"spec": {"$patch": "delete"}}, shapes.NODE) == {"spec": {}}


def test_taints_are_replaced_as_one_value() -> None:
    target = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    patch = {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}
    assert strategic_merge(target, patch, shapes.NODE) == patch


def test_finalizers_grow_and_shrink_one_by_one() -> None:
    target = {"metadata": {"finalizers": ["x/a"]}}
    grown = strategic_merge(target, {"metadata": {"finalizers": ["x/b"]}}, shapes.NODE)
    assert sorted(grown["metadata"]["finalizers"]) == ["x/a", "x/b"]
    shrunk = strategic_merge(grown, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}, shapes.NODE)
    assert shrunk["metadata"]["finalizers"] == ["x/b"]


def test_the_wanted_order_is_kept() -> None:
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": "C"}, {"type": "A"}],
            "conditions": [{"type": "C", "status": "True"}],
        }
    }
    assert strategic_merge(conditions(A="True"), patch, shapes.NODE) == conditions(C="True", A="True")


def test_only_the_retained_keys_of_a_volume_stay() -> None:
    target = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}
    merged = strategic_merge(target, patch, shapes.POD)
    assert merged == {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}


def test_nested_keyed_lists_merge_too() -> None:
    target = {"spec": {"containers": [{"name": "c", "image": "old", "env": [{"name": "A", "value": "1"}]}]}}
    patch = {"spec": {"containers": [{"name": "c", "image": "new", "env": [{"name": "B", "value": "2"}]}]}}
    container = strategic_merge(target, patch, shapes.POD)["spec"]["containers"][0]
    assert container["image"] == "new"
    assert {e["name"]: e["value"] for e in container["env"]} == {"A": "1", "B": "2"}


def test_null_removes() -> None:
    assert strategic_merge({"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}, shapes.NODE) == {
        "spec": {}
    }


def test_an_item_without_its_key_is_refused() -> None:
    with pytest.raises(Refusal, match="does not contain declared merge key: type"):
        strategic_merge({}, {"status": {"conditions": [{"status": "True"}]}}, shapes.NODE)
