"""Secrets stay secret in every form in which a value can be shown."""

import io

import msgspec
import pytest
from rich.console import Console
from rich.pretty import Pretty

from defib.model.secret import Secret
from defib.power.base import Credentials, Target

PASSWORD = "open-sesame"
LOGIN = Credentials(username=Secret("admin"), password=Secret(PASSWORD), more={"token": Secret("blue-lagoon")})
TARGET = Target(node="n1", address="10.0.0.7", credentials=LOGIN)


def test_a_target_shows_its_address_and_none_of_its_secrets() -> None:
    screen = io.StringIO()
    Console(file=screen, width=200).print(Pretty(TARGET))
    for shown in (repr(TARGET), str(LOGIN), f"{LOGIN!r}", screen.getvalue(), repr(msgspec.structs.asdict(TARGET))):
        assert not [word for word in ("admin", PASSWORD, "blue-lagoon") if word in shown]
    assert "10.0.0.7" in repr(TARGET)


def test_credentials_cannot_be_written_by_an_encoder() -> None:
    with pytest.raises(TypeError):
        msgspec.json.encode(TARGET)


def test_secrets_are_compared_by_what_they_hide() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1


@pytest.mark.parametrize(
    ("password", "text", "shown"),
    [
        ("open-sesame", "open-sesame is wrong, open-sesame!", "[hidden] is wrong, [hidden]!"),
        ("", "nothing to hide", "nothing to hide"),
        ("a", "a bad day", "[hidden]"),  # a gap in a word would tell it
        ("xyz", "a bad day", "a bad day"),
    ],
)
def test_what_others_repeat_of_our_secrets_is_hidden(password: str, text: str, shown: str) -> None:
    assert Credentials(password=Secret(password)).hide(text) == shown


def test_a_login_that_is_repeated_as_it_was_sent_is_hidden() -> None:
    """HTTP Basic is no secret way to write one, and proxies like to print the headers that they do not understand."""
    login = Credentials(username=Secret("admin"), password=Secret("open-sesame"))
    assert login.hide("bad header: Basic YWRtaW46b3Blbi1zZXNhbWU=") == "bad header: Basic [hidden]"


def test_a_secret_within_a_longer_one_does_not_uncover_the_rest() -> None:
    both = Credentials(password=Secret("sesame"), more={"other": Secret("open-sesame-now")})
    assert both.hide("it was open-sesame-now") == "it was [hidden]"
