"""What the operator's account may do, as the API server says: roles come into force a moment after they were written."""

from defib.kube.client import Client
from tests.contract.api_server.steps import raw
from tests.e2e.audit import ACCOUNT
from tests.e2e.hollow_cluster import eventually


async def may(client: Client, verb: str, what: str, namespace: str) -> bool:
    """`what` is a resource and its group, like `leases.coordination.k8s.io`."""
    resource, _, group = what.partition(".")
    asked = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"resourceAttributes": asked, "user": ACCOUNT},
    }
    review = await raw(client, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(review["status"]["allowed"])


async def until_allowed(client: Client, verb: str, what: str, namespace: str, within: float = 30.0) -> None:
    """Roles that are added up from others come into force another moment later."""
    await eventually(lambda: may(client, verb, what, namespace), within=within)
