"""What a person can do on the page: each is a wish, read strictly, and carried out with that person's own token.

Here is only how a wish arrives. What it does to the cluster is handed in, and is the same as the command of that name.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from aiohttp import web

from defib.kube.errors import UNREADABLE
from defib.model.secret import Secret
from defib.web.access import NotAllowed, is_same_origin, needed_token

BODY_MAX = 4096
HOUR, DAY = 3600.0, 86400.0

NodeName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
Reason = Annotated[str, msgspec.Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Wish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what can be wished for."""


class Pause(Wish, frozen=True, kw_only=True):
    reason: Reason = ""


class Resume(Wish, frozen=True, kw_only=True):
    pass


class Approve(Wish, frozen=True, kw_only=True):
    node: NodeName
    seconds: Annotated[float, msgspec.Meta(ge=60.0, le=DAY)] = HOUR
    drain: bool = False  # let a DrainPolicy make pods leave, instead of a check remediate


class ConfirmDown(Wish, frozen=True, kw_only=True):
    node: NodeName


WISHES: dict[str, type[Wish]] = {"pause": Pause, "resume": Resume, "approve": Approve, "confirm-down": ConfirmDown}

CarryOut = Callable[[Secret, Wish], Awaitable[str]]
"""Gives one line that says what is now so. Raises NotAllowed and NotPossible."""


class NotPossible(Exception):
    """It cannot be done as things are. `str()` is one line that says why."""


async def act(request: web.Request, carry_out: CarryOut) -> dict[str, str]:
    """Raises NotAllowed and NotPossible."""
    wanted = WISHES[request.match_info["wish"]]
    check_sender(request)
    token = needed_token(request)
    return {"message": await carry_out(token, await read_body(request, wanted))}


def check_sender(request: web.Request) -> None:
    """That what changes something comes from our own page, or from no page at all. Raises NotAllowed."""
    if not is_same_origin(request):
        raise NotAllowed(web.HTTPForbidden.status_code, "this was sent by a page of another site")
    if request.content_type != "application/json":
        raise NotAllowed(web.HTTPUnsupportedMediaType.status_code, "the body must be application/json")


async def read_body(request: web.Request, wanted: type[Wish]) -> Wish:
    """Raises NotAllowed. Longer bodies than we read were refused by the server already."""
    try:
        return msgspec.json.decode(await request.read() or b"{}", type=wanted)
    except UNREADABLE as error:
        raise NotAllowed(web.HTTPBadRequest.status_code, f"the body makes no sense: {error}") from None
