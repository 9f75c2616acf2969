"""Somebody else's service switches the machine: a signed question in JSON goes to a URL, and an answer in JSON comes back.

The signature covers the time, a number that is used once, and the body, with the password as key; so nobody else can
ask, and nobody can ask again with an old question. An answer must name that number: one from a cache tells nothing.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal, TypeVar

import msgspec

from defib.clock import Clock
from defib.power.base import Outcome, PowerState, Readiness, Reading, Target
from defib.power.calls import Calls, Denied, Doubtful, Seen, by_node, options_of
from defib.power.https import Answer, Https, Question, TlsOptions, decoded, url_of

REFUSES_US = frozenset({401, 403})
SERVER_FAILED = 500
KEY_BYTES_MIN = 16

_STATES = {"on": PowerState.ON, "off": PowerState.OFF, "unknown": PowerState.UNKNOWN}


class _Answered(msgspec.Struct, frozen=True):
    nonce: str


class _State(_Answered, frozen=True):
    state: Literal["on", "off", "unknown"]
    detail: str = ""


class _Outcome(_Answered, frozen=True):
    outcome: Literal["accepted", "refused", "unknown"]
    why: str = ""


A = TypeVar("A", bound=_Answered)


class Webhook:
    can_read_state: ClassVar[bool] = True

    def __init__(self, clock: Clock, *, nonce: Callable[[], str] = secrets.token_hex) -> None:
        self._calls = Calls(clock, place=by_node)
        self._https = Https()
        self._clock = clock
        self._nonce = nonce

    async def state(self, target: Target, within_seconds: float) -> Reading:
        return await self._calls.read(target, within_seconds, self._read)

    async def off(self, target: Target, within_seconds: float) -> Outcome:
        return await self._calls.command(target, within_seconds, partial(self._command, "off"))

    async def on(self, target: Target, within_seconds: float) -> Outcome:
        return await self._calls.command(target, within_seconds, partial(self._command, "on"))

    async def check(self, target: Target, within_seconds: float) -> Readiness:
        return await self._calls.check(target, within_seconds, self._read)

    async def _read(self, target: Target) -> Seen:
        answer = await self._ask(target, "state", _State)
        return Seen(_STATES[answer.state], answer.detail or f"it says {answer.state}")

    async def _command(self, action: str, target: Target) -> None:
        answer = await self._ask(target, action, _Outcome)
        match answer.outcome:
            case "refused":
                raise Denied(f"it refused: {answer.why}")
            case "unknown":
                raise Doubtful(f"it does not know whether it was done: {answer.why}")

    async def _ask(self, target: Target, action: str, kind: type[A]) -> A:
        nonce, at = self._nonce(), str(int(self._clock.now().timestamp()))
        body = msgspec.json.encode({"action": action, "node": target.node, "nonce": nonce})
        headers = {
            "Content-Type": "application/json",
            "X-Defib-Timestamp": at,
            "X-Defib-Nonce": nonce,
            "X-Defib-Signature": f"sha256={signature(_key(target), at, nonce, body)}",
        }
        question = Question(method="POST", url=url_of(target.address), headers=headers, body=body)
        answer = await self._https.ask(question, options_of(target, TlsOptions), by_node(target))
        _expect_good(answer)
        answered = decoded(answer, kind)
        if answered.nonce != nonce:
            raise Doubtful("it answered another question than ours")
        return answered


def signature(key: bytes, at: str, nonce: str, body: bytes) -> str:
    """HMAC-SHA256 in hex of the time, the nonce and the body, with a full stop between them."""
    return hmac.new(key, b".".join((at.encode(), nonce.encode(), body)), hashlib.sha256).hexdigest()


def _key(target: Target) -> bytes:
    key = target.credentials.password.reveal().encode()
    if len(key) < KEY_BYTES_MIN:
        raise Denied(f"its password, with which questions are signed, must have {KEY_BYTES_MIN} characters or more")
    return key


def _expect_good(answer: Answer) -> None:
    if answer.is_good:
        return
    if answer.status in REFUSES_US:
        raise Denied(f"it does not accept our signature ({answer.status})")
    if answer.status >= SERVER_FAILED:
        raise Doubtful(f"it answered {answer.status}")
    raise Denied(f"it answered {answer.status}")
