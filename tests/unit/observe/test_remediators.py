"""Kinds that checks name are found, followed and dropped; they come and go with their CRDs, and nothing ends this."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.kube.client import Client, Deletion
from defib.kube.discovery import Discovery
from defib.kube.kinds import unstructured
from defib.kube.transport import Request, Response, Transport
from defib.model.cluster import Cluster, Missing, Served, Wanted
from defib.model.health_check import KindRef
from defib.observe.cache import Cache
from defib.observe.remediators import Remediators
from defib.observe.watch import Patience
from defib.simulate.faults import Fault, Refuse, Slow
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests.unit.kube.scripted import Hangs, Line, Says, Scripted, status

CRDS = unstructured(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
VERSION_PATH = "/apis/example.com/v1"
TEMPLATE = KindRef("example.com/v1", "FixTemplate")
FIX = KindRef("example.com/v1", "Fix")
FIXES = "Fix.v1.example.com"
TEMPLATES = "FixTemplate.v1.example.com"


class Detour(msgspec.Struct):
    """A Transport that leads some paths elsewhere."""

    straight: Transport
    elsewhere: dict[str, Transport] = {}

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.elsewhere.get(request.path, self.straight).send(request)

    def describe(self) -> str:
        return self.straight.describe()

    async def close(self) -> None:
        await self.straight.close()


class Workshop:
    """A server, a cache and remediators that follow what is wanted; each news makes a pass, as in the operator."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.server = ApiServer(clock)
        self.detour = Detour(InProcess(self.server, client="operator"))
        self.admin = Client(InProcess(self.server, client="admin"), clock)
        client = Client(self.detour, clock)
        self.cache = Cache(client, clock, self, Patience())
        self.remediators = Remediators(self.cache, Discovery(client), clock, self.on_change)
        self.wanted: dict[KindRef, Wanted] = {}
        self.changes = 0

    def changed(self, name: str) -> None: ...

    def heard(self, name: str, events: int, news: int) -> None: ...

    def relisted(self, name: str, reason: str) -> None: ...

    def sight_changed(self, name: str) -> None:
        del name
        self.remediators.want(self.wanted)

    def on_change(self) -> None:
        self.changes += 1
        self.remediators.want(self.wanted)

    def want(self, *kinds: KindRef, namespace: str = "", can_wait: bool = False) -> None:
        self.wanted = dict.fromkeys(kinds, Wanted(namespace, can_wait=can_wait))
        self.remediators.want(self.wanted)

    def install(self, *names: str, versions: Iterable[str] = ("v1",), scope: str = "Namespaced") -> None:
        for name in names:
            self.server.put(str(CRDS), a_crd(name, tuple(versions), scope))

    async def uninstall(self, name: str) -> None:
        ref = CRDS.at(f"{name.lower()}s.example.com")
        await self.admin.delete(ref, Deletion(uid=(await self.admin.get(ref)).uid))

    def answer(self, path: str, line: Line) -> None:
        self.detour.elsewhere[path] = Scripted(self.clock, [line])

    def seen(self) -> Cluster:
        return msgspec.structs.replace(self.cache.snapshot(self.clock.now()), kinds=self.remediators.kinds)

    def asked(self, path: str) -> int:
        return sum(1 for asked in self.server.audit if asked.client == "operator" and asked.path == path)


def a_crd(name: str, versions: tuple[str, ...], scope: str) -> dict[str, Any]:
    plural = f"{name.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": plural, "singular": name.lower(), "kind": name, "listKind": f"{name}List"},
            "versions": [
                {"name": version, "served": True, "storage": version == versions[0], "schema": schema}
                for version in versions
            ],
        },
    }


def in_workshop(scenario: Callable[[Workshop], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        workshop = Workshop(clock)
        async with asyncio.TaskGroup() as group:
            caching = group.create_task(workshop.cache.run())
            finding = group.create_task(workshop.remediators.run())
            await scenario(workshop)
            assert not finding.done()
            finding.cancel()
            caching.cancel()

    run(main, limit=timedelta(hours=2))


async def seconds(count: float) -> None:
    """Virtual ones: they pass at once."""
    await asyncio.sleep(count)


def test_a_kind_is_found_and_its_objects_are_seen_within_a_second() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.install("Fix", "FixTemplate")
        workshop.server.put("fixtemplates.example.com", {"metadata": {"name": "t", "namespace": "default"}})
        workshop.want(TEMPLATE, FIX)
        await seconds(1)
        cluster = workshop.seen()
        assert cluster.kinds == {TEMPLATE: Served(TEMPLATES, namespaced=True), FIX: Served(FIXES, namespaced=True)}
        assert set(cluster.others[TEMPLATES]) == {"default/t"}
        assert cluster.others[FIXES] == {}
        assert cluster.complete
        await seconds(600)
        assert workshop.asked(VERSION_PATH) == 2, "what was found is not asked for again"

    in_workshop(scenario)


def test_a_kind_counts_as_served_only_when_its_objects_are_known() -> None:
    """Else a template would seem to be missing while its list is on the way."""

    async def scenario(workshop: Workshop) -> None:
        workshop.install("Fix")
        workshop.server.faults.inject(Fault(effect=Slow(seconds=10), resource="fixs.example.com"))
        workshop.want(FIX)
        await seconds(5)
        assert workshop.seen().kinds == {}
        assert [blindness.kind for blindness in workshop.seen().blind] == [FIXES]
        await seconds(10)
        assert workshop.seen().kinds == {FIX: Served(FIXES, namespaced=True)}

    in_workshop(scenario)


def test_a_missing_kind_says_so_and_is_found_within_seconds_of_its_installation() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.want(TEMPLATE, FIX)
        await seconds(1)
        why = "the cluster has no kind {} in group example.com at version v1: is its CRD installed?"
        missing = {TEMPLATE: Missing(why.format("FixTemplate")), FIX: Missing(why.format("Fix"))}
        assert workshop.seen().kinds == missing
        assert workshop.changes == 1
        assert workshop.seen().complete
        await seconds(100)
        assert workshop.changes == 1, "the same answer again is no news"
        assert workshop.asked(VERSION_PATH) <= 2 + 100 / 5 + 1, "one question for a group and version in a round"
        workshop.install("FixTemplate", "Fix")
        await seconds(6)
        assert workshop.seen().kinds.keys() == {TEMPLATE, FIX}
        assert all(isinstance(answer, Served) for answer in workshop.seen().kinds.values())

    in_workshop(scenario)


def test_a_kind_that_most_clusters_never_have_is_asked_for_once_a_minute() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.want(FIX, can_wait=True)
        await seconds(600)
        assert workshop.asked(VERSION_PATH) <= 2 + 600 / 60
        workshop.install("Fix")
        await seconds(66)
        assert isinstance(workshop.seen().kinds[FIX], Served)

    in_workshop(scenario)


def test_each_missing_kind_of_a_group_has_its_turn() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.want(TEMPLATE, KindRef("example.com/v1", "Never"), FIX)
        await seconds(20)
        workshop.install("Fix")
        await seconds(16)
        assert isinstance(workshop.seen().kinds[FIX], Served)
        assert isinstance(workshop.seen().kinds[TEMPLATE], Missing)

    in_workshop(scenario)


def test_however_many_kinds_are_missing_few_are_asked_for_in_a_round() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.want(*(KindRef(f"group{number}.example.com/v1", "Fix") for number in range(200)))
        await seconds(60)
        asked = sum(workshop.asked(f"/apis/group{number}.example.com/v1") for number in range(200))
        assert len(workshop.seen().kinds) == 200
        assert asked <= 20 * (60 / 5 + 1) + 200

    in_workshop(scenario)


def test_a_kind_whose_crd_is_deleted_is_missing_within_seconds_and_found_when_it_is_back() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.install("Fix")
        workshop.want(FIX)
        for _ in range(3):
            await seconds(30)
            workshop.server.put("fixs.example.com", {"metadata": {"name": "f", "namespace": "default"}})
            await seconds(1)
            assert set(workshop.seen().others[FIXES]) == {"default/f"}
            await workshop.uninstall("Fix")
            await seconds(2)
            assert isinstance(workshop.seen().kinds[FIX], Missing)
            assert FIXES not in workshop.seen().others
            await seconds(60)
            workshop.install("Fix")
            await seconds(6)
            assert isinstance(workshop.seen().kinds[FIX], Served)
            assert workshop.seen().others[FIXES] == {}

    in_workshop(scenario)


def test_a_kind_that_comes_back_as_another_is_followed_as_what_it_is_now() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.install("Fix")
        workshop.want(FIX)
        await seconds(30)
        await workshop.uninstall("Fix")
        await seconds(1)
        workshop.install("Fix", scope="Cluster")
        await seconds(20)
        assert workshop.seen().kinds == {FIX: Served(FIXES, namespaced=False)}
        workshop.server.put("fixs.example.com", {"metadata": {"name": "f"}})
        await seconds(1)
        assert set(workshop.seen().others[FIXES]) == {"f"}

    in_workshop(scenario)


def test_a_kind_that_is_gone_from_its_watch_counts_as_missing_even_if_discovery_lags() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.install("Fix")
        workshop.want(FIX)
        await seconds(1)
        served = {"resources": [{"name": "fixs", "kind": "Fix", "namespaced": True}]}
        workshop.answer(VERSION_PATH, Says(body=served))
        await workshop.uninstall("Fix")
        await seconds(1)
        assert isinstance(workshop.seen().kinds[FIX], Missing)
        changes = workshop.changes
        await seconds(60)
        assert isinstance(workshop.seen().kinds[FIX], Missing)
        assert workshop.changes == changes
        assert workshop.asked("/apis/example.com/v1/fixs") <= 3 + 60 / 4
        workshop.install("Fix")
        await seconds(6)
        assert isinstance(workshop.seen().kinds[FIX], Served)

    in_workshop(scenario)


def test_a_kind_that_we_may_not_see_is_served_and_absent_in_the_words_of_the_server() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.install("Fix")
        said = 'fixs.example.com is forbidden: User "defib" cannot list resource'
        workshop.server.faults.inject(Fault(effect=Refuse(code=403, message=said), resource="fixs.example.com"))
        workshop.want(FIX)
        await seconds(2)
        cluster = workshop.seen()
        assert cluster.kinds == {FIX: Served(FIXES, namespaced=True)}
        assert said in cluster.absent[FIXES]
        assert cluster.complete
        workshop.server.faults.clear()
        await seconds(16)
        assert not workshop.seen().absent

    in_workshop(scenario)


def test_what_is_no_longer_wanted_is_dropped_after_a_minute_and_an_edit_costs_no_list() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.install("Fix", "FixTemplate")
        workshop.want(TEMPLATE, FIX)
        await seconds(400)
        workshop.want(TEMPLATE)
        await seconds(50)
        workshop.want(TEMPLATE, FIX)
        await seconds(1)
        assert isinstance(workshop.seen().kinds[FIX], Served)
        lists = workshop.asked("/apis/example.com/v1/fixs")
        workshop.want(TEMPLATE)
        await seconds(55)
        assert FIXES in workshop.seen().others
        await seconds(15)
        assert workshop.seen().kinds.keys() == {TEMPLATE}
        assert FIXES not in workshop.seen().others
        assert workshop.asked("/apis/example.com/v1/fixs") == lists
        workshop.want(TEMPLATE, FIX)
        await seconds(1)
        assert isinstance(workshop.seen().kinds[FIX], Served)

    in_workshop(scenario)


def test_a_missing_kind_that_nobody_wants_any_more_is_not_asked_for() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.want(FIX)
        await seconds(10)
        workshop.want()
        asked = workshop.asked(VERSION_PATH)
        await seconds(100)
        assert workshop.asked(VERSION_PATH) == asked
        assert workshop.seen().kinds == {}

    in_workshop(scenario)


def test_two_versions_of_a_kind_are_followed_side_by_side() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.install("Fix", versions=("v1", "v1beta1"))
        older = KindRef("example.com/v1beta1", "Fix")
        workshop.want(FIX, older)
        await seconds(1)
        assert workshop.seen().kinds == {
            FIX: Served(FIXES, namespaced=True),
            older: Served("Fix.v1beta1.example.com", namespaced=True),
        }

    in_workshop(scenario)


def test_a_kind_that_is_always_followed_can_be_wanted_as_well() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.server.put("nodes", {"metadata": {"name": "n1"}})
        nodes = KindRef("v1", "Node")
        workshop.want(nodes)
        await seconds(1)
        cluster = workshop.seen()
        assert cluster.kinds == {nodes: Served("Node.v1", namespaced=False)}
        assert set(cluster.nodes) == set(cluster.others["Node.v1"]) == {"n1"}

    in_workshop(scenario)


def test_a_kind_is_followed_in_one_namespace_where_that_is_enough() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.install("Fix")
        for namespace in ("default", "kube-system"):
            workshop.server.put("fixs.example.com", {"metadata": {"name": "f", "namespace": namespace}})
        nodes = KindRef("v1", "Node")
        workshop.want(FIX, nodes, namespace="default")
        await seconds(1)
        assert set(workshop.seen().others[FIXES]) == {"default/f"}
        assert isinstance(workshop.seen().kinds[nodes], Served), "a kind without namespaces is followed as a whole"
        workshop.want(FIX, nodes)
        await seconds(1)
        assert set(workshop.seen().others[FIXES]) == {"default/f", "kube-system/f"}
        assert workshop.seen().complete

    in_workshop(scenario)


@pytest.mark.parametrize("version", ["", "/", "v1/", "a/b/v1", "../../api/v1", "example.com/v1?x=", "Ünsinn/v1", "v 1"])
def test_what_cannot_be_an_api_version_is_never_asked_for(version: str) -> None:
    async def scenario(workshop: Workshop) -> None:
        ref = KindRef(version, "Fix")
        workshop.want(ref)
        await seconds(60)
        before = len(list(workshop.server.audit))
        assert workshop.seen().kinds == {ref: Missing(f"{version!r} is not an apiVersion")}
        await seconds(20)
        assert len(list(workshop.server.audit)) == before
        workshop.want()
        await seconds(70)
        assert workshop.seen().kinds == {}

    in_workshop(scenario)


BROKEN = {
    "an error": Says(status=503, body=status(503, "ServiceUnavailable", "the aggregated server is down")),
    "not JSON": Says(body=b"<html>welcome</html>"),
    "not UTF-8": Says(body=b'{"resources":[{"name":"\xff","kind":"a","namespaced":true}]}'),
    "without end": Says(body=b'{"resources":' + b'{"a":' * 100_000),
    "silence": Hangs(),
    "too many requests": Says(status=429, body=status(429, "TooManyRequests", "later")),
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_whatever_discovery_answers_the_last_good_answer_stays_and_others_are_not_held_up(line: Line) -> None:
    async def scenario(workshop: Workshop) -> None:
        other = KindRef("v1", "Namespace")
        workshop.install("FixTemplate")
        workshop.want(TEMPLATE, FIX)
        await seconds(1)
        workshop.answer(VERSION_PATH, line)
        workshop.answer("/apis/other.example.com/v1", line)
        await seconds(60)
        unanswered = KindRef("other.example.com/v1", "Fix")
        workshop.want(TEMPLATE, FIX, unanswered, other)
        await seconds(1)
        assert unanswered not in workshop.seen().kinds, "nobody has said whether it is there"
        await seconds(120)
        answers = workshop.seen().kinds
        assert isinstance(answers[TEMPLATE], Served)
        assert isinstance(answers[FIX], Missing)
        assert isinstance(answers[other], Served)
        assert isinstance(answers[unanswered], Missing), "who waits is told that there is no answer"
        workshop.detour.elsewhere.clear()
        workshop.install("Fix")
        await seconds(35)
        assert isinstance(workshop.seen().kinds[FIX], Served)
        assert isinstance(workshop.seen().kinds[unanswered], Missing)

    in_workshop(scenario)


def test_a_group_whose_discovery_fails_is_asked_ever_more_rarely() -> None:
    async def scenario(workshop: Workshop) -> None:
        unreadable = Scripted(workshop.clock, [Says(body=b"no")])
        workshop.detour.elsewhere[VERSION_PATH] = unreadable
        workshop.want(FIX, TEMPLATE)
        await seconds(300)
        assert 300 / 35 <= len(unreadable.asked) <= 300 / 15 + 5

    in_workshop(scenario)


def test_being_forbidden_to_ask_is_an_answer() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.answer(VERSION_PATH, Says(status=403, body=status(403, "Forbidden", "you may not ask")))
        workshop.want(FIX)
        await seconds(1)
        assert workshop.seen().kinds == {FIX: Missing(f"GET {VERSION_PATH}: you may not ask")}
        workshop.detour.elsewhere.clear()
        workshop.install("Fix")
        await seconds(35)
        assert isinstance(workshop.seen().kinds[FIX], Served)

    in_workshop(scenario)


def test_a_server_that_is_down_and_comes_back_changes_no_answer() -> None:
    async def scenario(workshop: Workshop) -> None:
        workshop.install("Fix")
        workshop.want(FIX, TEMPLATE)
        await seconds(10)
        before = workshop.seen().kinds
        workshop.server.stop()
        await seconds(120)
        assert workshop.seen().kinds == before
        assert FIXES in [blindness.kind for blindness in workshop.seen().blind]
        workshop.server.start()
        await seconds(60)
        assert workshop.seen().kinds == before
        assert workshop.seen().complete

    in_workshop(scenario)
