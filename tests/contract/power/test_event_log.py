"""The event log of a BMC, read by every driver that can: the same rules, each over its own protocol with real traffic."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from defib.clock import SystemClock
from defib.hollow.machine import Fails, Fault, Garbage, Hangs, Happened, Unreachable, WrongPassword
from defib.model.evidence import Says
from defib.model.secret import Secret
from defib.power.base import Accepted, Credentials, PowerState, Target
from defib.power.event_log import NEWEST, Event, EventLog, KeepsLog, says
from defib.power.redfish import Redfish
from tests.contract.bmc.machines import a_machine, expect_power
from tests.contract.power.scripted import Page, pages
from tests.contract.power.subjects import Stage, Subject, by_hollow, by_ipmi, by_metal3, by_redfish, by_webhook

pytestmark = pytest.mark.timeout(20)

ENOUGH = 10.0
KEEPERS = {"redfish": by_redfish, "ipmi": by_ipmi, "hollow": by_hollow}
LONG_AGO = timedelta(minutes=5)
SYSTEM = "/redfish/v1/Systems/1"
LOGS = f"{SYSTEM}/LogServices"


@pytest.fixture(params=list(KEEPERS))
def stage(request: pytest.FixtureRequest) -> Stage:
    return KEEPERS[request.param]


async def read(subject: Subject, within_seconds: float = ENOUGH) -> EventLog:
    assert isinstance(subject.driver, KeepsLog)
    return await subject.driver.log(subject.targets["n1"], within_seconds)


async def until_it_can_be_read(subject: Subject) -> None:
    async with asyncio.timeout(ENOUGH):
        while (await read(subject)).why_not:  # noqa: ASYNC110  a listener that was closed does not tell
            await asyncio.sleep(0)  # it needs a turn of the loop to be there again


async def word(subject: Subject, since: timedelta = LONG_AGO) -> Says:
    """What the log says of a machine that was heard so long ago."""
    return says(await read(subject), SystemClock().now() - since)[0]


async def test_a_machine_that_stops_and_starts_is_in_the_log_by_its_own_hand(stage: Stage) -> None:
    machine = a_machine()
    async with stage([machine]) as subject:
        assert await word(subject) is Says.QUIET
        assert await subject.driver.off(subject.targets["n1"], ENOUGH) == Accepted()
        await expect_power(machine, on=False)
        assert await word(subject) is Says.STOPPED
        assert await subject.driver.on(subject.targets["n1"], ENOUGH) == Accepted()
        await expect_power(machine, on=True)
        assert await word(subject) is Says.STARTED


@pytest.mark.parametrize("what", [Happened.OS_STOPPED, Happened.WATCHDOG_RESET])
async def test_an_operating_system_that_stopped_is_told_from_the_power(stage: Stage, what: Happened) -> None:
    machine = a_machine()
    machine.bmc.write_down(what)
    async with stage([machine]) as subject:
        assert await word(subject) is Says.STOPPED
        assert (await subject.driver.state(subject.targets["n1"], ENOUGH)).state is PowerState.ON


@pytest.mark.parametrize("hours", [-20_000, -3, 7])
async def test_a_bmc_whose_clock_is_wrong_is_understood_all_the_same(stage: Stage, hours: int) -> None:
    machine = a_machine()
    machine.bmc.clock_ahead = timedelta(hours=hours)
    machine.bmc.write_down(Happened.OS_STOPPED)
    async with stage([machine]) as subject:
        assert await word(subject) is Says.STOPPED
        assert await word(subject, -timedelta(seconds=1)) is Says.QUIET, "it was heard later than that"


async def test_a_bmc_whose_clock_is_not_told_or_was_set_back_is_only_a_remark(stage: Stage) -> None:
    machine = a_machine()
    machine.bmc.write_down(Happened.OS_STOPPED)
    async with stage([machine]) as subject:
        machine.bmc.clock_ahead = -timedelta(hours=1)
        assert await word(subject) is Says.UNKNOWN
        machine.bmc.clock_ahead, machine.bmc.tells_clock = timedelta(), False
        assert await word(subject) is Says.UNKNOWN


async def test_of_a_long_log_only_the_newest_entries_are_read(stage: Stage) -> None:
    machine = a_machine()
    for _ in range(2 * NEWEST):
        machine.bmc.write_down(Happened.POWER_OFF)
    machine.bmc.write_down(Happened.OS_STOPPED)
    async with stage([machine]) as subject:
        log = await read(subject)
        assert len(log.entries) == NEWEST
        assert any("critical stop" in entry.text for entry in log.entries)


@pytest.mark.parametrize(
    "fault",
    [WrongPassword(), Unreachable(), Fails(), Garbage(), Hangs()],
    ids=lambda fault: type(fault).__name__,
)
async def test_a_broken_bmc_says_nothing_in_time_and_can_be_switched_when_it_heals(stage: Stage, fault: Fault) -> None:
    machine = a_machine()
    machine.bmc.write_down(Happened.OS_STOPPED)
    async with stage([machine]) as subject:
        machine.bmc.suffer(fault)
        log = await read(subject, 1.5)
        assert (log.entries, bool(log.why_not)) == ((), True)
        assert machine.bmc.password not in log.why_not
        machine.bmc.suffer()
        await until_it_can_be_read(subject)
        assert await word(subject) is Says.STOPPED
        assert await subject.driver.off(subject.targets["n1"], ENOUGH) == Accepted()


@pytest.mark.parametrize("without", [by_webhook, by_metal3])
async def test_drivers_that_know_of_no_log_have_none(without: Stage) -> None:
    async with without([a_machine()]) as subject:
        assert not isinstance(subject.driver, KeepsLog)


# What is particular to Redfish


def an_entry(second: int, message: Any = "The system is turning off.", **more: Any) -> dict[str, Any]:
    return {"Created": f"2026-03-01T12:00:{second:02}Z", "Message": message} | more


def a_service(*entries: Any, at: str = LOGS, name: str = "Sel", page: dict[str, Any] | None = None) -> dict[str, Page]:
    """A machine whose log has these entries, and whose BMC has it at noon and a minute."""
    return {
        f"GET {SYSTEM}": Page(200, {"LogServices": {"@odata.id": at}}),
        f"GET {at}": Page(200, {"Members": [{"@odata.id": f"{at}/{one}"} for one in ("Audit", name)]}),
        f"GET {at}/{name}": Page(
            200, {"DateTime": "2026-03-01T12:01:00Z", "Entries": {"@odata.id": f"{at}/{name}/Entries"}}
        ),
        f"GET {at}/{name}/Entries": Page(200, {"Members": [*entries]} | (page or {})),
    }


async def log_of(book: dict[str, Page]) -> tuple[EventLog, list[str]]:
    async with pages(book) as server:
        login = Credentials(username=Secret("admin"), password=Secret("open-sesame"))
        target = Target(node="n1", address=server.url + SYSTEM, credentials=login, options={"insecure": "true"})
        log = await Redfish(SystemClock()).log(target, ENOUGH)
        return log, [request.split(b" HTTP/", 1)[0].decode() for request in server.requests]


async def test_a_machine_without_logs_of_its_own_has_those_of_its_bmc() -> None:
    manager = "/redfish/v1/Managers/1"
    book = a_service(an_entry(1), at=f"{manager}/LogServices")
    book[f"GET {manager}"] = book.pop(f"GET {SYSTEM}")
    book[f"GET {SYSTEM}"] = Page(200, {"Links": {"ManagedBy": [{"@odata.id": manager}]}})
    log, _ = await log_of(book)
    assert [entry.event for entry in log.entries] == [Event.STOPPED]


@pytest.mark.parametrize(
    "book",
    [
        {f"GET {SYSTEM}": Page(200, {})},
        {f"GET {SYSTEM}": Page(200, {"LogServices": {"@odata.id": LOGS}}), f"GET {LOGS}": Page(200, {"Members": []})},
    ],
)
async def test_a_machine_without_any_log_says_so(book: dict[str, Page]) -> None:
    log, _ = await log_of(book)
    assert log == EventLog(why_not="it keeps no event log")


async def test_of_a_log_in_pages_that_begins_with_the_oldest_the_end_is_read() -> None:
    first, last = [an_entry(second) for second in range(10)], an_entry(50, "The system is turning on.")
    path = f"{LOGS}/Sel/Entries"
    book = a_service(*first, page={"Members@odata.count": 500, "Members@odata.nextLink": f"{path}?$skip=10"})
    book[f"GET {path}?$skip={500 - NEWEST}"] = Page(200, {"Members": [last]})
    log, asked = await log_of(book)
    assert [entry.event for entry in log.entries] == [Event.STARTED]
    assert len(asked) == 5


async def test_a_log_in_pages_that_begins_with_the_newest_is_read_as_it_comes() -> None:
    book = a_service(
        *(an_entry(second) for second in range(30, 20, -1)),
        page={"Members@odata.count": 500, "Members@odata.nextLink": f"{LOGS}/Sel/Entries?$skip=10"},
    )
    log, asked = await log_of(book)
    assert [entry.at.second for entry in log.entries] == [*range(21, 31)]
    assert len(asked) == 4


async def test_entries_that_make_no_sense_are_passed_over_and_those_that_are_over_are_understood() -> None:
    odd = [{}, {"@odata.id": "/x"}, an_entry(1, None), an_entry(2, 7), {"Message": "The system is turning off."}]
    odd += [an_entry(3, Created="yesterday"), an_entry(4, Created="2026-03-01T12:00:04"), an_entry(5, Created=None)]
    over = an_entry(9, "Power off", EntryCode="Deassert", SensorType="Power Unit")
    log, _ = await log_of(a_service(*odd, over, an_entry(8, None, SensorType="OS Stop/Shutdown")))
    assert [(entry.at.second, entry.event) for entry in log.entries] == [(8, Event.STOPPED), (9, Event.STARTED)]


@pytest.mark.parametrize(
    "page",
    [
        Page(200, b"x" * 2**21),
        Page(200, {"Members": "all"}),
        Page(200, [1]),
        Page(500, None),
        Page(302, None, ("Location: http://127.0.0.1:1/",)),
    ],
    ids=["endless", "no list", "no object", "fails", "leads elsewhere"],
)
async def test_a_log_that_is_too_long_or_nonsense_says_nothing(page: Page) -> None:
    log, _ = await log_of(a_service() | {f"GET {LOGS}/Sel/Entries": page})
    assert log.entries == ()
    assert log.why_not


async def test_a_log_elsewhere_is_not_asked_with_our_login() -> None:
    log, asked = await log_of({f"GET {SYSTEM}": Page(200, {"LogServices": {"@odata.id": "http://127.0.0.1:1/x"}})})
    assert log == EventLog(why_not="it names a place that is not on itself, or none")
    assert asked == [f"GET {SYSTEM}"]
