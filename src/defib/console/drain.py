"""What is the matter with a drain, or would be: read from the live cluster, once. Nothing is changed.

What this account may not read is noted, not guessed. preStop hooks are read here and nowhere else: an operator follows
thousands of pods, and would have to keep the containers of all of them.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.console.brake import BRAKE
from defib.console.kinds import LIST_SECONDS, NOT_READ, find_kind
from defib.console.nodes import the_node
from defib.console.session import NotDone, connected, forbidden
from defib.decide.drains.budgets import Budgets, budgets_in, index_budgets
from defib.decide.drains.compatibility import KINDS as NODEKEEPERS
from defib.decide.drains.doctor import Diagnosis, diagnose
from defib.decide.drains.findings import Details, Reason
from defib.decide.drains.forecast import Forecast, Forecasting
from defib.decide.drains.intents import kinds_for
from defib.decide.drains.refusals import refusal
from defib.decide.drains.survey import known_policies
from defib.decide.drains.targets import must_leave
from defib.decide.rules import Rules
from defib.kube.client import Client, Scope
from defib.kube.decode import Page, decode_page
from defib.kube.discovery import Discovery
from defib.kube.errors import Forbidden, KubeError, NotFound
from defib.kube.kinds import CLAIMS, CONFIG_MAPS, LEASES, NODE_INCIDENTS, NODES, PODS, Kind, R, Ref, unstructured
from defib.kube.transport import Request
from defib.model import medik8s
from defib.model.action import ReadClaim
from defib.model.budget import BUDGET
from defib.model.cluster import CONFIG_MAPS as CONFIG_MAPS_NAME
from defib.model.cluster import Cluster, Missing, Served, Unread, Wanted
from defib.model.drain_policy import ALL_SOURCES, POLICY, Policy
from defib.model.failure import Failure
from defib.model.health_check import KindRef
from defib.model.incident import INCIDENTS
from defib.model.meta import Resource, Unstructured, Wire
from defib.model.node import Node
from defib.model.node_drain import DRAIN
from defib.model.pod import Pod, PodSpec, pods_on

ALL_PODS_SECONDS = 300.0
PAGE_SIZE = 1000
BASIS = (
    "Worked out from the cluster as it is now, by the operator's rules. What only a running operator knows is not in "
    "it: evictions that have just been refused, its turn among other nodes."
)

BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
VOLUMES = unstructured("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)


class _Lifecycle(Wire, frozen=True):
    pre_stop: dict[str, Any] | None = None


class _Container(Wire, frozen=True):
    name: str = ""
    lifecycle: _Lifecycle | None = None


class _DetailedSpec(PodSpec, frozen=True):
    containers: list[_Container] | None = None


class DetailedPod(Pod, frozen=True):
    """A pod with what only somebody who looks at one node wants to know."""

    spec: _DetailedSpec = _DetailedSpec()

    @property
    def hooks(self) -> tuple[str, ...]:
        """Its containers with a preStop hook."""
        containers = self.spec.containers or ()
        return tuple(one.name for one in containers if one.lifecycle is not None and one.lifecycle.pre_stop is not None)


DETAILED_PODS = Kind(version="v1", plural="pods", name="Pod", namespaced=True, type=DetailedPod)


async def drain(node: str, settings: Settings, rules: Rules) -> Diagnosis:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await examine(node, session.client, session.clock, rules)


async def drain_forecast(selector: str, settings: Settings) -> Forecast:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await foresee(selector, session.client, session.clock)


async def examine(name: str, client: Client, clock: Clock, rules: Rules) -> Diagnosis:
    node = await the_node(name, client, clock)
    reading = _Reading(client, node, rules)
    cluster = await reading.look(clock)
    details = await reading.closer_look(cluster)
    told = diagnose(node, reading.with_claims(cluster), rules, details)
    return msgspec.structs.replace(told, unknown=(*told.unknown, *dict.fromkeys(reading.unknown)))


async def foresee(selector: str, client: Client, clock: Clock) -> Forecast:
    """Pods are read page by page, and none is kept: there may be hundreds of thousands."""
    try:
        nodes = await client.list_all(NODES, Scope(labels=selector), deadline=LIST_SECONDS)
    except Forbidden as error:
        raise forbidden(error, "list", str(NODES)) from error
    counting = Forecasting(nodes.items, await _budgets(client), clock.now())
    unread = [f"node {item.key} cannot be read: {item.why}" for item in nodes.set_aside]
    try:
        async with asyncio.timeout(ALL_PODS_SECONDS):
            unread += await _count_all(counting, client)
    except Forbidden as error:
        raise forbidden(error, "list", str(PODS)) from error
    except TimeoutError as error:
        raise NotDone(f"not all pods of the cluster could be read within {ALL_PODS_SECONDS:g} s; try again") from error
    told = counting.result()
    return msgspec.structs.replace(told, unknown=(*told.unknown, *unread))


async def _count_all(counting: Forecasting, client: Client) -> list[str]:
    """What is wrong with those that cannot be read."""
    token, unread = "", []
    while True:
        query = {"limit": str(PAGE_SIZE)} | ({"continue": token} if token else {})
        page = decode_page(await client.ask(Request(method="GET", path=PODS.collection(), query=query)), Pod)
        counting.add(page.items)
        unread += [f"pod {item.key} cannot be read: {item.why}" for item in page.set_aside]
        token = page.continue_
        if not token:
            return unread


async def _budgets(client: Client) -> Budgets:
    try:
        page = await client.list_all(BUDGETS, deadline=LIST_SECONDS)
    except KubeError as error:
        return Budgets(unseen=f"disruption budgets {NOT_READ}, so nobody can say what they block: {error}")
    return index_budgets({item.key: item for item in page.items}, _unread(str(BUDGETS), page))


class _Reading:
    """Everything about one node. `unknown` are sentences about what could not be read."""

    def __init__(self, client: Client, node: Node, rules: Rules) -> None:
        self._client = client
        self._node = node
        self._rules = rules
        self._discovery = Discovery(client)
        self._claims: dict[str, frozenset[str]] = {}
        self._failures: dict[str, Failure] = {}
        self._local: set[str] = set()
        self.unknown: list[str] = []

    async def look(self, clock: Clock) -> Cluster:
        name, rules = self._node.name, self._rules
        cluster = Cluster(now=clock.now(), nodes={name: self._node})
        kinds = kinds_for(ALL_SOURCES) | dict.fromkeys((BUDGET, POLICY, DRAIN), Wanted())
        async with asyncio.TaskGroup() as group:
            pods = group.create_task(self._list(DETAILED_PODS, Scope(fields=f"spec.nodeName={name}")))
            incident = group.create_task(self._get(NODE_INCIDENTS.at(name)))
            lock = group.create_task(self._get(LEASES.at(medik8s.lock_of(name), rules.lock_namespace)))
            brake = group.create_task(self._get(CONFIG_MAPS.at(BRAKE, rules.namespace)))
            found = group.create_task(self._kinds(kinds))
        seen = pods.result()
        others: dict[str, Mapping[str, Resource]] = {
            pods_on(name): {} if isinstance(seen, KubeError) else {pod.key: pod for pod in seen.items},
            INCIDENTS: _by_key(incident.result()),
            CONFIG_MAPS_NAME: _by_key(brake.result()),
        }
        absent = {pods_on(name): str(seen)} if isinstance(seen, KubeError) else {}
        cluster = msgspec.structs.replace(cluster, others=others, absent=absent, locks=_by_key(lock.result()))
        return await self._with_nodekeepers(_with(cluster, found.result()))

    async def _with_nodekeepers(self, cluster: Cluster) -> Cluster:
        """What a policy says in place of Nodekeeper stands elsewhere too."""
        written = [one.written for one in known_policies(cluster, {}).values()]
        if not any(isinstance(one, Policy) and one.is_nodekeepers for one in written):
            return cluster
        return _with(cluster, await self._kinds(NODEKEEPERS))

    async def closer_look(self, cluster: Cluster) -> Details:
        pods = cluster.all_of(pods_on(self._node.name), DetailedPod)
        leaving = must_leave(pods.values())
        claims = sorted({(pod.namespace, claim) for pod in leaving for claim in pod.claims})
        async with asyncio.TaskGroup() as group:
            pending = group.create_task(self._pending(_waited_for(leaving, budgets_in(cluster))))
            for namespace, claim in claims:
                group.create_task(self._claim(namespace, claim))
        hooks = {pod.uid: pod.hooks for pod in pods.values() if pod.hooks}
        return Details(hooks=hooks, pending=pending.result(), local=frozenset(self._local))

    def with_claims(self, cluster: Cluster) -> Cluster:
        return msgspec.structs.replace(cluster, claims=self._claims, failures=self._failures)

    async def _pending(self, namespaces: Iterable[str]) -> tuple[Pod, ...]:
        found: list[Pod] = []
        for namespace in namespaces:
            there = await self._list(PODS, Scope(namespace=namespace, fields="status.phase=Pending"))
            if isinstance(there, KubeError):
                self.unknown.append(f"which pods of {namespace} wait for a node {NOT_READ}: {there}")
            else:
                found += there.items
        return tuple(found)

    async def _claim(self, namespace: str, name: str) -> None:
        """Who may have it at a time, and whether it can be had elsewhere at all."""
        key = f"{namespace}/{name}"
        try:
            claim = await self._client.get(CLAIMS.at(name, namespace))
            modes = (claim.spec or {}).get("accessModes")
            self._claims[key] = frozenset(map(str, modes)) if isinstance(modes, list) else frozenset()
            volume = (claim.spec or {}).get("volumeName")
            if isinstance(volume, str) and volume and await self._is_local(volume):
                self._local.add(key)
        except KubeError as error:
            failure = Failure(why=str(error), times=1, again_in=timedelta())
            self._failures.setdefault(ReadClaim(namespace, name).key, failure)
            self.unknown.append(f"claim {key} {NOT_READ}: {error}")

    async def _is_local(self, volume: str) -> bool:
        try:
            spec = (await self._client.get(VOLUMES.at(volume))).spec or {}
        except KubeError as error:
            self.unknown.append(f"whether volume {volume} is on this node for good {NOT_READ}: {error}")
            return False
        return spec.get("local") is not None or spec.get("hostPath") is not None

    async def _kinds(self, wanted: Mapping[KindRef, Wanted]) -> dict[KindRef, "_Found"]:
        async with asyncio.TaskGroup() as group:
            tasks = {kind: group.create_task(self._kind(kind, how.namespace)) for kind, how in wanted.items()}
        return {kind: task.result() for kind, task in tasks.items()}

    async def _kind(self, ref: KindRef, namespace: str) -> "_Found":
        kind = await find_kind(ref, self._discovery, self.unknown)
        if not isinstance(kind, Kind):
            return (
                _Found(kind) if isinstance(kind, Missing) else _Found(Served(str(ref), namespaced=True), why=str(kind))
            )
        served = Served(str(ref), kind.namespaced)
        page = await self._list(kind, Scope(namespace=namespace))
        if isinstance(page, KubeError):
            self.unknown.append(f"{kind} {NOT_READ}: {page}")
            return _Found(served, why=str(page))
        return _Found(served, {item.key: item for item in page.items}, unread=_unread(served.collection, page))

    async def _list(self, kind: Kind[R], scope: Scope) -> Page[R] | KubeError:
        try:
            page = await self._client.list_all(kind, scope, deadline=LIST_SECONDS)
        except KubeError as error:
            return error
        self.unknown += (f"{kind} {item.key} cannot be read: {item.why}" for item in page.set_aside)
        return page

    async def _get(self, ref: Ref[R]) -> R | None:
        """What need not be there."""
        try:
            return await self._client.get(ref)
        except NotFound:
            return None
        except KubeError as error:
            self.unknown.append(f"{ref} {NOT_READ}: {error}")
            return None


class _Found(msgspec.Struct, frozen=True):
    """A kind that was asked for, its objects, or why they could not be read."""

    kind: Served | Missing
    objects: Mapping[str, Unstructured] = {}
    why: str = ""
    unread: tuple[Unread, ...] = ()


def _with(cluster: Cluster, found: Mapping[KindRef, _Found]) -> Cluster:
    served = [(one.kind.collection, one) for one in found.values() if isinstance(one.kind, Served)]
    return msgspec.structs.replace(
        cluster,
        kinds={**cluster.kinds, **{kind: one.kind for kind, one in found.items()}},
        others={**cluster.others, **{name: one.objects for name, one in served}},
        absent={**cluster.absent, **{name: one.why for name, one in served if one.why}},
        unread=(*cluster.unread, *(item for one in found.values() for item in one.unread)),
    )


def _unread(collection: str, page: Page[R]) -> tuple[Unread, ...]:
    return tuple(Unread(collection, item.key, item.why) for item in page.set_aside)


def _by_key(item: R | None) -> dict[str, R]:
    return {item.key: item} if item is not None else {}


def _waited_for(pods: Iterable[Pod], budgets: Budgets) -> list[str]:
    """Namespaces in which a budget may wait for a pod that has no place."""
    refusals = ((pod.namespace, refusal(pod, budgets.of(pod), budgets)) for pod in pods)
    waits = (Reason.BUDGET_NONE_NOW, Reason.UNHEALTHY_PROTECTED)
    return sorted({namespace for namespace, found in refusals if found is not None and found.reason in waits})
