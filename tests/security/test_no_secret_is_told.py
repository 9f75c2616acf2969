"""Canaries: secrets that are easy to find again go through the whole operator, and must turn up nowhere but at the BMC.

The other side repeats what it was told, in every answer. All that Defib says is searched: logs at their most talkative,
what it writes into the cluster, metrics, the page, and what is sent to a webhook and to a collector of traces.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from defib.announcements import Announcements
from defib.app import Operator
from defib.clock import Clock
from defib.config import Settings
from defib.notifications import Notifications, slack_by
from defib.outbox import Outbox, Place
from defib.power.base import NotReady, Outcome, PowerState, Readiness, Reading, Ready, Refused, Target, Unknown
from defib.power.registry import Drivers
from defib.rules_of import rules_of
from defib.simulate.in_process import InProcess
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from defib.traces import Traces, tracing
from defib.web.board import Board, Site, next_board
from defib.web.board_work import Seats
from tests.power_cycle_stage import Stage, Way, a_stage, secret
from tests.scraping import scraped
from tests.security.canaries import CANARY, forms_of, found_in
from tests.unit.telemetry.test_log import logs_to

OTHER = "canary-token-of-a-pdu-9X"
SETTINGS = Settings(default_check="off")
LEAKY = Way(name="leaky", power={"driver": "leaky", "address": "{node}", "credentials": {"name": "canary"}})


class Leaky:
    """A driver of somebody else's that tells all it knows, whatever it is asked."""

    can_read_state: ClassVar[bool] = True

    def __init__(self, clock: Clock, how: str) -> None:
        self._clock = clock
        self._how = how
        self.heard: set[str] = set()

    def _said(self, target: Target) -> str:
        said = self._words(target)
        if self._how == "breaks":
            raise RuntimeError(said)
        return said

    def _words(self, target: Target) -> str:
        password, token = target.credentials.password.reveal(), target.credentials.more["token"].reveal()
        self.heard |= {password, token}
        return f"401 for {target.credentials.username.reveal()}:{password}, and its token is {token}"

    async def state(self, target: Target, within_seconds: float) -> Reading:  # noqa: ARG002 - it answers at once
        state = PowerState.UNKNOWN if self._how == "cannot be read" else PowerState.ON
        return Reading(state, self._clock.now(), self._said(target))

    async def off(self, target: Target, within_seconds: float) -> Outcome:  # noqa: ARG002 - the same
        said = self._said(target)
        return Unknown(said) if self._how == "is not clear" else Refused(said)

    async def on(self, target: Target, within_seconds: float) -> Outcome:
        return await self.off(target, within_seconds)

    async def check(self, target: Target, within_seconds: float) -> Readiness:  # noqa: ARG002 - the same
        said = self._said(target)
        return NotReady(said) if self._how == "is not ready" else Ready()


class Kept(Outbox):
    """What would be sent stays here."""

    def __init__(self, name: str, clock: Clock, metrics: Metrics) -> None:
        super().__init__(Place(name=name, content_type="", address=_nowhere), clock, metrics)
        self.bodies: list[bytes] = []

    def put(self, body: bytes) -> None:
        self.bodies.append(body)


async def _nowhere() -> str:
    raise AssertionError("nothing is sent here")


@asynccontextmanager
async def operating(stage: Stage, driver: Leaky) -> AsyncIterator[tuple[Operator, list[Kept]]]:
    metrics = Metrics()
    webhook, collector = Kept("webhook", stage.clock, metrics), Kept("traces", stage.clock, metrics)
    drivers = Drivers(stage.clock, {"leaky": driver})
    operator = Operator(InProcess(stage.server, "defib"), stage.clock, SETTINGS, metrics, drivers)
    about = Notifications(webhook, slack_by("$message"), "c", SETTINGS.notify_about)
    operator.announcements = Announcements(stage.clock, about, Traces(collector, tracing("c")))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(operator.run())
        yield operator, [webhook, collector]
        running.cancel()


def told(stage: Stage, operator: Operator, sent: list[Kept]) -> dict[str, str]:
    """All that went out, by where."""
    kinds = [kind for kind in stage.server.store.collections() if kind != "secrets"]
    site = Site(replica="r", version="v", can_act=True, rules=rules_of(SETTINGS))
    board = next_board(Board(), operator.picture, Seats(mode="off"), site)
    return {
        "the cluster": "\n".join(json.dumps(item) for kind in kinds for item in stage.all(kind)),
        "metrics": scraped(operator),
        "the page": msgspec.json.encode(board.parts).decode(),
        "messages": "\n".join(body.decode("utf-8", "replace") for kept in sent for body in kept.bodies),
    }


@pytest.mark.parametrize("how", ["refuses", "is not clear", "is not ready", "cannot be read", "breaks"])
def test_a_bmc_that_repeats_its_login_is_quoted_nowhere(tmp_path: Path, how: str) -> None:
    log = tmp_path / "log"

    async def main(clock: VirtualClock) -> dict[str, str]:
        driver = Leaky(clock, how)
        async with a_stage(clock) as stage, operating(stage, driver) as (operator, sent):
            stage.server.put("secrets", secret("canary", {"username": "root", "password": CANARY, "token": OTHER}))
            await stage.check(LEAKY, "OutOfServiceTaint")
            await asyncio.sleep(300)  # virtual: its power is tried while it is well
            stage.fail("hangs")
            await asyncio.sleep(400)  # virtual
            assert driver.heard == {CANARY, OTHER}
            assert stage.incident is not None
            return told(stage, operator, sent)

    with log.open("wb") as out, logs_to(out.fileno(), level="debug"):
        said = run(main, limit=timedelta(hours=2))
    said["the log"] = log.read_text()
    assert all(said.values())
    leaks = {where: [*found_in([text], CANARY), *found_in([text], OTHER)] for where, text in said.items()}
    assert {where: lines for where, lines in leaks.items() if lines} == {}


def test_a_canary_is_found_in_every_form() -> None:
    assert len(forms_of(CANARY)) > 6
    for form in forms_of(CANARY):
        assert found_in([f"first\nwhat it said: {form}!\nlast"]) != []
    assert found_in(["nothing", "canary"]) == []
