"""The drivers under test, each with real machines behind the real protocol. The rules do not know which one they test."""

import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec

from defib.clock import SystemClock
from defib.hollow.machine import Machine
from defib.model.secret import Secret
from defib.power.base import Credentials, Driver, Target
from defib.power.fence_agent import FenceAgent
from defib.power.ipmi import Ipmi
from defib.power.redfish import Redfish
from defib.power.webhook import Webhook
from testbed.bmc.ipmi import ipmi
from testbed.bmc.redfish import redfish
from testbed.certificates import Authority
from tests.contract.power.hook import Hook, serving

HOOK_KEY = "the-key-of-all-questions"


class Subject(msgspec.Struct, frozen=True):
    """A driver, and its target for each machine by name."""

    driver: Driver
    targets: dict[str, Target]


Stage = Callable[[Iterable[Machine]], AbstractAsyncContextManager[Subject]]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    stage: Stage
    quick_seconds: float = 1.5  # more than it ever needs here for one answer
    is_agent: bool = False  # a program: it waits until the power has changed, and says less of what went wrong


def credentials(machine: Machine) -> Credentials:
    return Credentials(username=Secret(machine.bmc.username), password=Secret(machine.bmc.password))


def serving_tls(authority: Authority) -> ssl.SSLContext:
    pair = authority.server(names=("bmc",), addresses=("127.0.0.1",))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.public + pair.private)
        file.flush()
        tls.load_cert_chain(file.name)
    return tls


@asynccontextmanager
async def by_redfish(machines: Iterable[Machine]) -> AsyncIterator[Subject]:
    machines = list(machines)
    authority = Authority(SystemClock().now())
    async with redfish(machines, tls=serving_tls(authority)) as addresses:
        targets = {
            machine.name: Target(
                node=machine.name,
                address=addresses[machine.name].url,
                credentials=credentials(machine),
                options={"ca": authority.pem.decode()},
            )
            for machine in machines
        }
        yield Subject(Redfish(SystemClock()), targets)


@asynccontextmanager
async def by_ipmi(machines: Iterable[Machine]) -> AsyncIterator[Subject]:
    machines = list(machines)
    async with ipmi(machines) as addresses:
        targets = {
            machine.name: Target(
                node=machine.name,
                address=f"{addresses[machine.name].host}:{addresses[machine.name].port}",
                credentials=credentials(machine),
            )
            for machine in machines
        }
        yield Subject(Ipmi(SystemClock()), targets)


@asynccontextmanager
async def by_webhook(machines: Iterable[Machine]) -> AsyncIterator[Subject]:
    machines = list(machines)
    authority = Authority(SystemClock().now())
    async with serving(Hook(machines, HOOK_KEY), serving_tls(authority)) as url:
        targets = {
            machine.name: Target(
                node=machine.name,
                address=url,
                credentials=Credentials(password=Secret(HOOK_KEY)),
                options={"ca": authority.pem.decode()},
            )
            for machine in machines
        }
        yield Subject(Webhook(SystemClock()), targets)


def by_fence_ipmilan(directory: Path) -> Stage:
    @asynccontextmanager
    async def stage(machines: Iterable[Machine]) -> AsyncIterator[Subject]:
        machines = list(machines)
        async with ipmi(machines) as addresses:
            targets = {
                machine.name: Target(
                    node=machine.name,
                    address=addresses[machine.name].host,
                    credentials=credentials(machine),
                    options={
                        "agent": "fence_ipmilan",
                        "ipport": str(addresses[machine.name].port),
                        "lanplus": "1",
                        "plug": machine.name,
                    },
                )
                for machine in machines
            }
            yield Subject(FenceAgent(SystemClock(), directory=directory), targets)

    return stage


def by_fence_redfish(directory: Path) -> Stage:
    @asynccontextmanager
    async def stage(machines: Iterable[Machine]) -> AsyncIterator[Subject]:
        machines = list(machines)
        async with redfish(machines, tls=serving_tls(Authority(SystemClock().now()))) as addresses:
            targets = {
                machine.name: Target(
                    node=machine.name,
                    address="127.0.0.1",
                    credentials=credentials(machine),
                    options={
                        "agent": "fence_redfish",
                        "ipport": addresses[machine.name].url.rpartition(":")[2],
                        "systems_uri": addresses[machine.name].system,
                        "ssl_insecure": "1",
                    },
                )
                for machine in machines
            }
            yield Subject(FenceAgent(SystemClock(), directory=directory), targets)

    return stage
