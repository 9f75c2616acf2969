"""Leftovers, with the whole operator: found and taken away by whoever leads, after their age, and nothing else is.

And that none come to be where that can be helped: what happens while nobody leads is noticed, and a crash between two
writes makes nothing twice.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from defib.app import Operator
from defib.config import Settings
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import LEASES, NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES
from defib.model import medik8s
from defib.model.incident import Phase
from defib.model.leftover import BY_US, MANAGED_BY
from defib.model.metal3 import KEPT_OFF_BY, KEPT_OFF_FOR
from defib.model.node import OUT_OF_SERVICE, TAINTED_BY_US
from defib.replica import leadership_of
from defib.simulate.faults import Fault, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests import power_cycle_stage
from tests.failover_stage import FAILOVERS, HOME, Stage, play
from tests.mortal_operator import Doom
from tests.power_cycle_crash import Plot, begin, end_withdrawn
from tests.power_cycle_stage import HOSTS, HOSTS_HOME, TEMPLATES, VICTIM, WAYS, spec_of

AGE = Settings().leftover_age_seconds
SINCE = "2029-12-31T23:00:00Z"
APPROVED = "defib.dev/approved-until"
COUNTED = "defib_leftovers_collected_total"
SOON = 70.0  # nodes are searched once a minute


def a_taint(since: str | None = SINCE) -> dict[str, str]:
    taint = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    return taint | ({"timeAdded": since} if since else {})


async def leave(stage: Stage, node: str, *, mark: str | None = SINCE, since: str | None = SINCE) -> None:
    """An out-of-service taint; with a mark it is ours."""
    meta = {"annotations": {TAINTED_BY_US: mark}} if mark else {}
    await stage.person.patch(NODES.at(node), Merge({"metadata": meta, "spec": {"taints": [a_taint(since)]}}))


def tainted(stage: Stage) -> list[str]:
    return [node["metadata"]["name"] for node in stage.all("nodes") if node["spec"].get("taints")]


def test_gc_01_and_gc_02_a_marked_taint_goes_after_its_age_and_one_without_a_mark_stays() -> None:
    async def story(stage: Stage) -> None:
        await leave(stage, "n1")
        await leave(stage, "n2", mark=None)
        await leave(stage, "n3", since="2029-12-31T23:30:00Z")  # somebody has set it in place of ours
        async with stage.operator() as running:
            await stage.seconds(AGE - 5)
            assert tainted(stage) == ["n1", "n2", "n3"]
            await stage.seconds(SOON)
            assert tainted(stage) == ["n2", "n3"]
            assert running.measures(f'{COUNTED}{{kind="taint"}}') == 1
            assert running.measures(f'{COUNTED}{{kind="annotation"}}') == 1
            await stage.seconds(7200)
            assert tainted(stage) == ["n2", "n3"]
            assert running.measures(f'{COUNTED}{{kind="taint"}}') == 1
        assert all(TAINTED_BY_US not in (node["metadata"].get("annotations") or {}) for node in stage.all("nodes"))

    play(story, limit=timedelta(days=3))


def test_gc_02_the_age_is_a_setting_and_may_be_days() -> None:
    async def story(stage: Stage) -> None:
        await leave(stage, "n1")
        async with stage.operator(leftover_age_seconds=86400.0 + 5):
            await stage.seconds(86400 - 30)
            assert tainted(stage) == ["n1"]
            await stage.seconds(SOON)
            assert tainted(stage) == []

    play(story, limit=timedelta(days=3))


def test_the_brake_does_not_stop_the_cleaning() -> None:
    async def story(stage: Stage) -> None:
        await leave(stage, "n1")
        await stage.brake()
        async with stage.operator():
            await stage.seconds(AGE + SOON)
        assert tainted(stage) == []

    play(story)


def test_whoever_only_watches_takes_nothing_away() -> None:
    async def story(stage: Stage) -> None:
        await leave(stage, "n1")
        async with stage.operator(watch_only="on"):
            await stage.seconds(AGE + SOON)
        assert tainted(stage) == ["n1"]

    play(story)


def test_gc_05_an_approval_that_is_long_over_is_taken_off_its_node() -> None:
    async def story(stage: Stage) -> None:
        for node, until in (("n1", SINCE), ("n2", "2030-01-02T00:00:00Z")):
            await stage.person.patch(NODES.at(node), Merge({"metadata": {"annotations": {APPROVED: until}}}))
        async with stage.operator():
            await stage.seconds(AGE - 5)
            assert len([one for one in stage.all("nodes") if one["metadata"].get("annotations")]) == 2
            await stage.seconds(SOON)
        approved = [one["metadata"]["name"] for one in stage.all("nodes") if one["metadata"].get("annotations")]
        assert approved == ["n2"]

    play(story)


# Who collects


@asynccontextmanager
async def replica(stage: Stage, name: str, **settings: str) -> AsyncIterator[Operator]:
    chosen = Settings(default_check="off", replica_name=name, **({"election": "lease"} | settings))  # type: ignore[arg-type]
    line = InProcess(stage.server, name)
    operator = Operator(line, stage.clock, chosen, Metrics())
    operator.leadership = leadership_of(chosen, line, stage.clock, operator)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(operator.run())
        try:
            yield operator
        finally:
            running.cancel()


def deeds(stage: Stage, name: str) -> list[str]:
    return [f"{one.verb} {one.path}" for one in stage.server.audit.writes(name) if "/leases" not in one.path]


def test_le_12_a_standby_plans_the_collection_and_writes_nothing() -> None:
    async def story(stage: Stage) -> None:
        await leave(stage, "n1")
        async with replica(stage, "a"):
            await stage.seconds(5)  # it leads before the other one is there
            async with replica(stage, "b"):
                await stage.seconds(AGE + SOON)
        assert deeds(stage, "a") == ["patch /api/v1/nodes/n1"]
        assert deeds(stage, "b") == []

    play(story)


def test_le_12_a_standby_has_counted_too_so_a_change_of_leader_costs_no_time() -> None:
    async def story(stage: Stage) -> None:
        await leave(stage, "n1")
        late = Fault(effect=Refuse(code=500), verbs=("create",), resource=str(LEASES), client="b", times=1)
        stage.server.faults.inject(late)
        async with replica(stage, "b"):
            async with replica(stage, "a"):
                await stage.seconds(AGE - 60)
                assert [one["spec"]["holderIdentity"] for one in stage.all(str(LEASES))] == ["a"]
            await stage.seconds(60 + SOON)
        assert deeds(stage, "a") == []
        assert deeds(stage, "b") == ["patch /api/v1/nodes/n1"]
        assert tainted(stage) == []

    play(story)


def put_member(stage: Stage, name: str, **labels: str) -> None:
    spec = {"holderIdentity": name, "leaseDurationSeconds": 15, "renewTime": "2029-12-31T00:00:00.000000Z"}
    meta = {"name": name, "namespace": HOME, "labels": labels or {MANAGED_BY: BY_US}}
    stage.server.put(str(LEASES), {"metadata": meta, "spec": spec})


def members(stage: Stage) -> set[str]:
    names = {str(one["metadata"]["name"]) for one in stage.all(str(LEASES))}
    return {name for name in names if name.startswith("defib-member-")}


def test_gc_05_leases_of_replicas_that_are_gone_are_dropped_and_those_of_live_ones_stay() -> None:
    async def story(stage: Stage) -> None:
        put_member(stage, "defib-member-dead")
        put_member(stage, "defib-member-foreign", who="knows")
        async with replica(stage, "a", election="shards"), replica(stage, "b", election="shards"):
            await stage.seconds(60)
            alive = members(stage) - {"defib-member-dead"}
            assert len(alive) == 3
            await stage.seconds(AGE - 120)
            assert members(stage) == alive | {"defib-member-dead"}
            await stage.seconds(600)
            assert members(stage) == alive
            buckets = [one for one in stage.all(str(LEASES)) if one["metadata"]["name"].startswith("defib-bucket-")]
            assert len(buckets) == 32

    play(story)


# GC-03: what happened while nobody led


def test_gc_03_a_check_that_was_deleted_while_nobody_led_leaves_no_lock_and_no_remediation() -> None:
    async def story(stage: Stage) -> None:
        await stage.check()
        async with stage.operator():
            await stage.fail("n1")
            await stage.seconds(20)
        assert len(stage.all(str(FAILOVERS))) == 1
        assert [one["metadata"]["name"] for one in stage.all(str(LEASES))] == ["node-n1"]
        check = await stage.person.get(NODE_HEALTH_CHECKS.at("all"))
        await stage.person.delete(NODE_HEALTH_CHECKS.of(check), Deletion(uid=check.uid))
        await stage.turn("n1", ready="True")
        async with stage.operator() as running:
            await stage.seconds(AGE - 10)
            assert len(stage.all(str(FAILOVERS))) == 1, "Kubernetes would have deleted it by now; here nobody does"
            await stage.seconds(60)
            assert stage.all(str(FAILOVERS)) == []
            assert stage.all(str(LEASES)) == []
            assert running.measures(f'{COUNTED}{{kind="remediation"}}') == 1

    play(story)


Scene = Callable[[power_cycle_stage.Stage], Awaitable[None]]


def on_stage(scene: Scene, *, metal3: bool = False) -> None:
    async def main(clock: VirtualClock) -> None:
        async with power_cycle_stage.a_stage(clock, metal3=metal3) as stage:
            await scene(stage)

    run(main, limit=timedelta(hours=4))


async def force_away(stage: power_cycle_stage.Stage) -> None:
    """Everything that says why the machine is out, without asking anybody."""
    stage.is_torn = True
    await stage.withdraw()
    await stage.patch_remediations({"finalizers": None})


async def drop_incident(stage: power_cycle_stage.Stage) -> None:
    incident = await stage.person.get(NODE_INCIDENTS.at(VICTIM))
    await stage.person.delete(NODE_INCIDENTS.of(incident), Deletion(uid=incident.uid))


@pytest.mark.parametrize("phase", [Phase.POWERING_OFF, Phase.FREEING])
def test_gc_03_a_remediation_that_was_torn_away_while_nobody_led_is_undone_by_the_next_leader(phase: Phase) -> None:
    async def scene(stage: power_cycle_stage.Stage) -> None:
        await begin(stage, Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs"))
        async with stage.operator():
            assert await stage.until(lambda: stage.phase == phase, 300)
        await force_away(stage)
        assert stage.remediations == []
        async with stage.operator():
            assert await end_withdrawn(stage) == []
        assert stage.leftovers() == []
        assert stage.machines[VICTIM].is_on

    on_stage(scene)


# GC-04: nothing twice


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("words", ["/leases", "/podfailoverremediations", "/nodehealthchecks/all/status"])
def test_gc_04_a_crash_around_any_write_of_a_start_leaves_one_remediation_and_one_lock(words: str, after: bool) -> None:
    async def story(stage: Stage) -> None:
        await stage.check()
        made: set[str] = set()
        async with stage.operator(Doom(words=words, after=after)) as running:
            await stage.fail("n1")
            await stage.seconds(30)
            assert running.life.is_dead
            made |= {one["metadata"]["uid"] for one in stage.all(str(FAILOVERS))}
        async with stage.operator():
            await stage.seconds(30)
            made |= {one["metadata"]["uid"] for one in stage.all(str(FAILOVERS))}
        assert len(made) == 1
        assert [one["metadata"]["name"] for one in stage.all(str(FAILOVERS))] == ["n1"]
        assert [one["metadata"]["name"] for one in stage.all(str(LEASES))] == ["node-n1"]
        holder = stage.all(str(LEASES))[0]["spec"]["holderIdentity"]
        assert holder == medik8s.holder_of("all")

    play(story)


# GC-05: power and taints


def test_gc_05_a_taint_whose_incident_and_remediation_were_torn_away_goes_when_the_node_is_back() -> None:
    async def scene(stage: power_cycle_stage.Stage) -> None:
        await begin(stage, Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs"))

        def is_tainted() -> bool:
            return any(one["key"] == OUT_OF_SERVICE for one in (stage.node or {"spec": {}})["spec"].get("taints") or ())

        async with stage.operator():
            assert await stage.until(is_tainted, 300)
        await force_away(stage)
        await drop_incident(stage)
        async with stage.operator():
            await stage.until(lambda: False, AGE + SOON)
            assert is_tainted(), "the node is down, so the taint is right"
            stage.mend()
            await stage.until(lambda: False, AGE - 60)
            assert is_tainted()
            assert await stage.until(lambda: not is_tainted(), 180)
        await stage.calm()
        assert stage.leftovers() == []

    on_stage(scene)


OURS = {KEPT_OFF_BY, KEPT_OFF_FOR, "reboot.metal3.io/defib"}


def on_the_host(stage: power_cycle_stage.Stage) -> set[str]:
    """Which annotations of ours."""
    host = next(one for one in stage.all(str(HOSTS)) if one["metadata"]["name"] == VICTIM)
    return OURS & set(host["metadata"].get("annotations") or ())


async def leave_host_off(stage: power_cycle_stage.Stage, workloads: str) -> None:
    """A leader dies right after it asked a host to go off, and then somebody deletes all that says why."""
    await begin(stage, Plot(way="metal3", workloads=workloads, fault="hangs"))
    template = {"spec": {"template": {"spec": spec_of(WAYS["metal3"], workloads)}}}
    await stage.person.create(TEMPLATES, {"metadata": {"name": "cycle"}} | template, namespace=HOME)
    async with stage.operator(Doom(words=f"/namespaces/{HOSTS_HOME}/baremetalhosts/", after=True)) as life:
        assert await stage.until(lambda: life.is_dead, 300)
    assert on_the_host(stage) == OURS
    await force_away(stage)
    await drop_incident(stage)


def test_gc_05_a_host_that_a_dead_remediation_keeps_off_is_let_go() -> None:
    async def scene(stage: power_cycle_stage.Stage) -> None:
        await leave_host_off(stage, "DeleteNode")
        async with stage.operator():
            await stage.until(lambda: False, AGE - 10)
            assert on_the_host(stage) == OURS
            assert await stage.until(lambda: not on_the_host(stage), 120)
            assert await stage.until(lambda: stage.machines[VICTIM].is_on, 300)

    on_stage(scene, metal3=True)


@pytest.mark.parametrize("after", [-5, 0, 60])
def test_a_host_stays_off_while_its_node_is_freed_on_the_word_of_a_person_that_it_is_off(after: int) -> None:
    """The word comes around the moment at which the host would be let go, or later."""

    async def scene(stage: power_cycle_stage.Stage) -> None:
        await leave_host_off(stage, "OutOfServiceTaint")
        async with stage.operator():
            end = stage.clock.monotonic() + AGE
            await stage.until(lambda: not stage.machines[VICTIM].is_on, 120)
            await stage.order(WAYS["manual"], "OutOfServiceTaint")
            assert await stage.until(lambda: stage.phase == Phase.NEEDS_PERSON, 300)
            await stage.until(lambda: False, end + after - stage.clock.monotonic())
            assert on_the_host(stage) == OURS
            assert not stage.machines[VICTIM].is_on
            said = {"by": "ann@example.com", "at": stage.clock.now().isoformat()}
            await stage.person.patch(NODE_INCIDENTS.at(VICTIM), Merge({"spec": {"confirmedOff": said}}))
            assert await stage.until(lambda: not on_the_host(stage), 2 * AGE), "once its workloads are free"
            assert "proof" in (stage.incident or {})["status"]
            assert await stage.until(lambda: stage.is_over, 900)
        assert stage.wrongs == []

    on_stage(scene, metal3=True)


def test_an_incident_that_was_deleted_while_its_remediation_went_on_does_not_lose_its_taint() -> None:
    """The next one knows it for ours, and takes it away in the end."""

    async def scene(stage: power_cycle_stage.Stage) -> None:
        await begin(stage, Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs"))

        def is_tainted() -> bool:
            return any(one["key"] == OUT_OF_SERVICE for one in (stage.node or {"spec": {}})["spec"].get("taints") or ())

        async with stage.operator():
            assert await stage.until(is_tainted, 300)
        await drop_incident(stage)
        async with stage.operator():
            assert await stage.until(lambda: stage.is_over, AGE - 60)
            await stage.calm()
            assert not is_tainted()

    on_stage(scene)
