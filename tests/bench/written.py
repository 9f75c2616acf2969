"""How often an operator has written, as the API server counts it: all that it may write but the locks of its replicas.

Its own metrics count the renewals of those too. Nodes are left out as well, which the bench itself keeps alive.
"""

from prometheus_client.parser import text_string_to_metric_families

from defib.kube.client import Client
from defib.kube.transport import Request

REQUESTS = "apiserver_request_total"
WRITING_VERBS = {"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}
GROUPS = {"defib.dev", "remediation.medik8s.io", "test.defib.dev"}
RESOURCES = {"events", "pods"}


async def writes_made(client: Client) -> int:
    """By whomever, since the API server began."""
    return count_writes((await client.ask(Request(method="GET", path="/metrics"))).decode())


def count_writes(metrics: str) -> int:
    lines = (line for line in metrics.splitlines(keepends=True) if line.startswith(REQUESTS))
    samples = [sample for family in text_string_to_metric_families("".join(lines)) for sample in family.samples]
    return int(sum(sample.value for sample in samples if _is_write(sample.labels)))


def _is_write(labels: dict[str, str]) -> bool:
    is_ours = labels["group"] in GROUPS or labels["resource"] in RESOURCES
    return is_ours and labels["verb"] in WRITING_VERBS
