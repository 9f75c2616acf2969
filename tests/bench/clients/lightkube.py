"""lightkube: its typed list, then its typed watch from the list's version. It has no cache, so it gets a dict."""

from importlib.metadata import version

from lightkube import AsyncClient, KubeConfig  # type: ignore[import-not-found]  # only in .venv-bench
from lightkube.resources.core_v1 import Node  # type: ignore[import-not-found]  # only in .venv-bench

from tests.bench.stages import Tally

VERSION = version("lightkube")
REST_SECONDS = 1.0
PAGE_SIZE = 500


async def follow(kubeconfig: str, tally: Tally) -> None:
    client = AsyncClient(config=KubeConfig.from_file(kubeconfig))
    listing = client.list(Node, chunk_size=PAGE_SIZE)
    nodes = {node.metadata.name: node async for node in listing}
    tally.holds(len(nodes))
    async for change, node in client.watch(Node, resource_version=listing.resourceVersion):
        if change == "DELETED":
            nodes.pop(node.metadata.name, None)
        else:
            nodes[node.metadata.name] = node
        tally.saw()
