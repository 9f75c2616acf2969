"""kubernetes_asyncio with its dynamic client, which is its faster one. It has no cache, so it gets a dict."""

from importlib.metadata import version

from kubernetes_asyncio import client, config  # type: ignore[import-not-found]  # only in .venv-bench
from kubernetes_asyncio.dynamic import DynamicClient  # type: ignore[import-not-found]  # only in .venv-bench

from tests.bench.stages import Tally

VERSION = version("kubernetes_asyncio")
REST_SECONDS = 1.0
PAGE_SIZE = 500


async def follow(kubeconfig: str, tally: Tally) -> None:
    await config.load_kube_config(config_file=kubeconfig)
    async with client.ApiClient() as api:
        dynamic = await DynamicClient(api)
        kind = await dynamic.resources.get(api_version="v1", kind="Node")
        nodes = {}
        token = None
        while True:
            page = await kind.get(limit=PAGE_SIZE, _continue=token)
            nodes.update({node.metadata.name: node for node in page.items})
            listed_at, token = page.metadata.resourceVersion, page.metadata["continue"]
            del page
            if not token:
                break
        tally.holds(len(nodes))
        async for event in kind.watch(resource_version=listed_at):
            node = event["object"]
            if event["type"] == "DELETED":
                nodes.pop(node.metadata.name, None)
            else:
                nodes[node.metadata.name] = node
            tally.saw()
