"""The mark by which our out-of-service taint is known: what stands in a node is what we wrote, to the second."""

from defib.kube.client import Client, Merge
from defib.kube.kinds import NODES
from defib.model.node import OUT_OF_SERVICE, TAINTED_BY_US

SINCE = "2030-01-02T03:04:05Z"
OURS = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute", "timeAdded": SINCE}


async def test_a_taint_keeps_the_moment_by_which_it_is_known_as_ours(client: Client, namespace: str) -> None:
    made = await client.create(NODES, {"metadata": {"name": f"{namespace}-n"}})
    patch = {"metadata": {"annotations": {TAINTED_BY_US: SINCE}}, "spec": {"taints": [OURS]}}
    await client.patch(NODES.of(made), Merge(patch))
    node = await client.patch(NODES.of(made), Merge({"spec": {"unschedulable": True}}))  # somebody else writes it
    assert node.our_taint is not None
    theirs = OURS | {"timeAdded": "2030-01-02T03:04:06Z"}
    replaced = await client.patch(NODES.of(made), Merge({"spec": {"taints": [theirs]}}))
    assert replaced.our_taint is None
    without = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    by_hand = await client.patch(NODES.of(made), Merge({"spec": {"taints": [without]}}))
    assert by_hand.our_taint is None
