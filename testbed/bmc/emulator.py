"""sushy-tools' Redfish emulator in our process, with one machine's front panel where it expects a hypervisor.

The emulator is one application for the whole process and knows its driver once. So the driver here holds nothing: what
it shows and what it is told travels with each request, as data. That makes any number of BMCs possible, keeps the
emulator's own thread away from machines that belong to an event loop, and its state files off the disk.
"""

import warnings
from typing import Any

import flask
import msgspec
from sushy_tools import error  # type: ignore[import-untyped]
from sushy_tools.emulator.resources.systems.base import AbstractSystemsDriver  # type: ignore[import-untyped]
from werkzeug.test import Client

from defib.hollow.machine import Command

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # a library of the emulator imports a module that Python drops
    from sushy_tools.emulator import main  # type: ignore[import-untyped]

_PANEL = "defib.panel"

_RESETS = {
    "On": Command.ON,
    "ForceOn": Command.ON,
    "ForceOff": Command.OFF,
    "GracefulShutdown": Command.SOFT_OFF,
    "ForceRestart": Command.RESET,
    "GracefulRestart": Command.SOFT_RESET,
}


class Panel(msgspec.Struct):
    """The front of one machine for the length of one request. The emulator reads it and may press a button."""

    uuid: str
    name: str
    on: bool
    pressed: Command | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    body: bytes
    content_type: str


class Answered(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


def emulate(asked: Asked, panel: Panel) -> Answered:
    """What a Redfish service with this panel answers. Takes milliseconds and reads templates: not for an event loop."""
    answer = Client(main.app).open(
        asked.path,
        method=asked.method,
        data=asked.body,
        content_type=asked.content_type,
        environ_overrides={_PANEL: panel},
    )
    headers = {name: value for name, value in answer.headers if name.lower() in {"content-type", "location", "allow"}}
    return Answered(answer.status_code, headers, answer.get_data())


def _panel(identity: str) -> Panel:
    panel: Panel = flask.request.environ[_PANEL]
    if identity != panel.uuid:
        raise error.NotFound(f"There is no system {identity} here")
    return panel


class _Panels(AbstractSystemsDriver):  # type: ignore[misc]
    """The emulator's driver: every question goes to the panel that came with the request."""

    driver = "<panels>"

    @property
    def systems(self) -> list[str]:
        panel: Panel = flask.request.environ[_PANEL]
        return [panel.uuid]

    def uuid(self, identity: str) -> str:
        return _panel(identity).uuid

    def name(self, identity: str) -> str:
        return _panel(identity).name

    def get_power_state(self, identity: str) -> str:
        return "On" if _panel(identity).on else "Off"

    def set_power_state(self, identity: str, state: str) -> None:
        if state not in _RESETS:
            raise error.BadRequest(f"Reset type {state} is not supported")
        _panel(identity).pressed = _RESETS[state]

    def get_boot_device(self, identity: str) -> str:
        _panel(identity)
        return "Hdd"

    def set_boot_device(self, identity: str, boot_source: str) -> None:
        raise error.NotSupportedError(f"{identity} always boots from its disk, not from {boot_source}")


class _Lamps:
    def get_indicator_state(self, _identity: str) -> str:
        return "Off"


class _Emulator(main.Application):  # type: ignore[misc]
    systems: Any = _Panels()
    indicators: Any = _Lamps()


# The routes are bound to this one object, so it is this object that must get the other drivers.
main.app.__class__ = _Emulator
main.app.config["SUSHY_EMULATOR_FEATURE_SET"] = "minimum"  # power and identity; the rest keeps state on the disk
