"""What is told of a PodFailoverPolicy in the log book, and at the end of a story that failed."""

from defib.model.failover_policy import PolicyStatus, read_policy_status
from defib.model.meta import Unstructured


def policy_words(policy: Unstructured) -> str:
    status = read_policy_status(policy)
    settled = status.condition("Settled")
    nodes = [f"{one.name} {one.state}" for one in status.nodes or ()]
    listed = f", lists {', '.join(nodes)}" if nodes else ""
    counts = f"moved {status.moved or 0}, waiting {status.waiting or 0}"
    return f"{settled.reason if settled is not None else 'new'}, {counts}{listed}"


def policy_texts(status: PolicyStatus) -> list[str]:
    """Everything that its status says in words."""
    return [one.message for one in (*(status.conditions or ()), *(status.nodes or ()))]
