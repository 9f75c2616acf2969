"""What `defib shards` prints: a table that fits 80 columns, one line where one leads, and a code for scripts."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from rich.console import Console

from defib.cli.main import execute
from defib.cli.shards import page
from defib.console.shards import IdleTold, MemberTold, NodeTold, Sharing
from tests.builders import T0

SECOND = timedelta(seconds=1)
WELL = Sharing(
    now=T0,
    is_shared=True,
    leader="defib-a",
    renewed=T0 - SECOND,
    lock="defib-system/defib-bucket-9",
    members=(
        MemberTold(name="defib-a", is_live=True, renewed=T0 - SECOND, buckets=tuple(range(12)), nodes=1870),
        MemberTold(name="defib-b", is_live=True, renewed=T0 - SECOND, buckets=tuple(range(12, 32)), nodes=3130),
    ),
)
ALONE = Sharing(now=T0, is_shared=False, leader="defib-a", renewed=T0 - SECOND, lock="defib-system/defib-leader")


def printed(width: int = 80, told: Sharing = WELL, **changes: Any) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(page(msgspec.structs.replace(told, **changes)))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def test_a_row_for_each_replica() -> None:
    lines = printed().splitlines()
    assert lines[0] == "2 replicas share 32 buckets; defib-a admits what is counted"
    assert lines[2].split() == ["REPLICA", "STATE", "BUCKETS", "SHARE", "NODES"]
    assert lines[3].split() == ["defib-a", "live", "12", "38%", "1870"]
    assert lines[4].split() == ["defib-b", "live", "20", "62%", "3130"]
    assert "nobody" not in printed()


def test_one_that_is_silent_is_told_with_since_when() -> None:
    gone = MemberTold(name="defib-x", is_live=False, renewed=T0 - 90 * SECOND, buckets=(), nodes=0)
    assert "defib-x  silent, last seen 1m30s ago" in printed(members=(*WELL.members, gone))


def test_buckets_that_nobody_has_are_a_line_for_each_who_had_them() -> None:
    idle = (
        IdleTold(bucket=3, had_by="defib-x", since=T0 - 90 * SECOND, nodes=7),
        IdleTold(bucket=8, had_by="defib-x", since=T0 - 91 * SECOND, nodes=5),
        IdleTold(bucket=9, had_by="", since=T0 - 2 * SECOND, nodes=1),
        IdleTold(bucket=10, had_by="", since=None, nodes=None),
    )
    said = " ".join(printed(idle=idle, leader="").split())
    assert "nobody admits anything" in said
    assert "nobody has buckets 3, 8 with 12 nodes, last held by defib-x 1m30s ago" in said
    assert "nobody has buckets 9, 10, given back 2s ago" in said


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (
            NodeTold(name="w", exists=True, bucket=3, holder="defib-a"),
            "node w is in bucket 3, which defib-a looks after",
        ),
        (NodeTold(name="w", exists=None, bucket=3, holder=""), "node w is in bucket 3, which nobody looks after"),
        (
            NodeTold(name="w", exists=False, bucket=3, holder="defib-a"),
            "node w (there is no such node) is in bucket 3, which defib-a looks after",
        ),
    ],
)
def test_who_looks_after_a_node_is_one_sentence(node: NodeTold, line: str) -> None:
    assert line in printed(node=node)


def test_where_one_leads_in_everything_that_is_one_line() -> None:
    line = "defib-a leads in everything, by the lock defib-system/defib-leader, renewed 1s ago"
    assert printed(told=ALONE, width=120) == line


def test_that_nobody_leads_is_one_line_with_what_to_look_at() -> None:
    said = printed(told=ALONE, width=200, leader="", renewed=T0 - 60 * SECOND)
    assert said.startswith("nobody leads: nobody holds the lock defib-system/defib-leader; it was last renewed 1m ago")
    assert "--leader-lock" in said
    assert printed(told=ALONE, width=200, leader="", renewed=None).startswith("nobody leads: there is no lock ")


def test_what_is_hostile_in_a_name_is_shown_and_not_obeyed() -> None:
    evil = MemberTold(name="x\x1b[2J", is_live=True, renewed=T0, buckets=(), nodes=0)
    assert "\x1b[2J" not in printed(members=(evil,), leader="y\x1b[2J")


def test_something_that_is_nobodys_is_not_well() -> None:
    assert WELL.is_well
    assert not msgspec.structs.replace(WELL, idle=(IdleTold(bucket=1, had_by="", since=None, nodes=None),)).is_well
    assert not msgspec.structs.replace(ALONE, leader="").is_well


@pytest.mark.parametrize("program", ["defib", "kubectl defib"])
def test_without_a_cluster_it_says_why_in_one_line(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["shards", "--kubeconfig", "/nowhere/config"], program=program) == 1
    assert capsys.readouterr().err.count("\n") == 1
