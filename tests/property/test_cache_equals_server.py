"""Whatever goes wrong on the way, when it ceases the cache equals the server, within a stated time."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from defib.kube.decode import decode_object
from defib.model.node import Node
from defib.observe.watch import Patience
from defib.simulate.faults import (
    CutWatch,
    DropEvents,
    DuplicateEvents,
    EndWatch,
    FailWatch,
    Fault,
    Garbage,
    Hang,
    LateEvents,
    LoseAnswer,
    LoseRequest,
    NoBookmarks,
    Refuse,
    ReorderEvents,
    RequestEffect,
    SilenceWatch,
    Slow,
    WatchEffect,
)
from tests.unit.observe.following import UNREADABLE_LABELS, Following, follow, seconds

PATIENCE = Patience(stall_seconds=90, stream_seconds=300, audit_seconds=1800)
# A stream may just have begun when the faults end; the next one finds out that an audit is due.
HEALED_WITHIN_SECONDS = PATIENCE.audit_seconds + 2 * PATIENCE.stream_seconds + PATIENCE.stall_seconds

names = st.sampled_from([f"n{number}" for number in range(6)])
after = st.integers(0, 5)
effects: st.SearchStrategy[RequestEffect | WatchEffect] = st.one_of(
    st.builds(CutWatch, after=after, mid_event=st.booleans()),
    st.builds(EndWatch, after=after),
    st.builds(SilenceWatch, after=after),
    st.builds(FailWatch, code=st.just(410), reason=st.just("Expired"), after=after),
    st.builds(FailWatch, code=st.just(500), after=after),
    st.builds(Garbage, after=after),
    st.builds(DropEvents, chance=st.floats(0, 1)),
    st.builds(LateEvents, seconds=st.floats(0, 100)),
    st.builds(ReorderEvents, window_seconds=st.floats(0, 10)),
    st.just(DuplicateEvents()),
    st.just(NoBookmarks()),
    st.just(LoseRequest()),
    st.just(LoseAnswer()),
    st.just(Hang()),
    st.builds(Slow, seconds=st.floats(0, 60)),
    st.sampled_from([Refuse(code=code) for code in (401, 403, 404, 422, 500, 503)]),
    st.just(Refuse(code=410, reason="Expired")),
    st.just(Refuse(code=429, reason="TooManyRequests", retry_after_seconds=3)),
)
faults = st.builds(Fault, effect=effects, times=st.one_of(st.none(), st.integers(1, 3)), skip=st.integers(0, 2))
steps = st.one_of(
    st.tuples(st.just("put"), names),
    st.tuples(st.just("write"), names),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("spoil"), names),
    st.tuples(st.just("wait"), st.floats(0, 200)),
    st.tuples(st.just("fault"), faults),
    st.tuples(st.sampled_from(["cut", "compact", "restart", "partition", "heal", "clear"]), st.none()),
)


def put(following: Following, name: str) -> None:
    if following.server.store.get("nodes", name) is None:
        following.add(name)
    else:
        following.change(name, "changed")


def write(following: Following, name: str) -> None:
    """One of our own writes, of which we know before the watch tells it."""
    put(following, name)
    stored = following.server.store.get("nodes", name)
    assert stored is not None
    if stored.object["metadata"].get("labels") != UNREADABLE_LABELS:
        following.shelf.note(decode_object(stored.encoded, Node))


def remove(following: Following, name: str) -> None:
    if following.server.store.get("nodes", name) is not None:
        following.remove(name)


TAKE: dict[str, Callable[[Following, Any], None]] = {
    "put": put,
    "write": write,
    "remove": remove,
    "spoil": Following.put_unreadable,
    "fault": lambda following, fault: following.server.faults.inject(fault),
    "cut": lambda following, _: following.cut_watches(),
    "compact": lambda following, _: following.server.compact(),
    "restart": lambda following, _: following.server.restart(),
    "partition": lambda following, _: following.server.partition("operator"),
    "heal": lambda following, _: following.server.heal("operator"),
    "clear": lambda following, _: following.server.faults.clear(),
}


@settings(max_examples=500, deadline=None)
@given(st.lists(faults, max_size=3), st.lists(steps, max_size=25), st.integers(0, 2**32))
def test_when_the_faults_cease_the_cache_equals_the_server(
    from_the_start: list[Fault], history: list[tuple[str, object]], seed: int
) -> None:
    async def scenario(following: Following) -> None:
        for what, value in history:
            if isinstance(value, float):
                await seconds(value)
            else:
                TAKE[what](following, value)
        following.server.heal("operator")
        following.server.faults.clear()
        await seconds(HEALED_WITHIN_SECONDS)

    end = follow(scenario, faults=tuple(from_the_start), patience=PATIENCE, seed=seed)
    assert end.shown == end.truth
    assert end.shelf.blind_since is None
    unreadable = {key for key, stored in end.server.store.collection("nodes").objects.items() if key not in end.truth}
    assert end.set_aside.keys() == unreadable
