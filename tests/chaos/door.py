"""What stands between a replica and its writes besides the API server itself: an admission webhook and its fair queues."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum

from aiohttp import web

from defib.clock import SystemClock
from defib.kube.client import Client, Deletion
from defib.kube.errors import KubeError, NotFound
from defib.kube.kinds import Ref, unstructured
from defib.model.meta import Unstructured
from testbed.certificates import Authority
from tests.contract.power.subjects import serving_tls
from tests.e2e.audit import ACCOUNT

WEBHOOKS = unstructured(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
_FLOWS = "flowcontrol.apiserver.k8s.io"
SCHEMAS = unstructured(_FLOWS, "v1", "flowschemas", "FlowSchema", namespaced=False)
LEVELS = unstructured(_FLOWS, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False)
NAME = "chaos"
FLAGS = ("--max-requests-inflight=40", "--max-mutating-requests-inflight=20")  # so that one share of them is one seat
_TRY_AGAIN_SECONDS = 0.5
_ANSWERS_WITHIN_SECONDS = 1  # what the API server gives a webhook

_RULES = [
    {"apiGroups": ["defib.dev"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"},
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"], "scope": "*"},
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"], "scope": "*"},
]


class Mood(StrEnum):
    """Of a webhook that may keep us from what we write."""

    ALLOWS = "allows"
    HANGS = "hangs"
    REFUSES = "refuses"
    FAILS = "fails"


class Door:
    def __init__(self, client: Client) -> None:
        self.mood = Mood.ALLOWS
        self.asked = 0
        self.turned_away = 0
        self._client = client

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        self.turned_away += self.mood is not Mood.ALLOWS
        try:
            uid = (await request.json())["request"]["uid"]
        except ConnectionError:
            return web.Response(status=500)  # an API server that died over its question hears no answer
        if self.mood is Mood.HANGS:
            await asyncio.sleep(2 * _ANSWERS_WITHIN_SECONDS)  # nobody listens any more when it is over
        if self.mood is Mood.FAILS:
            return web.Response(status=500)
        verdict = {"uid": uid, "allowed": self.mood is not Mood.REFUSES, "status": {"message": "not today"}}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": verdict})

    async def hang_on(self, url: str, ca_pem: bytes) -> None:
        """Every write of ours to nodes, pods and our own kinds is asked about here, and none passes without an answer."""
        hook = {
            "name": "chaos.defib.dev",
            "clientConfig": {"url": url, "caBundle": base64.b64encode(ca_pem).decode()},
            "rules": _RULES,
            "matchConditions": [{"name": "ours", "expression": f"request.userInfo.username == '{ACCOUNT}'"}],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": _ANSWERS_WITHIN_SECONDS,
        }
        await self._client.create(WEBHOOKS, {"metadata": {"name": NAME}, "webhooks": [hook]})

    async def narrow(self, shares: int) -> None:
        """All requests of our account go through so many seats; who finds none is sent away with a 429."""
        limited = {"nominalConcurrencyShares": shares, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}
        level = {"metadata": {"name": NAME}, "spec": {"type": "Limited", "limited": limited}}
        account = {"namespace": "defib-system", "name": "defib"}
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
        rules = {
            "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
            "resourceRules": [everything],
        }
        schema = {
            "matchingPrecedence": 1,
            "priorityLevelConfiguration": {"name": NAME},
            "rules": [rules],
        }
        try:
            await self._client.create(LEVELS, level, deadline=2.0)
            await self._client.create(SCHEMAS, {"metadata": {"name": NAME}, "spec": schema}, deadline=2.0)
        except KubeError:
            return  # the API server is away: it is narrow enough

    async def open_wide(self) -> None:
        """However long it takes: what a restore brings back has to go, too."""
        self.mood = Mood.ALLOWS
        for ref in (SCHEMAS.at(NAME), LEVELS.at(NAME)):
            while not await self._is_gone(ref):  # noqa: ASYNC110 - the control plane has no event for us
                await asyncio.sleep(_TRY_AGAIN_SECONDS)  # the API server is away

    async def _is_gone(self, ref: Ref[Unstructured]) -> bool:
        try:
            known = await self._client.get(ref, deadline=2.0)
            await self._client.delete(ref, Deletion(uid=known.uid), deadline=2.0)
        except NotFound:
            return True
        except KubeError:
            return False
        return True


@asynccontextmanager
async def door(client: Client) -> AsyncIterator[Door]:
    found, authority = Door(client), Authority(SystemClock().now())
    app = web.Application()
    app.router.add_post("/", found.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    tls: ssl.SSLContext = serving_tls(authority)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        await found.hang_on(f"https://{host}:{port}/", authority.pem)
        yield found
    finally:
        await runner.cleanup()
