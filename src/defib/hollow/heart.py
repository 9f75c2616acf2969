"""The part of a kubelet that says: I am here. It registers the node, renews the Lease and posts the node's status."""

import asyncio
from typing import Any, NoReturn

import structlog

from defib.hollow.node_state import NodeState
from defib.hollow.node_status import conditions, csi_node, node_body, owner, status_of
from defib.hollow.objects import CSI_NODES, KNOWN_NODES, KnownNode
from defib.hollow.site import Site
from defib.hollow.view import View
from defib.kube.client import Merge
from defib.kube.errors import AlreadyExists, KubeError, NotFound
from defib.kube.kinds import LEASES
from defib.model.cluster import HEARTBEAT_NAMESPACE

log = structlog.get_logger("hollow")


class Heart:
    """One for each boot: a kubelet registers once, and never again if somebody deletes its node."""

    def __init__(self, site: Site, view: View, state: NodeState) -> None:
        self._client = site.client
        self._clock = site.clock
        self._timers = site.timers
        self._view = view
        self._state = state
        self._registered = False
        self._uid = ""
        self._status_due = 0.0
        self._asked = asyncio.Event()

    def post_soon(self) -> None:
        """Somebody has news for the status that need not wait for the next beat."""
        self._status_due = 0.0
        self._asked.set()

    async def run(self) -> NoReturn:
        due = self._clock.monotonic()
        spread = 0.5 + self._clock.jitter(0.5)  # else all nodes of a cluster would beat at once, for ever
        while True:
            self._asked.clear()
            await self._beat()
            if due <= self._clock.monotonic():
                due = max(due + self._timers.renew_seconds * spread, self._clock.monotonic())
                spread = 1.0
            await self._wait_until(due)

    async def _wait_until(self, moment: float) -> None:
        try:
            async with asyncio.timeout(moment - self._clock.monotonic()):
                await self._asked.wait()
        except TimeoutError:
            return

    async def _beat(self) -> None:
        """What the API server does not take now is tried again at the next beat, as a kubelet does."""
        await self._state.line()
        try:
            if not self._registered:
                await self._register()
            elif self._status_due <= self._clock.monotonic() or self._has_news():
                await self._post_status()
            await self._renew()
        except KubeError as error:
            log.debug("heartbeat failed", node=self._state.name, why=str(error))

    def _has_news(self) -> bool:
        known = self._view.node(self._state.name)
        if known is None:
            return False
        said = {kind: condition["status"] for kind, condition in known.conditions.items()}
        wrong = any(said.get(kind) != says.status for kind, says in self._state.conditions.items())
        return wrong or sorted(known.status.volumes_in_use or ()) != self._state.volumes_in_use()

    async def _register(self) -> None:
        blueprint = self._state.blueprint
        try:
            body = node_body(blueprint) | {"status": self._status(None)}
            made = await self._client.create(KNOWN_NODES, body, deadline=self._deadline)
            self._note(made)
        except AlreadyExists:  # from before the boot
            await self._post_status()
        if blueprint.drivers:
            await self._offer_drivers()
        self._registered = True

    async def _offer_drivers(self) -> None:
        body = csi_node(self._state.blueprint, self._uid)
        try:
            await self._client.create(CSI_NODES, body, deadline=self._deadline)
        except AlreadyExists:
            await self._client.patch(CSI_NODES.at(self._state.name), Merge(body), deadline=self._deadline)

    async def _post_status(self) -> None:
        """A live read first: what others wrote into the conditions must stay."""
        ref = KNOWN_NODES.at(self._state.name)
        known = await self._client.get(ref, deadline=self._deadline)
        version = {"resourceVersion": known.metadata.resource_version}
        patch = Merge({"metadata": version, "status": self._status(known)})
        self._note(await self._client.patch(ref, patch, subresource="status", deadline=self._deadline))

    def _note(self, known: KnownNode) -> None:
        self._uid = known.uid
        self._status_due = self._clock.monotonic() + self._timers.status_seconds

    def _status(self, known: KnownNode | None) -> dict[str, Any]:
        state = self._state
        return status_of(state.blueprint, state.boot_id, state.kubelet_port) | {
            "conditions": conditions(known, state.conditions, self._clock.now()),
            "volumesInUse": state.volumes_in_use(),
        }

    async def _renew(self) -> None:
        name = self._state.name
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": self._timers.lease_seconds,
            "renewTime": self._clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        try:
            ref = LEASES.at(name, HEARTBEAT_NAMESPACE)
            await self._client.patch(ref, Merge({"spec": spec}), deadline=self._deadline)
        except NotFound:
            if self._view.knows_nodes and self._view.node(name) is None:
                return  # the Lease went with its node, and comes back with it
            meta = {"name": name, "namespace": HEARTBEAT_NAMESPACE, "ownerReferences": owner(name, self._uid)}
            body = {"metadata": meta, "spec": spec}
            await self._client.create(LEASES, body, namespace=HEARTBEAT_NAMESPACE, deadline=self._deadline)

    @property
    def _deadline(self) -> float:
        return max(1.0, self._timers.renew_seconds)
