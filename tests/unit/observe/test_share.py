"""Equal parts are one object in memory, and nothing that a reader sees changes by that."""

import msgspec

from defib.kube.decode import decode_object
from defib.model.node import Node
from defib.observe.share import Pool, share_unchanged, share_words
from tests.builders import a_node


def decoded(node: Node) -> Node:
    """As it comes from the wire: no part of it is shared with anything."""
    return decode_object(msgspec.json.encode(node), Node)


def conditions(node: Node) -> list[str]:
    return [text for c in node.status.conditions or [] for text in (c.type, c.status, c.reason, c.message)]


def test_the_words_of_a_list_are_kept_once() -> None:
    wire = a_node("n1", ready="Unknown", labels={"zone": "europe-west-1"})
    one, two = decoded(wire), decoded(wire)
    assert one.labels["zone"] is not two.labels["zone"]
    pool: Pool = {}
    share_words(one, pool)
    share_words(two, pool)
    assert one.labels["zone"] is two.labels["zone"]
    assert all(a is b for a, b in zip(conditions(one), conditions(two), strict=True))
    assert one == two == wire


def test_a_change_keeps_what_it_did_not_touch() -> None:
    before = decoded(a_node("n1", version=1, labels={"zone": "a"}))
    after = decoded(a_node("n1", version=2, labels={"zone": "a"}, cordoned=True))
    expected = decoded(after)
    share_unchanged(after, before)
    assert after.metadata.labels is before.metadata.labels
    assert after.status.conditions is before.status.conditions
    assert after == expected


def test_a_change_shows_what_it_did_touch() -> None:
    before = decoded(a_node("n1", version=1, labels={"zone": "a"}))
    after = decoded(a_node("n1", version=2, labels={"zone": "b"}, ready="Unknown"))
    expected = decoded(after)
    share_unchanged(after, before)
    assert after == expected
    assert before.labels == {"zone": "a"}
