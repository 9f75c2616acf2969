"""What is done about accounts: the NodeIncidents that only tell of what others do. Nothing else waits for any of these."""

from typing import Any

import msgspec

from defib.model.event import TellEvent
from defib.model.target import Target

# So many remediations that begin or end at once are a rush: the API server's time is for them first. One or two may hang,
# and must not keep what happened from being told.
MANY_AT_ONCE = 8


class OpenAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Create the account of a remediation. Its name is that of the remediation too, so there are never two."""

    node: str
    name: str
    body: dict[str, Any]
    tells: tuple[TellEvent, ...] = ()  # once it is written

    @property
    def key(self) -> str:
        return f"open account {self.name}"


class WriteAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Merge into the status of an account, if it is still the version that was judged."""

    node: str
    account: Target
    version: str
    status: dict[str, Any]
    tells: tuple[TellEvent, ...] = ()  # once it is written

    @property
    def key(self) -> str:
        return f"write account {self.account.uid}"


class DropAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Delete an account that is closed, if it is still the version that was judged: there are enough later ones."""

    account: Target
    version: str

    @property
    def key(self) -> str:
        return f"drop account {self.account.uid}"


AccountAction = OpenAccount | WriteAccount | DropAccount
