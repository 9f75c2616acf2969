"""A thorough look at a live cluster: also what our own work depends on, and the pods. No Secret is ever read."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta

import msgspec

from defib.clock import Clock
from defib.console.kinds import LIST_SECONDS, NOT_READ
from defib.console.look import for_checks, look
from defib.decide.plan import Plan, decide
from defib.decide.remediators import OwnWork, plan_own_work
from defib.decide.rules import Rules
from defib.decide.wanted import widest
from defib.kube.client import EVERYTHING, Client, Scope
from defib.kube.errors import KubeError
from defib.kube.kinds import CLAIMS, PODS
from defib.kube.transport import Request
from defib.model.action import Action, ReadClaim
from defib.model.cluster import Cluster, Wanted
from defib.model.failure import Failure
from defib.model.health_check import KindRef
from defib.model.pod import Pod, pods_on
from defib.model.version import read_version

ROUNDS_MAX = 3  # pods give reason to ask for claims
CLAIMS_MAX = 500
VERSION_SECONDS = 5.0
PODS_SECONDS = 120.0  # of 5,000 nodes

PodsByNode = Mapping[str, tuple[Pod, ...]]


class Thought(msgspec.Struct, frozen=True):
    """What deciding makes of one look, with nothing remembered from before it."""

    plan: Plan
    own: OwnWork

    @property
    def actions(self) -> tuple[Action, ...]:
        return (*self.plan.actions, *self.own.actions)


def think(cluster: Cluster, rules: Rules) -> Thought:
    plan = decide(cluster, rules)
    return Thought(plan, plan_own_work(cluster, rules, plan))


class Seen(msgspec.Struct, frozen=True):
    """`unknown` are sentences about what could not be read. `pods` is None where nobody asked, or they may not be read."""

    cluster: Cluster
    unknown: tuple[str, ...] = ()
    pods: PodsByNode | None = None


async def look_at_all(client: Client, clock: Clock, rules: Rules, *, with_pods: bool) -> Seen:
    """Everything that a plan depends on; `with_pods`: and the pods of every node. Raises NotDone."""
    seen = await look(client, clock, rules, _for_everything)
    server = await _version(client)
    looking = _Looking(client, rules, list(seen.unknown))
    cluster = msgspec.structs.replace(seen.cluster, server=server)
    pods = await looking.every_pod() if with_pods else None
    for _ in range(ROUNDS_MAX):
        more = await looking.closer(cluster, pods)
        if more is cluster:
            break
        cluster = more
    return Seen(msgspec.structs.replace(cluster, now=clock.now()), tuple(looking.unknown), pods)


def _for_everything(cluster: Cluster, rules: Rules) -> Mapping[KindRef, Wanted]:
    return widest(for_checks(cluster, rules), think(cluster, rules).own.kinds)


async def _version(client: Client) -> tuple[int, int]:
    try:
        return read_version(await client.ask(Request(method="GET", path="/version"), deadline=VERSION_SECONDS))
    except (KubeError, msgspec.DecodeError):
        return (0, 0)


class _Looking:
    def __init__(self, client: Client, rules: Rules, unknown: list[str]) -> None:
        self._client = client
        self._rules = rules
        self.unknown = unknown

    async def every_pod(self) -> PodsByNode | None:
        found = await self._pods(EVERYTHING, PODS_SECONDS)
        if isinstance(found, KubeError):
            self.unknown.append(f"pods {NOT_READ}: {found}")
            return None
        return by_node(found)

    async def closer(self, cluster: Cluster, pods: PodsByNode | None) -> Cluster:
        """With the pods and claims that are needed and not there yet; the same object when none is."""
        own = think(cluster, self._rules).own
        nodes = sorted(node for node in own.nodes if pods_on(node) not in cluster.others)
        claims = {one for one in own.actions if isinstance(one, ReadClaim)}
        wanted = sorted((one.namespace, one.name) for one in claims if one.key not in cluster.failures)[:CLAIMS_MAX]
        async with asyncio.TaskGroup() as group:
            on = {node: group.create_task(self._pods_of(node, pods)) for node in nodes}
            modes = {pair: group.create_task(self._modes(*pair)) for pair in wanted}
        for node, task in on.items():
            cluster = self._with_pods(cluster, node, task.result())
        for (namespace, name), reading in modes.items():
            cluster = self._with_claim(cluster, ReadClaim(namespace, name), reading.result())
        return cluster

    async def _pods_of(self, node: str, pods: PodsByNode | None) -> Iterable[Pod] | KubeError:
        if pods is not None:
            return pods.get(node, ())
        return await self._pods(Scope(fields=f"spec.nodeName={node}"), LIST_SECONDS)

    async def _pods(self, scope: Scope, deadline: float) -> Iterable[Pod] | KubeError:
        try:
            page = await self._client.list_all(PODS, scope, deadline=deadline)
        except KubeError as error:
            return error
        self.unknown += (f"pod {item.key} cannot be read: {item.why}" for item in page.set_aside)
        return page.items

    async def _modes(self, namespace: str, name: str) -> frozenset[str] | KubeError:
        try:
            modes = ((await self._client.get(CLAIMS.at(name, namespace))).spec or {}).get("accessModes")
        except KubeError as error:
            return error
        return frozenset(map(str, modes)) if isinstance(modes, list) else frozenset()

    def _with_pods(self, cluster: Cluster, node: str, found: Iterable[Pod] | KubeError) -> Cluster:
        absent = cluster.absent
        if isinstance(found, KubeError):
            self.unknown.append(f"the pods of node {node} {NOT_READ}: {found}")
            absent, found = {**absent, pods_on(node): str(found)}, ()
        others = {**cluster.others, pods_on(node): {pod.key: pod for pod in found}}
        return msgspec.structs.replace(cluster, others=others, absent=absent)

    def _with_claim(self, cluster: Cluster, claim: ReadClaim, found: frozenset[str] | KubeError) -> Cluster:
        if isinstance(found, KubeError):
            self.unknown.append(f"claim {claim.namespace}/{claim.name} {NOT_READ}: {found}")
            failure = Failure(why=str(found), times=1, again_in=timedelta())
            return msgspec.structs.replace(cluster, failures={**cluster.failures, claim.key: failure})
        claims = {**cluster.claims, f"{claim.namespace}/{claim.name}": found}
        return msgspec.structs.replace(cluster, claims=claims)


def by_node(pods: Iterable[Pod]) -> PodsByNode:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.spec.node_name:
            found.setdefault(pod.spec.node_name, []).append(pod)
    return {node: tuple(found[node]) for node in sorted(found)}
