"""The drivers under test, each with real machines behind the real protocol. The rules do not know which one they test."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec

from defib.act.means import Means
from defib.act.metal3 import Metal3
from defib.clock import Clock, SystemClock
from defib.hollow.conductor import Pace
from defib.hollow.machine import Machine
from defib.hollow.metal3 import HOSTS, HollowMetal3, Metal3Settings
from defib.hollow.power import HollowPower
from defib.kube.client import Client
from defib.kube.discovery import Discovery
from defib.model.secret import Secret
from defib.power.base import Credentials, Driver, Target
from defib.power.fence_agent import FenceAgent
from defib.power.ipmi import Ipmi
from defib.power.redfish import Redfish
from defib.power.registry import Drivers
from defib.power.webhook import Webhook
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from testbed.bmc.ipmi import ipmi
from testbed.bmc.metal3 import metal3_definitions
from testbed.bmc.redfish import redfish
from testbed.certificates import Authority
from tests.contract.power.hook import Hook, serving

HOOK_KEY = "the-key-of-all-questions"
METAL3_OPTIONS = {"key": "reboot.metal3.io/defib"}
METAL3_SPEED = 100.0
SHOWN_WITHIN = 10.0


class Subject(msgspec.Struct, frozen=True):
    """A driver, and its target for each machine by name."""

    driver: Driver
    targets: dict[str, Target]


Stage = Callable[[Iterable[Machine]], AbstractAsyncContextManager[Subject]]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    stage: Stage
    quick_seconds: float = 1.5  # more than it ever needs here for one answer
    is_agent: bool = False  # a program: it waits until the power has changed, and says less of what went wrong
    is_second_hand: bool = False  # somebody else asks the BMC, and shows later what came of it
    exempt_from: Mapping[str, str] = {}  # rules by name, and why each makes no sense for it


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
async def by_hollow(machines: Iterable[Machine]) -> AsyncIterator[Subject]:
    """Without a protocol: what stories and the demo switch their machines with."""
    by_name = {machine.name: machine for machine in machines}
    targets = {
        name: Target(node=name, address=name, credentials=credentials(machine)) for name, machine in by_name.items()
    }
    yield Subject(HollowPower(SystemClock(), by_name), targets)


@asynccontextmanager
async def by_metal3(machines: Iterable[Machine]) -> AsyncIterator[Subject]:
    """Through the API server, and a baremetal operator that is quicker than any real one."""
    by_name = {machine.name: machine for machine in machines}
    clock = SystemClock()
    server = ApiServer(clock)
    for definition in metal3_definitions():
        server.put("customresourcedefinitions.apiextensions.k8s.io", definition)
    for name in by_name:
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"online": True, "image": {"url": "x"}}}
        server.put(str(HOSTS), body)
    theirs = Client(InProcess(server, client="metal3"), clock)
    operator = HollowMetal3(theirs, clock, by_name, Metal3Settings(pace=Pace().faster(METAL3_SPEED)))
    targets = {name: Target(node=name, address=f"default/{name}", options=METAL3_OPTIONS) for name in by_name}
    async with asyncio.TaskGroup() as tasks:
        living = tasks.create_task(operator.run())
        await _until_shown(theirs, len(by_name))
        yield Subject(Metal3(_means(server, clock)), targets)
        living.cancel()


async def _until_shown(client: Client, count: int) -> None:
    """The baremetal operator has looked at every host; it can only be asked."""
    async with asyncio.timeout(SHOWN_WITHIN):
        while sum(bool(host.status.provisioning.state) for host in (await client.list_all(HOSTS)).items) < count:  # noqa: ASYNC110  it can only be asked
            await asyncio.sleep(0)


def _means(server: ApiServer, clock: Clock) -> Means:
    client = Client(InProcess(server, client="defib"), clock)
    return Means(
        client=client,
        discovery=Discovery(client),
        clock=clock,
        lock_namespace="default",
        namespace="defib-system",
        stop=str,
        note=lambda *_: None,
        drivers=Drivers(clock),
    )


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
