"""Whatever the server or the network does to a watch, the shelf ends equal to the server, and nobody is stormed.

The first thirteen are the cases on which other Kubernetes clients were measured; docs/decisions/0003 has the table.
"""

from contextlib import AbstractAsyncContextManager

import msgspec

from defib.kube.transport import Request, Response, Transport
from defib.observe.watch import Patience
from defib.simulate.faults import (
    CutWatch,
    DropEvents,
    DuplicateEvents,
    EndWatch,
    FailWatch,
    Fault,
    Garbage,
    LateEvents,
    NoBookmarks,
    Refuse,
    ReorderEvents,
    SilenceWatch,
)
from tests.builders import SECOND
from tests.unit.observe.following import NO_STREAMED_LISTS, Following, follow, seconds

STORM_SECONDS = 16


def a_watch_fault(effect: CutWatch | EndWatch | FailWatch | Refuse | SilenceWatch, **more: int) -> Fault:
    return Fault(effect=effect, verbs=("watch",), skip=more.get("skip", 0), times=more.get("times"))


def expect_in_step(end: Following) -> None:
    assert end.shown == end.truth
    assert end.shelf.blind_since is None


async def change_everything(following: Following) -> None:
    """One node of each fate while the watch is troubled, then time to get over it."""
    await seconds(1)
    following.change("n1", "after")
    following.remove("n2")
    following.add("n4")
    await seconds(60)


def test_01_a_long_list_is_read_in_pages() -> None:
    async def scenario(following: Following) -> None:
        following.add(*(f"more-{number}" for number in range(1200)))
        await seconds(10)

    end = follow(scenario, faults=(NO_STREAMED_LISTS,))
    expect_in_step(end)
    assert len(end.shown) == 1203
    assert end.requests("list") == 3


def test_02_a_watch_that_the_server_closes_is_opened_again_without_a_list() -> None:
    end = follow(change_everything, faults=(a_watch_fault(EndWatch(after=4), times=1),))
    expect_in_step(end)
    assert end.witness.relists == ["start"]


def test_03_a_410_in_the_stream_means_a_new_list_that_also_finds_what_was_deleted() -> None:
    async def scenario(following: Following) -> None:
        await seconds(1)
        following.server.stop()
        following.remove("n2")
        following.server.start()  # its history begins anew: our version is too old
        await seconds(60)

    end = follow(scenario)
    expect_in_step(end)
    assert "n2" not in end.shown
    assert end.witness.relists == ["start", "expired"]


def test_04_a_410_as_an_answer_means_the_same() -> None:
    async def scenario(following: Following) -> None:
        await seconds(1)
        following.cut_watches()
        following.remove("n2")
        await seconds(60)

    gone = a_watch_fault(Refuse(code=410, reason="Expired"), skip=1, times=1)
    end = follow(scenario, faults=(gone,))
    expect_in_step(end)
    assert end.witness.relists == ["start", "expired"]


def test_05_a_list_that_expires_between_its_pages_is_begun_again() -> None:
    async def scenario(following: Following) -> None:
        following.add(*(f"more-{number}" for number in range(1200)))
        await seconds(30)

    gone = Fault(effect=Refuse(code=410, reason="Expired"), verbs=("list",), skip=1, times=1)
    end = follow(scenario, faults=(NO_STREAMED_LISTS, gone))
    expect_in_step(end)
    assert end.requests("list") == 2 + 3


def test_06_a_bookmark_saves_the_list_after_a_quiet_time() -> None:
    async def scenario(following: Following) -> None:
        await seconds(1)
        following.server.put("configmaps", {"metadata": {"name": "elsewhere", "namespace": "default"}})
        await seconds(61)
        following.server.compact()  # a resume from the last node event would now be too old
        following.cut_watches()
        await seconds(30)
        following.change("n1", "after")
        await seconds(1)

    end = follow(scenario)
    expect_in_step(end)
    assert end.witness.relists == ["start"]


def test_07_an_error_in_the_stream_is_not_the_end() -> None:
    end = follow(change_everything, faults=(a_watch_fault(FailWatch(code=500, after=4), times=1),))
    expect_in_step(end)


def test_08_an_event_may_be_megabytes_long() -> None:
    async def scenario(following: Following) -> None:
        await seconds(1)
        node = {"metadata": {"name": "big", "uid": "uid-big"}, "status": {"images": [{"names": ["x" * 2_500_000]}]}}
        following.server.store.put("nodes", node)
        await seconds(1)

    end = follow(scenario)
    expect_in_step(end)
    assert "big" in end.shown


def test_09_a_connection_that_breaks_in_the_middle_of_an_event_loses_nothing() -> None:
    end = follow(change_everything, faults=(a_watch_fault(CutWatch(after=4, mid_event=True), times=1),))
    expect_in_step(end)
    assert end.witness.relists == ["start"]


def test_10_a_throttled_list_waits_as_long_as_the_server_asks() -> None:
    async def scenario(following: Following) -> None:
        await seconds(1.9)
        assert not following.shelf.synced
        await seconds(1)

    busy = Fault(effect=Refuse(code=429, reason="TooManyRequests", retry_after_seconds=2), verbs=("list",), times=1)
    expect_in_step(follow(scenario, faults=(NO_STREAMED_LISTS, busy)))
    streamed = a_watch_fault(Refuse(code=429, reason="TooManyRequests", retry_after_seconds=2), times=1)
    expect_in_step(follow(scenario, faults=(streamed,)))


def test_11_a_server_that_is_still_starting_is_asked_again() -> None:
    starting = Fault(effect=Refuse(code=503, reason="ServiceUnavailable"), verbs=("list",), times=3)
    expect_in_step(follow(change_everything, faults=(NO_STREAMED_LISTS, starting)))


def test_12_a_server_that_resets_every_watch_is_not_stormed() -> None:
    async def scenario(_: Following) -> None:
        await seconds(STORM_SECONDS)

    end = follow(scenario, faults=(NO_STREAMED_LISTS, a_watch_fault(CutWatch(), skip=1)))
    assert end.requests() <= 12


def test_13_a_server_that_refuses_every_watch_is_not_stormed() -> None:
    async def scenario(_: Following) -> None:
        await seconds(STORM_SECONDS)

    end = follow(scenario, faults=(a_watch_fault(Refuse(code=500, reason="InternalError")),))
    assert end.requests() <= 12


def test_a_silent_watch_is_given_up_and_what_happened_meanwhile_is_found() -> None:
    async def scenario(following: Following) -> None:
        await seconds(1)
        following.change("n1", "while the line was dead")
        await seconds(80)
        assert following.shown != following.truth
        await seconds(30)

    end = follow(scenario, faults=(a_watch_fault(SilenceWatch(after=4), times=1),))
    expect_in_step(end)


def test_blindness_is_known_and_dates_from_the_last_word() -> None:
    async def scenario(following: Following) -> None:
        await seconds(10)
        following.server.stop()
        await seconds(20)

    end = follow(scenario)
    assert end.shelf.blind_since is not None
    assert end.clock.now() - end.shelf.blind_since >= 20 * SECOND
    assert "operator" not in end.shelf.blind_why
    assert end.shelf.blind_why


def test_a_quiet_kind_on_a_server_without_bookmarks_is_listed_now_and_then_and_raises_no_alarm() -> None:
    """With no change and no bookmark we cannot tell a quiet cluster from a dead line, so we ask again."""

    async def scenario(following: Following) -> None:
        await seconds(600)
        following.change("n1", "after")
        await seconds(100)

    end = follow(scenario, faults=(NO_STREAMED_LISTS, Fault(effect=NoBookmarks())))
    expect_in_step(end)
    assert end.requests("watch") <= 12
    assert end.witness.sights == 1, "it saw once, at the start, and was never blind"


def test_a_silent_server_that_does_not_answer_either_is_out_of_sight_since_its_last_word() -> None:
    async def scenario(following: Following) -> None:
        await seconds(10)
        following.change("n1", "the last word")
        await seconds(1)
        following.server.partition("operator")
        await seconds(200)

    end = follow(scenario)
    assert end.shelf.blind_since is not None
    assert 200 * SECOND < end.clock.now() - end.shelf.blind_since <= 201 * SECOND


def test_an_object_that_cannot_be_read_is_set_aside_and_stops_nothing() -> None:
    async def scenario(following: Following) -> None:
        following.put_unreadable("bad-from-the-start")
        await seconds(1)
        following.put_unreadable("n1")
        following.add("n4")
        following.remove("n2")
        await seconds(5)

    for faults in ((), (NO_STREAMED_LISTS,)):
        end = follow(scenario, faults=faults)
        expect_in_step(end)
        assert set(end.set_aside) == {"bad-from-the-start", "n1"}
        assert "labels" in end.set_aside["n1"].why
        assert set(end.shown) == {"n3", "n4"}


def test_a_stream_that_turns_into_garbage_is_replaced_by_a_list() -> None:
    end = follow(change_everything, faults=(Fault(effect=Garbage(after=5), times=1),))
    expect_in_step(end)
    assert end.witness.relists == ["start", "unreadable"]


def test_events_that_come_twice_are_news_once() -> None:
    end = follow(change_everything, faults=(NO_STREAMED_LISTS, Fault(effect=DuplicateEvents())))
    expect_in_step(end)
    assert end.witness.news == 3


def test_late_and_reordered_events_end_in_the_same_state() -> None:
    for effect in (LateEvents(seconds=5), ReorderEvents(window_seconds=5)):
        expect_in_step(follow(change_everything, faults=(Fault(effect=effect),)))


def test_events_that_the_server_swallows_are_found_by_the_next_audit() -> None:
    async def scenario(following: Following) -> None:
        await change_everything(following)
        assert following.shown != following.truth
        await seconds(1500)

    swallow = Fault(effect=DropEvents(chance=1.0), verbs=("watch",))
    patience = Patience(audit_seconds=600, stall_seconds=3600)
    end = follow(scenario, faults=(NO_STREAMED_LISTS, swallow), patience=patience)
    assert end.shown == end.truth
    assert "audit" in end.witness.relists


def test_a_server_restored_from_a_backup_is_listed_anew() -> None:
    """Its versions are behind ours: it says nothing to a watch from the future, not even a bookmark."""

    async def scenario(following: Following) -> None:
        await seconds(1)
        following.change("n1", "after")
        await seconds(1)
        following.shelf.version = "1000000"
        following.cut_watches()
        await seconds(120)

    end = follow(scenario)
    expect_in_step(end)
    assert end.witness.relists == ["start", "silent"]


def test_a_server_that_opens_streams_and_says_nothing_is_out_of_sight_and_asked_for_a_plain_list() -> None:
    async def scenario(following: Following) -> None:
        await seconds(10)
        following.server.faults.inject(a_watch_fault(SilenceWatch()))
        following.cut_watches()
        following.change("n1", "unheard")
        await seconds(600)

    end = follow(scenario)
    assert end.shown == end.truth
    assert end.requests("list") >= 1
    assert end.witness.sights == 5, "seen, cut, seen, silent even when asked for a list and so out of sight, seen"


def test_a_busy_watch_is_not_given_up_for_want_of_bookmarks() -> None:
    async def scenario(following: Following) -> None:
        for number in range(20):
            await seconds(60)
            following.change("n1", str(number))

    end = follow(scenario, faults=(NO_STREAMED_LISTS, Fault(effect=NoBookmarks())))
    assert end.witness.relists == ["start"]


def test_a_list_that_breaks_off_is_not_taken_for_a_short_one() -> None:
    async def scenario(following: Following) -> None:
        await seconds(0.01)
        assert following.requests("watch") == 1
        assert not following.shelf.synced
        await seconds(10)

    end = follow(scenario, faults=(a_watch_fault(EndWatch(after=2), times=1),))
    expect_in_step(end)


class Older(msgspec.Struct, frozen=True):
    """A server from before streamed lists: it does not know the question and answers with an ordinary watch."""

    inner: Transport

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        known = {k: v for k, v in request.query.items() if k not in {"sendInitialEvents", "resourceVersionMatch"}}
        return self.inner.send(msgspec.structs.replace(request, query=known))

    def describe(self) -> str:
        return "an older server"

    async def close(self) -> None:
        await self.inner.close()


def test_a_server_that_does_not_know_streamed_lists_is_found_out_at_its_first_bookmark() -> None:
    async def scenario(following: Following) -> None:
        await seconds(59)
        assert not following.shelf.synced
        await seconds(10)
        expect_in_step(following)
        await seconds(600)

    end = follow(scenario, through=Older)
    expect_in_step(end)
    assert end.requests("list") == 1


def test_a_server_that_refuses_our_version_again_and_again_is_asked_for_a_list() -> None:
    async def scenario(following: Following) -> None:
        await seconds(10)
        following.server.faults.inject(a_watch_fault(Refuse(code=400, reason="BadRequest"), times=3))
        following.cut_watches()
        following.remove("n2")
        await seconds(60)

    end = follow(scenario)
    expect_in_step(end)
    assert end.witness.relists == ["start", "refused"]


def test_streams_that_end_early_but_in_order_are_opened_again_within_two_seconds() -> None:
    async def scenario(following: Following) -> None:
        await seconds(60)
        for number in range(10):
            following.change("n1", str(number))
            await seconds(2)
            assert following.shown == following.truth

    end = follow(scenario, faults=(NO_STREAMED_LISTS, a_watch_fault(EndWatch(after=1))))
    assert end.requests("watch") < 120


def test_a_server_cannot_send_us_away_for_a_day() -> None:
    async def scenario(_: Following) -> None:
        await seconds(120)

    away = a_watch_fault(Refuse(code=503, reason="ServiceUnavailable", retry_after_seconds=86_400), times=1)
    expect_in_step(follow(scenario, faults=(away,)))
