"""From bytes to structs: framing of a watch, and what happens to an object that cannot be read."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from defib.kube.decode import (
    INITIAL_EVENTS_END,
    Event,
    LineBuffer,
    UnreadableEvent,
    decode_events,
    decode_object,
    decode_page,
)
from defib.kube.errors import Forbidden, Gone, Invalid, ServerFailed, Unreadable
from defib.kube.kinds import R
from defib.model.meta import Resource, Unstructured
from defib.model.node import Node


def line_of(kind: str, /, **item: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": item})


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


def framed(chunks: list[bytes]) -> list[bytes]:
    buffer = LineBuffer()
    return b"".join(buffer.feed(chunk) for chunk in chunks).split(b"\n")[:-1]


def decode_event(line: bytes, kind: type[R]) -> Event[R] | UnreadableEvent:
    (event,) = decode_events(line + b"\n", kind)
    return event


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line)), st.lists(st.integers(0)))
@example([b"a", b"b"], [2])
@example([b"a"], [0, 0, 1, 1, 2, 2])
def test_lines_do_not_depend_on_where_the_stream_is_cut(lines: list[bytes], places: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    assert framed(cut(stream, places)) == lines


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
objects = st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"name": names, "resourceVersion": names})})


@given(st.lists(st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), objects)), st.lists(st.integers(0)))
def test_events_do_not_depend_on_where_the_stream_is_cut(
    sent: list[tuple[str, dict[str, Any]]], places: list[int]
) -> None:
    stream = b"".join(
        json.dumps({"type": kind, "object": item}, ensure_ascii=False).encode() + b"\n" for kind, item in sent
    )
    buffer = LineBuffer()
    events = [event for chunk in cut(stream, places) for event in decode_events(buffer.feed(chunk), Resource)]
    read = [(event.type, event.object.name) for event in events if isinstance(event, Event)]
    assert read == [(kind, item["metadata"]["name"]) for kind, item in sent]


def test_many_events_may_come_in_one_chunk() -> None:
    stream = b"".join(line_of("ADDED", metadata={"name": f"n{number}"}) + b"\n" for number in range(1000))
    assert len(decode_events(LineBuffer().feed(stream), Resource)) == 1000


def test_an_event_of_megabytes_in_small_pieces_is_one_event() -> None:
    item = line_of("ADDED", metadata={"name": "big", "annotations": {"blob": "x" * 2_500_000}}) + b"\n"
    lines = framed([item[start : start + 4096] for start in range(0, len(item), 4096)])
    assert len(lines) == 1
    event = decode_event(lines[0], Resource)
    assert isinstance(event, Event)
    assert len(event.object.annotations["blob"]) == 2_500_000


def test_a_line_that_is_cut_off_at_the_end_is_not_an_event() -> None:
    assert framed([b'{"type":"ADDED"', b',"object":{}}']) == []


def test_empty_lines_are_no_events() -> None:
    line = line_of("ADDED", metadata={"name": "a"})
    assert len(decode_events(b"\n\n" + line + b"\n\n", Resource)) == 1
    assert decode_events(b"\n", Resource) == []


@pytest.mark.parametrize("kind", [Resource, Node, Unstructured])
def test_an_error_in_the_stream_is_raised_as_what_it_says(kind: type[Resource]) -> None:
    said = {"kind": "Status", "metadata": {}, "status": "Failure", "message": "too old resource version: 1 (2)"}
    with pytest.raises(Gone, match="too old resource version"):
        decode_event(line_of("ERROR", **said, reason="Expired", code=410), kind)
    with pytest.raises(ServerFailed):
        decode_event(line_of("ERROR", **said, reason="InternalError", code=500), kind)
    with pytest.raises(Forbidden):
        decode_event(line_of("ERROR", **said, reason="Forbidden", code=403), kind)


def test_an_expired_version_is_gone_whatever_its_code() -> None:
    with pytest.raises(Gone):
        decode_event(line_of("ERROR", reason="Expired", code=0), Resource)


@pytest.mark.parametrize("kind", [Resource, Node])
def test_an_error_that_cannot_be_read_is_told_as_such(kind: type[Resource]) -> None:
    with pytest.raises(Unreadable):
        decode_event(line_of("ERROR", code="four hundred"), kind)


@pytest.mark.parametrize("kind", [Resource, Node, Unstructured])
def test_a_bookmark_has_a_version_and_no_name(kind: type[Resource]) -> None:
    metadata = {"resourceVersion": "77", "creationTimestamp": None}
    event = decode_event(line_of("BOOKMARK", kind="Node", metadata=metadata), kind)
    assert isinstance(event, Event)
    assert (event.type, event.object.name, event.object.metadata.resource_version) == ("BOOKMARK", "", "77")
    assert not event.ends_initial_list


def test_a_bookmark_is_read_even_when_its_object_is_not_of_the_kind() -> None:
    event = decode_event(line_of("BOOKMARK", metadata={"resourceVersion": "77"}, spec="oops"), Node)
    assert isinstance(event, Event)
    assert event.object.metadata.resource_version == "77"


def test_only_a_marked_bookmark_ends_the_initial_list() -> None:
    metadata = {"resourceVersion": "77", "annotations": {INITIAL_EVENTS_END: "true"}}
    marked = decode_event(line_of("BOOKMARK", metadata=metadata), Node)
    object_with_the_mark = decode_event(line_of("ADDED", metadata=metadata | {"name": "n"}), Node)
    assert isinstance(marked, Event)
    assert isinstance(object_with_the_mark, Event)
    assert marked.ends_initial_list
    assert not object_with_the_mark.ends_initial_list


def test_an_object_that_cannot_be_read_is_set_aside_with_name_and_version() -> None:
    metadata = {"name": "a", "namespace": "n", "resourceVersion": "5"}
    event = decode_event(line_of("MODIFIED", metadata=metadata, spec={"taints": "oops"}), Node)
    assert isinstance(event, UnreadableEvent)
    assert (event.type, event.item.key, event.item.version) == ("MODIFIED", "n/a", "5")
    assert "taints" in event.item.why


def test_an_object_whose_very_metadata_is_wrong_is_set_aside_by_name() -> None:
    event = decode_event(line_of("ADDED", metadata={"name": "a", "labels": ["oops"]}), Resource)
    assert isinstance(event, UnreadableEvent)
    assert event.item.key == "a"


def test_an_object_without_a_name_cannot_be_set_aside() -> None:
    with pytest.raises(Unreadable, match="cannot tell which object changed"):
        decode_event(line_of("ADDED", metadata=7), Resource)


@pytest.mark.parametrize("line", [b"garbage", b"{", b"[]", b'{"type":"ADDED"}', b'{"object":{}}', b"\xff\xfe"])
def test_a_line_that_is_no_event_is_unreadable(line: bytes) -> None:
    with pytest.raises(Unreadable, match="watch event"):
        decode_event(line, Resource)


def test_fields_that_nobody_reads_cost_nothing_and_stop_nothing() -> None:
    node = decode_object(b'{"metadata":{"name":"n","managedFields":[{}]},"status":{"images":[1,2]},"x":{}}', Node)
    assert node == Node(metadata=node.metadata)
    assert node.name == "n"


def test_null_where_a_list_or_a_map_is_missing_is_no_harm() -> None:
    node = decode_object(b'{"metadata":{"name":"n","labels":null,"finalizers":null},"spec":{"taints":null}}', Node)
    assert (node.labels, node.spec.taints) == ({}, None)


def test_a_page_without_items_is_an_empty_page() -> None:
    for items in (b"null", b"[]"):
        page = decode_page(b'{"metadata":{"resourceVersion":"3"},"items":%s}' % items, Node)
        assert (page.items, page.version, page.continue_) == ([], "3", "")


def test_one_bad_object_does_not_spoil_its_page() -> None:
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "spec": 7}, {"metadata": {"name": "c"}}, 9]
    metadata = {"resourceVersion": "3", "continue": "t"}
    page = decode_page(msgspec.json.encode({"metadata": metadata, "items": items}), Node)
    assert [node.name for node in page.items] == ["a", "c"]
    assert [item.key for item in page.set_aside] == ["b", ""]
    assert (page.version, page.continue_) == ("3", "t")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items":[]}'])
def test_an_answer_that_is_no_list_is_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable, match="list of Node"):
        decode_page(body, Node)


def test_an_invalid_code_in_an_error_without_reason_is_a_refusal() -> None:
    with pytest.raises(Invalid):
        decode_event(line_of("ERROR", message="what?"), Resource)


def test_one_bad_line_among_good_ones_costs_only_itself() -> None:
    good, bad = (
        line_of("ADDED", metadata={"name": "a"}),
        line_of("ADDED", metadata={"name": "b"}, spec={"taints": "oops"}),
    )
    events = decode_events(b"\n".join([good, bad, good, b""]), Node)
    assert [type(event) for event in events] == [Event, UnreadableEvent, Event]


def test_an_error_behind_good_lines_is_raised() -> None:
    good, error = line_of("ADDED", metadata={"name": "a"}), line_of("ERROR", reason="Expired", code=410)
    with pytest.raises(Gone):
        decode_events(b"\n".join([good, error, b""]), Resource)


@pytest.mark.parametrize(
    "hostile",
    [b'{"a":' * 20_000 + b"1" + b"}" * 20_000, b'"\xff\xfe"'],
    ids=["nested without end", "not UTF-8"],
)
def test_hostile_bytes_are_an_unreadable_object_and_never_a_crash(hostile: bytes) -> None:
    item = b'{"metadata":{"name":"bad","resourceVersion":"7"},"spec":' + hostile + b"}"
    with pytest.raises(Unreadable):
        decode_object(item, Unstructured)
    page = decode_page(
        b'{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"good"}},' + item + b"]}", Unstructured
    )
    assert [good.name for good in page.items] == ["good"]
    assert [(aside.key, aside.version) for aside in page.set_aside] == [("bad", "7")]
    (event,) = decode_events(b'{"type":"ADDED","object":' + item + b"}\n", Unstructured)
    assert isinstance(event, UnreadableEvent)
    assert event.item.key == "bad"
