"""`defib pause`, `resume`, `approve` and `confirm-down`: what a person tells the cluster. Each says what is now so."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from defib.cli.failed import Failed
from defib.config import Settings
from defib.console import approval, brake, confirmation
from defib.console.session import NotDone
from defib.rules_of import rules_of
from defib.telemetry.log import printable


def pause_all(settings: Settings, reason: str) -> None:
    _tell(brake.pause(settings, " ".join(reason.split())))


def resume_all(settings: Settings) -> None:
    _tell(brake.resume(settings))


def approve_node(node: str, seconds: float, settings: Settings) -> None:
    _tell(approval.approve(node, timedelta(seconds=seconds), settings, rules_of(settings)))


def approve_drain_of(node: str, seconds: float, settings: Settings) -> None:
    _tell(approval.approve_drain(node, timedelta(seconds=seconds), settings))


def confirm_node_down(node: str, settings: Settings) -> None:
    _tell(confirmation.confirm_down(node, settings))


def _tell(work: Coroutine[Any, Any, str]) -> None:
    try:
        line = asyncio.run(work)
    except NotDone as error:
        raise Failed(str(error)) from error
    print(printable(line))
