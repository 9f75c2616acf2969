"""Whether the kubelet of a hollow node would answer: what asking a real one finds out, without a socket."""

import asyncio

from defib.hollow.nodes import HollowNodes
from defib.model.evidence import Says
from defib.power.kubelet import AskKubelet


def hollow_kubelets(nodes: HollowNodes) -> AskKubelet:
    async def ask(address: str, port: int, within_seconds: float) -> tuple[Says, str]:
        where = f"{address}:{port}"
        node = next((one for one in nodes.values() if one.address == address), None)
        if node is not None and node.answers:
            return Says.ANSWERS, f"{where} answers"
        await asyncio.sleep(within_seconds)
        return Says.SILENT, f"nothing came back from {where} within {within_seconds:g} s"

    return ask
