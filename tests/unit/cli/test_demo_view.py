"""What the demo shows of a moment on a terminal."""

from datetime import timedelta

import msgspec
import pytest
from rich.console import Console

from defib.cli.demo.story import POWER, Spoken
from defib.cli.demo.view import NO_BREAK, Shown, connect_hint, screen, story
from defib.decide.changes import Change, What
from defib.decide.plan import NOTHING
from defib.model.cluster import Blindness
from defib.model.incident import Phase
from defib.model.verdict import State, Verdict
from defib.picture import Picture, Told
from tests.builders import SECOND, T0, a_node
from tests.unit.cli.demo_scenes import NAMES, a_picture, a_verdict, an_incident, shown

LOST = a_node("n1", ready="Unknown")
SUSPECT = a_verdict("n1", State.SUSPECT, since=T0 + 2 * SECOND)
HELD = a_verdict("n1", State.UNHEALTHY, reason="Brake", message="the brake is on")
AT_WORK = a_verdict("n1", State.REMEDIATING, reason="Remediating")
RECOVERING = a_verdict("n1", State.RECOVERING)


def drawn(scene: Shown, width: int = 80, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(screen(scene, width, height))
    return capture.get().replace(NO_BREAK, " ").splitlines()


def row(scene: Shown, node: str, width: int = 80) -> str:
    return next(line.strip() for line in drawn(scene, width) if line.split()[:1] == [node])


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (120, 40), (200, 60)])
def test_a_frame_fits_the_terminal_and_has_every_node_whole(width: int, height: int) -> None:
    told = tuple(Told(T0, Change(NAMES[n % 9], What.NOT_READY, "Ready is Unknown " * 9)) for n in range(50))
    nodes = [a_node(name, ready="Unknown") for name in NAMES]
    verdicts = tuple(a_verdict(name, State.REMEDIATING, reason="Remediating") for name in NAMES)
    picture = a_picture(*nodes, verdicts=verdicts, told=told)
    long = "Defib switches zone-b-4 off, and reads back that it is: only then may its disks be used elsewhere. " * 2
    frame = drawn(shown(picture, caption=long, playing="The leader is killed"), width, height)
    assert len(frame) <= height
    assert all(len(line.rstrip()) <= width for line in frame)
    assert [line.split()[0] for line in frame if line.split()[:1] and line.split()[0] in NAMES] == NAMES
    assert sum(line.rstrip().endswith("remediating: Remediating") for line in frame) == len(NAMES)


def test_what_defib_sees_is_cut_off_before_the_name_of_a_node_is() -> None:
    held = a_verdict(NAMES[0], State.UNHEALTHY, reason="ForeignRemediation", message="somebody else is at work")
    frame = drawn(shown(a_picture(a_node(NAMES[0], ready="Unknown"), verdicts=(held,))), 80, 24)
    header = next(line for line in frame if "NODE" in line)
    assert header.split() == ["NODE", "READY", "POWER", "PODS", "UP", "HEARTBEAT", "DEFIB", "SEES"]
    assert any(line.split()[:1] == [NAMES[0]] for line in frame)


def test_a_narrow_terminal_shows_fewer_columns_and_no_torn_ones() -> None:
    scene = shown(a_picture(LOST, verdicts=(HELD,)))
    frame = drawn(scene, 60, 24)
    header = next(line for line in frame if "NODE" in line)
    assert header.split() == ["NODE", "READY", "PODS", "UP", "HEARTBEAT", "DEFIB", "SEES"]


def test_what_stands_below_the_events_does_not_move_as_they_come() -> None:
    lines = tuple(Spoken(T0, POWER, f"event {number}") for number in range(4))
    quiet, busy = drawn(shown(), height=40), drawn(shown(lines=lines), height=40)
    keys = next(line for line in quiet if "1 A node hangs" in line)
    assert quiet.index(keys) == busy.index(keys)


def test_keys_page_kubectl_and_what_is_real_are_in_every_frame() -> None:
    scene = shown()
    frame = "\n".join(drawn(scene, 100, 30))
    for words in (connect_hint(scene), scene.page, "1 A node hangs", "q quit", "the operator is the real one"):
        assert words in frame


def test_who_leads_is_shown_and_that_nobody_does() -> None:
    assert any("defib-0 leads, defib-1 stands by" in line for line in drawn(shown(), 100))
    nobody = shown(replicas=("defib-1",), leader="", databases={"db-0": "", "db-1": "zone-b-1"})
    assert any("defib-1 stands by   db-0 nowhere, db-1 on zone-b-1" in line for line in drawn(nobody, 100))


def test_the_scene_that_plays_is_named_before_its_caption() -> None:
    frame = drawn(shown(playing="A zone is lost", caption="A whole zone is silent."), 100)
    assert any(line.strip() == "A zone is lost: A whole zone is silent." for line in frame)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (SUSPECT, "suspect: 2.0 s to go"),
        (HELD, "unhealthy: held back by Brake"),
        (a_verdict("n1", State.REMEDIATING, reason="TimedOut"), "remediating: TimedOut"),
        (RECOVERING, "recovering"),
        (None, "well"),
    ],
)
def test_each_node_has_its_power_its_pods_its_verdict_and_why(verdict: Verdict | None, words: str) -> None:
    picture = a_picture(LOST, verdicts=(verdict,) if verdict else ())
    scene = shown(picture, pods={"n1": 7}, power={"n1": False})
    assert row(scene, "n1").split()[:4] == ["n1", "Unknown", "OFF", "7"]
    assert row(scene, "n1").endswith(words)
    assert row(scene, "n1", width=60).endswith(words.partition(":")[0])


def test_a_power_cycle_shows_how_far_it_is() -> None:
    begun = a_picture(LOST, verdicts=(AT_WORK,), incidents=(an_incident("n1", Phase.FREEING),))
    over = a_picture(LOST, verdicts=(AT_WORK,), incidents=(an_incident("n1", Phase.CLOSED),))
    assert row(shown(begun), "n1").endswith("remediating: FreeingWorkloads")
    assert row(shown(over), "n1").endswith("remediating: Remediating")


def test_a_node_that_no_check_selects_says_so() -> None:
    assert row(shown(msgspec.structs.replace(a_picture(LOST), plan=NOTHING)), "n1").endswith("no check")


@pytest.mark.parametrize(("silent", "words"), [(4 * SECOND, "silent"), (SECOND, "well")])
def test_a_node_whose_heartbeat_is_late_is_called_silent_before_kubernetes_notices(
    silent: timedelta, words: str
) -> None:
    assert row(shown(a_picture(silent=silent)), NAMES[0]).endswith(words)


def blind(picture: Picture, kind: str) -> Picture:
    cluster = msgspec.structs.replace(picture.cluster, blind=(Blindness(kind, T0, "cut"),))
    return msgspec.structs.replace(picture, cluster=cluster)


def test_nothing_is_called_well_while_defib_is_blind() -> None:
    assert row(shown(blind(a_picture(), "nodes")), NAMES[0]).endswith("cannot see now")


def test_a_kind_that_says_nothing_of_nodes_may_be_out_of_sight() -> None:
    assert row(shown(blind(a_picture(), "pods on n1")), NAMES[0]).endswith("well")


def test_the_story_is_in_the_order_of_time() -> None:
    told = (
        Told(T0 - 2 * SECOND, Change("n1", What.JOINED)),
        Told(T0, Change("n1", What.NOT_READY, "Ready is Unknown")),
    )
    lines = (Spoken(T0 - SECOND, POWER, "n1 hangs", bad=True),)
    assert [str(line) for line in story(shown(a_picture(told=told), lines=lines))] == [
        "23:59:58  kube   n1 joined",
        "23:59:59  power  n1 hangs",
        "00:00:00  kube   n1 not ready: Ready is Unknown",
    ]


def test_a_hostile_name_cannot_steer_the_terminal() -> None:
    evil = "n1\x1b[2J[bold]x"
    scene = shown(a_picture(a_node(evil), told=(Told(T0, Change(evil, What.LEFT)),)))
    frame = "\n".join(drawn(scene, 120, 40))
    assert "\x1b" not in frame
    assert "n1\\x1b[2J[bold]x" in frame
