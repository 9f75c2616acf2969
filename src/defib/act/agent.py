"""Nodes that take themselves down: an order is written into the Lease of a node's agent, and all agents are listened to.

The same four calls as a driver's, through the API server. Nothing can be read back: whether the node is down, time tells.
"""

from typing import ClassVar

from defib.act.means import REQUEST_SECONDS, Means
from defib.act.outcome import AgentsHeard, Failed, Outcome
from defib.kube.client import Merge, Scope
from defib.kube.errors import Conflict, KubeError, NotFound, ServerFailed, Throttled, Unreachable
from defib.kube.kinds import LEASES, NODES
from defib.model.agents import AgentsListed, HearAgents
from defib.model.cluster import HEARTBEAT_NAMESPACE
from defib.model.node import Lease
from defib.model.power import PowerState, Reading
from defib.model.self_fence import LABEL, LABEL_VALUE, ORDER, Order, lease_name, read_order, text_of
from defib.model.self_fencing import ALLOWS_SOFTWARE, Guarded, guard_of
from defib.power.base import Accepted, NotReady, Readiness, Ready, Refused, Target, Unknown
from defib.power.base import Outcome as Answer

_TRIES = 5  # an agent writes its Lease every few seconds; losing a race to it is ordinary
_YES = "true"


class Agent:
    can_read_state: ClassVar[bool] = False

    def __init__(self, means: Means) -> None:
        self._means = means

    async def state(self, target: Target, within_seconds: float) -> Reading:  # noqa: ARG002  nobody is asked
        return Reading(PowerState.UNKNOWN, self._means.clock.now(), "an agent cannot tell that its own node is down")

    async def off(self, target: Target, within_seconds: float) -> Answer:  # noqa: ARG002  every request has its own
        """The order is for the boot that reports now, and only if the Lease is still the one that was read.

        So whatever its agent writes afterwards, the answer to that tells it.
        """
        for _ in range(_TRIES):
            try:
                guard = await self._guard(target)
                if isinstance(guard, str):
                    return Refused(guard)
                order = Order(remediation=f"NodeIncident {target.node}", boot_id=guard.report.boot_id)
                await self._write(guard.lease, order)
            except (Conflict, NotFound):
                continue
            except KubeError as error:
                return _answer(error)
            return Accepted()
        return Refused("the Lease of its agent changes faster than an order can be written into it")

    async def on(self, target: Target, within_seconds: float) -> Answer:  # noqa: ARG002  the same
        """An order that was not read yet is taken back. One that was read is not: whoever has read it goes down."""
        for _ in range(_TRIES):
            try:
                lease = await self._means.live(LEASES.at(lease_name(target.node), self._means.namespace))
                if lease is not None:
                    await self._write(lease, None)
            except (Conflict, NotFound):
                continue
            except KubeError as error:
                return _answer(error)
            return Accepted()
        return Refused("the Lease of its agent changes faster than an order can be taken out of it")

    async def check(self, target: Target, within_seconds: float) -> Readiness:  # noqa: ARG002  the same
        try:
            guard = await self._guard(target)
        except KubeError as error:
            return NotReady(str(error))
        return NotReady(guard) if isinstance(guard, str) else Ready()

    async def _guard(self, target: Target) -> Guarded | str:
        """Read as they are now; the Lease last, since the order depends on its version."""
        live = self._means.live
        node = await live(NODES.at(target.node))
        beat = await live(LEASES.at(target.node, HEARTBEAT_NAMESPACE))
        lease = await live(LEASES.at(lease_name(target.node), self._means.namespace))
        return guard_of(lease, node, beat, allows_software=target.options.get(ALLOWS_SOFTWARE) == _YES)

    async def _write(self, lease: Lease, order: Order | None) -> None:
        if read_order(lease) == order:
            return
        annotations = {ORDER: text_of(order) if order is not None else None}
        meta = {"uid": lease.uid, "resourceVersion": lease.metadata.resource_version, "annotations": annotations}
        await self._means.client.patch(LEASES.of(lease), Merge({"metadata": meta}), deadline=REQUEST_SECONDS)


def _answer(error: KubeError) -> Answer:
    if isinstance(error, Throttled):  # nothing was done, and it is said when to come again
        raise error
    return Unknown(str(error)) if isinstance(error, (ServerFailed, Unreachable)) else Refused(str(error))


async def hear_agents(means: Means, action: HearAgents) -> Outcome:
    """A list without a version is as new as the question, whatever the API server has in its cache."""
    asked = means.clock.monotonic()
    scope = Scope(namespace=action.namespace, labels=f"{LABEL}={LABEL_VALUE}")
    page = await means.client.list_all(LEASES, scope, deadline=REQUEST_SECONDS)
    if page.set_aside:  # left out, it would not be missed among those that must be heard
        return Failed(f"the Lease of an agent cannot be read: {page.set_aside[0].why}")
    listed = AgentsListed(at=means.clock.now(), asked=asked, answered=means.clock.monotonic(), leases=tuple(page.items))
    return AgentsHeard(listed)
