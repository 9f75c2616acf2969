"""What the demo shows of a scene."""

from datetime import timedelta

import msgspec
import pytest
from rich.console import Console

from defib.cli.demo_story import POWER, Spoken
from defib.cli.demo_view import HONESTY, Outage, Scene, connect_hint, happening, screen, story
from defib.decide.changes import Change, What
from defib.decide.plan import NOTHING
from defib.model.cluster import Blindness
from defib.model.verdict import State, Verdict
from defib.picture import Picture, Told
from tests.builders import SECOND, T0, a_node
from tests.unit.cli.demo_scenes import NAMES, a_picture, a_remediation, a_scene, a_verdict, an_outage

LOST = a_node("n1", ready="Unknown")
SUSPECT = a_verdict("n1", State.SUSPECT, since=T0 + 2 * SECOND)
HELD = a_verdict("n1", State.UNHEALTHY, reason="Brake", message="the brake is on")
AT_WORK = a_verdict("n1", State.REMEDIATING, reason="Remediating")
RECOVERING = a_verdict("n1", State.RECOVERING)


def drawn(scene: Scene, width: int = 80, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(screen(scene, width, height))
    return capture.get().splitlines()


def row(scene: Scene, node: str, width: int = 80) -> str:
    return next(line.strip() for line in drawn(scene, width) if line.split()[:1] == [node])


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (120, 40), (200, 60)])
def test_a_frame_fits_the_terminal_and_has_every_node_whole(width: int, height: int) -> None:
    told = tuple(Told(T0, Change(NAMES[n % 9], What.NOT_READY, "Ready is Unknown " * 9)) for n in range(50))
    nodes = [a_node(name, ready="Unknown") for name in NAMES]
    verdicts = tuple(a_verdict(name, State.REMEDIATING, reason="Remediating") for name in NAMES)
    moved = tuple(a_remediation(name, moved=10) for name in NAMES)
    picture = a_picture(*nodes, verdicts=verdicts, remediations=moved, told=told)
    frame = drawn(a_scene(picture, outage=an_outage("zone-b-2", served_after=8.5)), width, height)
    assert len(frame) <= height
    assert all(len(line.rstrip()) <= width for line in frame)
    assert [line.split()[0] for line in frame[3:12]] == NAMES
    assert all(line.rstrip().endswith("remediating: 10 pods moved") for line in frame[3:12])


def test_a_narrow_terminal_shows_fewer_columns_and_no_torn_ones() -> None:
    scene = a_scene(a_picture(LOST, verdicts=(HELD,)))
    frame = drawn(scene, 60, 24)
    header = next(line for line in frame if "NODE" in line)
    assert header.split() == ["NODE", "READY", "PODS", "HEARTBEAT", "SINCE", "DEFIB", "SEES"]
    assert not any("\u2026" in line for line in frame[1:])
    assert " ".join(line.strip() for line in frame[-2:]) == connect_hint(scene)


def test_what_stands_below_the_events_does_not_move_as_they_come() -> None:
    scene = a_scene()
    lines = tuple(Spoken(T0, POWER, f"event {number}") for number in range(4))
    quiet, busy = drawn(scene), drawn(msgspec.structs.replace(scene, lines=lines))
    assert quiet.index(f" {HONESTY}".ljust(80)) == busy.index(f" {HONESTY}".ljust(80))


def test_the_way_in_for_kubectl_and_the_honest_word_are_in_every_frame() -> None:
    scene = a_scene()
    frame = "\n".join(drawn(scene))
    assert connect_hint(scene) in frame
    assert HONESTY in frame


@pytest.mark.parametrize(
    ("ready", "verdict", "outage", "words"),
    [
        ("True", None, an_outage("n1"), "n1 lost its power. Kubernetes notices after 5 s without heartbeat."),
        (
            "Unknown",
            SUSPECT,
            an_outage("n1"),
            "Kubernetes gave n1 up. Defib waits for 3 s, in case it comes back.",
        ),
        ("Unknown", HELD, an_outage("n1"), "Kubernetes gave n1 up. Defib holds back: the brake is on."),
        ("Unknown", AT_WORK, an_outage("n1"), "Kubernetes gave n1 up. Defib lets its pods start elsewhere."),
        (
            "Unknown",
            AT_WORK,
            an_outage("n1", served_after=8.46),
            "2 pods of n1 run elsewhere, 8.5 s after the power was lost. Kubernetes alone would have taken about 35 s.",
        ),
        (
            "Unknown",
            HELD,
            an_outage("n1", served_after=34.5, by_defib=False),
            "2 pods of n1 run elsewhere, 34.5 s after the power was lost. Kubernetes did it alone.",
        ),
        (
            "Unknown",
            AT_WORK,
            an_outage("n1", has_power=True),
            "n1 has power again and boots. Its pods stay where they are.",
        ),
        ("True", RECOVERING, an_outage("n1", has_power=True), "n1 is back. Defib removes its remediation."),
        ("True", None, an_outage("n1", has_power=True), "n1 is back, and Defib is done with it."),
    ],
)
def test_a_sentence_says_where_the_story_is(ready: str, verdict: Verdict | None, outage: Outage, words: str) -> None:
    picture = a_picture(a_node("n1", ready=ready), verdicts=(verdict,) if verdict else ())
    assert happening(a_scene(picture, outage=outage)) == words


def test_before_anything_happens_all_is_well() -> None:
    assert happening(a_scene()).startswith("All is well.")


def test_a_node_that_somebody_removed_meanwhile_is_not_called_well() -> None:
    said = happening(a_scene(outage=an_outage("n1")))
    assert said == "n1 lost its power, and somebody removed it from the cluster."


def test_without_a_check_the_sentence_says_what_kubernetes_does() -> None:
    unchecked = msgspec.structs.replace(a_picture(LOST), plan=NOTHING)
    said = happening(a_scene(unchecked, outage=an_outage("n1")))
    assert said == "Kubernetes gave n1 up. By itself, it waits 30 s before its pods may leave."


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (SUSPECT, "suspect: 2.0 s to go"),
        (HELD, "unhealthy: Brake"),
        (a_verdict("n1", State.REMEDIATING, reason="Starting"), "remediating: starting"),
        (a_verdict("n1", State.REMEDIATING, reason="TimedOut"), "remediating: TimedOut"),
        (AT_WORK, "remediating: 2 pods moved"),
        (RECOVERING, "recovering"),
        (None, "well"),
    ],
)
def test_each_node_has_its_pods_its_verdict_and_why(verdict: Verdict | None, words: str) -> None:
    remediations = (a_remediation("n1", moved=2),) if verdict is AT_WORK else ()
    picture = a_picture(LOST, verdicts=(verdict,) if verdict else (), remediations=remediations)
    scene = msgspec.structs.replace(a_scene(picture), pods={"n1": 7})
    assert row(scene, "n1").split()[:3] == ["n1", "Unknown", "7"]
    assert row(scene, "n1").endswith(words)
    assert row(scene, "n1", width=60).endswith(words.partition(":")[0])


def test_a_node_that_no_check_selects_says_so() -> None:
    assert row(a_scene(msgspec.structs.replace(a_picture(LOST), plan=NOTHING)), "n1").endswith("no check")


@pytest.mark.parametrize(("silent", "words"), [(4 * SECOND, "silent"), (SECOND, "well")])
def test_a_node_whose_heartbeat_is_late_is_called_silent_before_kubernetes_notices(
    silent: timedelta, words: str
) -> None:
    assert row(a_scene(a_picture(silent=silent)), NAMES[0]).endswith(words)


def blind(picture: Picture, kind: str) -> Picture:
    cluster = msgspec.structs.replace(picture.cluster, blind=(Blindness(kind, T0, "cut"),))
    return msgspec.structs.replace(picture, cluster=cluster)


def test_nothing_is_called_well_while_defib_is_blind() -> None:
    assert row(a_scene(blind(a_picture(), "nodes")), NAMES[0]).endswith("cannot see now")


def test_a_kind_that_says_nothing_of_nodes_may_be_out_of_sight() -> None:
    assert row(a_scene(blind(a_picture(), "pods on n1")), NAMES[0]).endswith("well")


def test_the_story_is_in_the_order_of_time() -> None:
    told = (
        Told(T0 - 2 * SECOND, Change("n1", What.JOINED)),
        Told(T0, Change("n1", What.NOT_READY, "Ready is Unknown")),
    )
    lines = (Spoken(T0 - SECOND, POWER, "n1 loses its power", bad=True),)
    assert [str(line) for line in story(msgspec.structs.replace(a_scene(a_picture(told=told)), lines=lines))] == [
        "23:59:58  kube   n1 joined",
        "23:59:59  power  n1 loses its power",
        "00:00:00  kube   n1 not ready: Ready is Unknown",
    ]


def test_a_hostile_name_cannot_steer_the_terminal() -> None:
    evil = "n1\x1b[2J[bold]x"
    scene = a_scene(a_picture(a_node(evil), told=(Told(T0, Change(evil, What.LEFT)),)))
    frame = "\n".join(drawn(scene, 120, 40))
    assert "\x1b" not in frame
    assert "n1\\x1b[2J[bold]x" in frame
