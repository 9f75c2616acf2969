"""The way to the power of one node: what a policy says for all, what it says for this one, and placeholders filled in."""

import re

from defib.decide.fencing.order import Obstacle
from defib.model.cluster import Cluster, Missing
from defib.model.metal3 import HOST, host_in, why_no_way
from defib.model.node import Node
from defib.model.power import AGENT, METAL3, PowerPath
from defib.model.power_cycle import Policy, Way
from defib.model.self_fencing import why_distrusted

NO_WAY = "NoPowerPath"
DISTRUSTED = "Distrusted"
METAL3_KEY = "key"  # of the options: under which annotation a Metal3 host is asked to stay off
OUR_KEY = "reboot.metal3.io/defib"

PROTECTED = "node-restriction.kubernetes.io/"  # labels that the API server lets no kubelet write
_NOT_THE_NODES_OWN = re.compile(r"([-a-z0-9.]+\.)?node-restriction\.kubernetes\.io/")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_SECRET = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class _Unfilled(Exception):
    """`str()` says which placeholder cannot be filled in, and why."""


def path_for(policy: Policy, name: str, node: Node | None, namespace: str) -> PowerPath | Obstacle:
    """`namespace` is where the Secret has to be. Without a node only its name can be filled in."""
    way = _of(policy, name)
    try:
        address = _fill(way.address, name, node)
        options = {key: _fill(value, name, node) for key, value in (way.options or {}).items()}
        secret = _fill(way.credentials, name, node)
    except _Unfilled as error:
        return Obstacle(NO_WAY, str(error))
    if secret and not _SECRET.fullmatch(secret):
        return Obstacle(
            NO_WAY, f"for node {name}, spec.power.credentials names {secret[:80]!r}: that is no Secret's name"
        )
    if not way.driver:
        return Obstacle(NO_WAY, f"spec.power names no driver for node {name}")
    if way.driver == METAL3:
        address = address or host_of(node.spec.provider_id if node is not None else "")
        options = {METAL3_KEY: OUR_KEY} | options
        if not address:
            return Obstacle(NO_WAY, f"node {name} has no provider ID of a Metal3 host, and spec.power has no address")
        if why := why_no_way(address, options[METAL3_KEY]):
            return Obstacle(NO_WAY, f"for node {name}, {why}")
    return PowerPath(
        driver=way.driver, address=address, secret=f"{namespace}/{secret}" if secret else "", options=options
    )


def path_in(cluster: Cluster, policy: Policy, name: str, namespace: str) -> PowerPath | Obstacle:
    """The same for a node by its name, where the hosts of Metal3 may be none of our business, or its agent not believed."""
    node, hosts = cluster.nodes.get(name), cluster.kinds.get(HOST)
    path = path_for(policy, name, node, namespace)
    if isinstance(path, PowerPath) and path.driver == AGENT and node is not None and (why := why_distrusted(node)):
        return Obstacle(DISTRUSTED, why)
    is_by_host = isinstance(path, PowerPath) and path.driver == METAL3
    return Obstacle(NO_WAY, hosts.why) if is_by_host and isinstance(hosts, Missing) and hosts.is_off else path


def host_of(provider_id: str) -> str:
    """The BareMetalHost (namespace/name) that a provider ID names; empty when it names none."""
    found = host_in(provider_id)
    return found.key if found is not None else ""


def _of(policy: Policy, name: str) -> Way:
    usual, own = policy.way, policy.ways.get(name, Way())
    return Way(
        driver=own.driver or usual.driver,
        address=own.address or usual.address,
        credentials=own.credentials or usual.credentials,
        options={**(usual.options or {}), **(own.options or {})},
    )


def _fill(text: str, name: str, node: Node | None) -> str:
    return _PLACEHOLDER.sub(lambda found: _value(found[1], name, node), text)


def _value(placeholder: str, name: str, node: Node | None) -> str:
    what, _, key = placeholder.partition(":")
    if what == "node" and not key:
        return name
    if what != "label" or not key:
        known = "{node} and {label:KEY}"
        raise _Unfilled(f"{{{placeholder[:80]}}} in spec.power is no placeholder; there are {known}")
    if not _NOT_THE_NODES_OWN.match(key):
        # With root on one machine one could have the BMC's password sent anywhere, or another machine switched off.
        raise _Unfilled(
            f"a node can write its label {key[:80]} itself; name one under {PROTECTED}, or use spec.power.nodes"
        )
    value = node.labels.get(key, "") if node is not None else ""
    if not value:
        raise _Unfilled(f"node {name} has no label {key}, which spec.power names")
    return value
