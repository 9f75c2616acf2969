"""A node that somebody named; and where there is none of that name, which ones they may have meant."""

import difflib
import re

from defib.clock import Clock
from defib.console.kinds import LIST_SECONDS
from defib.console.session import NotDone, forbidden
from defib.kube.client import Client
from defib.kube.errors import Forbidden, NotFound
from defib.kube.kinds import NODES
from defib.model.cluster import Cluster, Unread
from defib.model.node import Node

NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
NEAR_MAX = 3
NEAR_CUTOFF = 0.5  # n0 and n1 have half their letters in common


async def the_node(name: str, client: Client, clock: Clock) -> Node:
    """All nodes are read only where there is none of that name. Raises NotDone."""
    try:
        if NODE_NAME.fullmatch(name):
            return await client.get(NODES.at(name))
    except NotFound:
        pass
    except Forbidden as error:
        raise forbidden(error, "get", str(NODES)) from error
    try:
        page = await client.list_all(NODES, deadline=LIST_SECONDS)
    except Forbidden as error:
        raise NotDone(f"there is no node {name}, and others could not be looked for: {error}") from error
    unread = tuple(Unread(str(NODES), item.key, item.why) for item in page.set_aside)
    raise unknown_node(name, Cluster(now=clock.now(), nodes={one.name: one for one in page.items}, unread=unread))


def unknown_node(node: str, cluster: Cluster) -> NotDone:
    if unread := next((one for one in cluster.unread if (one.kind, one.key) == ("nodes", node)), None):
        return NotDone(f"node {node} is there, but cannot be read: {unread.why}")
    longer = [name for name in sorted(cluster.nodes) if node and node in name][:NEAR_MAX]
    if near := longer or difflib.get_close_matches(node, cluster.nodes, n=NEAR_MAX, cutoff=NEAR_CUTOFF):
        return NotDone(f"there is no node {node}; did you mean {' or '.join(near)}?")
    return NotDone(f"there is no node {node} among the {len(cluster.nodes)} of the cluster (kubectl get nodes)")
