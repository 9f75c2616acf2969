"""Who tries something on a real API server, each with a client of their own, and what it says to them."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.errors import Refused
from defib.kube.http import connect
from testbed.cluster import ControlPlane
from tests.contract.api_server.steps import raw
from tests.security.roles import Asked

PATIENCE_SECONDS = 30.0


async def a_client(kubeconfig: Path) -> Client:
    clock = SystemClock()
    return Client(await connect(kubeconfig, None, {}, clock), clock)


async def apply(plane: ControlPlane, manifest: Path) -> None:
    command = (plane.kubectl, f"--kubeconfig={plane.kubeconfig}", "apply", f"--filename={manifest}")
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


async def may(client: Client, asked: Asked) -> bool:
    """What the API server says when somebody asks about themselves."""
    resource, _, group = asked.resource.partition(".")
    spec = {
        "verb": asked.verb,
        "resource": resource,
        "group": group,
        "subresource": asked.subresource,
        "namespace": asked.namespace,
        "name": asked.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": spec},
    }
    review = await raw(client, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool(review["status"]["allowed"])


async def refusal(request: Awaitable[Any]) -> str:
    """What it says against it; empty where it does not."""
    try:
        await request
    except Refused as error:
        return str(error)
    return ""
