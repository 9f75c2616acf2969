"""Histories of real clusters are judged as those of simulated ones: what is wrong in them is found, and nothing else."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from defib.clock import SystemClock
from defib.kube.transport import Request
from defib.simulate.virtual_time import START
from tests.chaos.books import Books, Mark, Page
from tests.chaos.judging import LEASE_SECONDS, begins, findings, needless, with_leaders
from tests.chaos.story import Audited, Entry, read_audit, switched, tell
from tests.simulation.checkers.state import switched_off
from tests.simulation.history import Asked, Happened, Switched, Written
from tests.simulation.world import LEASES, REMEDIATIONS

Object = dict[str, Any]

POWER = REMEDIATIONS[0]
NAMES = {"JTI=1": "replica-1", "JTI=2": "replica-2"}


def a_node(name: str, ready: str) -> Object:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}, "spec": {}}


def a_remediation(node: str) -> Object:
    owner = {"kind": "NodeHealthCheck", "name": "all"}
    return {"metadata": {"name": node, "namespace": "defib-system", "uid": node, "ownerReferences": [owner]}}


def the_lock(holder: str) -> Object:
    return {"metadata": {"name": "defib-leader", "namespace": "defib-system"}, "spec": {"holderIdentity": holder}}


class Late(SystemClock):
    """At first, and long after all that is told here."""

    def __init__(self) -> None:
        self._asked = False

    def now(self) -> datetime:
        at_first, self._asked = not self._asked, True
        return START if at_first else START + timedelta(hours=1)


class History:
    """Pages one after another, a second apart if not told otherwise."""

    def __init__(self) -> None:
        self.books = Books(Path("nowhere"), Late(), frozenset())
        self._at = 0.0
        self._volume = 0
        self._revision = 0
        self._known: dict[tuple[str, str], Object] = {}
        self._backup = 0, self._known

    def write(self, resource: str, key: str, now: Object | None, *, after: float = 1.0) -> "History":
        self._at += after
        self._revision += 1
        before = self._known.pop((resource, key), None)
        if now is not None:
            self._known[resource, key] = now
        self.books.pages.append(Page(self._at, self._volume, self._revision, resource, key, now, before))
        return self

    def back_up(self) -> "History":
        self.books.pages.append(Mark(self._at, "one"))
        self._backup = self._revision, dict(self._known)
        return self

    def restore(self) -> "History":
        self._at += 1.0
        self.books.pages.append(Mark(self._at, "one", is_restore=True))
        self._volume += 1
        self._revision, self._known = self._backup[0], dict(self._backup[1])
        return self

    def told(self, *audit: Audited) -> list[Entry]:
        return tell(self.books, list(audit), NAMES, [])


def asked(at: float, replica: str, path: str = "/api/v1/nodes/a") -> Asked:
    return Asked(at=at, replica=replica, request=Request(method="PATCH", path=path), holder="")


def lock_taken(at: float, by: str) -> Written:
    (entry,) = History().write(LEASES, "defib-system/defib-leader", the_lock(by), after=at).told()
    assert isinstance(entry, Written)
    return entry


def test_who_leads_and_acts_is_left_alone_and_who_acts_after_another_one_took_the_lock_is_not() -> None:
    fine: list[Entry] = [lock_taken(1.0, "replica-1"), asked(2.0, "replica-1")]
    assert findings(fine, 10.0, []) == []
    late: list[Entry] = [*fine, lock_taken(2.5, "replica-2"), asked(2.6, "replica-1")]
    assert [one.invariant for one in findings(late, 10.0, [])] == ["I13"]


def test_who_acts_when_the_time_of_its_lock_is_over_is_found() -> None:
    late: list[Entry] = [lock_taken(1.0, "replica-1"), asked(1.0 + LEASE_SECONDS, "replica-1")]
    assert [one.invariant for one in findings(late, 10.0, [])] == ["I13"]


def test_what_an_api_server_takes_in_when_it_goes_on_was_sent_in_time() -> None:
    late: list[Entry] = [lock_taken(1.0, "replica-1"), asked(9.0, "replica-1")]
    assert findings(late, 10.0, thaws=[8.5]) == []
    assert findings(late, 10.0, thaws=[7.5]) != []


def test_a_machine_is_switched_by_whoever_leads() -> None:
    told = Switched(at=2.0, replica="replica-2", node="a", power="off", holder="")
    found = findings([lock_taken(1.0, "replica-1"), told], 10.0, [])
    assert "I13" in {one.invariant for one in found}


def test_the_election_itself_is_no_deed() -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/defib-system/leases/defib-leader"
    assert list(with_leaders([asked(1.0, "replica-1", path)])) == []


def test_a_remediation_of_a_node_that_is_well_is_one_too_many() -> None:
    ill = History().write("nodes", "a", a_node("a", "True")).write("nodes", "a", a_node("a", "Unknown"), after=10)
    assert list(needless(ill.write(POWER, "defib-system/a", a_remediation("a")).told())) == []
    well = (
        History().write("nodes", "a", a_node("a", "True")).write(POWER, "defib-system/a", a_remediation("a"), after=6)
    )
    assert [one.invariant for one in needless(well.told())] == ["duplicate"]


def test_what_a_restore_brings_back_does_not_begin_again_and_what_it_takes_away_is_gone() -> None:
    history = History().write("nodes", "a", a_node("a", "Unknown")).write(POWER, "defib-system/a", a_remediation("a"))
    history.back_up().write(POWER, "defib-system/a", None).write(POWER, "defib-system/b", a_remediation("b")).restore()
    entries = history.told()
    assert begins(entries) == {"a": 1, "b": 1}
    last = {entry.key: entry.change.kind for entry in entries if isinstance(entry, Written)}
    assert last == {"a": "ADDED", "defib-system/a": "MODIFIED", "defib-system/b": "DELETED"}


def test_what_the_backup_had_already_is_no_news_when_it_is_told_again() -> None:
    history = History().write("nodes", "a", a_node("a", "Unknown")).back_up()
    history.write(POWER, "defib-system/a", a_remediation("a")).restore()
    history.write(POWER, "defib-system/a", a_remediation("a"))
    assert begins(history.told()) == {"a": 1}


def an_answer(version: int, at: str, credential: str = "JTI=1") -> bytes:
    line = {
        "verb": "patch",
        "requestURI": "/api/v1/nodes/a?fieldManager=defib",
        "user": {"extra": {"authentication.kubernetes.io/credential-id": [credential]}},
        "requestReceivedTimestamp": at,
        "stageTimestamp": at,
        "responseStatus": {"code": 200},
        "requestObject": {"spec": {}},
        "responseObject": {"metadata": {"resourceVersion": str(version)}},
    }
    return msgspec.json.encode(line)


def test_a_change_is_as_old_as_its_author_knew_of_it_and_those_before_it_are_no_younger() -> None:
    history = History().write("nodes", "a", a_node("a", "True"), after=50).write("nodes", "b", a_node("b", "True"))
    moment = history.books.moment(20.0)
    (line,) = read_audit(an_answer(2, f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"))
    first, second, request = history.told(line)
    assert isinstance(second, Written)
    assert isinstance(request, Asked)
    assert (first.at, second.at, second.by) == (20.0, 20.0, "replica-1")
    assert (request.at, request.replica, request.request.path) == (20.0, "replica-1", "/api/v1/nodes/a")


def test_a_command_to_a_machine_comes_after_what_was_written_in_the_same_thousandth_of_a_second() -> None:
    books = History().books
    line = {"time": f"{books.moment(3.0):%Y-%m-%dT%H:%M:%S}.000Z", "node": "a", "power": "Off"}
    told = switched("replica-1", line, books.seconds)
    assert 3.0009 < told.at < 3.0011
    assert switched_off(told) == "a", "checkers know it for what it is"


def test_half_a_line_of_an_api_server_that_died_is_left_out() -> None:
    whole = an_answer(1, "2026-01-01T00:00:00.000000Z")
    assert len(read_audit(whole + b"\n" + whole[:40])) == 1


def test_troubles_are_told_where_they_happened() -> None:
    history = History().write("nodes", "a", a_node("a", "True"))
    trouble = Happened(0.5, "etcd is killed")
    assert tell(history.books, [], NAMES, [trouble])[0] is trouble
