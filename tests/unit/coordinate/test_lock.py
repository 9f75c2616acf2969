"""The two locks on the embedded API server: what they write, that they never overwrite, and what they make of others' words."""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from defib.coordinate.election import Candidate, Record, Sight, Take, Terms, next_step, released, saw, taken_by
from defib.coordinate.lock import (
    ENDPOINTS,
    RECORD,
    TRANSITIONS_MAX,
    UNKNOWN,
    EndpointsLock,
    Found,
    LeaseLock,
    Lock,
    annotation_of,
    read_annotation,
)
from defib.kube.client import Client
from defib.kube.errors import Conflict
from defib.kube.kinds import LEASES
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run

T0 = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)  # a whole second: its microseconds are written all the same
LATER = T0 + timedelta(seconds=2, microseconds=1234)
A, B = Candidate("a"), Candidate("b", Terms(lease_seconds=2.5))
SOON = 5.0
KINDS = {LeaseLock: str(LEASES), EndpointsLock: str(ENDPOINTS)}

Scenario = Callable[[ApiServer, Lock], Awaitable[None]]


def on(kind: type[LeaseLock | EndpointsLock], scenario: Scenario) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        await scenario(server, kind(Client(InProcess(server, client="a"), clock), "default", "x"))

    run(main, limit=timedelta(minutes=1))


def stored(server: ApiServer, plural: str) -> dict[str, Any]:
    item = server.store.get(plural, "default/x")
    assert item is not None
    return dict(item.object)


both = pytest.mark.parametrize("kind", KINDS)


@both
def test_a_lock_that_nobody_has_made_is_no_lock(kind: type[LeaseLock | EndpointsLock]) -> None:
    async def scenario(_: ApiServer, lock: Lock) -> None:
        assert await lock.read(SOON) == Found(None, None)

    on(kind, scenario)


@both
def test_what_is_written_is_what_is_read_with_its_version(kind: type[LeaseLock | EndpointsLock]) -> None:
    async def scenario(_: ApiServer, lock: Lock) -> None:
        first = taken_by(A, None, T0)
        version = await lock.write(first, None, SOON)
        assert await lock.read(SOON) == Found(first, version)
        second = taken_by(B, first, T0 + timedelta(seconds=1))
        newer = await lock.write(second, version, SOON)
        assert newer != version
        # Whole seconds, rounded up: nobody may wait for less than was asked for.
        assert await lock.read(SOON) == Found(msgspec.structs.replace(second, lease_seconds=3.0), newer)

    on(kind, scenario)


@both
def test_le_02_only_the_version_that_was_seen_is_overwritten(kind: type[LeaseLock | EndpointsLock]) -> None:
    async def scenario(_: ApiServer, lock: Lock) -> None:
        first = taken_by(A, None, T0)
        version = await lock.write(first, None, SOON)
        with pytest.raises(Conflict):
            await lock.write(taken_by(B, None, T0), None, SOON)
        newer = await lock.write(taken_by(A, first, LATER), version, SOON)
        with pytest.raises(Conflict):
            await lock.write(taken_by(B, first, T0), version, SOON)
        found = await lock.read(SOON)
        assert (found.version, found.record and found.record.holder) == (newer, "a")

    on(kind, scenario)


def test_le_02_a_lease_has_all_fields_and_microseconds() -> None:
    async def scenario(server: ApiServer, lock: Lock) -> None:
        first = taken_by(A, None, T0)
        version = await lock.write(first, None, SOON)
        await lock.write(taken_by(A, first, LATER), version, SOON)
        assert stored(server, str(LEASES))["spec"] == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-05-04T03:02:01.000000Z",
            "renewTime": "2026-05-04T03:02:03.001234Z",
            "leaseTransitions": 0,
        }

    on(LeaseLock, scenario)


@both
def test_le_06_transitions_grow_with_each_new_holder_and_with_nothing_else(
    kind: type[LeaseLock | EndpointsLock],
) -> None:
    async def scenario(_: ApiServer, lock: Lock) -> None:
        version, record, counted = None, None, []
        for who in (A, A, A, B, B, A):
            version = await lock.write(taken_by(who, record, T0), version, SOON)
            record = (await lock.read(SOON)).record
            assert record is not None
            counted.append(record.transitions)
        version = await lock.write(released(record or Record(), T0), version, SOON)
        given_back = (await lock.read(SOON)).record
        assert given_back is not None
        assert (given_back.holder, given_back.lease_seconds, given_back.transitions) == ("", 1.0, 2)
        await lock.write(taken_by(B, given_back, T0), version, SOON)
        taken = (await lock.read(SOON)).record
        assert taken is not None
        assert [*counted, taken.transitions] == [0, 0, 0, 1, 1, 2, 3]

    on(kind, scenario)


@both
def test_what_others_keep_in_the_object_stays(kind: type[LeaseLock | EndpointsLock]) -> None:
    async def scenario(server: ApiServer, lock: Lock) -> None:
        await lock.write(taken_by(A, None, T0), None, SOON)
        item = stored(server, KINDS[kind])
        item["metadata"].setdefault("annotations", {})["theirs"] = "1"
        item["metadata"].setdefault("labels", {})["theirs"] = "2"
        server.store.put(KINDS[kind], item)
        version = (await lock.read(SOON)).version
        await lock.write(taken_by(B, None, T0), version, SOON)
        meta = stored(server, KINDS[kind])["metadata"]
        assert meta["annotations"]["theirs"] == "1"
        assert meta["labels"] == {"theirs": "2", "app.kubernetes.io/managed-by": "defib"}

    on(kind, scenario)


def test_le_16_endpoints_that_are_there_already_keep_their_addresses() -> None:
    async def scenario(server: ApiServer, lock: Lock) -> None:
        subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]
        meta = {"name": "x", "namespace": "default", "annotations": {"theirs": "1"}}
        server.put(str(ENDPOINTS), {"metadata": meta, "subsets": subsets})
        found = await lock.read(SOON)
        assert found.record is None
        assert found.version is not None, "the object is there, so that it is changed and not made"
        await lock.write(taken_by(A, found.record, T0), found.version, SOON)
        item = stored(server, str(ENDPOINTS))
        assert item["subsets"] == subsets
        assert set(item["metadata"]["annotations"]) == {"theirs", RECORD}

    on(EndpointsLock, scenario)


OLD = (
    '{"holderIdentity":"kuryr-controller-7d8f","leaseDurationSeconds":10,"acquireTime":"2018-04-23T10:11:12Z",'
    '"renewTime":"2018-04-23T10:15:00Z","leaderTransitions":3}'
)


def test_le_16_what_the_old_sidecar_wrote_is_understood() -> None:
    async def scenario(server: ApiServer, lock: Lock) -> None:
        meta = {"name": "x", "namespace": "default", "annotations": {RECORD: OLD}}
        server.put(str(ENDPOINTS), {"metadata": meta})
        assert (await lock.read(SOON)).record == Record(
            holder="kuryr-controller-7d8f",
            lease_seconds=10.0,
            acquired=datetime(2018, 4, 23, 10, 11, 12, tzinfo=UTC),
            renewed=datetime(2018, 4, 23, 10, 15, tzinfo=UTC),
            transitions=3,
        )

    on(EndpointsLock, scenario)


def test_le_16_we_write_as_the_old_sidecar_did() -> None:
    text = annotation_of(Record(holder="a", lease_seconds=9.5, acquired=T0, renewed=LATER, transitions=3))
    assert msgspec.json.decode(text) == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 10,
        "acquireTime": "2026-05-04T03:02:01Z",
        "renewTime": "2026-05-04T03:02:03Z",
        "leaderTransitions": 3,
    }
    assert re.fullmatch(r"\{[ -~]+\}", text)


@pytest.mark.parametrize(
    ("text", "holder"),
    [
        ('{"holderIdentity":"a","leaseDurationSeconds":1,"acquireTime":null,"renewTime":null}', "a"),
        ('{"holderIdentity":"","leaseDurationSeconds":1,"strategy":"","preferredHolder":""}', ""),
        ('{"holderIdentity":"a","renewTime":"yesterday","acquireTime":"99999-01-01T00:00:00Z"}', "a"),
        ("{}", ""),
    ],
)
def test_le_16_records_with_less_or_more_in_them_are_understood(text: str, holder: str) -> None:
    record = read_annotation(text)
    assert (record.holder, record.acquired, record.renewed) == (holder, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "me",
        "null",
        "[]",
        '"a"',
        '{"holderIdentity":1}',
        '{"holderIdentity":"a"',
        '{"leaseDurationSeconds":"long"}',
        '{"leaseDurationSeconds":1e400}',
        '{"x":' + "[" * 5000 + "]" * 5000 + "}",
    ],
)
def test_le_16_a_text_that_makes_no_sense_may_be_that_of_a_leader_so_it_is_not_taken_at_once(text: str) -> None:
    record = read_annotation(text)
    assert record is UNKNOWN
    assert record.holder
    assert record.lease_seconds == 0.0, "so that nobody is told that this one leads"


def test_le_16_numbers_without_measure_hurt_nobody() -> None:
    record = read_annotation('{"holderIdentity":"a","leaseDurationSeconds":-5,"leaderTransitions":9000000000000000000}')
    assert (record.lease_seconds, record.transitions) == (0.0, TRANSITIONS_MAX)
    assert taken_by(B, record, T0).transitions == 2**31 - 1
    record = read_annotation('{"holderIdentity":"a","leaseDurationSeconds":9000000000000000000}')
    assert record.lease_seconds == 10**8


def test_a_lease_whose_transitions_cannot_grow_can_be_taken_all_the_same() -> None:
    async def scenario(server: ApiServer, lock: Lock) -> None:
        spec = {"holderIdentity": "stranger", "leaseTransitions": 2**31 - 1}
        server.put(str(LEASES), {"metadata": {"name": "x", "namespace": "default"}, "spec": spec})
        found = await lock.read(SOON)
        await lock.write(taken_by(A, found.record, T0), found.version, SOON)
        assert stored(server, str(LEASES))["spec"]["leaseTransitions"] == 2**31 - 1

    on(LeaseLock, scenario)


def test_le_11_a_record_that_was_removed_is_not_taken_at_once_even_if_its_object_changes_again() -> None:
    async def scenario(server: ApiServer, lock: Lock) -> None:
        version = await lock.write(taken_by(A, None, T0), None, SOON)
        sight = saw(Sight(), (await lock.read(SOON)).record, version, 0.0)
        for moment, note in ((1.0, "one"), (2.0, "two")):
            meta = {"name": "x", "namespace": "default", "annotations": {"theirs": note}}
            server.store.put(str(ENDPOINTS), {**stored(server, str(ENDPOINTS)), "metadata": meta})
            found = await lock.read(SOON)
            assert found.record is None
            sight = saw(sight, found.record, found.version, moment)
        assert not isinstance(next_step(B, sight, 2.0 + 14.9, T0), Take)
        assert next_step(B, sight, 2.0 + 15.0, T0) == Take(taken_by(B, None, T0), sight.version)

    on(EndpointsLock, scenario)
