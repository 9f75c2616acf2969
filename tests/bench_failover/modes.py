"""Who looks after the cluster while a node fails. Each mode is a row here; nothing else knows any of them.

A mode is told about the ward before the fault and lives until the measurement ends. One that reaches a verdict and
fences says so with `ward.mark`; what comes of it is seen from outside.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import msgspec

from defib.hollow.objects import PODS
from defib.kube.client import Deletion
from testbed.scenario.perform import taint_out_of_service
from testbed.scenario.profiles import TUNED, Profile
from tests.bench_failover.node_health_check import UNHEALTHY_SECONDS, safe_seconds
from tests.bench_failover.results import Phase
from tests.bench_failover.ward import NODE_NAMES, VICTIM, Ward

FOR_EVER = 86_400.0


class Mode(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    says: str
    act: Callable[[Ward], Awaitable[None]]
    decides: bool = False
    """Reaches a verdict and fences."""
    flags: Profile | None = None
    """With which the control plane is started, if it is another one than all others have."""


async def _nobody(ward: Ward) -> None:
    await ward.sight.until(lambda: False, FOR_EVER)


async def _force_delete(ward: Ward) -> None:
    """As fast as nobody is: the moment the node is given up."""
    await ward.sight.until(lambda: ward.is_given_up, FOR_EVER)
    for pod in ward.old_pods():
        await ward.client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))


async def _out_of_service(ward: Ward) -> None:
    await ward.sight.until(lambda: ward.is_given_up, FOR_EVER)
    await taint_out_of_service(ward.client, VICTIM)


async def _node_health_check(ward: Ward) -> None:
    """Trusts that a watchdog has restarted the node by then: nobody looks."""
    patience = ward.scene.profile.patience
    await ward.sight.until(lambda: ward.is_given_up, FOR_EVER)
    await asyncio.sleep(UNHEALTHY_SECONDS * patience)
    ward.mark(Phase.VERDICT)
    await asyncio.sleep(safe_seconds(len(NODE_NAMES)) * patience)
    ward.mark(Phase.FENCED)
    await taint_out_of_service(ward.client, VICTIM)


MODES: Mapping[str, Mode] = MappingProxyType(
    {
        mode.name: mode
        for mode in (
            Mode(name="no operator", says="Kubernetes alone", act=_nobody),
            Mode(name="tuned flags", says="Kubernetes alone, in more of a hurry", act=_nobody, flags=TUNED),
            Mode(
                name="NodeHealthCheck with SNR, as by its defaults",
                says="300 s of silence, then the time after which a watchdog must have fired, then the taint",
                act=_node_health_check,
                decides=True,
            ),
            Mode(
                name="naive force delete",
                says="somebody deletes the pods by force when the node is given up, and asks nothing",
                act=_force_delete,
            ),
            Mode(
                name="out-of-service by hand",
                says="somebody taints the node when it is given up, and trusts that it is off",
                act=_out_of_service,
            ),
        )
    }
)
