"""The pods of some nodes, each node's for as long as somebody needs them. Never all pods of a cluster."""

from collections.abc import Set as AbstractSet

from defib.kube.client import Scope
from defib.kube.kinds import PODS
from defib.model.pod import pods_on
from defib.observe.cache import Cache


class NodePods:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._followed: frozenset[str] = frozenset()

    def want(self, nodes: AbstractSet[str]) -> None:
        """Those of these nodes, and from now on of no others."""
        for node in sorted(nodes - self._followed):
            self._cache.follow(PODS, Scope(fields=f"spec.nodeName={node}"), name=pods_on(node), optional=True)
        for node in sorted(self._followed - nodes):
            self._cache.drop(PODS, pods_on(node))
        self._followed = frozenset(nodes)
