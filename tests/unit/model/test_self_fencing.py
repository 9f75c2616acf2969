"""Whom one may rely on to take its own node down."""

import msgspec
import pytest

from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec
from defib.model.self_fence import REPORT, lease_name, text_of
from defib.model.self_fencing import NEVER_REBOOTED, Guarded, guard_of
from tests.builders import SECOND, T0, a_node
from tests.unit.decide.self_fence.test_safe_time import REPORTED

NODE = a_node("n1", boot="b-1")
BEAT = Lease(metadata=Meta(name="n1"), spec=LeaseSpec(renew_time=T0))


def a_lease(*, renewed: float = 0, report: str | None = None, **changes: object) -> Lease:
    said = text_of(msgspec.structs.replace(REPORTED, **changes)) if report is None else report
    meta = Meta(name=lease_name("n1"), namespace="defib-system", uid="l-1", annotations={REPORT: said})
    return Lease(metadata=meta, spec=LeaseSpec(renew_time=T0 + renewed * SECOND))


def test_an_armed_agent_of_the_boot_that_the_node_is_in_can_be_relied_on() -> None:
    guard = guard_of(a_lease(), NODE, BEAT, allows_software=False)
    assert isinstance(guard, Guarded)
    assert guard.report == REPORTED


@pytest.mark.parametrize(
    ("lease", "says"),
    [
        (None, "no agent has ever spoken"),
        (a_lease(report="{}"), "cannot be read"),
        (a_lease(armed=False), "not armed"),
        (a_lease(watchdog="software"), "allowSoftwareWatchdog"),
        (a_lease(boot_id="b-0"), "has not spoken since the node started anew"),
        (a_lease(renewed=-2 * REPORTED.pace.recent_seconds - 1), "fell silent long before its kubelet"),
    ],
)
def test_whoever_cannot_be_relied_on_is_told_why(lease: Lease | None, says: str) -> None:
    assert says in str(guard_of(lease, NODE, BEAT, allows_software=False))


def test_a_software_watchdog_is_good_enough_for_whoever_says_so() -> None:
    assert isinstance(guard_of(a_lease(watchdog="software"), NODE, BEAT, allows_software=True), Guarded)


def test_an_agent_that_ended_with_its_kubelet_was_alive_until_then() -> None:
    for renewed in (-26, 0, 3600):
        assert isinstance(guard_of(a_lease(renewed=renewed), NODE, BEAT, allows_software=False), Guarded)


def test_a_node_that_had_not_rebooted_is_not_believed_until_a_person_says_so() -> None:
    node = a_node("n1", boot="b-1", annotations={NEVER_REBOOTED: "2026-01-01T00:00:00+00:00"})
    why = guard_of(a_lease(), node, BEAT, allows_software=True)
    assert isinstance(why, str)
    assert why.endswith(f"kubectl annotate node n1 {NEVER_REBOOTED}-")
