"""Where a watch goes on after it was interrupted: nothing is told twice as news, and nothing is lost."""

from contextlib import AbstractAsyncContextManager

import pytest

from defib.kube.transport import Request, Response, Transport
from defib.observe.watch import Patience
from defib.simulate.faults import CutWatch, DropEvents, Fault, Refuse
from tests.unit.observe.following import NO_STREAMED_LISTS, Following, follow, seconds


class Overheard:
    """A line on which every watch is noted by the version that it asks to go on from."""

    def __init__(self) -> None:
        self.versions: list[str] = []
        self._line: Transport | None = None

    def __call__(self, line: Transport) -> Transport:
        self._line = line
        return self

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        assert self._line is not None
        if "watch" in request.query:
            self.versions.append(request.query.get("resourceVersion", ""))
        return self._line.send(request)

    def describe(self) -> str:
        return "overheard"

    async def close(self) -> None:
        return None


def version_of(following: Following, name: str) -> str:
    return str(following.truth[name].metadata.resource_version)


def test_rv_01_a_watch_goes_on_from_the_last_version_that_was_delivered() -> None:
    heard = Overheard()
    last: list[str] = []

    async def scenario(following: Following) -> None:
        await seconds(1)
        following.change("n1", "one")
        following.change("n2", "two")
        await seconds(1)
        last.append(version_of(following, "n2"))
        following.cut_watches()
        following.change("n3", "while nobody listened")
        await seconds(30)

    end = follow(scenario, through=heard)
    assert heard.versions[1:] == last
    assert end.shown == end.truth
    assert end.witness.relists == ["start"]


@pytest.mark.parametrize("form", ["in the stream", "as an answer"])
def test_rv_02_a_410_means_a_new_list_and_what_it_lacks_is_gone(form: str) -> None:
    async def scenario(following: Following) -> None:
        await seconds(1)
        assert set(following.shown) == {"n1", "n2", "n3"}
        if form == "in the stream":
            following.server.stop()
            following.remove("n2")
            following.server.start()  # its history begins anew: our version is too old
        else:
            following.cut_watches()
            following.remove("n2")
        following.add("n4")
        await seconds(60)

    gone = Fault(effect=Refuse(code=410, reason="Expired"), verbs=("watch",), skip=1, times=1)
    end = follow(scenario, faults=(gone,) if form == "as an answer" else ())
    assert set(end.shown) == {"n1", "n3", "n4"}
    assert end.witness.relists == ["start", "expired"]


def test_rv_03_everything_is_listed_again_now_and_then_even_if_the_watch_is_silent_about_changes() -> None:
    async def scenario(following: Following) -> None:
        await seconds(1)
        following.remove("n2")
        await seconds(599)
        assert "n2" in following.shown, "the server has swallowed it"
        await seconds(601)

    swallow = Fault(effect=DropEvents(chance=1.0), verbs=("watch",))
    patience = Patience(audit_seconds=600, stall_seconds=3600, stream_seconds=60)
    end = follow(scenario, faults=(NO_STREAMED_LISTS, swallow), patience=patience)
    assert end.shown == end.truth
    assert "audit" in end.witness.relists


def test_rv_04_what_was_only_half_received_is_asked_for_again() -> None:
    """The version to go on from is that of the last change that stands on the shelf, not of the last that was sent."""
    heard = Overheard()
    seen: list[str] = []

    async def scenario(following: Following) -> None:
        await seconds(1)
        following.change("n1", "whole")
        await seconds(1)
        seen.append(version_of(following, "n1"))
        following.change("n2", "half")
        await seconds(0.01)
        assert following.shelf.version == seen[0]
        assert "value" not in following.shown["n2"].annotations
        await seconds(30)

    cut = Fault(effect=CutWatch(after=5, mid_event=True), verbs=("watch",), times=1)
    end = follow(scenario, faults=(cut,), through=heard)
    assert heard.versions[1:] == seen
    assert end.shown["n2"].annotations["value"] == "half"
    assert end.witness.relists == ["start"]
