"""A shelf never goes back in time and never hides what it cannot read."""

from hypothesis import given
from hypothesis import strategies as st

from defib.kube.decode import Event, SetAside, UnreadableEvent
from defib.kube.kinds import NODES
from defib.model.meta import Meta
from defib.model.node import Node
from defib.observe.shelf import Contents, Shelf, is_newer
from tests.builders import MINUTE, T0, a_node


def a_shelf(*nodes: Node, version: int = 10) -> Shelf[Node]:
    shelf = Shelf(NODES, since=T0)
    shelf.replace(Contents({node.name: node for node in nodes}), str(version))
    shelf.saw(T0)
    return shelf


def modified(name: str, version: int) -> Event[Node]:
    return Event("MODIFIED", a_node(name, version=version))


def test_a_shelf_is_blind_until_its_first_list() -> None:
    shelf = Shelf(NODES, since=T0)
    assert not shelf.saw(T0 + MINUTE)
    assert (shelf.blind_since, shelf.blind_why) == (T0, "not listed yet")
    shelf.replace(Contents(), "1")
    assert shelf.saw(T0 + MINUTE)
    assert shelf.blind_since is None


def test_blindness_dates_from_the_last_word_we_heard() -> None:
    shelf = a_shelf()
    shelf.saw(T0 + MINUTE)
    assert shelf.went_blind("connection refused")
    assert not shelf.went_blind("connection refused"), "the same reason again is no news"
    assert shelf.blind_since == T0 + MINUTE


def test_an_event_that_comes_twice_is_news_once() -> None:
    shelf = a_shelf(a_node("n1", version=5))
    assert shelf.apply([modified("n1", 11), modified("n1", 11)]) == 1


def test_a_late_event_does_not_bring_back_the_past() -> None:
    shelf = a_shelf(a_node("n1", version=9))
    late = Event("DELETED", a_node("n1", version=8))
    assert shelf.apply([modified("n1", 7), late]) == 0
    assert shelf.objects["n1"].metadata.resource_version == "9"


def test_versions_are_compared_as_numbers() -> None:
    assert is_newer("100", than="99")
    assert not is_newer("99", than="100")
    assert is_newer("b", than="a"), "a server with its own kind of versions is taken at its word"


def test_a_bookmark_moves_the_version_and_is_no_news() -> None:
    shelf = a_shelf(a_node("n1"))
    before = shelf.objects
    assert shelf.apply([Event("BOOKMARK", Node(metadata=Meta(resource_version="77")))]) == 0
    assert shelf.version == "77"
    assert shelf.objects is before


def test_a_picture_that_was_handed_out_never_changes() -> None:
    shelf = a_shelf(a_node("n1", version=1))
    before = shelf.objects
    shelf.apply([modified("n1", 11), Event("ADDED", a_node("n2", version=12))])
    assert set(before) == {"n1"}
    assert before["n1"].metadata.resource_version == "1"
    assert set(shelf.objects) == {"n1", "n2"}


def test_a_list_removes_what_it_lacks_and_keeps_the_identity_of_what_did_not_change() -> None:
    same = a_node("same", version=3)
    shelf = a_shelf(same, a_node("gone", version=4))
    news = shelf.replace(Contents({"same": a_node("same", version=3), "new": a_node("new", version=20)}), "20")
    assert news == 2
    assert set(shelf.objects) == {"same", "new"}
    assert shelf.objects["same"] is same


def test_while_a_list_is_read_again_there_are_never_two_of_what_did_not_change() -> None:
    """Of 5,000 nodes that would be twenty megabytes, each time somebody becomes the leader."""
    same, changed = a_node("same", version=3), a_node("changed", version=4)
    shelf, fresh = a_shelf(same, changed), Contents[Node]()
    shelf.collect(fresh, [Event("ADDED", a_node("same", version=3)), Event("ADDED", a_node("changed", version=9))])
    assert fresh.objects["same"] is same
    assert fresh.objects["changed"].metadata.resource_version == "9"


def test_an_unreadable_object_is_set_aside_and_its_last_readable_state_forgotten() -> None:
    shelf = a_shelf(a_node("n1", version=1))
    bad = UnreadableEvent("MODIFIED", SetAside("n1", "11", "Expected `str`, got `int`"))
    assert shelf.apply([bad]) == 1
    assert "n1" not in shelf.objects
    assert shelf.set_aside["n1"].why == "Expected `str`, got `int`"
    assert shelf.apply([modified("n1", 12)]) == 1
    assert not shelf.set_aside
    assert "n1" in shelf.objects


def test_an_unreadable_object_that_is_deleted_is_no_longer_set_aside() -> None:
    shelf = a_shelf()
    shelf.apply([UnreadableEvent("ADDED", SetAside("n1", "11", "why"))])
    assert shelf.apply([UnreadableEvent("DELETED", SetAside("n1", "12", "why"))]) == 1
    assert not shelf.set_aside


def test_a_late_word_does_not_bring_back_what_was_deleted() -> None:
    shelf = a_shelf(a_node("n1", version=5))
    assert shelf.apply([Event("DELETED", a_node("n1", version=12)), modified("n1", 11)]) == 1
    assert shelf.apply([UnreadableEvent("MODIFIED", SetAside("n1", "11", "why"))]) == 0
    assert "n1" not in shelf.objects
    assert shelf.apply([Event("ADDED", a_node("n1", version=13))]) == 1


def test_late_words_do_not_change_what_can_or_cannot_be_read() -> None:
    shelf = a_shelf(a_node("n1", version=9))
    assert shelf.apply([UnreadableEvent("MODIFIED", SetAside("n1", "8", "why"))]) == 0
    assert "n1" in shelf.objects
    shelf.apply([UnreadableEvent("MODIFIED", SetAside("n1", "12", "why"))])
    assert shelf.apply([modified("n1", 11)]) == 0
    assert "n1" in shelf.set_aside


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["MODIFIED", "DELETED"])), max_size=30), st.data())
def test_repeating_any_part_of_the_history_changes_nothing(history: list[tuple[str, str]], data: st.DataObject) -> None:
    """After a reconnect a server may tell again what it told before; the outcome must be that of the plain history."""
    events = [Event(what, a_node(name, version=11 + n)) for n, (name, what) in enumerate(history)]
    once, repeated = a_shelf(), a_shelf()
    once.apply(events)
    for place, event in enumerate(events):
        repeated.apply([event])
        back = data.draw(st.integers(0, 2))
        assert repeated.apply(events[max(0, place - back) : place + 1]) == 0
    assert repeated.objects == once.objects


def test_our_own_write_is_seen_at_once_and_the_watch_still_tells_everything() -> None:
    shelf = a_shelf(a_node("n1", version=5))
    assert shelf.note(a_node("n1", version=12))
    assert shelf.objects["n1"].metadata.resource_version == "12"
    assert shelf.version == "10", "else the watch would skip what others did before us"
    assert shelf.apply([modified("n2", 11), modified("n1", 12)]) == 1, "our own write is no news a second time"
    assert set(shelf.objects) == {"n1", "n2"}


def test_our_own_write_that_is_older_than_what_we_know_is_no_news() -> None:
    shelf = a_shelf(a_node("n1", version=9))
    before = shelf.objects
    assert not shelf.note(a_node("n1", version=8))
    assert not shelf.note(a_node("n1", version=9))
    assert not shelf.note(Node(metadata=Meta(name="n1"))), "what was never stored has no version"
    assert shelf.objects is before


def test_our_own_write_does_not_bring_back_what_was_deleted_since() -> None:
    shelf = a_shelf(version=10)
    assert not shelf.note(a_node("n1", version=9)), "the list is later and does not have it"
    shelf.apply([Event("ADDED", a_node("n2", version=11)), Event("DELETED", a_node("n2", version=13))])
    assert not shelf.note(a_node("n2", version=12))
    assert not shelf.objects


def test_our_own_write_can_be_read_even_if_the_one_before_could_not() -> None:
    shelf = a_shelf()
    shelf.apply([UnreadableEvent("ADDED", SetAside("n1", "11", "why"))])
    assert shelf.note(a_node("n1", version=12))
    assert not shelf.set_aside
    assert "n1" in shelf.objects


def test_a_list_that_was_under_way_does_not_lose_our_own_write() -> None:
    shelf = a_shelf(a_node("n1", version=5))
    shelf.note(a_node("n1", version=22))
    shelf.note(a_node("n2", version=23))
    shelf.replace(Contents({"n1": a_node("n1", version=5)}, {"n2": SetAside("n2", "6", "why")}), "20")
    assert [node.metadata.resource_version for node in shelf.objects.values()] == ["22", "23"]
    assert not shelf.set_aside


def test_our_own_write_does_not_outlive_a_second_list_or_one_that_is_later() -> None:
    shelf = a_shelf()
    shelf.note(a_node("n1", version=22))
    shelf.replace(Contents(), "20")
    assert "n1" in shelf.objects
    shelf.replace(Contents(), "21")
    assert not shelf.objects, "the server was restored from a backup: it has never heard of it"
    shelf.note(a_node("n2", version=23))
    shelf.replace(Contents(), "24")
    assert not shelf.objects, "it was deleted before the list"


def test_a_list_decides_about_what_the_watch_has_confirmed() -> None:
    shelf = a_shelf()
    shelf.note(a_node("n1", version=22))
    shelf.note(a_node("n2", version=23))
    shelf.apply([Event("ADDED", a_node("n1", version=22)), Event("ADDED", a_node("n2", version=23))])
    shelf.apply([Event("DELETED", a_node("n2", version=24))])
    shelf.replace(Contents(), "20")
    assert not shelf.objects


def test_a_late_event_confirms_nothing() -> None:
    shelf = a_shelf(a_node("n1", version=5))
    shelf.note(a_node("n1", version=22))
    assert shelf.apply([modified("n1", 21)]) == 0
    shelf.replace(Contents(), "20")
    assert shelf.objects["n1"].metadata.resource_version == "22"


def test_our_own_write_to_what_is_being_deleted_is_seen_as_being_deleted() -> None:
    shelf = a_shelf(a_node("n1", version=5))
    shelf.note(Node(metadata=Meta(name="n1", resource_version="12", deletion_timestamp=T0)))
    assert shelf.objects["n1"].metadata.deletion_timestamp == T0
    shelf.apply([Event("DELETED", a_node("n1", version=13))])
    assert not shelf.objects


def test_a_picture_that_was_handed_out_does_not_show_our_own_write() -> None:
    shelf = a_shelf(a_node("n1", version=5))
    before = shelf.objects
    shelf.note(a_node("n1", version=12))
    assert before["n1"].metadata.resource_version == "5"
