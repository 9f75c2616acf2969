"""kubernetes_asyncio with its typed models: list in pages, then its Watch. It has no cache, so it gets a dict."""

from importlib.metadata import version

from kubernetes_asyncio import client, config, watch  # type: ignore[import-not-found]  # only in .venv-bench

from tests.bench.stages import Tally

VERSION = version("kubernetes_asyncio")
REST_SECONDS = 1.0
PAGE_SIZE = 500


async def follow(kubeconfig: str, tally: Tally) -> None:
    await config.load_kube_config(config_file=kubeconfig)
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        nodes = {}
        page = await core.list_node(limit=PAGE_SIZE)
        nodes.update({node.metadata.name: node for node in page.items})
        while page.metadata._continue:
            page = await core.list_node(limit=PAGE_SIZE, _continue=page.metadata._continue)
            nodes.update({node.metadata.name: node for node in page.items})
        listed_at = page.metadata.resource_version
        del page
        tally.holds(len(nodes))
        async with watch.Watch() as watching:
            async for event in watching.stream(core.list_node, resource_version=listed_at):
                node = event["object"]
                if event["type"] == "DELETED":
                    nodes.pop(node.metadata.name, None)
                else:
                    nodes[node.metadata.name] = node
                tally.saw()
