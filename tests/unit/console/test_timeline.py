"""What happened to a node, from everything that tells of it, in one list: by time, each thing once, with who."""

from datetime import timedelta
from typing import Any

import pytest

from defib.console.incidents import listed
from defib.console.session import NotDone, Session
from defib.console.timeline import Timeline, tell
from defib.model.incident import INCIDENTS, account_name
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import START
from tests.unit.console.desk import (
    API,
    MINUTE,
    Desk,
    add_check,
    add_foo,
    add_incident,
    add_nodes,
    at_the_desk,
    stamp,
)

HOUR = timedelta(hours=1)
UID = "0123456789abcdef"


def ago(minutes: float) -> str:
    return stamp(START - minutes * MINUTE)


def add_event(server: ApiServer, kind: str, name: str, message: str, *, minutes: float, **more: Any) -> None:
    body = {
        "metadata": {"name": f"{name}.{abs(hash(message)):x}", "namespace": "default"},
        "involvedObject": {"kind": kind, "name": name},
        "type": "Normal",
        "reason": "Told",
        "message": message,
        "firstTimestamp": ago(minutes),
        "source": {"component": "NodeHealthCheck"},
    }
    server.put("events", body | more)


def add_account(server: ApiServer, node: str, phase: str, *, minutes: float, **status: Any) -> str:
    """Of a FooRemediation that was begun so long ago."""
    cause = {"apiVersion": API, "kind": "FooRemediation", "namespace": "ns", "name": node, "uid": UID}
    spec = {
        "node": node,
        "cause": cause,
        "check": "workers",
        "unhealthySince": ago(minutes + 1),
        "started": ago(minutes),
        "evidence": ["Ready is Unknown"],
        "gates": [{"name": "Brake", "open": True, "message": "the brake is off"}],
    }
    name = account_name(node, UID)
    made = server.put(INCIDENTS, {"metadata": {"name": name}, "spec": spec})
    server.store.put(INCIDENTS, {**made.object, "status": {"phase": phase} | status})
    return name


async def told(desk: Desk, name: str) -> Timeline:
    return await tell(name, Session(desk.client, desk.clock), desk.rules)


def spoken(timeline: Timeline) -> list[tuple[str, str, str]]:
    return [(one.kind, one.by, one.message) for one in timeline.happenings]


def test_everything_that_tells_of_a_node_is_one_list_by_time() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        resource = {"apiVersion": API, "kind": "FooRemediation", "namespace": "ns", "name": "n1"}
        entry = {
            "name": "n1",
            "since": ago(55),
            "reason": "Remediating",
            "message": "FooRemediation ns/n1 is at work",
            "remediations": [{"resource": resource, "started": ago(54), "timedOut": ago(20), "templateName": "foo"}],
        }
        add_check(desk.server, status={"phase": "Remediating", "unhealthyNodes": [entry]})
        said = [{"type": "Processing", "status": "True", "reason": "Begun", "lastTransitionTime": ago(50)}]
        add_foo(desk.server, "n1", status={"conditions": said})
        add_event(
            desk.server, "Node", "n1", "Node n1 is NotReady", minutes=60.5, source={"component": "node-controller"}
        )
        add_event(desk.server, "NodeHealthCheck", "workers", "[remediation] node n1: waits", minutes=52, type="Warning")
        add_event(desk.server, "NodeHealthCheck", "workers", "[remediation] node n12: waits", minutes=51)
        add_event(desk.server, "Pod", "n1", "a pod that is called like the node", minutes=51)
        timeline = await told(desk, "n1")
        assert spoken(timeline) == [
            ("event", "node-controller", "Node n1 is NotReady"),
            ("evidence", "Kubernetes", "Ready became Unknown (NodeStatusUnknown)"),
            ("decision", "Defib", "FooRemediation ns/n1 is at work"),
            ("action", "Defib", "FooRemediation ns/n1 is created"),
            ("event", "NodeHealthCheck", "node n1: waits"),
            ("action", "its remediator", "Processing is True (Begun)"),
            ("decision", "Defib", "FooRemediation ns/n1 has run out of time"),
            ("action", "NodeHealthCheck workers", "FooRemediation ns/n1 is created"),  # as old as the embedded server
        ]
        assert [one.is_warning for one in timeline.happenings].count(True) == 2
        assert [one.check for one in timeline.checks] == ["workers"]

    at_the_desk(scene)


def test_what_two_tell_in_the_same_words_is_told_once() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_check(desk.server)
        entries = [{"at": ago(5), "phase": "", "message": "switches it off", "kind": "action", "by": "defib-0"}]
        add_incident(desk.server, "n1", "PoweringOff", timeline=entries)
        add_event(desk.server, "Node", "n1", "[remediation] switches it off", minutes=5 - 1 / 60)
        add_event(desk.server, "Node", "n1", "switches it off", minutes=1)
        lines = [one for one in spoken(await told(desk, "n1")) if "switches" in one[2]]
        assert lines == [
            ("action", "defib-0", "switches it off"),
            ("event", "NodeHealthCheck", "switches it off"),  # minutes later: that is news
        ]

    at_the_desk(scene)


def test_an_account_that_is_open_tells_how_it_was_opened() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        name = add_account(desk.server, "n1", "Open", minutes=10)
        timeline = await told(desk, name)
        assert timeline.node == "n1"
        assert timeline.incident is not None
        assert timeline.incident.message == "Ready is Unknown", "nothing is said of it yet but why it was opened"
        kinds = [(one.kind, one.message.split(":")[0]) for one in timeline.happenings]
        assert kinds == [("evidence", "Unhealthy"), ("decision", "Admitted"), ("action", "RemediationCreated")]
        assert (await desk.why("n1")).accounts == (name,)
        assert timeline.checks, "it is not over, so how the node stands belongs to it"

    at_the_desk(scene)


def test_of_an_incident_that_is_closed_only_its_own_time_is_told() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_check(desk.server)
        entries = [{"at": ago(110), "phase": "Closed", "message": "well again", "kind": "end", "by": "defib-0"}]
        closed = {"outcome": "Recovered", "closedAt": ago(110), "timeline": entries}
        name = add_account(desk.server, "n1", "Closed", minutes=120, **closed)
        add_event(desk.server, "Node", "n1", "long before", minutes=600)
        add_event(desk.server, "Node", "n1", "meanwhile", minutes=115)
        add_event(desk.server, "Node", "n1", "long after", minutes=2)
        timeline = await told(desk, name)
        assert [one.message for one in timeline.happenings] == ["meanwhile", "Closed: well again"]
        assert timeline.checks == ()
        assert "long after" in [one.message for one in (await told(desk, "n1")).happenings]

    at_the_desk(scene)


def test_without_the_right_to_events_the_rest_is_told() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        desk.refuse("events", "list")
        timeline = await told(desk, "n1")
        (note,) = timeline.unknown
        assert note.startswith("Events could not be read here")
        assert spoken(timeline) == [("evidence", "Kubernetes", "Ready became Unknown (NodeStatusUnknown)")]

    at_the_desk(scene)


def test_a_name_that_is_neither_a_node_nor_an_incident() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_check(desk.server)
        with pytest.raises(
            NotDone, match=r"there is no node n9; did you mean .*; and there is no incident of that name"
        ):
            await told(desk, "n9")

    at_the_desk(scene)


def test_what_a_remediator_wrote_that_makes_no_sense_is_passed_over() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server, ill=["n1"])
        add_check(desk.server)
        add_foo(desk.server, "n1")
        stored = desk.server.store.get("fooremediations.test.defib.dev", "ns/n1")
        assert stored is not None
        odd = {"conditions": ["text", {"type": "X"}, {"type": "Y", "status": "True", "lastTransitionTime": "soon"}]}
        desk.server.store.put("fooremediations.test.defib.dev", {**stored.object, "status": odd})
        assert all("Y is" not in one[2] for one in spoken(await told(desk, "n1")))

    at_the_desk(scene)


# The list of incidents


def test_incidents_that_are_open_come_first_and_closed_ones_are_counted() -> None:
    async def scene(desk: Desk) -> None:
        add_nodes(desk.server)
        add_incident(desk.server, "n2", "PoweringOff")
        name = add_account(desk.server, "n1", "Closed", minutes=30, outcome="Recovered", seconds=60.0)
        session = Session(desk.client, desk.clock)
        few = await listed(session)
        assert ([one.name for one in few.incidents], few.closed) == (["n2"], 1)
        every = await listed(session, every=True)
        assert ([one.name for one in every.incidents], every.closed) == (["n2", name], 0)
        assert [one.name for one in (await listed(session, "n1", every=True)).incidents] == [name]
        assert (await listed(session, "n3")).incidents == ()
        with pytest.raises(NotDone, match="there is no node n9"):
            await listed(session, "n9")

    at_the_desk(scene)
