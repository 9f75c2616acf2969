"""What the operator asked of a real API server, as that wrote it down."""

import asyncio
import base64
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from testbed.cluster import ControlPlane

ACCOUNT = "system:serviceaccount:defib-system:defib"
_LOG = "audit.log"
# What is done to pods, and to the locks of nodes, with what was asked for; of the rest, that it was asked.
_WHOLE = [{"resources": ["pods", "pods/eviction"]}, {"group": "coordination.k8s.io", "resources": ["leases"]}]
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "Request", "users": [ACCOUNT], "resources": _WHOLE},
        {"level": "Metadata", "users": [ACCOUNT]},
        {"level": "None"},
    ],
}


class Request(msgspec.Struct, frozen=True):
    verb: str
    what: str
    key: str
    code: int
    by: str  # the credential: replicas share an account, and each has a token of its own
    received: datetime
    answered: datetime
    body: Any = None

    @property
    def is_write(self) -> bool:
        return self.verb not in ("get", "list", "watch")

    @property
    def has_worked(self) -> bool:
        return self.code < 300

    def __str__(self) -> str:
        return f"{self.received:%H:%M:%S.%f} {self.verb} {self.what} {self.key}: {self.code}"


def credential_of(token: str) -> str:
    """What the API server calls it: the ID in a service account's token."""
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return f"JTI={claims['jti']}"


async def audited(policy: Path) -> tuple[str, ...]:
    """Flags of an API server that writes it down. `policy` is a file to be written: it reads there what."""
    await asyncio.to_thread(policy.write_text, yaml.safe_dump(_POLICY))
    return f"--audit-policy-file={policy}", f"--audit-log-path={_LOG}"


async def requests_of(plane: ControlPlane) -> list[Request]:
    """All that the operator has asked so far, in order."""
    text = await asyncio.to_thread((plane.directory / _LOG).read_text)
    return [_request(json.loads(line)) for line in text.splitlines() if line.endswith("}")]


def _request(line: dict[str, Any]) -> Request:
    ref = line.get("objectRef") or {}
    what = ".".join(part for part in (ref.get("resource", line["requestURI"]), ref.get("apiGroup", "")) if part)
    what += f"/{ref['subresource']}" if "subresource" in ref else ""
    key = "/".join(part for part in (ref.get("namespace", ""), ref.get("name", "")) if part)
    (by,) = line["user"]["extra"]["authentication.kubernetes.io/credential-id"]
    received, answered = (datetime.fromisoformat(line[name]) for name in ("requestReceivedTimestamp", "stageTimestamp"))
    code, body = line["responseStatus"]["code"], line.get("requestObject")
    return Request(line["verb"], what, key, code, by, received, answered, body)
