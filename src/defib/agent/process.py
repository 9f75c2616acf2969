"""An agent as a process: connected, listening for its peers, armed, and ended in order."""

import asyncio
import os
import signal
from pathlib import Path

import structlog

from defib.agent.answering import Desk, Relay, answering
from defib.agent.api import reach
from defib.agent.asking import Asking
from defib.agent.certificates import Certificates
from defib.agent.lease import Leases
from defib.agent.loop import Agent, Means
from defib.agent.settings import AgentSettings
from defib.agent.trouble import CannotRun
from defib.agent.watchdog import expect_watchdog, open_watchdog
from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.errors import KubeError, ServerFailed, Throttled, Unreachable

log = structlog.get_logger("agent")

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


async def run_agent(settings: AgentSettings) -> bool:
    """Until a signal. False when the watchdog was left counting. Raises CannotRun."""
    try:
        return await _run(settings)
    except KubeError as error:
        raise CannotRun(str(error)) from error
    except BaseExceptionGroup as group:
        expected, _ = group.split(CannotRun)
        if expected is None:
            raise
        raise CannotRun(str(_first(expected))) from group


def _first(group: BaseException) -> BaseException:
    return _first(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group


async def _run(settings: AgentSettings) -> bool:
    clock, pace = SystemClock(), settings.pace
    expect_watchdog(settings.watchdog)
    certificates = Certificates(settings.tls)
    certificates.current()
    boot_id = (await asyncio.to_thread(BOOT_ID.read_text)).strip()
    client = Client(await reach(settings.kubeconfig, settings.context, os.environ, clock, pace.request_seconds), clock)
    leases = Leases(client, settings.namespace, settings.node, pace.request_seconds, clock)
    relay = Relay(leases.look, clock)
    means = Means(
        leases=leases,
        asking=Asking(settings.node, boot_id, pace, certificates, clock),
        relay=relay,
        arm=lambda: open_watchdog(settings.watchdog, settings.watchdog_seconds),
        clock=clock,
    )
    try:
        domain = await _domain(leases, pace.interval_seconds)
        async with answering(Desk(relay, clock), settings.address.host, settings.address.port, certificates) as port:
            agent = Agent(settings, domain, port, means)
            log.info("the agent has started", node=settings.node, domain=domain, boot=boot_id, port=port)
            _stop_by_signals(agent)
            return await agent.run()
    finally:
        await client.close()


async def _domain(leases: Leases, pause_seconds: float) -> str:
    """Without the API server nothing is armed, so there is time. Raises KubeError when waiting would not help."""
    while True:
        try:
            return await leases.domain()
        except (Unreachable, ServerFailed, Throttled) as error:
            log.warning("the API server is out of reach", why=str(error), advice="it is tried again")
        await asyncio.sleep(pause_seconds)


def _stop_by_signals(agent: Agent) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.stop)
