"""What a power driver is: four calls about one machine, and the values in which they end.

A driver asks and commands, once. It does not retry, wait for an effect, or conclude: a command that was accepted says
nothing about the power, only `state` does. Whatever goes wrong outside is a value with a sentence for a person, within
the time that the caller gave.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import ClassVar, Protocol, runtime_checkable

import msgspec

from defib.model.power import PowerState, Reading
from defib.model.secret import Secret

__all__ = ["PowerState", "Reading"]  # nouns of everybody, which drivers speak in

_HIDDEN = "[hidden]"
_HIDES_IN_PLACE_FROM = 6  # characters: shorter ones may be part of any word, and a gap in it would tell them


class Accepted(msgspec.Struct, frozen=True):
    """The other side said yes. Whether anything comes of it, only a later reading tells."""


class Refused(msgspec.Struct, frozen=True):
    """It said no, or could not even be asked: this call has changed nothing."""

    why: str


class Unknown(msgspec.Struct, frozen=True):
    """No clear answer came: the command may have been carried out, or may yet be."""

    why: str


Outcome = Accepted | Refused | Unknown


class Ready(msgspec.Struct, frozen=True):
    """Just now the credentials worked and the state could be read."""


class NotReady(msgspec.Struct, frozen=True):
    why: str


Readiness = Ready | NotReady


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What a Secret of the cluster held. `more` is for drivers that need other secrets than these two."""

    username: Secret = Secret("")
    password: Secret = Secret("")
    more: Mapping[str, Secret] = {}

    def hide(self, text: str) -> str:
        """The same text without any of our secrets: the other side may repeat what it was told, also as Basic has it."""
        secrets = {each.reveal() for each in (self.password, *self.more.values())} - {""}
        if self.password:
            secrets.add(b64encode(f"{self.username.reveal()}:{self.password.reveal()}".encode()).decode())
        # The longest first: hiding a part would uncover the rest.
        for secret in sorted(secrets, key=len, reverse=True):
            if secret in text and len(secret) < _HIDES_IN_PLACE_FROM:
                return _HIDDEN
            text = text.replace(secret, _HIDDEN)
        return text


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, and the way to its power. What is secret belongs into the credentials, never into the options."""

    node: str
    address: str
    credentials: Credentials = Credentials()
    options: Mapping[str, str] = {}


@runtime_checkable
class Driver(Protocol):
    """Made once, with a Clock, and used for all machines. Every call ends within the seconds it was given."""

    can_read_state: ClassVar[bool]
    """False: `state` never says more than UNKNOWN, so this driver alone cannot prove that a machine is off."""

    async def state(self, target: Target, within_seconds: float) -> Reading: ...

    async def off(self, target: Target, within_seconds: float) -> Outcome:
        """At once, whatever the operating system thinks of it."""
        ...

    async def on(self, target: Target, within_seconds: float) -> Outcome: ...

    async def check(self, target: Target, within_seconds: float) -> Readiness:
        """Would it work, if it were needed now? Changes nothing."""
        ...
