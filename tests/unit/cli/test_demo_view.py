"""What the demo shows of a scene."""

from datetime import timedelta

import msgspec
import pytest
from rich.console import Console

from defib.app import Picture, Told
from defib.cli.demo_view import HONESTY, Scene, Spoken, connect_hint, happening, screen, story
from defib.decide.changes import Change, What
from defib.model.cluster import Blindness, Cluster
from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec, Node
from tests.builders import SECOND, T0, a_cluster, a_node

NAMES = [f"zone-{zone}-{number}" for zone in "abc" for number in (1, 2, 3)]


def a_scene(
    *nodes: Node, victim: str = "", has_power: bool = True, told: tuple[Told, ...] = (), silent: timedelta = SECOND
) -> Scene:
    cluster = a_cluster(*(nodes or [a_node(name) for name in NAMES]))
    return Scene(
        now=T0,
        picture=Picture(with_heartbeats(cluster, silent), story=told),
        power_events=(Spoken(T0 - SECOND, "power", f"{victim} loses its power", bad=True),) if victim else (),
        victim=victim,
        has_power=has_power,
        machines=9,
        zones=3,
        speed=10,
        grace_seconds=5,
        kubeconfig="/tmp/defib-demo-abcdefgh/kubeconfig",
    )


def with_heartbeats(cluster: Cluster, age: timedelta) -> Cluster:
    leases = {
        f"kube-node-lease/{name}": Lease(metadata=Meta(name=name), spec=LeaseSpec(renew_time=cluster.now - age))
        for name in cluster.nodes
    }
    return msgspec.structs.replace(cluster, heartbeats=leases)


def drawn(scene: Scene, width: int = 80, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(screen(scene, width, height))
    return capture.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (120, 40), (200, 60)])
def test_a_frame_fits_the_terminal_and_has_every_node_whole(width: int, height: int) -> None:
    told = tuple(Told(T0, Change(NAMES[n % 9], What.NOT_READY, "Ready is Unknown " * 9)) for n in range(50))
    frame = drawn(a_scene(*[a_node(n, ready="Unknown") for n in NAMES], victim="zone-b-2", told=told), width, height)
    assert len(frame) <= height
    assert all(len(line.rstrip()) <= width for line in frame)
    assert [line.split()[0] for line in frame if line.strip().startswith("zone-") and "Node" in line][:9] == NAMES
    assert all("NodeStatusUnknown" in line for line in frame[3:12])


def test_a_narrow_terminal_shows_fewer_columns_and_no_torn_ones() -> None:
    frame = drawn(a_scene(*[a_node(n, ready="Unknown") for n in NAMES]), 60, 24)
    header = next(line for line in frame if "NODE" in line)
    assert header.split() == ["NODE", "READY", "HEARTBEAT", "SINCE", "DEFIB", "SEES"]
    assert not any("\u2026" in line for line in frame)


def test_the_way_in_for_kubectl_and_the_honest_word_are_in_every_frame() -> None:
    scene = a_scene()
    frame = "\n".join(drawn(scene))
    assert connect_hint(scene) in frame
    assert HONESTY in frame


@pytest.mark.parametrize(
    ("has_power", "ready", "words"),
    [
        (False, "True", "n1 lost its power. Kubernetes notices after 5 s without heartbeat."),
        (False, "Unknown", "Kubernetes gave n1 up. Defib sees it, and in this version only watches."),
        (True, "Unknown", "n1 has power again and boots."),
        (True, "True", "n1 is back, with a new boot ID."),
    ],
)
def test_one_sentence_says_where_the_story_is(has_power: bool, ready: str, words: str) -> None:
    assert happening(a_scene(a_node("n1", ready=ready), victim="n1", has_power=has_power)) == words


def test_before_anything_happens_all_is_well() -> None:
    assert happening(a_scene()).startswith("All is well.")


def test_a_node_whose_heartbeat_is_late_is_called_silent_before_kubernetes_notices() -> None:
    assert any(line.split()[-1:] == ["silent"] for line in drawn(a_scene(silent=4 * SECOND)))
    assert not any(line.split()[-1:] == ["silent"] for line in drawn(a_scene(silent=SECOND)))


def test_nothing_is_called_well_while_defib_is_blind() -> None:
    scene = a_scene()
    blind = msgspec.structs.replace(scene.picture.cluster, blind=(Blindness("nodes", T0, "cut"),))
    frame = drawn(msgspec.structs.replace(scene, picture=Picture(blind)))
    assert not any(line.split()[-1:] == ["well"] for line in frame)


def test_the_story_is_in_the_order_of_time_and_nodes_that_join_together_are_one_line() -> None:
    told = tuple(Told(T0 - 2 * SECOND, Change(name, What.JOINED)) for name in NAMES)
    told += (Told(T0, Change("n1", What.NOT_READY, "Ready is Unknown")),)
    lines = [str(line) for line in story(a_scene(victim="n1", told=told))]
    assert lines == [
        "23:59:58  defib  9 nodes joined",
        "23:59:59  power  n1 loses its power",
        "00:00:00  defib  n1 not ready: Ready is Unknown",
    ]


def test_a_hostile_name_cannot_steer_the_terminal() -> None:
    evil = "n1\x1b[2J[bold]x"
    scene = a_scene(a_node(evil), told=(Told(T0, Change(evil, What.LEFT)),))
    frame = "\n".join(drawn(scene, 120, 40))
    assert "\x1b" not in frame
    assert "n1\\x1b[2J[bold]x" in frame
