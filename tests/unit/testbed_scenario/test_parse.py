"""A story is read as it is written, and what cannot be read is one line that helps."""

import pytest

from testbed.scenario.conditions import (
    Always,
    AnyEventSeen,
    DiskIs,
    DiskState,
    EventSeen,
    Never,
    NodeCondition,
    NodeIs,
    NodeIsTainted,
    Now,
    PodIs,
    PodsAre,
    PodState,
    Within,
)
from testbed.scenario.deeds import Flap, ForceDeletePod, Harm, PowerOff, Scale, Slow, TaintOutOfService
from testbed.scenario.errors import StoryError
from testbed.scenario.parse import parse
from testbed.scenario.story import (
    Access,
    BarePod,
    DaemonSet,
    Deployment,
    MaxUnavailable,
    MinAvailable,
    NamedNode,
    NewName,
    NodeOf,
    Nodes,
    NodesInZone,
    Phrase,
    PodName,
    StatefulSet,
    StatefulSetWithVolume,
    ThatNode,
    Timers,
    Word,
    WorkloadName,
)

HEADER = "nodes n1 n2\nstatefulset db replicas 2 volume RWO\ndeployment web replicas 2\npod solo\n"


def step(text: str, *, after: str = "hang n1") -> Phrase:
    """The last of a story's steps; by then harm was done, so that `that node` is somebody."""
    return parse(f"{HEADER}{after}\n{text}\n").steps[-1].does


def refusal(text: str, *, header: str = HEADER) -> str:
    with pytest.raises(StoryError) as refused:
        parse(header + text, "tests/scenarios/x.story")
    return str(refused.value)


def test_the_header_says_what_the_cluster_has() -> None:
    story = parse(
        """
        # Two zones, all kinds of workloads.
        # Nothing happens.

        timers compressed
        nodes n1 n2 in zone-a
        nodes n3
        deployment web replicas 3
        statefulset queue replicas 2
        statefulset db replicas 1 volume RWOP
        daemonset agent
        pod solo
        budget web min-available 2
        budget db max-unavailable 0

        wait 1s
        """,
        "tests/scenarios/two-zones.story",
    )
    assert story.name == "two-zones"
    assert story.title == "Two zones, all kinds of workloads. Nothing happens."
    assert story.timers is Timers.COMPRESSED
    assert story.nodes == (
        NodesInZone(names=(NewName("n1"), NewName("n2")), zone=NewName("zone-a")),
        Nodes(names=(NewName("n3"),)),
    )
    assert story.node_names == ("n1", "n2", "n3")
    assert story.workloads == (
        Deployment(name=NewName("web"), replicas=3),
        StatefulSet(name=NewName("queue"), replicas=2),
        StatefulSetWithVolume(name=NewName("db"), replicas=1, access=Access.RWOP),
        DaemonSet(name=NewName("agent")),
        BarePod(name=NewName("solo")),
    )
    assert story.budgets == (
        MinAvailable(workload=WorkloadName("web"), count=2),
        MaxUnavailable(workload=WorkloadName("db"), count=0),
    )


def test_timers_are_those_of_kubernetes_unless_the_story_says_otherwise() -> None:
    assert parse("nodes n1\nwait 1s").timers is Timers.DEFAULT


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5), ("0.5s", 0.5), ("2m", 120), ("1m30s", 90), ("60m", 3600), ("0s", 0)]
)
def test_a_time_is_written_in_minutes_and_seconds(text: str, seconds: float) -> None:
    assert step(f"slow n1 by {text}") == Slow(node=NamedNode("n1"), seconds=seconds)


def test_a_step_has_its_line_its_text_and_its_time() -> None:
    first, second = parse(f"{HEADER}\nat 1m5s   hang n1   # as kubelets do\nwait 3s").steps
    assert (first.line, first.text, first.at) == (6, "hang n1", 65.0)
    assert (second.line, second.text, second.at) == (7, "wait 3s", None)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("n2", NamedNode("n2")),
        ("node n2", NamedNode("n2")),
        ("node of db-1", NodeOf(PodName("db-1"))),
        ("node of web", NodeOf(PodName("web"))),
        ("that node", ThatNode()),
    ],
)
def test_a_node_is_named_by_itself_by_its_pod_or_by_what_was_done_to_it(text: str, where: NamedNode) -> None:
    assert step(f"power off {text}") == PowerOff(node=where)
    assert step(f"expect {text} Ready") == Now(condition=NodeIs(node=where, state=NodeCondition.READY))


@pytest.mark.parametrize(
    ("text", "deed"),
    [
        ("flap n1 silent 2s alive 8s", Flap(node=NamedNode("n1"), silent=2, alive=8)),
        ("force delete pod db-0", ForceDeletePod(pod=PodName("db-0"))),
        ("taint that node out-of-service", TaintOutOfService(node=ThatNode())),
        ("scale web to 5", Scale(workload=WorkloadName("web"), replicas=5)),
    ],
)
def test_deeds(text: str, deed: Phrase) -> None:
    assert step(text) == deed


RUNNING_ELSEWHERE = PodIs(pod=PodName("db-0"), state=PodState.RUNNING, elsewhere=True)


@pytest.mark.parametrize(
    ("text", "expectation"),
    [
        ("expect pod db-0 Running elsewhere within 60s", Within(condition=RUNNING_ELSEWHERE, seconds=60)),
        ("expect never pod db-0 running elsewhere for 2m", Never(condition=RUNNING_ELSEWHERE, seconds=120)),
        ("expect pod db-0 Running elsewhere", Now(condition=RUNNING_ELSEWHERE)),
        (
            "expect always pods web ready 2 for 3s",
            Always(
                condition=PodsAre(workload=WorkloadName("web"), state=PodState.READY, count=2, elsewhere=False),
                seconds=3,
            ),
        ),
        ("expect disk of db-0 corrupt", Now(condition=DiskIs(pod=PodName("db-0"), state=DiskState.CORRUPT))),
        (
            "expect n1 tainted out-of-service",
            Now(condition=NodeIsTainted(node=NamedNode("n1"), key=Word("out-of-service"))),
        ),
        ("expect event NodeNotReady", Now(condition=AnyEventSeen(reason=Word("NodeNotReady")))),
        (
            "expect event NodeNotReady about db-0 within 3s",
            Within(condition=EventSeen(reason=Word("NodeNotReady"), name=Word("db-0")), seconds=3),
        ),
    ],
)
def test_expectations(text: str, expectation: Phrase) -> None:
    assert step(text) == expectation


def test_harm_is_what_makes_a_node_that_node() -> None:
    assert isinstance(step("drain n1 within 5s"), Harm)
    assert not isinstance(step("cordon n1"), Harm)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pwer off n1", "no sentence of a story begins with `pwer`; did you mean `power`?"),
        ("juggle n1", "no sentence of a story begins with `juggle`; docs/scenarios.md lists them all"),
        ("power n1", "expected `off` or `on` after `power`, found `n1`; a whole line is `power off {node}`"),
        ("slow n1 by a-lot", "expected a time such as 5s or 1m30s after `slow n1 by`, found `a-lot`"),
        ("at 5 hang n1", "expected a time such as 5s or 1m30s after `at`, found `5`"),
        ("expect disk of db-0 corupt", "after `expect disk of db-0`, found `corupt`; did you mean `corrupt`?"),
        ("expect pod db-0 Runing", "expected one of Pending, Running, Ready, Terminating, Succeeded, Failed, gone"),
        ("hang n1\nexpect pod db-0 Ready elswhere", "found `elswhere`; did you mean `elsewhere`?"),
        (
            "expect pods web Ready 2 within",
            "expected a time such as 5s or 1m30s after `expect pods web Ready 2 within`",
        ),
        ("hang n1 now", "expected the end of the line after `hang n1`, found `now`"),
        ("hang N1", "expected a node (its name, `node of POD`, or `that node`) after `hang`, found `N1`"),
    ],
)
def test_what_cannot_be_read_names_the_line_what_was_expected_and_a_guess(text: str, why: str) -> None:
    said = refusal(text)
    assert said.startswith(f"tests/scenarios/x.story:{5 + text.count(chr(10))}: ")
    assert why in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hang n4", "this story has no node `n4`; it has n1, n2"),
        ("hang node of db-2", "this story has no pod or workload `db-2`; did you mean `db-1`?"),
        ("scale wep to 1", "this story has no workload `wep`; did you mean `web`?"),
        ("heal that node", "`that node` is the one that the last harm was done to, and none was done so far"),
        ("expect pod db-0 Ready elsewhere", "`elsewhere` is every node but the one that the last harm was done to"),
        ("at 9s hang n1\nat 8s heal n1", "time goes back here: an earlier line is at 9s"),
        ("wait 1s\ndaemonset agent", "`daemonset agent` belongs before the first step, which is on line 5"),
    ],
)
def test_a_story_speaks_only_of_what_it_has_declared(text: str, why: str) -> None:
    assert why in refusal(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("wait 1s", "a story needs nodes"),
        ("nodes n1\n", "nothing happens in this story"),
        ("nodes n1 n1\nwait 1s", ":1: `node n1` is declared twice"),
        ("nodes n1\npod web\ndeployment web replicas 1\nwait 1s", ":3: `web` is declared twice"),
        ("nodes n1\ntimers default\ntimers default\nwait 1s", ":3: `timers` is declared twice"),
        ("nodes n1\nbudget web min-available 1\nwait 1s", ":2: this story has no workload `web`"),
        ("nodes n1\nstatefulset db replicas 1 volume RWQ\nwait 1s", "expected one of RWO, RWOP, RWX"),
        ("nodes\nwait 1s", "expected names"),
        ("timers fast\nnodes n1\nwait 1s", "expected one of default, compressed"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(text: str, why: str) -> None:
    assert why in refusal(text, header="")
