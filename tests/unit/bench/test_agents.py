"""What the bench makes of a thousand agents on an API server, and when our promise counts as broken."""

import socket
from typing import Any

import msgspec
import pytest

from defib.cli.commands.agent import agent
from tests.bench.agents import AGENTS, PACE, Burden, Guarding, Notes, Talk, talk_of, together, verdicts
from tests.bench.agents_crowd import bytes_between, on_the_wire
from tests.bench.moves import Spread
from tests.bench.report import Results, text
from tests.unit.bench.measured import MACHINE

BURDEN = Burden(
    seconds=60.0,
    rest={"kube-apiserver": 1.2, "etcd": 0.6},
    kubelets={"kube-apiserver": 10.2, "etcd": 3.6},
    agents={"kube-apiserver": 10.2, "etcd": 3.6},
)
TALK = Talk(
    renewals=3_950,
    lists=50,
    failures={},
    renewal=Spread(p50_seconds=0.004, p99_seconds=0.03, max_seconds=0.2),
    list=None,
    bytes_sent=24_000_000,
    bytes_received=36_000_000,
)


def broken(burden: Burden = BURDEN, **talk: Any) -> list[str]:
    found = verdicts(AGENTS, burden, msgspec.structs.replace(TALK, **talk))
    return [one.what.partition(": ")[2] for one in found if not one.ok]


def test_what_agents_cost_is_what_both_programs_did_not_need_at_rest() -> None:
    assert BURDEN.for_agents("kube-apiserver") == pytest.approx(0.15)
    assert BURDEN.share_for_agents == pytest.approx(0.20)
    assert BURDEN.share_for_kubelets == pytest.approx(0.20)
    assert broken() == []


def test_too_much_cpu_of_both_together_breaks_the_promise() -> None:
    heavy = {"kube-apiserver": 12.0, "etcd": 5.0}
    too_much = msgspec.structs.replace(BURDEN, agents=heavy, kubelets=heavy)
    assert broken(too_much) == ["CPU of API server and etcd, of one core"]


def test_so_does_more_than_the_heartbeats_of_as_many_kubelets() -> None:
    light = msgspec.structs.replace(BURDEN, kubelets={"kube-apiserver": 8.0, "etcd": 3.0})
    assert broken(light) == ["the same, beside the heartbeats of as many kubelets"]


def test_agents_that_did_not_get_their_requests_made_prove_nothing() -> None:
    assert broken(renewals=3_000) == ["requests answered"]
    assert broken(failures={"Unreachable": 1}) == ["requests that failed"]


def test_the_report_shows_both_programs_and_how_long_a_renewal_takes() -> None:
    found = verdicts(AGENTS, BURDEN, TALK)
    guarding = Guarding(
        agents=AGENTS,
        judged=True,
        load_before=0.5,
        load_after=1.5,
        burden=BURDEN,
        heartbeats=msgspec.structs.replace(TALK, renewals=6_000),
        talk=TALK,
        crowd_share=0.3,
        verdicts=found,
    )
    told = text(Results(machine=MACHINE, agents=guarding))
    assert "3,950 renewals and 50 lists" in told
    assert "heartbeats, 6,000 times" in told
    assert "400 kB/s went to the API server and 600 kB/s came back" in told
    assert "kube-apiserver" in told
    assert "etcd" in told


def test_notes_of_several_processes_become_one_talk() -> None:
    one = Notes(renewals=[0.1, 0.2], failures={"Unreachable": 1}, bytes_sent=10, bytes_received=20)
    other = Notes(renewals=[0.3], lists=[0.5], failures={"Unreachable": 2, "Gone": 1}, bytes_sent=1, bytes_received=2)
    sent = [msgspec.json.decode(msgspec.json.encode(notes), type=Notes) for notes in (one, other)]
    talk = talk_of(together(sent))
    assert (talk.renewals, talk.lists, talk.failures) == (3, 1, {"Unreachable": 3, "Gone": 1})
    assert (talk.bytes_sent, talk.bytes_received) == (11, 22)
    assert talk.renewal == Spread(p50_seconds=0.2, p99_seconds=0.3, max_seconds=0.3)
    assert talk_of(Notes()).renewal is None


def test_the_agents_of_the_bench_have_the_pace_of_an_agent_without_options() -> None:
    options = agent.make_context("agent", ["--node=n1", "--address=10.0.0.1:9640"]).params
    asked = {
        "interval": PACE.interval_seconds,
        "request_timeout": PACE.request_seconds,
        "failures": PACE.failures,
        "peer_time": PACE.peer_seconds,
    }
    assert {name: options[name] for name in asked} == asked


def test_bytes_are_counted_on_the_connections_to_the_api_server_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_server(("127.0.0.1", 0)) as other:
        port = door.getsockname()[1]
        with (
            socket.create_connection(door.getsockname()) as wire,
            socket.create_connection(other.getsockname()) as elsewhere,
        ):
            there, _ = door.accept()
            with there:
                before = on_the_wire(port)
                elsewhere.sendall(b"x" * 500)
                wire.sendall(b"x" * 1000)
                assert there.recv(1000, socket.MSG_WAITALL) == b"x" * 1000
                there.sendall(b"y" * 30)
                assert wire.recv(30, socket.MSG_WAITALL) == b"y" * 30
                assert len(before) == 1
                assert bytes_between(before, on_the_wire(port)) == (1000, 30)
