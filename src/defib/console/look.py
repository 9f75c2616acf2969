"""One look at a live cluster: everything that an operator would decide from, read once.

What this account may not read is noted, not guessed. The operator has an account of its own and may see more.
"""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from defib.clock import Clock
from defib.console.kinds import LIST_SECONDS, NOT_READ, find_kind
from defib.console.session import NotDone, forbidden
from defib.decide.answers.failover import KINDS
from defib.decide.plan import decide
from defib.decide.rules import Rules
from defib.decide.wanted import wanted_kinds
from defib.kube.client import EVERYTHING, Client, Scope
from defib.kube.decode import Page
from defib.kube.discovery import Discovery
from defib.kube.errors import Forbidden, KubeError, NotFound
from defib.kube.kinds import CONFIG_MAPS, LEASES, NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES, Kind, R
from defib.model import medik8s
from defib.model.cluster import CONFIG_MAPS as CONFIG_MAPS_NAME
from defib.model.cluster import HEARTBEAT_NAMESPACE, Blindness, Cluster, Missing, Served, Unread, Wanted
from defib.model.health_check import KindRef
from defib.model.incident import INCIDENTS
from defib.model.meta import Resource, Unstructured

PAGE_SIZE = 5000  # somebody waits: each page more is a way there and back, and nothing is kept for long
ROUNDS_MAX = 5  # each finds the kinds that the one before gave reason to ask for

Wishes = Callable[[Cluster, Rules], Mapping[KindRef, Wanted]]
"""Which kinds must be in sight, as far as that can be told from what is in sight already."""


def for_checks(cluster: Cluster, rules: Rules) -> Mapping[KindRef, Wanted]:
    return wanted_kinds(decide(cluster, rules), cluster, rules)


class Look(msgspec.Struct, frozen=True):
    """`unknown` are sentences about what could not be read."""

    cluster: Cluster
    unknown: tuple[str, ...]


async def look(client: Client, clock: Clock, rules: Rules, wishes: Wishes = for_checks) -> Look:
    """Raises NotDone when there is no point without what could not be read: nodes, and the checks."""
    looking = _Looking(client, clock, rules)
    async with asyncio.TaskGroup() as group:
        nodes = group.create_task(looking.read(NODES))
        checks = group.create_task(looking.read(NODE_HEALTH_CHECKS))
        heartbeats = group.create_task(looking.read(LEASES, HEARTBEAT_NAMESPACE))
        locks = group.create_task(looking.read(LEASES, rules.lock_namespace))
        config = group.create_task(looking.read(CONFIG_MAPS, rules.namespace))
        incidents = group.create_task(looking.read(NODE_INCIDENTS))
    known_nodes, known_checks = _needed(nodes.result(), NODES), _needed(checks.result(), NODE_HEALTH_CHECKS)
    cluster = Cluster(
        now=clock.now(),
        nodes=known_nodes,
        heartbeats=looking.optional(heartbeats.result(), f"the heartbeats in {HEARTBEAT_NAMESPACE}"),
        locks=looking.optional(locks.result(), f"the locks in {rules.lock_namespace}"),
        others={
            medik8s.CHECKS: known_checks,
            INCIDENTS: looking.installed(incidents.result(), "the NodeIncidents"),
            CONFIG_MAPS_NAME: looking.optional(config.result(), f"the ConfigMaps of {rules.namespace}"),
        },
        unread=tuple(looking.unread),
    )
    return Look(await looking.with_kinds(cluster, wishes), tuple(looking.unknown))


def _needed(found: Mapping[str, R] | KubeError, kind: Kind[R]) -> Mapping[str, R]:
    match found:
        case Forbidden():
            raise forbidden(found, "list", str(kind)) from found
        case NotFound() if kind.group:
            raise NotDone(
                f"the cluster has no {kind.name}s: their CRD is not installed (kubectl apply -f deploy/crds)"
            ) from found
        case KubeError():
            raise NotDone(str(found)) from found
    return found


class _Looking:
    def __init__(self, client: Client, clock: Clock, rules: Rules) -> None:
        self._client = client
        self._clock = clock
        self._rules = rules
        self._discovery = Discovery(client)
        self.unknown: list[str] = []
        self.unread: list[Unread] = []

    async def read(self, kind: Kind[R], namespace: str = "") -> Mapping[str, R] | KubeError:
        scope = Scope(namespace=namespace) if namespace else EVERYTHING
        try:
            page: Page[R] = await self._client.list_all(kind, scope, deadline=LIST_SECONDS, page_size=PAGE_SIZE)
        except KubeError as error:
            return error
        self.unread += (Unread(str(kind), item.key, item.why) for item in page.set_aside)
        return {item.key: item for item in page.items}

    def optional(self, found: Mapping[str, R] | KubeError, what: str) -> Mapping[str, R]:
        if isinstance(found, KubeError):
            self.unknown.append(f"{what} {NOT_READ}: {found}")
            return {}
        return found

    def installed(self, found: Mapping[str, R] | KubeError, what: str) -> Mapping[str, R]:
        """A kind that a cluster need not have."""
        return {} if isinstance(found, NotFound) else self.optional(found, what)

    async def with_kinds(self, cluster: Cluster, wishes: Wishes) -> Cluster:
        """Pod failover, the kinds that the checks name, and those that tell of upgrades, as far as they are known of."""
        for _ in range(ROUNDS_MAX):
            wanted = wishes(cluster, self._rules)
            missing = dict.fromkeys(KINDS, "") | {kind: how.namespace for kind, how in wanted.items()}
            missing = {kind: namespace for kind, namespace in missing.items() if kind not in cluster.kinds}
            if not missing:
                break
            async with asyncio.TaskGroup() as group:
                tasks = {ref: group.create_task(self._of_kind(ref, missing[ref])) for ref in sorted(missing, key=str)}
            for ref, task in tasks.items():
                cluster = _with(cluster, ref, task.result())
        return msgspec.structs.replace(cluster, now=self._clock.now(), unread=tuple(self.unread))

    async def _of_kind(self, ref: KindRef, namespace: str) -> "_Found":
        kind = await find_kind(ref, self._discovery, self.unknown)
        if not isinstance(kind, Kind):
            return _Found(kind if isinstance(kind, Missing) else Missing(str(kind)))
        served = Served(str(ref), kind.namespaced)
        objects = await self.read(kind, namespace)
        if isinstance(objects, KubeError):
            self.unknown.append(f"{kind} {NOT_READ}: {objects}")
            return _Found(served, why=objects)
        return _Found(served, objects)


class _Found(msgspec.Struct, frozen=True):
    """A kind that was asked for, its objects, or why they could not be read."""

    kind: Served | Missing
    objects: Mapping[str, Unstructured] = {}
    why: KubeError | None = None


def _with(cluster: Cluster, ref: KindRef, found: _Found) -> Cluster:
    kinds = {**cluster.kinds, ref: found.kind}
    if isinstance(found.kind, Missing):
        return msgspec.structs.replace(cluster, kinds=kinds)
    name = found.kind.collection
    others: Mapping[str, Mapping[str, Resource]] = {**cluster.others, name: found.objects}
    absent, blind = cluster.absent, cluster.blind
    if isinstance(found.why, Forbidden):
        absent = {**absent, name: str(found.why)}
    elif found.why is not None:
        blind = (*blind, Blindness(name, cluster.now, str(found.why)))
    return msgspec.structs.replace(cluster, kinds=kinds, others=others, absent=absent, blind=blind)
