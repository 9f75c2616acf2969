"""Drivers are found by their entry points: ours and those of other packages, and nobody can stand in for another."""

import sys
from pathlib import Path

import pytest

from defib.clock import SystemClock
from defib.power.base import Driver
from defib.power.fence_agent import FenceAgent
from defib.power.ipmi import Ipmi
from defib.power.manual import Manual
from defib.power.redfish import Redfish
from defib.power.registry import Drivers, Unavailable
from defib.power.webhook import Webhook

DRIVER = """
from defib.power.manual import Manual
class Good(Manual): ...
class NoDriver:
    def __init__(self, clock): ...
"""


def install(folder: Path, package: str, *points: str) -> None:
    """As pip would leave it: a module, and beside it what it says about itself."""
    (folder / f"{package}.py").write_text(DRIVER)
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("\n".join(["[defib.power]", *points, ""]))


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("redfish", Redfish),
        ("ipmi", Ipmi),
        ("fence-agent", FenceAgent),
        ("webhook", Webhook),
        ("manual", Manual),
    ],
)
async def test_our_own_drivers_are_found(name: str, kind: type[Driver]) -> None:
    found = await Drivers(SystemClock()).named(name)
    assert type(found) is kind
    assert found.can_read_state is (name != "manual")


async def test_a_driver_is_made_once() -> None:
    drivers = Drivers(SystemClock())
    assert await drivers.named("manual") is await drivers.named("manual")


async def test_a_driver_of_another_package_is_found_like_ours(packages: Path) -> None:
    install(packages, "acme_power", "acme = acme_power:Good")
    found = await Drivers(SystemClock()).named("acme")
    assert isinstance(found, Driver)
    assert type(found).__module__ == "acme_power"
    del sys.modules["acme_power"]


async def test_an_unknown_name_is_told_with_those_that_are_known() -> None:
    found = await Drivers(SystemClock()).named("redfisch")
    assert found == Unavailable("there is no power driver 'redfisch', only fence-agent, ipmi, manual, redfish, webhook")


async def test_a_package_cannot_take_over_the_name_of_another(packages: Path) -> None:
    install(packages, "evil_power", "redfish = evil_power:Good")
    found = await Drivers(SystemClock()).named("redfish")
    assert found == Unavailable(
        "there is more than one power driver 'redfish': defib.power.redfish:Redfish and evil_power:Good"
    )


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("odd = acme_missing:Good", "cannot be loaded: No module named 'acme_missing'"),
        ("odd = acme_odd:Absent", "cannot be loaded: module 'acme_odd' has no attribute 'Absent'"),
        ("odd = acme_odd:NoDriver", "lacks a part that drivers have"),
    ],
)
async def test_a_driver_that_cannot_be_used_is_told_and_hurts_no_other(packages: Path, point: str, why: str) -> None:
    install(packages, "acme_odd", point)
    drivers = Drivers(SystemClock())
    found = await drivers.named("odd")
    assert isinstance(found, Unavailable)
    assert why in found.why
    assert isinstance(await drivers.named("manual"), Manual)
    sys.modules.pop("acme_odd", None)
