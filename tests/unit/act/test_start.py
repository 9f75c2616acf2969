"""Starting a remediation: what is looked at first, who may have it, and what a lost answer changes."""

from datetime import timedelta

import pytest

from defib.act.outcome import Done, Held, Outcome, Stale, Taken, Withheld
from defib.kube.client import Deletion, Merge
from defib.kube.errors import Forbidden, NotFound, ServerFailed, UnknownKind, Unreachable
from defib.kube.kinds import NODES, unstructured
from defib.model import medik8s
from defib.model.action import Because
from defib.model.health_check import KindRef
from defib.model.mandate import Mandate
from defib.simulate.faults import Fault, Hang, LoseAnswer, LoseRequest, Refuse, Slow
from defib.simulate.virtual_time import START
from tests.unit.act.stage import FOOS, LEASE, MACHINES, PLACE, SINCE, Stage, a_crd, a_foo, play


def test_it_takes_three_requests() -> None:
    async def scenario(stage: Stage) -> None:
        outcome = await stage.do(stage.start())
        assert isinstance(outcome, Done)
        assert stage.asked() == ["get nodes 200", "create leases 201", "create fooremediations 201"]

    play(scenario)


def test_it_creates_what_was_decided_under_the_lock_of_the_node() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.do(stage.start())
        (foo,) = stage.foos()
        assert foo["spec"] == {"strategy": "reboot"}
        assert foo["metadata"]["name"] == "n1"
        assert foo["metadata"]["namespace"] == PLACE
        assert foo["metadata"]["annotations"] == {medik8s.NODE_NAME: "n1"}
        lock = stage.lock()
        assert lock is not None
        assert lock.spec.holder_identity == "NodeHealthCheck-c1"

    play(scenario)


def test_what_was_written_is_noted_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        outcome = await stage.do(stage.start())
        assert [(kind, item.key) for kind, item in stage.noted] == [
            (LEASE, "medik8s-leases/node-n1"),
            (str(FOOS), "remedies/n1"),
        ]
        assert isinstance(outcome, Done)
        assert outcome.result is stage.noted[1][1]

    play(scenario)


def expect_nothing_done(stage: Stage, outcome: Outcome, why: str) -> None:
    assert outcome == Stale(why)
    assert stage.server.audit.writes("defib") == []


def test_a_node_that_is_gone_is_left_alone() -> None:
    async def scenario(stage: Stage) -> None:
        action = stage.start()
        await stage.remove_node("n1")
        expect_nothing_done(stage, await stage.do(action), "node n1 is gone")

    play(scenario)


def test_a_node_that_came_back_under_the_same_name_is_left_alone() -> None:
    async def scenario(stage: Stage) -> None:
        action = stage.start()
        await stage.remove_node("n1")
        stage.add_node("n1")
        expect_nothing_done(stage, await stage.do(action), "node n1 is another one now")

    play(scenario)


def test_a_node_that_recovered_is_left_alone() -> None:
    async def scenario(stage: Stage) -> None:
        action = stage.start()
        await stage.turn("True")
        expect_nothing_done(stage, await stage.do(action), "Ready of node n1 is True, not Unknown")

    play(scenario)


def test_a_node_that_recovered_and_failed_anew_is_left_alone() -> None:
    async def scenario(stage: Stage) -> None:
        action = stage.start()
        await stage.turn("Unknown", since=START)
        expect_nothing_done(stage, await stage.do(action), "Ready of node n1 has changed in between")

    play(scenario)


def test_a_node_that_no_longer_shows_the_condition_is_left_alone() -> None:
    async def scenario(stage: Stage) -> None:
        action = stage.start(because=Because("DiskOnFire", "True", SINCE))
        expect_nothing_done(stage, await stage.do(action), "DiskOnFire of node n1 is gone, not True")

    play(scenario)


def test_a_condition_without_a_time_is_judged_by_its_status() -> None:
    async def scenario(stage: Stage) -> None:
        assert isinstance(await stage.do(stage.start(because=Because("MemoryPressure", "False"))), Done)

    play(scenario)


@pytest.mark.parametrize(("value", "is_excluded"), [("true", True), ("false", False), ("", False)])
def test_only_the_value_true_excludes_a_node(value: str, is_excluded: bool) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.world.patch(NODES.at("n1"), Merge({"metadata": {"labels": {medik8s.EXCLUDED: value}}}))
        outcome = await stage.do(stage.start())
        assert outcome == Stale("node n1 is excluded from remediation") if is_excluded else isinstance(outcome, Done)

    play(scenario)


def test_a_node_that_somebody_else_works_on_is_left_alone() -> None:
    async def scenario(stage: Stage) -> None:
        stage.put_lock("node-maintenance", renewed=START)
        assert await stage.do(stage.start()) == Held("node-maintenance")
        assert stage.foos() == []

    play(scenario)


def test_the_machine_becomes_an_owner_too() -> None:
    async def scenario(stage: Stage) -> None:
        stage.server.put(str(MACHINES), {"metadata": {"name": "m1", "namespace": PLACE}})
        assert isinstance(await stage.do(stage.start(machine=f"{PLACE}/m1")), Done)
        owners = stage.foos()[0]["metadata"]["ownerReferences"]
        assert [owner["kind"] for owner in owners] == ["NodeHealthCheck", "Machine"]
        uid = stage.uid(str(MACHINES), f"{PLACE}/m1")
        assert owners[1] == {"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m1", "uid": uid}

    play(scenario)


def test_a_missing_machine_is_named_and_nothing_is_written() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(NotFound, match=r'machines\.machine\.openshift\.io "m1" not found'):
            await stage.do(stage.start(machine=f"{PLACE}/m1"))
        assert stage.server.audit.writes("defib") == []

    play(scenario)


def test_a_missing_kind_is_named_and_nothing_is_written() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(UnknownKind, match="no kind NoRemediation"):
            await stage.do(stage.start(kind=KindRef("example.com/v1", "NoRemediation")))
        assert stage.server.audit.writes("defib") == []

    play(scenario)


def test_a_kind_whose_scope_has_changed_is_asked_for_again() -> None:
    async def scenario(stage: Stage) -> None:
        expect_nothing_done(
            stage, await stage.do(stage.start(namespace="")), "FooRemediation (example.com/v1) has another scope now"
        )

    play(scenario)


def test_with_the_brake_on_not_even_the_lock_is_taken() -> None:
    async def scenario(stage: Stage) -> None:
        stage.stop = lambda: "the brake is on"
        assert await stage.do(stage.start()) == Withheld("the brake is on")
        assert stage.server.audit.writes("defib") == []

    play(scenario)


def test_a_brake_between_lock_and_creation_stops_it_and_the_lock_is_given_back() -> None:
    async def scenario(stage: Stage) -> None:
        stage.stop = lambda: "the brake is on" if stage.lock() else ""
        assert await stage.do(stage.start()) == Withheld("the brake is on")
        assert stage.foos() == []
        assert stage.lock() is None

    play(scenario)


def test_without_a_mandate_nothing_is_written_not_even_to_undo() -> None:
    async def scenario(stage: Stage) -> None:
        stage.break_creation(Slow(seconds=8), of=LEASE)
        assert await stage.do(stage.start(), Mandate("short", ends=5.0)) == Withheld("our mandate has ended")
        assert stage.foos() == []
        assert stage.lock() is not None
        assert stage.asked() == ["get nodes 200", "create leases 201"]

    play(scenario)


def test_a_mandate_that_ended_during_the_live_look_stops_it() -> None:
    async def scenario(stage: Stage) -> None:
        stage.fault(Fault(effect=Slow(seconds=8), resource="nodes"))
        assert await stage.do(stage.start(), Mandate("short", ends=5.0)) == Withheld("our mandate has ended")
        assert stage.server.audit.writes("defib") == []

    play(scenario)


def test_an_own_remediation_of_that_name_is_adopted() -> None:
    async def scenario(stage: Stage) -> None:
        target = stage.put_foo()
        outcome = await stage.do(stage.start())
        assert isinstance(outcome, Done)
        assert outcome.result is not None
        assert outcome.result.uid == target.uid
        assert stage.lock() is not None
        assert [kind for kind, _ in stage.noted] == [LEASE, str(FOOS)]

    play(scenario)


@pytest.mark.parametrize(
    ("whose", "by"),
    [
        ({"check": "c2"}, "NodeHealthCheck c2, for node n1"),
        ({"node": "n2"}, "NodeHealthCheck c1, for node n2"),
        ({"ownerReferences": []}, "somebody else, for node n1"),
    ],
)
def test_a_foreign_remediation_of_that_name_is_respected(whose: dict[str, str], by: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.put_foo(**whose)
        before = stage.foos()
        assert await stage.do(stage.start()) == Taken(by)
        assert stage.foos() == before
        assert stage.lock() is None, "a lock for nothing must not stay"

    play(scenario)


def test_a_remediation_on_its_way_out_is_not_adopted() -> None:
    async def scenario(stage: Stage) -> None:
        target = stage.put_foo(finalizers=["example.com/busy"])
        await stage.world.delete(FOOS.at("n1", PLACE), Deletion(uid=target.uid))
        outcome = await stage.do(stage.start())
        assert outcome == Stale("an earlier FooRemediation remedies/n1 is still being deleted")
        assert stage.lock() is None

    play(scenario)


def test_a_namesake_that_vanishes_while_we_look_is_left_to_the_next_pass() -> None:
    async def scenario(stage: Stage) -> None:
        stage.break_creation(Refuse(code=409, reason="AlreadyExists"))
        outcome = await stage.do(stage.start())
        assert outcome == Stale("an earlier FooRemediation of node n1 went in this moment")
        assert stage.lock() is None

    play(scenario)


@pytest.mark.parametrize("effect", [LoseAnswer(), Hang(applied=True)])
def test_a_creation_whose_answer_was_lost_is_found(effect: LoseAnswer | Hang) -> None:
    async def scenario(stage: Stage) -> None:
        stage.break_creation(effect)
        outcome = await stage.do(stage.start())
        assert isinstance(outcome, Done)
        assert len(stage.foos()) == 1
        assert stage.asked()[-1] == "get fooremediations 200"

    play(scenario)


@pytest.mark.parametrize("effect", [LoseRequest(), Hang()])
def test_a_creation_that_was_lost_on_the_way_is_a_failure_under_a_kept_lock(effect: LoseRequest | Hang) -> None:
    async def scenario(stage: Stage) -> None:
        stage.break_creation(effect, times=1)
        with pytest.raises(Unreachable):
            await stage.do(stage.start())
        assert stage.foos() == []
        assert stage.lock() is not None, "the request may still arrive"
        assert isinstance(await stage.do(stage.start()), Done)

    play(scenario)


def test_a_creation_that_ended_in_an_error_of_the_server_may_be_there_all_the_same() -> None:
    async def scenario(stage: Stage) -> None:
        stage.put_foo()
        stage.break_creation(Refuse(code=500))
        assert isinstance(await stage.do(stage.start()), Done)
        assert stage.lock() is not None

    play(scenario)


def test_a_kind_that_moved_is_found_at_the_next_try() -> None:
    async def scenario(stage: Stage) -> None:
        definitions = "customresourcedefinitions.apiextensions.k8s.io"
        stored = stage.server.store.get(definitions, str(FOOS))
        assert stored is not None
        stage.server.store.remove(definitions, stored.object)
        moved = unstructured(FOOS.group, FOOS.version, "foos", FOOS.name, namespaced=True)
        stage.server.put(definitions, a_crd(moved))
        with pytest.raises(NotFound):
            await stage.do(stage.start())
        assert isinstance(await stage.do(stage.start()), Done)
        assert len(stage.objects(str(moved))) == 1

    play(scenario)


@pytest.mark.parametrize(("code", "error"), [(403, Forbidden), (500, ServerFailed)])
def test_a_refused_creation_gives_a_new_lock_back(code: int, error: type[Exception]) -> None:
    async def scenario(stage: Stage) -> None:
        stage.break_creation(Refuse(code=code))
        with pytest.raises(error):
            await stage.do(stage.start())
        assert stage.lock() is None

    play(scenario)


def test_a_refused_creation_leaves_a_lock_that_was_ours_before() -> None:
    async def scenario(stage: Stage) -> None:
        known = stage.put_lock("NodeHealthCheck-c1", renewed=START)
        stage.break_creation(Refuse(code=403))
        with pytest.raises(Forbidden):
            await stage.do(stage.start(claim=stage.claim(known=known)))
        assert stage.lock() is not None

    play(scenario)


def test_a_lock_that_cannot_be_given_back_hides_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        stage.break_creation(Refuse(code=403, message="no creation"))
        stage.fault(Fault(effect=Refuse(code=500, message="no deletion"), verbs=("delete",), resource=LEASE))
        with pytest.raises(Forbidden, match="no creation"):
            await stage.do(stage.start())
        assert stage.lock() is not None

    play(scenario)


def test_a_missing_namespace_of_the_remediation_is_named() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
            await stage.do(stage.start(namespace="nowhere"))
        assert stage.lock() is None

    play(scenario)


def test_a_missing_lock_namespace_is_made() -> None:
    async def scenario(stage: Stage) -> None:
        stored = stage.server.store.get("namespaces", "medik8s-leases")
        assert stored is not None
        stage.server.store.remove("namespaces", stored.object)
        assert isinstance(await stage.do(stage.start()), Done)
        assert stage.asked()[1:4] == ["create leases 404", "create namespaces 201", "create leases 201"]

    play(scenario)


def test_a_generated_name_is_sent_beside_the_name_that_makes_it_unique() -> None:
    async def scenario(stage: Stage) -> None:
        body = a_foo("n1-abcde", check="c1", node="n1")
        body["metadata"]["generateName"] = "n1-"
        assert isinstance(await stage.do(stage.start(body=body)), Done)
        assert isinstance(await stage.do(stage.start(body=body, claim=stage.claim(known=stage.lock()))), Done)
        assert [foo["metadata"]["name"] for foo in stage.foos()] == ["n1-abcde"]

    play(scenario)


def test_the_lock_lasts_as_long_as_it_was_asked_for() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.do(stage.start())
        lock = stage.lock()
        assert lock is not None
        assert lock.spec.lease_duration_seconds == timedelta(minutes=11).total_seconds()

    play(scenario)
