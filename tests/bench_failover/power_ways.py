"""How Defib reaches the machines of the benchmark: over HTTPS, as in life, or in this process where time is virtual."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from defib.clock import Clock
from defib.hollow.machine import Machine
from defib.hollow.power import HollowPower
from defib.model.evidence import Says
from defib.power.registry import Drivers
from testbed.bmc.redfish import redfish
from testbed.certificates import Authority
from testbed.scenario.remediation_manifests import bmc_secret
from tests.bench_failover.services import FROM_VERDICT, Service


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """`power` is what a template says, `trust` what a Secret has besides the login."""

    power: dict[str, Any]
    trust: dict[str, str]
    drivers: Drivers
    service: Service
    tls: ssl.SSLContext | None = None  # with which kubelets answer, where they can be asked


@asynccontextmanager
async def over_redfish(machines: Mapping[str, Machine], clock: Clock, service: Service) -> AsyncIterator[Way]:
    authority = Authority(clock.now())
    tls = _serving(authority)
    async with redfish(machines.values(), tls=tls) as addresses:
        by_node = {name: {"address": address.url} for name, address in addresses.items()}
        yield Way(
            power={"driver": "redfish", "credentials": {"name": bmc_secret("{node}")}, "nodes": by_node},
            trust={"ca.crt": authority.pem.decode()},
            drivers=Drivers(clock),
            tls=tls,
            service=service,
        )


@asynccontextmanager
async def in_process(
    machines: Mapping[str, Machine], clock: Clock, service: Service = FROM_VERDICT
) -> AsyncIterator[Way]:
    yield Way(
        power={"driver": "hollow", "address": "{node}", "credentials": {"name": bmc_secret("{node}")}},
        trust={},
        drivers=Drivers(clock, {"hollow": HollowPower(clock, machines)}, asking=_nobody_answers),
        service=service,
    )


async def _nobody_answers(address: str, port: int, within_seconds: float) -> tuple[Says, str]:
    """Only who is ill is asked; there are no sockets where time is virtual."""
    await asyncio.sleep(within_seconds)
    return Says.SILENT, f"{address}:{port}"


def a_certificate(clock: Clock) -> ssl.SSLContext:
    return _serving(Authority(clock.now()))


def _serving(authority: Authority) -> ssl.SSLContext:
    pair = authority.server(names=("bmc",), addresses=("127.0.0.1",))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.public + pair.private)
        file.flush()
        tls.load_cert_chain(file.name)
    return tls
