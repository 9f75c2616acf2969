"""What is particular to Redfish: finding the machine, choosing the reset, believing only what is said clearly."""

from typing import Any

import msgspec
import pytest

from defib.clock import SystemClock
from defib.model.secret import Secret
from defib.power.base import Accepted, Credentials, NotReady, PowerState, Ready, Refused, Target, Unknown
from defib.power.redfish import Redfish
from testbed.bmc.redfish import redfish
from testbed.certificates import Authority
from tests.contract.bmc.machines import a_machine, expect_power
from tests.contract.power.scripted import Page, always, pages, raw
from tests.contract.power.subjects import credentials, serving_tls

ENOUGH = 10.0
SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"


def a_system(power: Any = "On", *, target: str = RESET, offers: list[str] | None = None) -> Page:
    reset: dict[str, Any] = {"target": target}
    if offers is not None:
        reset["ResetType@Redfish.AllowableValues"] = offers
    return Page(200, {"PowerState": power, "Actions": {"#ComputerSystem.Reset": reset}})


def a_service(*members: str, **system: Any) -> dict[str, Page]:
    return {
        "GET /redfish/v1/": Page(200, {"Systems": {"@odata.id": "/redfish/v1/Systems"}}),
        "GET /redfish/v1/Systems": Page(200, {"Members": [{"@odata.id": member} for member in members or (SYSTEM,)]}),
        f"GET {SYSTEM}": a_system(**system),
        f"POST {RESET}": Page(204),
    }


def a_target(url: str) -> Target:
    login = Credentials(username=Secret("admin"), password=Secret("open-sesame"))
    return Target(node="n1", address=url, credentials=login, options={"insecure": "true"})


@pytest.mark.parametrize("power", ["PoweringOff", "PoweringOn", "Paused", "off", "OFF", "", None])
async def test_only_a_clear_off_is_off(power: str | None) -> None:
    async with pages(a_service(power=power)) as server:
        reading = await Redfish(SystemClock()).state(a_target(server.url), ENOUGH)
        assert (reading.state, reading.detail) == (PowerState.UNKNOWN, f"it says {power or 'nothing'}")


async def test_a_bmc_that_refuses_to_switch_off_what_is_off_has_done_what_was_asked() -> None:
    book = a_service(power="Off") | {f"POST {RESET}": Page(409, {"error": {"message": "already off"}})}
    async with pages(book) as server:
        assert await Redfish(SystemClock()).off(a_target(server.url), ENOUGH) == Accepted()
        assert isinstance(await Redfish(SystemClock()).on(a_target(server.url), ENOUGH), Refused)


async def test_a_refusal_is_told_in_the_bmcs_own_words() -> None:
    error = {"error": {"message": "see more", "@Message.ExtendedInfo": [{"Message": "The door is open."}]}}
    async with pages(a_service() | {f"POST {RESET}": Page(400, error)}) as server:
        off = await Redfish(SystemClock()).off(a_target(server.url), ENOUGH)
        assert off == Refused("it answered 400: The door is open.")


async def test_a_failure_of_the_bmc_leaves_it_open_whether_the_command_was_carried_out() -> None:
    async with pages(a_service() | {f"POST {RESET}": Page(503)}) as server:
        assert await Redfish(SystemClock()).off(a_target(server.url), ENOUGH) == Unknown("it answered 503")


async def test_a_user_who_may_only_read_is_refused() -> None:
    async with pages(a_service() | {f"POST {RESET}": Page(403)}) as server:
        off = await Redfish(SystemClock()).off(a_target(server.url), ENOUGH)
        assert off == Refused("the user may not do this there")


async def test_a_machine_that_cannot_be_forced_off_is_known_before() -> None:
    async with pages(a_service(offers=["On", "GracefulShutdown"])) as server:
        driver, target = Redfish(SystemClock()), a_target(server.url)
        assert await driver.check(target, ENOUGH) == NotReady("it does not offer ForceOff")
        assert await driver.off(target, ENOUGH) == Refused("it does not offer ForceOff")
        assert not [request for request in server.requests if request.startswith(b"POST")]


@pytest.mark.parametrize(("offers", "sent"), [(None, "On"), (["On", "ForceOn"], "On"), (["ForceOn"], "ForceOn")])
async def test_power_on_takes_what_is_offered(offers: list[str] | None, sent: str) -> None:
    async with pages(a_service(offers=offers)) as server:
        assert await Redfish(SystemClock()).on(a_target(server.url), ENOUGH) == Accepted()
        assert server.requests[-1].endswith(b'{"ResetType":"%b"}' % sent.encode())


async def test_a_bmc_with_several_machines_needs_a_path() -> None:
    book = a_service(SYSTEM, "/redfish/v1/Systems/2")
    async with pages(book) as server:
        driver = Redfish(SystemClock())
        off = await driver.off(a_target(server.url), ENOUGH)
        assert off == Refused("it has 2 machines: put the path of one into the address")
        assert await driver.off(a_target(server.url + SYSTEM), ENOUGH) == Accepted()


async def test_the_machine_is_looked_for_once_and_again_when_it_is_gone() -> None:
    book = a_service()
    async with pages(book) as server:
        driver, target = Redfish(SystemClock()), a_target(server.url)
        assert await driver.check(target, ENOUGH) == Ready()
        looked = len(server.requests)
        assert await driver.check(target, ENOUGH) == Ready()
        assert len(server.requests) == looked + 1
        book["GET /redfish/v1/Systems/new"] = book.pop(f"GET {SYSTEM}")
        book["GET /redfish/v1/Systems"] = Page(200, {"Members": [{"@odata.id": "/redfish/v1/Systems/new"}]})
        assert await driver.check(target, ENOUGH) == NotReady("it answered 404")
        assert await driver.check(target, ENOUGH) == Ready()


@pytest.mark.parametrize("link", ["{elsewhere}/x", "//{host}/x", "/\\{host}/x y", "x", ""])
async def test_a_link_to_another_server_is_not_followed_with_our_credentials(link: str) -> None:
    async with always(raw(Page(200, {"PowerState": "Off"}))) as elsewhere:
        led = link.format(elsewhere=elsewhere.url, host=elsewhere.url.removeprefix("http://"))
        driver = Redfish(SystemClock())
        for book in (a_service(led), a_service(target=led)):
            async with pages(book) as server:
                off = await driver.off(a_target(server.url), ENOUGH)
                assert isinstance(off, Refused)
        assert elsewhere.requests == []


async def test_a_certificate_counts_only_by_its_authority_its_name_or_our_word() -> None:
    authority, another = (Authority(SystemClock().now()) for _ in range(2))
    machine = a_machine()
    async with redfish([machine], tls=serving_tls(authority)) as addresses:
        url = addresses["n1"].url
        target = Target(node="n1", address=url, credentials=credentials(machine))

        def trusting(**options: str) -> Target:
            return msgspec.structs.replace(target, options=options)

        driver = Redfish(SystemClock())
        for distrusted in (target, trusting(ca=another.pem.decode())):
            off = await driver.off(distrusted, ENOUGH)
            assert isinstance(off, Refused)
            assert "certificate is not accepted" in off.why
        other_name = msgspec.structs.replace(
            trusting(ca=authority.pem.decode()), address=url.replace("127.0.0.1", "localhost")
        )
        assert isinstance(await driver.off(other_name, ENOUGH), Refused)
        for nonsense in ("no certificate", "é", "\0"):
            bad = await driver.check(trusting(ca=nonsense), ENOUGH)
            assert bad == NotReady("its option `ca` holds no certificates in PEM that can be read")
        assert machine.bmc.taken == []
        assert await driver.check(trusting(insecure="true"), ENOUGH) == Ready()
        with_a_comment = f"# für Zürich\n{authority.pem.decode()}"
        assert await driver.off(trusting(ca=with_a_comment), ENOUGH) == Accepted()
        await expect_power(machine, on=False)


async def test_an_http_server_is_no_https_server() -> None:
    machine = a_machine()
    async with redfish([machine]) as addresses:
        off = await Redfish(SystemClock()).off(a_target(addresses["n1"].url.replace("http:", "https:")), ENOUGH)
        assert isinstance(off, Refused)
        assert "TLS failed" in off.why
