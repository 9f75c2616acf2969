"""RM-33: Metal3's objects on a real API server, moved by kubectl, with the hollow baremetal operator behind them."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.hollow.conductor import Pace
from defib.hollow.machine import Delays, Machine
from defib.hollow.metal3 import HollowMetal3, Metal3Settings
from defib.kube.client import Client
from defib.kube.http import connect
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.bmc.machines import a_machine

# The first test waits for the start of the server, or even for its build: only the test itself is timed.
pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True)]

CRDS = Path(__file__).parents[3] / "testbed" / "crds"
WITHIN = 30.0
HOST = """
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: n1, namespace: default}
spec:
  online: true
  externallyProvisioned: true
  bmc: {address: "redfish://127.0.0.1/redfish/v1/Systems/1", credentialsName: n1-bmc}
  bootMACAddress: "00:00:00:00:00:01"
"""
MACHINE = """
apiVersion: {version}
kind: Machine
metadata: {{name: n1, namespace: default}}
spec: {{clusterName: c1, providerID: "baremetalhost:///default/n1", bootstrap: {{dataSecretName: x}}}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, request: pytest.FixtureRequest) -> AsyncIterator[ControlPlane]:
    failed_before = request.session.testsfailed
    async with ControlPlane(programs, Settings(api_only=True)) as cluster:
        await cluster.wait_for_namespace("default")
        kubectl = Kubectl(cluster)
        await kubectl("apply", *(f"--filename={file}" for file in sorted(CRDS.glob("metal3-*.yaml"))))
        await kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=20s")
        yield cluster
        if request.session.testsfailed > failed_before:
            cluster.keep()


class Kubectl:
    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster

    async def __call__(self, *command: str, stdin: str = "") -> str:
        async with asyncio.timeout(WITHIN):
            running = await asyncio.create_subprocess_exec(
                *(str(self._cluster.kubectl), f"--kubeconfig={self._cluster.kubeconfig}", *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            said, complained = await running.communicate(stdin.encode())
        assert running.returncode == 0, complained.decode()
        return said.decode()

    async def wait_for_power(self, shown: str) -> None:
        await self("wait", "bmh/n1", f"--for=jsonpath={{.status.poweredOn}}={shown}", "--timeout=20s")


@pytest.fixture
def machine() -> Machine:
    return a_machine(delays=Delays(on_seconds=0.5, off_seconds=0.5, soft_off_seconds=1))


@pytest.fixture
async def kubectl_with_operator(cluster: ControlPlane, machine: Machine) -> AsyncIterator[Kubectl]:
    clock = SystemClock()
    client = Client(await connect(cluster.kubeconfig, None, {}, clock), clock)
    operator = HollowMetal3(client, clock, {"n1": machine}, Metal3Settings(pace=Pace().faster(50)))
    kubectl = Kubectl(cluster)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(operator.run())
            yield kubectl
            running.cancel()
    finally:
        await kubectl("delete", "bmh", "--all", "--ignore-not-found")
        await client.close()


async def test_a_phased_request_by_kubectl_turns_the_machine_off_and_on(
    kubectl_with_operator: Kubectl, machine: Machine
) -> None:
    kubectl = kubectl_with_operator
    await kubectl("apply", "--filename=-", stdin=HOST)
    await kubectl.wait_for_power("true")
    assert machine.is_on
    await kubectl("annotate", "bmh", "n1", 'reboot.metal3.io/test={"mode":"hard"}')
    await kubectl.wait_for_power("false")
    assert not machine.is_on
    await kubectl("annotate", "bmh", "n1", "reboot.metal3.io/test-")
    await kubectl.wait_for_power("true")
    assert machine.is_on
    assert [change.on for change in machine.history] == [False, True]
    table = await kubectl("get", "bmh")
    assert "externally provisioned" in table


async def test_a_simple_request_by_kubectl_is_one_reboot(kubectl_with_operator: Kubectl, machine: Machine) -> None:
    kubectl = kubectl_with_operator
    await kubectl("apply", "--filename=-", stdin=HOST)
    await kubectl.wait_for_power("true")
    await kubectl("annotate", "bmh", "n1", "reboot.metal3.io={not json")
    await kubectl.wait_for_power("false")
    await kubectl.wait_for_power("true")
    host = json.loads(await kubectl("get", "bmh", "n1", "--output=json"))
    assert "reboot.metal3.io" not in host["metadata"]["annotations"]
    assert [change.on for change in machine.history] == [False, True]
    events = await kubectl("get", "events", "--field-selector=involvedObject.name=n1")
    assert "InvalidAnnotationValue" in events
    assert "Host soft powered off" in events


@pytest.mark.parametrize(
    "version", ["machine.openshift.io/v1beta1", "cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"]
)
async def test_machines_of_every_kind_can_be_made_and_keep_what_we_do_not_read(
    cluster: ControlPlane, version: str
) -> None:
    kubectl = Kubectl(cluster)
    group, _, name = version.partition("/")
    await kubectl("apply", "--filename=-", stdin=MACHINE.format(version=version))
    found = json.loads(await kubectl("get", f"machines.{name}.{group}", "n1", "--output=json"))
    assert found["apiVersion"] == version
    assert found["spec"]["providerID"] == "baremetalhost:///default/n1"
    assert found["spec"]["bootstrap"] == {"dataSecretName": "x"}
    await kubectl("delete", f"machines.{name}.{group}", "n1")
