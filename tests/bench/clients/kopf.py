"""kopf with `on.event` and nothing else. It has no cache outside its (quadratic) index, so it gets a dict."""

import logging
import os
from importlib.metadata import version
from typing import Any

import kopf  # type: ignore[import-not-found]  # only in .venv-bench

from tests.bench.stages import Tally

VERSION = version("kopf")
PAGE_SIZE = 500
REST_SECONDS = 8.0  # a worker for each node ends after 5 idle seconds: at rest they are gone


async def follow(kubeconfig: str, tally: Tally) -> None:
    os.environ["KUBECONFIG"] = kubeconfig
    logging.disable(logging.WARNING)  # it would write a line for every event
    nodes: dict[str, Any] = {}

    async def seen(event: Any, body: Any, name: str, **_: Any) -> None:
        match event["type"]:
            case None:
                nodes[name] = body
                tally.holds(len(nodes))
            case "DELETED":
                nodes.pop(name, None)
            case _:
                nodes[name] = body
                tally.saw()

    registry = kopf.OperatorRegistry()
    kopf.on.event("v1", "nodes", registry=registry)(seen)
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    settings = kopf.OperatorSettings()
    settings.watching.chunk_size = PAGE_SIZE
    await kopf.operator(registry=registry, settings=settings, clusterwide=True, standalone=True)
