"""Who looks after the cluster while a node fails. Each mode is a row here; nothing else knows any of them.

A mode is told about the ward before the fault and lives until the measurement ends. One that reaches a verdict and
fences says so with `ward.mark`; what comes of it is seen from outside.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import msgspec

from defib.hollow.objects import PODS
from defib.kube.client import Deletion
from testbed.scenario.perform import taint_out_of_service
from tests.bench_failover.ward import VICTIM, Ward

FOR_EVER = 86_400.0


class Mode(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    says: str
    act: Callable[[Ward], Awaitable[None]]
    decides: bool = False
    """Reaches a verdict and fences."""


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


MODES: Mapping[str, Mode] = MappingProxyType(
    {
        mode.name: mode
        for mode in (
            Mode(name="no operator", says="Kubernetes alone", act=_nobody),
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
