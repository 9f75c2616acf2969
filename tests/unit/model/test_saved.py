"""What a node had before it was deleted comes back, and nothing that it has got since is lost."""

import msgspec
import pytest

from defib.model.meta import Meta
from defib.model.node import OUT_OF_SERVICE_TAINT, Node, NodeSpec, Taint
from defib.model.saved import Saved, is_restored, missing, to_save

GPU = Taint(key="nvidia.com/gpu", value="yes", effect="NoSchedule")
UNREACHABLE = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
CLOUD = Taint(key="node.cloudprovider.kubernetes.io/shutdown", effect="NoSchedule")


def node(
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    taints: list[Taint] | None = None,
) -> Node:
    return Node(metadata=Meta(name="n1", labels=labels, annotations=annotations), spec=NodeSpec(taints=taints))


@pytest.mark.parametrize("value", [None, {}, {"a.b/c-d": "", "e": "f.g"}], ids=["none", "empty", "dots"])
def test_rm10_none_and_empty_stay_different_through_json(value: dict[str, str] | None) -> None:
    """RM-10: keys with dots and values without a letter come back as they were."""
    saved = to_save(node(labels=value, annotations=value))
    assert (saved.labels, saved.annotations) == (value, value)
    assert msgspec.json.decode(msgspec.json.encode(saved), type=Saved) == saved


@pytest.mark.parametrize("taints", [None, [], [GPU]])
def test_rm12_taints_are_saved_as_well(taints: list[Taint] | None) -> None:
    """RM-12."""
    saved = to_save(node(taints=taints))
    assert saved.taints == taints
    assert msgspec.json.decode(msgspec.json.encode(saved), type=Saved) == saved


def test_rm12_taints_that_kubernetes_puts_and_takes_itself_are_not_saved() -> None:
    """RM-12: the node would come back as unreachable for ever, or out of service."""
    assert to_save(node(taints=[UNREACHABLE, OUT_OF_SERVICE_TAINT, GPU, CLOUD])).taints == [GPU]
    assert to_save(node(taints=[UNREACHABLE])).taints == []


def test_rm10_what_a_node_has_got_since_wins() -> None:
    """RM-10: only what is missing comes back."""
    saved = Saved(labels={"a": "old", "b": "old"}, annotations={"c": "old"}, taints=[GPU])
    now = node(
        labels={"a": "new"}, annotations={"c": "new"}, taints=[Taint(key=GPU.key, value="no", effect=GPU.effect)]
    )
    assert missing(now, saved) == ({"b": "old"}, {}, [])


def test_rm12_a_taint_of_the_same_key_and_another_effect_is_another_taint() -> None:
    """RM-12."""
    evicts = Taint(key=GPU.key, effect="NoExecute")
    assert missing(node(taints=[evicts]), Saved(taints=[GPU, evicts]))[2] == [GPU]


def test_rm11_a_node_is_restored_when_it_has_all_that_was_saved() -> None:
    """RM-11: nobody drops what was saved before that."""
    saved = Saved(labels={"a": ""}, annotations={"b": ""}, taints=[GPU])
    whole = node({"a": "", "x": ""}, {"b": "", "x": ""}, [GPU])
    assert is_restored(whole, saved)
    assert not is_restored(node({}, {"b": ""}, [GPU]), saved)
    assert not is_restored(node({"a": ""}, {}, [GPU]), saved)
    assert not is_restored(node({"a": ""}, {"b": ""}), saved)
    assert is_restored(node({"a": ""}, {"b": ""}), saved, taints=False)
    assert is_restored(node(), Saved())


def test_rm11_a_node_that_comes_back_ill_and_bare_does_not_lose_what_was_saved() -> None:
    """RM-11: it is deleted once more, in the next attempt."""
    saved = Saved(labels={"rack": "7"}, annotations={"a": "1"}, taints=[GPU])
    again = to_save(node({"fresh": "yes"}, {"b": "2"}, [UNREACHABLE]), saved)
    assert again == Saved(labels={"rack": "7", "fresh": "yes"}, annotations={"a": "1", "b": "2"}, taints=[GPU])


def test_rm11_saving_twice_is_saving_once() -> None:
    """RM-11: a node is deleted only when there is nothing more to save."""
    one = node({"a": "1"}, {"b": "2"}, [GPU, UNREACHABLE])
    assert to_save(one, to_save(one)) == to_save(one)
    bare = node()
    assert to_save(bare, Saved(labels={"a": "1"})) == Saved(labels={"a": "1"})
    assert to_save(bare, to_save(bare)) == Saved()


def test_rm10_a_value_that_was_changed_before_the_deletion_is_saved_as_it_is_now() -> None:
    """RM-10."""
    assert to_save(node({"a": "new"}), Saved(labels={"a": "old", "b": "old"})).labels == {"a": "new", "b": "old"}


def test_a_node_that_somebody_cordoned_is_cordoned_when_it_comes_back() -> None:
    cordoned = Node(metadata=Meta(name="n1"), spec=NodeSpec(unschedulable=True))
    saved = to_save(cordoned)
    assert msgspec.json.decode(msgspec.json.encode(saved), type=Saved) == saved
    assert not is_restored(node(), saved)
    assert is_restored(cordoned, saved)
    assert to_save(node(), saved) == saved, "it came back ill, and is deleted once more"
