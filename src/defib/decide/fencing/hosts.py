"""Which BareMetalHost a Machine runs on, or why that cannot be told. A host that another namespace has is never touched."""

from defib.decide.fencing.kinds import METAL3_MACHINES, are_in_sight, items_of
from defib.decide.fencing.machines import Machine, text_in
from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.paths import METAL3_KEY, host_of
from defib.model.action import Target
from defib.model.cluster import Cluster, Served
from defib.model.meta import Unstructured
from defib.model.metal3 import HOST, HOST_LINK, HostName, host_in, host_linked, why_untouchable
from defib.model.node import Node
from defib.model.power import METAL3, PowerPath

NO_HOST = "NoHost"
FOREIGN_HOST = "ForeignHost"
NOT_ONLINE = "HostNotOnline"
UNTOUCHABLE = "HostUntouchable"


def host_of_machine(machine: Machine, cluster: Cluster) -> Unstructured | Obstacle:
    """By its provider ID, else by its annotation, else by those of the Metal3Machine that stands behind it."""
    behind = _metal3_machine(machine, cluster)
    name = _named_by(machine.item) or (_named_by(behind) if behind is not None else None)
    if name is None:
        return Obstacle(NO_HOST, f"{machine.target} has neither a provider ID of a host nor an annotation {HOST_LINK}")
    host = _find(name, machine.item.namespace, cluster)
    return host if isinstance(host, Obstacle) else _unless_of_another(host, machine, behind)


def is_on_a_host(machine: Machine) -> bool:
    """Whether it says that it runs on one, found or not."""
    is_behind = text_in(machine.item.spec, "infrastructureRef", "kind") == "Metal3Machine"
    return is_behind or _named_by(machine.item) is not None


def host_of_node(node: Node | None, namespace: str, cluster: Cluster) -> Unstructured | Obstacle:
    """For a node that has no Machine."""
    name = host_in(node.spec.provider_id) if node is not None else None
    if name is None:
        return Obstacle(NO_HOST, "the node has no Machine, and no provider ID of a host")
    host = _find(name, namespace, cluster)
    if node is not None and not isinstance(host, Obstacle) and (other := other_claimant(host.key, node.name, cluster)):
        return Obstacle(NO_HOST, f"node {other} says too that it runs on BareMetalHost {host.key}")
    return host


def other_claimant(host: str, node: str, cluster: Cluster) -> str:
    """Another node that says that it runs on this host; empty when there is none.

    A kubelet says so by itself, when it registers. Where two say the same, one of them is not to be believed.
    """
    return next(
        (
            other.name
            for other in cluster.nodes.values()
            if host in other.spec.provider_id and other.name != node and host_of(other.spec.provider_id) == host
        ),
        "",
    )


def way_to(host: Unstructured | Obstacle, key: str) -> PowerPath | Obstacle:
    """By an annotation of this key."""
    if isinstance(host, Obstacle):
        return host
    return PowerPath(driver=METAL3, address=host.key, options={METAL3_KEY: key})


def obstacle_of_host(host: Unstructured | Obstacle) -> Obstacle | None:
    """Why the baremetal operator would not do as we ask."""
    if isinstance(host, Obstacle) or not (why := why_untouchable(host)):
        return None
    is_offline = (host.spec or {}).get("online") is not True
    return Obstacle(NOT_ONLINE if is_offline else UNTOUCHABLE, why)


def target_of_host(host: Unstructured) -> Target:
    return Target(kind=HOST, namespace=host.namespace, name=host.name, uid=host.uid)


def host_on(path: PowerPath | None, cluster: Cluster) -> Unstructured | None:
    """The host that a way to the power leads to, as far as we remember; None where it is no host."""
    served = cluster.kinds.get(HOST)
    if path is None or path.driver != METAL3 or not isinstance(served, Served):
        return None
    return cluster.all_of(served.collection, Unstructured).get(path.address)


def is_let_go(path: PowerPath | None, cluster: Cluster) -> bool:
    """Nothing of ours keeps the host off any more."""
    host = host_on(path, cluster)
    return host is not None and path is not None and (path.options or {}).get(METAL3_KEY) not in host.annotations


def stays_off(path: PowerPath | None, cluster: Cluster) -> bool:
    """Somebody else wants the host to be off, or has taken it away: to let it go is all that there is to do."""
    if path is None or path.driver != METAL3 or not are_in_sight((HOST,), cluster):
        return False
    host = host_on(path, cluster)
    if host is None:
        return True
    is_wanted = (host.spec or {}).get("online") is True and host.metadata.deletion_timestamp is None
    return is_let_go(path, cluster) and not is_wanted


def _named_by(item: Unstructured) -> HostName | None:
    return host_in(text_in(item.spec, "providerID")) or host_linked(item.annotations.get(HOST_LINK, ""))


def _metal3_machine(machine: Machine, cluster: Cluster) -> Unstructured | None:
    if text_in(machine.item.spec, "infrastructureRef", "kind") != "Metal3Machine":
        return None
    key = f"{machine.item.namespace}/{text_in(machine.item.spec, 'infrastructureRef', 'name')}"
    return next((item for _, item in items_of(METAL3_MACHINES, cluster) if item.key == key), None)


def _find(name: HostName, namespace: str, cluster: Cluster) -> Unstructured | Obstacle:
    served = cluster.kinds.get(HOST)
    if not isinstance(served, Served):
        return Obstacle(NO_HOST, "BareMetalHosts are not in sight")
    hosts = cluster.all_of(served.collection, Unstructured)
    if not name.name:
        found = next((host for host in hosts.values() if (host.uid, host.namespace) == (name.uid, namespace)), None)
        return found or Obstacle(NO_HOST, f"there is no BareMetalHost with UID {name.uid} in namespace {namespace}")
    if name.namespace != namespace:
        # Whoever may write a Machine in one namespace must not get power over the hosts of another.
        return Obstacle(FOREIGN_HOST, f"BareMetalHost {name.key} is not in namespace {namespace}, so it is not touched")
    host = hosts.get(name.key)
    if host is None:
        return Obstacle(NO_HOST, f"there is no BareMetalHost {name.key}")
    if name.uid not in ("", host.uid):
        return Obstacle(NO_HOST, f"BareMetalHost {name.key} is another one now: its UID is not {name.uid}")
    return host


def _unless_of_another(host: Unstructured, machine: Machine, behind: Unstructured | None) -> Unstructured | Obstacle:
    """A host says by itself whom it serves; where that is somebody else, the Machine is out of date."""
    kind, name = (text_in(host.spec, "consumerRef", field) for field in ("kind", "name"))
    ours = {"Machine": machine.item.name, "Metal3Machine": behind.name if behind is not None else name}
    if name and ours.get(kind, name) != name:
        return Obstacle(NO_HOST, f"BareMetalHost {host.key} serves {kind} {name}, not {machine.target}")
    return host
