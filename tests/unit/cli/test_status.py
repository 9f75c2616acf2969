"""What `defib status`, `incidents` and `timeline` print: one screen, calm, the worst first, and how they end."""

import re
from typing import Any

import msgspec
import pytest
import yaml
from rich.console import Console, RenderableType

from defib.cli import incidents as incidents_text
from defib.cli import status as status_text
from defib.cli import timeline as timeline_text
from defib.clock import SystemClock
from defib.console.incidents import Incidents
from defib.console.shards import Sharing
from defib.console.status import Status
from defib.console.timeline import Timeline
from defib.decide.answers.attention import Attention
from defib.decide.answers.overview import (
    CheckBrief,
    DrainBrief,
    FenceBrief,
    IncidentBrief,
    NodeBrief,
    Overview,
)
from defib.decide.answers.timeline import Happening
from defib.simulate.server import ApiServer
from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.unit.cli.at_the_prompt import Defib
from tests.unit.console.desk import a_server, add_check, add_nodes
from tests.unit.console.test_status import add_leader

HOSTILE = "\x1b[31mred\u202e\nnext"

WORKERS = CheckBrief(
    name="workers",
    mode="Automatic",
    phase="Remediating",
    reason="",
    nodes=9,
    healthy=7,
    unhealthy=2,
    remediating=1,
    closed=(),
)
ILL = NodeBrief(
    node="n5", state="Suspect", check="workers", reason="Suspect", message="Ready=Unknown; unhealthy soon", since=None
)
INCIDENT = IncidentBrief(
    name="n4",
    node="n4",
    phase="NeedsPerson",
    outcome="",
    cause="PowerCycleRemediation ns/n4",
    check="workers",
    message="its BMC does not answer",
    since=T0 - 20 * MINUTE,
    closed=None,
    seconds=None,
    is_open=True,
)
CLOSED = msgspec.structs.replace(
    INCIDENT, name="n2.0a1b2c3d", node="n2", phase="Closed", outcome="Recovered", seconds=252.0, is_open=False
)
OVERVIEW = Overview(
    now=T0,
    nodes=9,
    ready=6,
    states={"Unhealthy": 1, "Remediating": 1, "Suspect": 1, "Healthy": 5, "Unwatched": 1},
    ill=(ILL,),
    unwatched_ill=(),
    checks=(WORKERS,),
    brake="",
    incidents=(INCIDENT,),
    drains=(
        DrainBrief(
            node="n3",
            policy="all",
            phase="WaitingForApproval",
            reason="",
            message="",
            since=T0 - 12 * MINUTE,
            pods_left=2,
            has_failed=False,
        ),
    ),
    fences=(FenceBrief(template="ns/metal", covered=9, ready=8, not_ready={}),),
)
OPERATOR = Sharing(now=T0, is_shared=False, leader="defib-0", renewed=T0 - 3 * SECOND, lock="defib-system/defib-leader")


def a_status(**changes: Any) -> Status:
    told = Status(
        headline="2 of 9 nodes are not well",
        first=(
            Attention(message="the incident of node n4 needs a person", command="defib timeline n4"),
            Attention(message="it waits"),
        ),
        cluster=OVERVIEW,
        operator=OPERATOR,
        unknown=(),
        basis="Worked out.",
    )
    return msgspec.structs.replace(told, **changes)


def drawn(page: RenderableType, width: int = 80, *, colour: bool = False) -> str:
    console = Console(width=width, force_terminal=colour, color_system="standard" if colour else None, highlight=False)
    with console.capture() as capture:
        console.print(page)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_a_status_reads_like_this() -> None:
    assert (
        drawn(status_text.page(a_status(), 80))
        == """\
✗ 2 of 9 nodes are not well

Look at first
  1. the incident of node n4 needs a person
     → defib timeline n4
  2. it waits

  nodes        9: 5 healthy, 1 suspect, 1 unhealthy, 1 remediating, 1 looked
               after by no check
               n5 is suspect: Ready=Unknown; unhealthy soon
  brake        off
  incidents    n4: NeedsPerson, begun 20m ago
  drains       n3: WaitingForApproval, 2 pods left, begun 12m ago
  power        8 of 9 machines could be switched off
  operator     defib-0 leads, last heard of 3s ago

  CHECK    PHASE        NODES  WELL  ILL  ACTING  HELD BACK BY
  workers  Remediating      9     7    2       1

Worked out."""
    )


def test_a_status_that_is_well_or_unsure_says_so_at_the_top() -> None:
    assert drawn(status_text.page(a_status(first=(), headline="All is well"), 80)).startswith("✓ All is well\n")
    unsure = drawn(status_text.page(a_status(first=(), headline="All is well", unknown=("the locks",)), 80))
    assert unsure.startswith("? All is well, as far as can be seen\n")
    assert "not known    the locks" in unsure


def test_there_is_room_for_the_mode_on_a_wide_screen() -> None:
    assert "CHECK    MODE       PHASE" in drawn(status_text.page(a_status(), 120), 120)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_a_status_is_one_screen_wide_and_calm_however_much_is_wrong(width: int) -> None:
    much = tuple(Attention(message=f"thing {number}", command="defib why x") for number in range(50))
    many = tuple(msgspec.structs.replace(INCIDENT, name=f"n{number}") for number in range(50))
    cluster = msgspec.structs.replace(OVERVIEW, incidents=many, ill=(ILL,) * 50, brake="storage")
    text = drawn(status_text.page(a_status(first=much, cluster=cluster), width), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "and 40 more; -o json has them all" in text
    assert "and 40 more: defib incidents" in text
    assert text.count("is suspect") == 10


def test_replicas_that_share_the_nodes_are_told() -> None:
    nobody = msgspec.structs.replace(OPERATOR, leader="")
    assert "operator     nobody leads" in drawn(status_text.page(a_status(operator=nobody), 80))
    shared = msgspec.structs.replace(OPERATOR, is_shared=True)
    assert "operator     0 replicas share the nodes: ; defib-0 admits" in drawn(
        status_text.page(a_status(operator=shared), 80)
    )


def test_nothing_that_is_told_steers_the_terminal() -> None:
    cluster = msgspec.structs.replace(
        OVERVIEW,
        ill=(msgspec.structs.replace(ILL, node=HOSTILE, message=HOSTILE),),
        checks=(msgspec.structs.replace(WORKERS, name=HOSTILE, phase=HOSTILE),),
        incidents=(msgspec.structs.replace(INCIDENT, name=HOSTILE),),
    )
    told = a_status(headline=HOSTILE, first=(Attention(message=HOSTILE, command=HOSTILE),), cluster=cluster)
    text = drawn(status_text.page(told, 120), 120)
    listed = Incidents(now=T0, incidents=(msgspec.structs.replace(INCIDENT, message=HOSTILE, cause=HOSTILE),), closed=0)
    text += drawn(incidents_text.page(listed, HOSTILE, 120), 120)
    text += drawn(timeline_text.page(a_timeline(by=HOSTILE, message=HOSTILE)), 120)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_a_list_of_incidents_reads_like_this() -> None:
    told = Incidents(now=T0, incidents=(INCIDENT, CLOSED), closed=0)
    assert (
        drawn(incidents_text.page(told, "", 80))
        == """\
INCIDENT     STATE        BEGAN     TOOK  WHAT
n4           NeedsPerson  20m ago    20m  its BMC does not answer
n2.0a1b2c3d  Recovered    20m ago  4m12s  its BMC does not answer

More of one: defib timeline INCIDENT"""
    )
    assert "PowerCycleRemediation ns/n4" in drawn(incidents_text.page(told, "", 120), 120)


def test_that_there_are_no_incidents_is_told_too() -> None:
    none = Incidents(now=T0, incidents=(), closed=0)
    assert drawn(incidents_text.page(none, "", 80)) == "no incident is written down"
    some = Incidents(now=T0, incidents=(), closed=2, unknown=("one of them",))
    assert drawn(incidents_text.page(some, "n1", 80)).splitlines() == [
        "no incident of node n1 is open",
        "2 incidents closed; --all shows them too",
        "not known: one of them",
    ]


def a_timeline(count: int = 2, **changes: Any) -> Timeline:
    one = Happening(at=T0 - HOUR, kind="evidence", by="Kubernetes", message="Ready became Unknown", source="Node n1")
    told = [msgspec.structs.replace(one, at=T0 - HOUR + number * 90 * MINUTE, **changes) for number in range(count)]
    return Timeline(node="n1", now=T0, incident=None, happenings=tuple(told), checks=(), unknown=(), basis="From all.")


def test_a_timeline_reads_like_this() -> None:
    assert (
        drawn(timeline_text.page(a_timeline()))
        == """\
Node n1

Monday, 2029-12-31 (UTC)
  23:00:00          evidence  Kubernetes  Ready became Unknown

Tuesday, 2030-01-01 (UTC)
  00:30:00  +1h30m  evidence  Kubernetes  Ready became Unknown

From all."""
    )


def test_the_latest_of_a_long_timeline_are_shown() -> None:
    text = drawn(timeline_text.page(a_timeline(250)))
    assert text.count("Ready became Unknown") == 200
    assert "50 earlier ones are left out; -o json has them all" in text


def test_a_node_to_which_nothing_happened_and_an_incident_say_what_they_are() -> None:
    assert "Nothing is known to have happened to it." in drawn(timeline_text.page(a_timeline(0)))
    told = msgspec.structs.replace(a_timeline(0), incident=CLOSED)
    assert drawn(timeline_text.page(told)).startswith("Incident n2.0a1b2c3d of node n1: Recovered\n")


@pytest.fixture
async def server() -> ApiServer:
    server = a_server(SystemClock())
    add_nodes(server)
    add_check(server)
    return server


async def test_the_exit_code_of_status_says_how_the_cluster_is(server: ApiServer, defib: Defib) -> None:
    code, out, err = await defib("status")
    assert (code, err) == (3, "")
    assert "no operator is at work" in out
    add_leader(server)
    code, out, _ = await defib("status")
    assert (code, out.splitlines()[0]) == (0, "✓ All is well: all 5 nodes are ready, 5 looked after")


@pytest.mark.parametrize(
    "command",
    [
        ("why", "n1"),
        ("status",),
        ("incidents",),
        ("timeline", "n1"),
        ("shards",),
        ("drain", "n1"),
        ("drain", "--forecast"),
        ("pause",),
        ("resume",),
    ],
    ids=" ".join,
)
async def test_json_and_yaml_of_every_command_tell_the_same(command: tuple[str, ...], defib: Defib) -> None:
    as_json = await defib(*command, "-o", "json")
    as_yaml = await defib(*command, "-o", "yaml")
    assert as_json[0] == as_yaml[0]
    read = msgspec.json.decode(as_json[1]), yaml.safe_load(as_yaml[1])
    assert read[0].keys() == read[1].keys()
    assert len(read[0]) > 0


async def test_the_namespace_of_the_operator_has_kubectls_short_flag(defib: Defib) -> None:
    code, out, _ = await defib("status", "-n", "elsewhere")
    assert code == 3
    assert "nobody holds the lock elsewhere/defib-leader" in out
