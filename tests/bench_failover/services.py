"""How Defib looks after the cluster of the benchmark: one row for each way that is measured."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from defib.decide.defaults import DEFAULTS
from defib.hollow.attacher import StorageTimers
from defib.hollow.timers import Timers as NodeTimers
from defib.model.duration import read_duration
from testbed.scenario.profiles import PROFILES, Profile
from testbed.scenario.story import Timers

_BOOT_SECONDS = (
    8.0  # no machine is up before it could be switched off again; what comes after the failover is not measured
)
_STANDARD_SECONDS = read_duration(DEFAULTS["on"].patience).total_seconds()

HURRIED = Profile(
    name="hurried",
    nodes=NodeTimers(
        renew_seconds=1.0,
        lease_seconds=4,
        monitor_seconds=0.5,
        grace_seconds=5.0,
        status_seconds=30.0,
        boot_seconds=_BOOT_SECONDS,
    ),
    storage=StorageTimers(provision_seconds=0.1, attach_seconds=0.5, detach_seconds=0.5),
)
AS_KUBERNETES = msgspec.structs.replace(
    PROFILES[Timers.DEFAULT], nodes=NodeTimers(boot_seconds=_BOOT_SECONDS), storage=PROFILES[Timers.DEFAULT].storage
)


class Service(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """On the command line."""
    title: str
    says: str
    profile: Profile = AS_KUBERNETES
    check_seconds: float = _STANDARD_SECONDS
    limit_seconds: float = 150.0
    runs: int = 50
    """If nobody says how many."""
    has_fast_path: bool = False
    from_fault: bool = True
    """Counted from there; else from the verdict, and the silence before it is cut short."""


FROM_VERDICT = Service(
    name="defib",
    title="Defib from its verdict on",
    says="with a silence that is noticed soon",
    profile=HURRIED,
    check_seconds=2.0,
    limit_seconds=60.0,
    from_fault=False,
)
STANDARD = Service(
    name="defib-standard",
    title="Defib, standard",
    says=f"a check that waits for {_STANDARD_SECONDS:g} s, as the default one does, and machines switched by Redfish",
    runs=5,  # two minutes each
)
FAST = Service(
    name="defib-fast",
    title="Defib, fast path",
    says="the same check with `fastPath: {}`",
    has_fast_path=True,
)
SERVICES: Mapping[str, Service] = MappingProxyType({one.name: one for one in (FROM_VERDICT, STANDARD, FAST)})
