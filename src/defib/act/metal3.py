"""The power of a Metal3 host: asked for by an annotation of ours, read from what the baremetal operator says of it.

The same four calls as a driver's, through the API server. The operator acts only on hosts that it may act on, and what
it says of others is old: such a host is neither on nor off.
"""

from typing import ClassVar

from defib.act.means import REQUEST_SECONDS, Means
from defib.kube.client import Merge
from defib.kube.errors import Conflict, KubeError, NotFound, ServerFailed, Throttled, Unreachable
from defib.kube.kinds import Ref
from defib.model.meta import Unstructured
from defib.model.metal3 import HOST, KEPT_OFF_BY, KEPT_OFF_FOR, REBOOT_HARD, power_of, why_no_way, why_untouchable
from defib.model.power import PowerState, Reading
from defib.power.base import Accepted, NotReady, Outcome, Readiness, Ready, Refused, Target, Unknown

_KEY = "key"
_TRIES = 3  # losing a race against the baremetal operator is ordinary


class Metal3:
    can_read_state: ClassVar[bool] = True

    def __init__(self, means: Means) -> None:
        self._means = means

    async def state(self, target: Target, within_seconds: float) -> Reading:  # noqa: ARG002  every request has its own
        at = self._means.clock.now()
        try:
            host = await self._host(target)
        except KubeError as error:
            return Reading(PowerState.UNKNOWN, at, str(error))
        if host is None:
            return Reading(PowerState.UNKNOWN, at, f"there is no BareMetalHost {target.address}")
        self._means.note((await self._ref(target)).kind, host)  # what is decided next must not be older than this
        state, detail = power_of(host, target.options[_KEY])
        return Reading(state, at, detail)

    async def off(self, target: Target, within_seconds: float) -> Outcome:  # noqa: ARG002  the same
        return await self._annotate(target, REBOOT_HARD)

    async def on(self, target: Target, within_seconds: float) -> Outcome:  # noqa: ARG002  the same
        """Only our own annotation goes: others may want the host to stay off."""
        return await self._annotate(target, None)

    async def check(self, target: Target, within_seconds: float) -> Readiness:  # noqa: ARG002  the same
        try:
            host = await self._host(target)
        except KubeError as error:
            return NotReady(str(error))
        if host is None:
            return NotReady(f"there is no BareMetalHost {target.address}")
        why = why_untouchable(host)
        return NotReady(why) if why else Ready()

    async def _annotate(self, target: Target, value: str | None) -> Outcome:
        for _ in range(_TRIES):
            try:
                host = await self._host(target)
                if host is None:
                    return Refused(f"there is no BareMetalHost {target.address}") if value else Accepted()
                if value is not None and (why := why_untouchable(host)):
                    return Refused(why)
                await self._patch(host, target, value)
            except (Conflict, NotFound):
                continue
            except Throttled:  # nothing was done, and it is said when to come again
                raise
            except (ServerFailed, Unreachable) as error:
                return Unknown(str(error))
            except KubeError as error:
                return Refused(str(error))
            return Accepted()
        return Refused(f"BareMetalHost {target.address} changes faster than it can be annotated")

    async def _patch(self, host: Unstructured, target: Target, value: str | None) -> None:
        marked = _marked(host, target, value)
        if all(host.annotations.get(name) == text for name, text in marked.items()):
            return
        meta = {"uid": host.uid, "resourceVersion": host.metadata.resource_version, "annotations": marked}
        ref = await self._ref(target)
        written = await self._means.client.patch(ref, Merge({"metadata": meta}), deadline=REQUEST_SECONDS)
        self._means.note(ref.kind, written)

    async def _host(self, target: Target) -> Unstructured | None:
        return await self._means.live(await self._ref(target))

    async def _ref(self, target: Target) -> Ref[Unstructured]:
        found = await self._means.discovery.find(HOST.group, HOST.name, HOST.version)
        namespace, _, name = target.address.partition("/")
        return found.at(name, namespace)


def _marked(host: Unstructured, target: Target, value: str | None) -> dict[str, str | None]:
    """Our annotation, whose it is and for whom; and none of ours under a key that was chosen before."""
    key = target.options[_KEY]
    before = host.annotations.get(KEPT_OFF_BY, key)
    is_for_us = host.annotations.get(KEPT_OFF_FOR, target.node) == target.node
    is_ours = is_for_us and host.annotations.get(before) == REBOOT_HARD and not why_no_way(target.address, before)
    gone = {before: None} if is_ours else {}
    if value is not None:
        return {**gone, key: value, KEPT_OFF_BY: key, KEPT_OFF_FOR: target.node}
    marks = (KEPT_OFF_BY, KEPT_OFF_FOR) if is_for_us or before == key else ()
    return {**gone, key: None, **dict.fromkeys(marks)}
