"""The disk judges by who wrote when. A second judge, too simple to be wrong, must always agree with it."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defib.hollow.disk import Disk, Disks, Writer

MODES = ("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany")


class HandClock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.at)

    def monotonic(self) -> float:
        return self.at

    def jitter(self, span: float) -> float:
        return span / 2


def a_writer(node: str, uid: str = "", boot: str = "1") -> Writer:
    return Writer(node=node, boot=boot, pod="db/db-0", uid=uid or f"pod-on-{node}")


A, B = a_writer("a"), a_writer("b")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def disk(clock: HandClock) -> Disk:
    return Disk("disk-1", clock)


def test_a_clean_hand_over_is_no_corruption(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    clock.at = 10
    disk.stop(A)
    disk.start(B)
    clock.at = 20
    assert not disk.verdict().corrupted


def test_two_nodes_that_write_at_once_corrupt_the_disk(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    clock.at = 10
    disk.start(B)
    clock.at = 10.001
    clash = disk.verdict().clashes[0]
    assert (clash.earlier.writer, clash.later.writer, clash.since, clash.until) == (A, B, 10, 10.001)


def test_a_second_writer_has_done_no_harm_before_its_first_write(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    clock.at = 10
    disk.start(B)
    assert not disk.verdict().corrupted


def test_what_was_corrupted_stays_corrupted(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    clock.at = 10
    disk.start(B)
    clock.at = 11
    disk.stop(A)
    clock.at = 86_400 * 30
    assert disk.verdict().corrupted


def test_a_planned_end_counts_from_its_own_moment(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    disk.stop(A, at=10)
    clock.at = 9
    assert disk.writers() == [A]
    clock.at = 10
    assert disk.writers() == []
    disk.start(B)
    clock.at = 20
    assert not disk.verdict().corrupted


def test_a_planned_end_can_be_brought_forward_and_not_put_off(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    disk.stop(A, at=10)
    disk.stop(A, at=20)
    assert disk.writers() == [A]
    clock.at = 5
    disk.stop(A)
    clock.at = 30
    assert [hold.spans for hold in disk.holds()] == [((0, 5),)]


def test_two_pods_of_one_node_may_share_a_volume_of_one_node(disk: Disk, clock: HandClock) -> None:
    disk.start(a_writer("a", "first"))
    disk.start(a_writer("a", "second"))
    clock.at = 5
    assert not disk.verdict().corrupted


def test_a_volume_of_one_pod_tolerates_no_second_pod(clock: HandClock) -> None:
    disk = Disk("disk-1", clock, "ReadWriteOncePod")
    disk.start(a_writer("a", "first"))
    disk.start(a_writer("a", "second"))
    clock.at = 5
    assert disk.verdict().corrupted


def test_a_shared_volume_is_for_everybody(clock: HandClock) -> None:
    disk = Disk("disk-1", clock, "ReadWriteMany")
    disk.start(A)
    disk.start(B)
    clock.at = 5
    assert not disk.verdict().corrupted


def test_a_fenced_node_does_no_harm_though_it_goes_on_trying(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    clock.at = 10
    disk.fence("a")
    disk.start(B)
    clock.at = 100
    assert disk.writers() == [B]
    assert not disk.verdict().corrupted


def test_a_fence_that_is_lifted_lets_the_old_writer_in_again_and_that_corrupts(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    clock.at = 10
    disk.fence("a")
    disk.start(B)
    clock.at = 20
    disk.stop(B)
    clock.at = 30
    disk.unfence("a")
    clock.at = 31
    assert disk.verdict().corrupted, "A writes what it remembers from before B"


def test_a_node_that_booted_again_is_another_writer(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    clock.at = 10
    disk.stop(A)
    disk.start(B)
    clock.at = 20
    disk.stop(B)
    disk.start(a_writer("a", boot="2"))
    clock.at = 30
    assert not disk.verdict().corrupted


def test_a_container_that_restarts_writes_on_with_what_its_mount_remembers(disk: Disk, clock: HandClock) -> None:
    for start, end, writer in ((0, 5, A), (6, 7, B), (8, 9, A)):
        clock.at = start
        disk.start(writer)
        clock.at = end
        disk.stop(writer)
    assert disk.verdict().corrupted


def test_every_write_has_a_time_a_writer_and_a_number(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    clock.at = 0.25
    disk.stop(A)
    disk.start(B)
    clock.at = 0.4
    written = [(round(write.at, 2), write.writer.node, write.number) for write in disk.writes()]
    assert written == [(0.0, "a", 1), (0.1, "a", 2), (0.2, "a", 3), (0.25, "b", 1), (0.35, "b", 2)]


def test_a_verdict_over_a_year_of_writes_is_cheap(disk: Disk, clock: HandClock) -> None:
    for day in range(365):
        writer = a_writer(f"node-{day % 7}", uid=f"pod-{day}")
        disk.start(writer)
        clock.at += 86_400
        disk.stop(writer)
    assert not disk.verdict().corrupted
    assert len(disk.holds()) == 365


def test_the_story_names_both_writers_and_the_moments(disk: Disk, clock: HandClock) -> None:
    disk.start(A)
    clock.at = 10
    disk.start(B)
    clock.at = 12.5
    disk.stop(A)
    assert disk.verdict().story.splitlines() == [
        "disk disk-1 (ReadWriteOnce): CORRUPTED",
        "  00:00:00.000 to 00:00:12.500  a (pod db/db-0, uid pod-on-a, boot 1)",
        "  00:00:10.000 to 00:00:12.500  b (pod db/db-0, uid pod-on-b, boot 1)",
        (
            "  a still wrote as db/db-0 (uid pod-on-a) at 00:00:12.500, "
            "though b had begun to write as db/db-0 (uid pod-on-b) at 00:00:10.000"
        ),
    ]


def test_disks_are_found_by_their_handle_and_the_bad_ones_by_their_verdict(clock: HandClock) -> None:
    disks = Disks(clock)
    disks.at("good").start(A)
    disks.at("bad").start(A)
    disks.at("bad").start(B)
    clock.at = 1
    assert [verdict.disk for verdict in disks.corrupted()] == ["bad"]
    assert disks.at("good") is disks.at("good")


# The second judge: time is a row of ticks, and in each of them everybody who may write writes one line into a log.

WRITERS = [a_writer(node, uid, boot) for node in "ab" for boot in "12" for uid in ("x", "y")]


class Deed(msgspec.Struct, frozen=True):
    at: int
    what: str
    writer: Writer
    until: int = 0


DEEDS = st.lists(
    st.builds(
        Deed,
        at=st.integers(0, 12),
        what=st.sampled_from(["start", "start", "stop", "stop later", "fence", "unfence"]),
        writer=st.sampled_from(WRITERS),
        until=st.integers(0, 14),
    ),
    max_size=14,
).map(lambda deeds: sorted(deeds, key=lambda deed: deed.at))
END = 15


def do(disk: Disk, deed: Deed) -> None:
    match deed.what:
        case "start":
            disk.start(deed.writer)
        case "stop":
            disk.stop(deed.writer)
        case "stop later":
            disk.stop(deed.writer, at=deed.until)
        case "fence":
            disk.fence(deed.writer.node)
        case "unfence":
            disk.unfence(deed.writer.node)


class Tape:
    """Plays the deeds tick by tick and logs who wrote in each."""

    def __init__(self) -> None:
        self.ends: dict[Writer, float] = {}
        self.fenced: set[str] = set()
        self.log: dict[Writer, list[int]] = {}

    def play(self, deeds: list[Deed], until: int) -> None:
        for tick in range(until):
            for deed in deeds:
                if deed.at == tick:
                    self._do(deed)
            for writer, end in self.ends.items():
                if tick < end and writer.node not in self.fenced:
                    self.log.setdefault(writer, []).append(tick)

    def _do(self, deed: Deed) -> None:
        match deed.what:
            case "start":
                self.ends[deed.writer] = float("inf")
            case "stop" | "stop later":
                wished = deed.at if deed.what == "stop" else max(deed.until, deed.at)
                self.ends[deed.writer] = min(self.ends.get(deed.writer, 0), wished)
            case "fence":
                self.fenced.add(deed.writer.node)
            case "unfence":
                self.fenced.discard(deed.writer.node)

    def corrupted(self, mode: str) -> bool:
        return any(
            excludes(mode, one, other) and not (max(mine) < min(theirs) or max(theirs) < min(mine))
            for one, mine in self.log.items()
            for other, theirs in self.log.items()
        )


def excludes(mode: str, one: Writer, other: Writer) -> bool:
    match mode:
        case "ReadWriteMany":
            return False
        case "ReadWriteOncePod":
            return one != other
        case _:
            return one.node != other.node or one.boot != other.boot


@settings(max_examples=1000, deadline=None)
@given(deeds=DEEDS, mode=st.sampled_from(MODES))
def test_the_disk_agrees_with_a_judge_that_looks_at_every_tick(deeds: list[Deed], mode: str) -> None:
    clock = HandClock()
    disk = Disk("disk-1", clock, mode, writes_per_second=1.0)
    for deed in deeds:
        clock.at = float(deed.at)
        do(disk, deed)
    clock.at = float(END)
    tape = Tape()
    tape.play(deeds, END)
    assert disk.verdict().corrupted == tape.corrupted(mode)
    written: dict[Writer, list[int]] = {}
    for write in disk.writes():
        written.setdefault(write.writer, []).append(int(write.at))
    assert written == tape.log


@settings(max_examples=300, deadline=None)
@given(deeds=DEEDS, mode=st.sampled_from(MODES), cut=st.integers(0, END))
def test_a_verdict_never_improves_with_time(deeds: list[Deed], mode: str, cut: int) -> None:
    clock = HandClock()
    disk = Disk("disk-1", clock, mode)
    was_corrupted = False
    for deed in [*deeds, Deed(END, "fence", A)]:
        for moment in range(int(clock.at), deed.at):
            clock.at = float(moment)
            if moment == cut:
                was_corrupted = disk.verdict().corrupted
        clock.at = float(deed.at)
        do(disk, deed)
    assert disk.verdict().corrupted or not was_corrupted
