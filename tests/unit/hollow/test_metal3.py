"""RM-33: The hollow baremetal operator at work: BareMetalHosts on the embedded server, machines below, virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from defib.hollow.conductor import Pace
from defib.hollow.machine import (
    Claims,
    Command,
    Fails,
    Fault,
    Garbage,
    Hangs,
    IgnoresCommands,
    Machine,
    Slow,
    Unreachable,
    WrongPassword,
)
from defib.hollow.metal3 import EVENTS, HOSTS, BareMetalHost, HollowMetal3, Metal3Settings
from defib.hollow.metal3_rules import DETACHED, PAUSED, POWER_ERROR, SIMPLE
from defib.kube.client import Client, Deletion, Merge, Scope
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import START, VirtualClock, run
from testbed.bmc.metal3 import metal3_definitions

PHASED = f"{SIMPLE}/fencer"
HARD = '{"mode": "hard"}'
PACE = Pace()
CHANGED = 2 * PACE.change_poll_seconds  # a hard change has happened and is shown
POLLED = PACE.poll_seconds + CHANGED


class Rack:
    """One host with its machine, and a client that makes wishes."""

    def __init__(self, clock: VirtualClock, settings: Metal3Settings) -> None:
        self.server = ApiServer(clock)
        for definition in metal3_definitions():
            self.server.put("customresourcedefinitions.apiextensions.k8s.io", definition)
        self.client = Client(InProcess(self.server, client="fencer"), clock)
        self.machine = Machine("n1", clock)
        operator = Client(InProcess(self.server, client="metal3"), clock)
        self.operator = HollowMetal3(operator, clock, {"n1": self.machine}, settings)

    async def create(self, **spec: Any) -> None:
        body = {"metadata": {"name": "n1"}, "spec": {"online": True, "image": {"url": "x"}, **spec}}
        await self.client.create(HOSTS, body, namespace="default")

    async def host(self) -> BareMetalHost:
        return await self.client.get(HOSTS.at("n1", "default"))

    async def annotate(self, **values: str | None) -> None:
        await self.patch({"metadata": {"annotations": values}})

    async def patch(self, body: dict[str, Any], subresource: str = "") -> None:
        await self.client.patch(HOSTS.at("n1", "default"), Merge(body), subresource=subresource)

    async def be_in(self, state: str) -> None:
        await self.patch({"status": {"provisioning": {"state": state}}}, "status")

    async def events(self, reason: str) -> int:
        page = await self.client.list_all(EVENTS, Scope(namespace="default", fields=f"reason={reason}"))
        return len(page.items)

    @property
    def power(self) -> list[tuple[int, bool]]:
        """When the power changed, in seconds since the start."""
        return [(round((change.at - START) / timedelta(seconds=1)), change.on) for change in self.machine.history]


Story = Callable[[Rack], Awaitable[None]]


def live(story: Story, *, settings: Metal3Settings | None = None, **spec: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        rack = Rack(clock, settings or Metal3Settings())
        async with asyncio.TaskGroup() as tasks:
            living = tasks.create_task(rack.operator.run())
            await rack.create(**spec)
            await pass_seconds(5)
            await story(rack)
            living.cancel()

    run(main)


async def pass_seconds(seconds: float) -> None:
    await asyncio.sleep(seconds)  # virtual: it takes no time


def test_a_new_host_gets_a_state_and_shows_its_power() -> None:
    async def story(rack: Rack) -> None:
        status = (await rack.host()).status
        assert (status.provisioning.state, status.powered_on, status.operational_status) == ("provisioned", True, "OK")

    live(story)


def test_a_simple_request_is_one_reboot_and_is_taken_away() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{SIMPLE: HARD})
        await pass_seconds(CHANGED)
        assert SIMPLE not in (await rack.host()).annotations
        await pass_seconds(10 * POLLED)
        assert (await rack.host()).status.powered_on
        assert [on for _, on in rack.power] == [False, True]

    live(story)


def test_a_phased_request_keeps_the_host_off_until_its_client_takes_it_away() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{PHASED: HARD})
        await pass_seconds(10 * POLLED)
        host = await rack.host()
        assert host.annotations[PHASED] == HARD
        assert not host.status.powered_on
        assert [on for _, on in rack.power] == [False]
        await rack.annotate(**{PHASED: None})
        await pass_seconds(10 * POLLED)
        assert (await rack.host()).status.powered_on
        assert [on for _, on in rack.power] == [False, True]

    live(story)


def test_power_is_shown_off_only_after_it_went() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{PHASED: HARD})
        await pass_seconds(2)
        assert rack.machine.bmc.taken == [Command.OFF]
        assert (await rack.host()).status.powered_on
        await pass_seconds(4)
        assert not rack.machine.is_on
        assert (await rack.host()).status.powered_on, "the next look is yet to come"
        await pass_seconds(PACE.change_poll_seconds)
        assert not (await rack.host()).status.powered_on

    live(story)


def test_a_power_loss_is_shown_with_the_next_poll_and_undone() -> None:
    async def story(rack: Rack) -> None:
        rack.machine.set_power(False)
        await pass_seconds(PACE.poll_seconds - 10)
        assert (await rack.host()).status.powered_on
        await pass_seconds(CHANGED + 10)
        assert rack.machine.is_on
        assert (await rack.host()).status.powered_on

    live(story)


def test_two_clients_hold_the_host_off_until_both_are_done() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{PHASED: HARD, f"{SIMPLE}/other": ""})
        await pass_seconds(POLLED)
        await rack.annotate(**{PHASED: None})
        await pass_seconds(POLLED)
        assert not rack.machine.is_on
        await rack.annotate(**{f"{SIMPLE}/other": None})
        await pass_seconds(POLLED)
        assert rack.machine.is_on

    live(story)


def test_an_offline_host_stays_off_when_the_requests_are_gone() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{PHASED: HARD})
        await pass_seconds(POLLED)
        await rack.patch({"spec": {"online": False}})
        await rack.annotate(**{PHASED: None})
        await pass_seconds(10 * POLLED)
        assert not rack.machine.is_on

    live(story)


def test_a_soft_request_uses_a_soft_off() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{PHASED: ""})
        await pass_seconds(POLLED)
        assert rack.machine.bmc.taken == [Command.SOFT_OFF]
        assert not rack.machine.is_on

    live(story)


def test_a_hung_host_goes_off_hard_after_the_soft_off_timed_out() -> None:
    async def story(rack: Rack) -> None:
        rack.machine.os_is_hung = True
        await rack.annotate(**{PHASED: ""})
        await pass_seconds(PACE.soft_seconds + CHANGED)
        status = (await rack.host()).status
        assert (status.error_count, status.error_type, status.operational_status) == (1, POWER_ERROR, "error")
        assert rack.machine.is_on
        await pass_seconds(2 * PACE.backoff_seconds + CHANGED)
        assert rack.machine.bmc.taken == [Command.SOFT_OFF, Command.OFF]
        status = (await rack.host()).status
        assert (status.powered_on, status.error_count, status.error_type) == (False, 0, "")

    live(story)


def test_a_value_that_is_no_json_is_reported_once_and_counts_as_soft() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{PHASED: "{oops"})
        await pass_seconds(10 * POLLED)
        assert await rack.events("InvalidAnnotationValue") == 1
        assert rack.machine.bmc.taken == [Command.SOFT_OFF]
        assert not rack.machine.is_on

    live(story)


@pytest.mark.parametrize(("force", "goes_off"), [("true", True), ("false", False)])
def test_outside_of_provisioned_states_only_force_counts(force: str, goes_off: bool) -> None:
    async def story(rack: Rack) -> None:
        assert (await rack.host()).status.provisioning.state == "available"
        await rack.annotate(**{PHASED: f'{{"mode": "hard", "force": {force}}}'})
        await pass_seconds(POLLED)
        assert rack.machine.is_on != goes_off

    live(story, image=None)


def test_externally_provisioned_hosts_are_served_too() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{PHASED: HARD})
        await pass_seconds(POLLED)
        assert (await rack.host()).status.provisioning.state == "externally provisioned"
        assert not rack.machine.is_on

    live(story, image=None, externallyProvisioned=True)


def test_without_power_off_a_simple_request_is_a_reboot_that_never_shows() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{SIMPLE: HARD})
        for _ in range(30):
            await pass_seconds(1)
            assert (await rack.host()).status.powered_on
        await pass_seconds(10 * POLLED)
        assert [on for _, on in rack.power] == [False, True]
        assert SIMPLE not in (await rack.host()).annotations

    live(story, disablePowerOff=True)


def test_without_power_off_a_phased_request_reboots_again_and_again() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{PHASED: HARD})
        for _ in range(600):
            await pass_seconds(1)
            assert (await rack.host()).status.powered_on
        assert rack.machine.bmc.taken.count(Command.RESET) > 10
        await rack.annotate(**{PHASED: None})
        await pass_seconds(POLLED)
        assert rack.machine.is_on

    live(story, disablePowerOff=True)


@pytest.mark.parametrize("hold", [PAUSED, DETACHED])
def test_a_host_that_is_paused_or_detached_is_left_alone(hold: str) -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{hold: "", PHASED: HARD})
        await pass_seconds(10 * POLLED)
        assert rack.machine.is_on
        rack.machine.set_power(False)
        await pass_seconds(POLLED)
        assert (await rack.host()).status.powered_on, "nobody looks"
        await rack.annotate(**{hold: None})
        await pass_seconds(POLLED)
        host = await rack.host()
        assert (host.status.powered_on, host.status.operational_status) == (False, "OK")

    live(story)


def test_a_detached_host_says_so() -> None:
    async def story(rack: Rack) -> None:
        await rack.annotate(**{DETACHED: ""})
        await pass_seconds(1)
        assert (await rack.host()).status.operational_status == "detached"

    live(story)


@pytest.mark.parametrize(("has_bug", "left"), [(False, {PHASED}), (True, set())])
def test_steps_of_provisioning_clear_simple_requests_and_with_the_old_bug_all(has_bug: bool, left: set[str]) -> None:
    async def story(rack: Rack) -> None:
        await rack.be_in("provisioning")
        await rack.annotate(**{PHASED: HARD, SIMPLE: ""})
        await pass_seconds(POLLED)
        assert set((await rack.host()).annotations) == left
        await rack.be_in("provisioned")
        await pass_seconds(POLLED)
        assert rack.machine.is_on == has_bug

    live(story, settings=Metal3Settings(clears_phased=has_bug))


@pytest.mark.parametrize("fault", [WrongPassword(), Unreachable(), Fails(), Garbage(), Hangs(), Slow(90)])
def test_a_bmc_that_cannot_be_used_gives_errors_and_no_power_off(fault: Fault) -> None:
    async def story(rack: Rack) -> None:
        rack.machine.bmc.suffer(fault)
        await rack.annotate(**{PHASED: HARD})
        await pass_seconds(4 * POLLED)
        status = (await rack.host()).status
        assert (status.powered_on, rack.machine.is_on, rack.machine.bmc.taken) == (True, True, [])
        assert (status.error_type, status.operational_status) == (POWER_ERROR, "error")
        assert status.error_count >= 1
        rack.machine.bmc.suffer()
        await pass_seconds(16 * PACE.backoff_seconds + CHANGED)
        status = (await rack.host()).status
        assert (status.powered_on, status.error_count, status.operational_status) == (False, 0, "OK")

    live(story)


def test_an_ignored_command_is_an_error_and_is_repeated() -> None:
    async def story(rack: Rack) -> None:
        rack.machine.bmc.suffer(IgnoresCommands(1))
        await rack.annotate(**{PHASED: HARD})
        await pass_seconds(PACE.hard_seconds + CHANGED)
        assert (await rack.host()).status.error_count == 1
        await pass_seconds(2 * PACE.backoff_seconds + CHANGED)
        assert rack.machine.bmc.taken == [Command.OFF, Command.OFF]
        assert not (await rack.host()).status.powered_on

    live(story)


def test_a_bmc_that_lies_makes_the_status_lie() -> None:
    async def story(rack: Rack) -> None:
        rack.machine.bmc.suffer(Claims(on=False))
        await rack.annotate(**{PHASED: HARD})
        await pass_seconds(POLLED)
        assert not (await rack.host()).status.powered_on
        assert rack.machine.is_on

    live(story)


def test_a_slow_bmc_delays_and_does_not_fail() -> None:
    async def story(rack: Rack) -> None:
        rack.machine.bmc.suffer(Slow(8))
        await rack.annotate(**{PHASED: HARD})
        await pass_seconds(8 + 2)
        assert rack.machine.is_on
        await pass_seconds(POLLED)
        status = (await rack.host()).status
        assert (status.powered_on, status.error_count) == (False, 0)

    live(story)


def test_a_host_that_is_deleted_is_forgotten_and_its_namesake_looked_after() -> None:
    async def story(rack: Rack) -> None:
        host = await rack.host()
        await rack.client.delete(HOSTS.of(host), Deletion(uid=host.uid))
        await pass_seconds(POLLED)
        await rack.create()
        await rack.annotate(**{PHASED: HARD})
        await pass_seconds(POLLED)
        assert not rack.machine.is_on

    live(story)
