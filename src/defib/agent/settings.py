"""What can be chosen about an agent, and what must fit together."""

from ipaddress import ip_address
from pathlib import Path

import msgspec

from defib.agent.asking import ANSWER_SECONDS
from defib.forms import ANY_HOST, Address
from defib.model.self_fence import Pace

FEEDS_PER_TIMEOUT = 4  # so that two can be late
FAILURES_MIN = 2
ROUNDS_MIN = 2


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    namespace: str
    address: Address
    tls: Path
    watchdog: str
    watchdog_seconds: float
    pace: Pace
    kubeconfig: Path | None = None
    context: str | None = None


def problems_of(settings: AgentSettings) -> list[str]:
    pace = settings.pace
    problems = []
    if settings.address.host == ANY_HOST or not _is_address(settings.address.host):
        problems.append("--address: name the IP address of this node by which its peers reach it, and a port")
    if pace.request_seconds > pace.interval_seconds:
        problems.append(
            "--request-timeout: must not be longer than --interval, so that one request ends before the next"
        )
    if pace.failures < FAILURES_MIN:
        problems.append(f"--failures: {FAILURES_MIN} or more, so that one lost answer is not taken for an outage")
    least = ROUNDS_MIN * ANSWER_SECONDS
    if pace.peer_seconds < least:
        problems.append(f"--peer-time: {least:g}s or more, so that peers can be asked a second time")
    return problems


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def feed_seconds(watchdog_seconds: float) -> float:
    return watchdog_seconds / FEEDS_PER_TIMEOUT
