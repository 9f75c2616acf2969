"""What a BareMetalHost says about its power is worth something only while the baremetal operator acts on it."""

from typing import Any

import pytest

from defib.model.meta import Meta, Unstructured
from defib.model.metal3 import DETACHED, PAUSED, POWER_ERROR, power_of, why_untouchable
from defib.model.power import PowerState
from tests.builders import T0

KEY = "reboot.metal3.io/defib"


def a_host(
    status: dict[str, Any] | None = None,
    *,
    annotations: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    deleted: bool = False,
) -> Unstructured:
    known = {KEY: ""} if annotations is None else annotations
    meta = Meta(name="h1", namespace="metal", annotations=known, deletion_timestamp=T0 if deleted else None)
    return Unstructured(metadata=meta, spec={"online": True} if spec is None else spec, status=status)


UNTOUCHABLE = [
    (a_host(deleted=True), "is being deleted"),
    (a_host(annotations={KEY: "", PAUSED: ""}), "is paused"),
    (a_host(annotations={KEY: "", DETACHED: ""}), "is detached"),
    (a_host(spec={"online": True, "disablePowerOff": True}), "must not be powered off"),
    (a_host(spec={"online": False}), "is to stay off"),
    (a_host(spec={}), "is to stay off"),
]


@pytest.mark.parametrize(("host", "why"), UNTOUCHABLE, ids=[why for _, why in UNTOUCHABLE[:-1]] + ["says nothing"])
@pytest.mark.parametrize("powered", [True, False])
def test_rm09_a_host_that_nobody_acts_on_is_neither_on_nor_off(host: Unstructured, why: str, powered: bool) -> None:
    """RM-09: what its status says may be old."""
    said = Unstructured(metadata=host.metadata, spec=host.spec, status={"poweredOn": powered})
    assert why in why_untouchable(said)
    state, detail = power_of(said, KEY)
    assert state is PowerState.UNKNOWN
    assert detail.startswith("BareMetalHost metal/h1 ")
    assert why in detail


def test_a_host_that_says_on_is_on() -> None:
    assert power_of(a_host({"poweredOn": True}), KEY) == (PowerState.ON, "")
    assert power_of(a_host({"poweredOn": True}, annotations={}), KEY) == (PowerState.ON, "")


def test_a_host_that_says_off_is_off_while_our_annotation_keeps_it_off() -> None:
    assert power_of(a_host({"poweredOn": False}), KEY) == (PowerState.OFF, "")


@pytest.mark.parametrize("others", [{}, {"reboot.metal3.io/somebody": ""}, {"reboot.metal3.io": ""}])
def test_rm08_off_does_not_count_when_our_annotation_is_gone(others: dict[str, str]) -> None:
    """RM-08: it may go on again at any moment."""
    state, detail = power_of(a_host({"poweredOn": False}, annotations=others), KEY)
    assert state is PowerState.UNKNOWN
    assert "nothing of ours keeps it off" in detail


@pytest.mark.parametrize("status", [None, {}, {"poweredOn": None}, {"poweredOn": "false"}, {"poweredOn": 0}])
def test_a_host_that_does_not_say_is_neither(status: dict[str, Any] | None) -> None:
    assert power_of(a_host(status), KEY)[0] is PowerState.UNKNOWN


def test_off_does_not_count_while_the_power_cannot_be_managed() -> None:
    failing = {"poweredOn": False, "errorType": POWER_ERROR, "errorMessage": "BMC says no " * 100}
    state, detail = power_of(a_host(failing), KEY)
    assert state is PowerState.UNKNOWN
    assert POWER_ERROR in detail
    assert len(detail) < 300
    assert power_of(a_host({"poweredOn": False, "errorType": "inspection error"}), KEY)[0] is PowerState.OFF
