"""The settings about what people see of a running operator. They are part of all settings."""

from typing import Annotated, Literal

from defib.election_settings import ElectionSettings
from defib.forms import About, Address, Choice, HostAndPort

LOOPBACK = "127.0.0.1"


class PeopleSettings(ElectionSettings, frozen=True, kw_only=True):
    dashboard: Annotated[
        Literal["off", "read", "act"],
        About(
            "The page that shows the cluster. read: it can only be looked at. act: whoever shows a token of the cluster "
            "may also pause, resume, approve and confirm on it, with the rights of that token and no others.",
            Choice(("off", "read", "act")),
        ),
    ] = "read"
    dashboard_address: Annotated[
        Address,
        About(
            "Where the page is served. On a loopback address, which kubectl port-forward reaches, everybody may look; "
            "on any other, whoever shows a token of the cluster that may list nodehealthchecks.",
            HostAndPort(),
        ),
    ] = Address(LOOPBACK, 8080)
