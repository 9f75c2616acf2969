"""DrainPolicy: which drains are watched, and what is done, and when, about those that do not end."""

from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import msgspec

from defib.model.amount import Amount
from defib.model.health_check import KindRef, Mode, StatusCondition
from defib.model.meta import Unstructured, Wire
from defib.model.pod_failover import API_VERSION
from defib.model.selector import EVERYTHING, Selector

POLICY = KindRef(API_VERSION, "DrainPolicy")
ANY_FINALIZER = "*"


class Source(StrEnum):
    """Who drains nodes, and leaves something in the cluster by which we know."""

    OPENSHIFT = "OpenShift"
    KUBECTL = "Kubectl"  # also kubeadm: a cordoned node with our mark
    KURED = "Kured"
    SYSTEM_UPGRADE_CONTROLLER = "SystemUpgradeController"
    KARPENTER = "Karpenter"
    CLUSTER_AUTOSCALER = "ClusterAutoscaler"
    CLUSTER_API = "ClusterAPI"
    DEFIB = "Defib"  # a cordoned node with our annotation: we evict its pods ourselves


class Strategy(StrEnum):
    """Those of seed 004, in its order and by its names."""

    DELETE = "DELETE"
    FINALIZERS = "DEFAULT-FINALIZER"
    STUCK = "POD-STUCK-TERMINATING"
    PDB_DELETE = "PDB-DELETE"
    PDB_FINALIZERS = "PDB-FINALIZER"


ALL_STRATEGIES = frozenset(Strategy)
ALL_SOURCES = frozenset(Source)


class Ignored(msgspec.Struct, frozen=True, kw_only=True):
    """Namespaces whose pods are left alone. Patterns with * and ? are for whole names.

    Expressions are those of Nodekeeper's own configuration: they may match anywhere in a name.
    """

    patterns: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()

    def has(self, namespace: str) -> bool:
        if any(fnmatchcase(namespace, pattern) for pattern in self.patterns):
            return True
        return any(_compiled(expression).search(namespace) is not None for expression in self.expressions)


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    """None where Nodekeeper could not read it either."""
    import re2  # type: ignore[import-untyped]  # it has none; and few clusters need it, so few pay for it

    options = re2.Options()
    options.log_errors = False  # it would write to the standard error of the process
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError):  # the second of a half of a character, which YAML can spell
        return None


def is_expression(text: str) -> bool:
    """Whether Nodekeeper could read it."""
    return _compiled(text) is not None


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """All count from when the drain began, but for the last two."""

    timeout: timedelta = timedelta(minutes=45)
    expected: timedelta = timedelta(minutes=8)
    pdb_timeout: timedelta = timedelta(minutes=60)  # comes on top of `expected`
    extra_grace: timedelta = timedelta(seconds=30)  # from when a pod should have ended, until it counts as stuck
    flap_window: timedelta = timedelta(minutes=10)  # a drain that was broken off for no longer goes on


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One that makes sense."""

    nodes: Selector = EVERYTHING
    with_control_plane: bool = False
    mode: Mode = Mode.AUTOMATIC
    times: Times = Times()
    strategies: frozenset[Strategy] = ALL_STRATEGIES
    ignored: Ignored = Ignored()
    finalizers: frozenset[str] = frozenset()  # which may be taken away; "*" is any
    most_at_once: Amount = Amount(1)  # nodes on which anything is forced
    sources: frozenset[Source] = ALL_SOURCES
    needs_proof: bool = True  # for pods that must not run twice, before they are deleted by force
    is_nodekeepers: bool = False  # its times, switch and namespaces are those of the managed-upgrade-operator
    is_switched_here: bool = False  # of such a one: the switch is for Nodekeeper alone, since strategies stand here

    def may_remove(self, finalizer: str) -> bool:
        return finalizer in self.finalizers or ANY_FINALIZER in self.finalizers


class PolicyStatus(Wire, frozen=True):
    observed_generation: int = 0
    draining: int | None = None
    forcing: int | None = None
    failed: int | None = None
    estimate_seconds: int | None = None  # how long all that is still to be drained may take, at most
    delayed: str = ""  # of which upgrade it was told that budgets delay it
    conditions: list[StatusCondition] | None = None


def read_policy_status(item: Unstructured) -> PolicyStatus:
    """A status that makes no sense counts as none: what is said of it will be said anew."""
    try:
        return msgspec.convert(item.status or {}, PolicyStatus)
    except msgspec.ValidationError:
        return PolicyStatus()
