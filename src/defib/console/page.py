"""What a person does on the page, by the same functions as the commands of that name, and with that person's token."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from defib.clock import Clock
from defib.console.approval import grant, grant_drain
from defib.console.brake import pull, release
from defib.console.confirmation import confirm
from defib.console.session import NotDone
from defib.decide.rules import Rules
from defib.kube.client import Client
from defib.kube.errors import Forbidden, KubeError, ServerFailed, Throttled, Unauthorized, Unreachable
from defib.model.secret import Secret
from defib.web.access import AsUser, NotAllowed
from defib.web.actions import Approve, CarryOut, ConfirmDown, NotPossible, Pause, Resume, Wish

UNAUTHORIZED, FORBIDDEN, NOT_NOW = 401, 403, 503


def hands(as_user: AsUser, clock: Clock, rules: Rules) -> CarryOut:
    """What carries wishes out."""

    async def carry_out(token: Secret, wish: Wish) -> str:
        async with _told(), as_user(token) as client:
            return await _do(wish, client, clock, rules)

    return carry_out


async def _do(wish: Wish, client: Client, clock: Clock, rules: Rules) -> str:
    match wish:
        case Pause(reason=reason):
            return await pull(client, clock, rules.namespace, reason)
        case Resume():
            return await release(client, clock, rules.namespace)
        case Approve(node=node, seconds=seconds, drain=True):
            return await grant_drain(node, timedelta(seconds=seconds), client, clock)
        case Approve(node=node, seconds=seconds):
            return await grant(node, timedelta(seconds=seconds), client, clock, rules)
        case ConfirmDown(node=node):
            return await confirm(node, client, clock)
    raise AssertionError(f"nobody wishes for {type(wish).__name__}")


@asynccontextmanager
async def _told() -> AsyncIterator[None]:
    """What the API server refuses, and what cannot be done as things are, in the words of the page."""
    try:
        yield
    except NotDone as error:
        raise _refusal(error.__cause__, str(error)) from error
    except KubeError as error:
        raise _refusal(error, str(error)) from error


def _refusal(cause: BaseException | None, why: str) -> NotAllowed | NotPossible:
    match cause:
        case Unauthorized():
            return NotAllowed(UNAUTHORIZED, "the API server does not accept this token; it may have expired")
        case Forbidden():
            return NotAllowed(FORBIDDEN, why)
        case Unreachable() | ServerFailed() | Throttled():
            return NotAllowed(NOT_NOW, why)
    return NotPossible(why)
