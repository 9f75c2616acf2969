"""What can be said of single drivers without anybody on the other side."""

import pytest

from defib.clock import SystemClock
from defib.model.secret import Secret
from defib.power.base import Credentials, NotReady, PowerState, Refused, Target
from defib.power.ipmi import Ipmi
from defib.power.manual import Manual
from defib.power.webhook import Webhook, signature

SOON = 1.0


async def test_manual_claims_nothing_and_does_nothing() -> None:
    driver, target = Manual(SystemClock()), Target(node="n1", address="")
    assert (await driver.state(target, SOON)).state is PowerState.UNKNOWN
    assert isinstance(await driver.off(target, SOON), Refused)
    assert isinstance(await driver.on(target, SOON), Refused)
    assert isinstance(await driver.check(target, SOON), NotReady)
    assert not driver.can_read_state


def test_a_signature_is_what_others_compute_for_it() -> None:
    """By `printf '%s' '1700000000.0123.{"action":"off"}' | openssl dgst -sha256 -hmac open-sesame`."""
    assert signature(b"open-sesame", "1700000000", "0123", b'{"action":"off"}') == OPENSSL


OPENSSL = "68ba104dbff073096e0bb76ad05559ecc7369a0474513a2d1555ee42171c7076"


async def test_a_key_that_could_be_guessed_signs_nothing() -> None:
    target = Target(node="n1", address="https://127.0.0.1:1/", credentials=Credentials(password=Secret("short")))
    off = await Webhook(SystemClock()).off(target, SOON)
    assert isinstance(off, Refused)
    assert "must have 16 characters or more" in off.why
    assert "short" not in off.why


@pytest.mark.parametrize("address", ["", "bmc:x", "bmc:99999", "https://bmc", "user@bmc", "bmc/x", ":623", "[::1"])
async def test_an_ipmi_address_is_a_host_and_perhaps_a_port(address: str) -> None:
    off = await Ipmi(SystemClock()).off(Target(node="n1", address=address), SOON)
    assert off == Refused("its address is not of the form host or host:port")
