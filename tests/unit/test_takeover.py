"""Taking over from the Go operator, where it is about time: on the embedded server, so that hours pass at once.

What it left lies there for a while, as when somebody exchanges one operator for the other.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from defib.app import Operator
from defib.config import Settings
from defib.kube.kinds import LEASES, NODE_HEALTH_CHECKS
from defib.model import medik8s
from defib.model.node import Lease
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests import go_leftovers as go

ROOT = Path(__file__).parents[2]
DEFINED_IN = ("deploy/crds/remediation.medik8s.io_nodehealthchecks.yaml", "testbed/crds/test-remediators.yaml")
API = "test.defib.dev/v1alpha1"
FOOS, BARS = "fooremediations.test.defib.dev", "barremediations.test.defib.dev"
CHECKS, LOCKS = str(NODE_HEALTH_CHECKS), str(LEASES)
PLACE = "remedies"
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Estate(msgspec.Struct, kw_only=True):
    """Three nodes, n1 is ill; a check; and what the Go operator has done about it."""

    server: ApiServer
    clock: VirtualClock
    began: datetime  # all ages count from here

    def put(self, resource: str, body: go.Body, namespace: str = PLACE) -> go.Body:
        meta = {**body["metadata"], **({"namespace": namespace} if namespace else {})}
        return self.server.put(resource, {**body, "metadata": meta}).object

    def leave(self, remedy: go.Body) -> go.Body:
        return {"apiVersion": API, "kind": "FooRemediation", **self.put(FOOS, remedy)}

    def add_templates(self) -> None:
        """foo alone of its kind; foo-a and foo-b together; bar."""
        for name in ("foo", "foo-a", "foo-b", "bar"):
            annotations = {medik8s.MULTIPLE_TEMPLATES: "true"} if "-" in name else {}
            resource = f"{name.partition('-')[0]}remediationtemplates.test.defib.dev"
            spec = {"template": {"spec": {"from": name}}}
            self.put(resource, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})

    def set_ready(self, node: str, ready: str) -> None:
        stored = self.server.store.get("nodes", node)
        known = stored.object if stored else self.put("nodes", {"metadata": {"name": node}}, namespace="")
        shown = {"type": "Ready", "status": ready, "lastTransitionTime": go.stamp(self.clock.now())}
        self.server.store.put("nodes", {**known, "status": {"conditions": [shown]}})

    def add_check(self, **spec: Any) -> go.Body:
        """Its owner reference, for what it makes."""
        if "escalatingRemediations" not in spec:
            spec.setdefault("remediationTemplate", ref("foo"))
        conditions = [{"type": "Ready", "status": "Unknown", "duration": "0s"}]
        made = self.put(CHECKS, {"metadata": {"name": "c"}, "spec": {"unhealthyConditions": conditions, **spec}}, "")
        return go.owner("c", made["metadata"]["uid"])

    def lock(self) -> None:
        uid = self.one("nodes", "n1")["metadata"]["uid"]
        body = go.a_lock("n1", uid, "c", acquired=self.began, renewed=self.began, seconds=660)
        self.put(LOCKS, body, namespace=medik8s.LOCK_NAMESPACE)

    def say(self, *records: go.Body) -> None:
        check = self.one(CHECKS, "c")
        status = go.a_status({"n1": list(records)}, observed=3, at=self.began)
        self.server.store.put(CHECKS, {**check, "status": status})

    def one(self, resource: str, key: str) -> go.Body:
        stored = self.server.store.get(resource, key)
        assert stored is not None, f"{resource} {key}"
        return stored.object

    def all_of(self, resource: str) -> dict[str, go.Body]:
        objects = self.server.store.collection(resource).objects.values()
        return {one.object["metadata"]["name"]: one.object for one in objects}

    def held(self) -> Lease | None:
        stored = self.server.store.get(LOCKS, f"{medik8s.LOCK_NAMESPACE}/node-n1")
        return msgspec.convert(stored.object, Lease) if stored else None

    async def until(self, age: timedelta) -> None:
        """Since the Go operator began."""
        await asyncio.sleep((self.began + age - self.clock.now()).total_seconds())  # virtual

    def writes(self) -> list[str]:
        """What we created and deleted of remediations."""
        asked = [one for one in self.server.audit if one.client == "defib" and one.verb in ("create", "delete")]
        return [f"{one.verb} {one.path.rpartition('/')[2]}" for one in asked if "remediations" in one.path]


def ref(template: str) -> go.Body:
    kind = f"{template.partition('-')[0].capitalize()}RemediationTemplate"
    return {"apiVersion": API, "kind": kind, "namespace": PLACE, "name": template}


def ladder() -> list[go.Body]:
    timeouts = {"foo-a": "5m", "foo-b": "10m", "bar": "15m"}
    steps = enumerate(timeouts.items())
    return [{"remediationTemplate": ref(name), "order": order, "timeout": timeout} for order, (name, timeout) in steps]


def left_on_the_second_step(estate: Estate) -> None:
    owner = estate.add_check(escalatingRemediations=ladder())
    first = go.a_remedy("n1", "foo-a", owner, suffix="aaaaa")
    first["metadata"]["annotations"][medik8s.TIMED_OUT] = go.stamp(estate.began)
    over = estate.leave(first)
    estate.leave(go.a_remedy("n1", "foo-b", owner, suffix="bbbbb"))
    estate.lock()
    estate.say(go.a_record(over, timed_out=estate.began))


Scene = Callable[[Estate], Awaitable[None]]


def take_over(leave: Callable[[Estate], None], scene: Scene, *, after: timedelta) -> None:
    """`leave` is the Go operator; so much later we start, and then the scene is played."""

    async def main(clock: VirtualClock) -> None:
        estate = Estate(server=ApiServer(clock), clock=clock, began=clock.now())
        for path in DEFINED_IN:
            for definition in yaml.safe_load_all((ROOT / path).read_text()):
                estate.put("customresourcedefinitions.apiextensions.k8s.io", definition, namespace="")
        for name in ("defib-system", medik8s.LOCK_NAMESPACE, PLACE):
            estate.put("namespaces", {"metadata": {"name": name}}, namespace="")
        estate.add_templates()
        for node, ready in (("n1", "Unknown"), ("n2", "True"), ("n3", "True")):
            estate.set_ready(node, ready)
        leave(estate)
        await estate.until(after)
        settings = Settings(default_check="off", upgrade_signals=())
        operator = Operator(InProcess(estate.server, client="defib"), clock, settings, Metrics())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            await scene(estate)
            running.cancel()

    run(main, limit=timedelta(hours=10))


def test_a_step_under_way_has_the_rest_of_its_time() -> None:
    async def scene(estate: Estate) -> None:
        await estate.until(10 * MINUTE)
        assert estate.writes() == []
        assert medik8s.TIMED_OUT not in estate.all_of(FOOS)["n1-bbbbb"]["metadata"]["annotations"]
        await estate.until(10 * MINUTE + 3 * SECOND)
        assert estate.all_of(BARS).keys() == {"n1"}
        assert medik8s.TIMED_OUT in estate.all_of(FOOS)["n1-bbbbb"]["metadata"]["annotations"]
        lock = estate.held()
        assert lock is not None
        assert (lock.spec.holder_identity, lock.spec.acquire_time) == ("NodeHealthCheck-c", estate.began)
        assert lock.spec.lease_duration_seconds == 16 * 60

    take_over(left_on_the_second_step, scene, after=10 * MINUTE - 3 * SECOND)


def test_a_step_whose_time_ran_out_while_nobody_was_there_is_followed_at_once() -> None:
    async def scene(estate: Estate) -> None:
        await estate.until(3 * 60 * MINUTE + 3 * SECOND)
        assert estate.writes() == ["create barremediations"]
        lock = estate.held()
        assert lock is not None
        assert lock.spec.renew_time is not None
        assert lock.spec.renew_time > estate.began + 3 * 60 * MINUTE

    take_over(left_on_the_second_step, scene, after=3 * 60 * MINUTE)


@pytest.mark.parametrize("minutes", [0, 5, 9.99, 10, 10.01, 24.9, 40])
def test_whenever_we_take_over_no_step_is_made_twice_and_recovery_leaves_nothing(minutes: float) -> None:
    async def scene(estate: Estate) -> None:
        # Virtual: at the most 10 min are left of the second step, and the third has 15.
        await asyncio.sleep(26 * 60)
        assert estate.writes() == ["create barremediations"]
        timed_out = [one["timedOut"] for one in recorded(estate)]
        assert len(timed_out) == 3, "and now a person is needed"
        estate.set_ready("n1", "True")
        await asyncio.sleep(1)  # virtual
        assert estate.writes()[1:] == ["delete n1", "delete n1-aaaaa", "delete n1-bbbbb"]
        assert estate.held() is None
        assert "unhealthyNodes" not in estate.one(CHECKS, "c")["status"]

    take_over(left_on_the_second_step, scene, after=minutes * MINUTE)


def recorded(estate: Estate) -> list[go.Body]:
    (node,) = estate.one(CHECKS, "c")["status"]["unhealthyNodes"]
    records: list[go.Body] = node["remediations"]
    return records


def test_a_single_remediation_has_the_rest_of_its_thirty_minutes() -> None:
    def leave(estate: Estate) -> None:
        made = estate.leave(go.a_remedy("n1", "foo", estate.add_check()))
        estate.lock()
        estate.say(go.a_record(made))

    async def scene(estate: Estate) -> None:
        await estate.until(30 * MINUTE)
        assert medik8s.TIMED_OUT not in estate.all_of(FOOS)["n1"]["metadata"]["annotations"]
        lock = estate.held()
        assert lock is not None
        assert lock.spec.holder_identity == "NodeHealthCheck-c"
        await estate.until(30 * MINUTE + 3 * SECOND)
        assert medik8s.TIMED_OUT in estate.all_of(FOOS)["n1"]["metadata"]["annotations"]
        assert estate.held() is None
        assert estate.writes() == []

    take_over(leave, scene, after=5 * MINUTE)


def test_the_delay_before_a_healthy_node_is_released_goes_on() -> None:
    def leave(estate: Estate) -> None:
        remedy = go.a_remedy("n1", "foo", estate.add_check(healthyDelay="5m"))
        remedy["metadata"]["annotations"][medik8s.HEALTHY_DELAY] = go.stamp(estate.began)
        made = estate.leave(remedy)
        estate.lock()
        estate.say(go.a_record(made))
        estate.set_ready("n1", "True")

    async def scene(estate: Estate) -> None:
        await estate.until(5 * MINUTE - SECOND)
        assert estate.writes() == []
        await estate.until(5 * MINUTE + SECOND)
        assert estate.writes() == ["delete n1"]
        assert estate.held() is None

    take_over(leave, scene, after=4 * MINUTE)


def test_a_lock_that_somebody_else_took_meanwhile_is_theirs() -> None:
    def leave(estate: Estate) -> None:
        made = estate.leave(go.a_remedy("n1", "foo", estate.add_check()))
        estate.lock()
        lock = estate.one(LOCKS, f"{medik8s.LOCK_NAMESPACE}/node-n1")
        taken = lock["spec"] | {"holderIdentity": "node-maintenance", "leaseDurationSeconds": 3600}
        estate.server.store.put(LOCKS, {**lock, "spec": taken})
        estate.say(go.a_record(made))

    async def scene(estate: Estate) -> None:
        await estate.until(20 * MINUTE)
        lock = estate.held()
        assert lock is not None
        assert (lock.spec.holder_identity, lock.spec.renew_time) == ("node-maintenance", estate.began)
        assert estate.writes() == [], "what is under way goes on without it"

    take_over(leave, scene, after=10 * MINUTE)
