"""How each machine of a check is: healthy, unhealthy, on the way to it, or being taken care of already."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.decide.census import trouble_of
from defib.decide.fencing.machines import Machine, text_in
from defib.decide.ground import is_control_plane
from defib.decide.machine_health.reading import MachineCheck
from defib.decide.upgrade.cluster_api import CLUSTER_NAME, CLUSTER_NAMESPACE
from defib.model.duration import say
from defib.model.machine import PAUSED, SKIPPED
from defib.model.moment import read_moment
from defib.model.node import Node
from defib.model.target import Because

FAILED = "Failed"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`why` says why it is unhealthy, now; `due` is when it will be, if nothing changes.

    `node` is the one that is certainly its own.
    """

    machine: Machine
    node: Node | None = None
    why: str = ""
    because: Because | None = None
    due: datetime | None = None
    care: str = ""  # what is being done about it already

    @property
    def node_name(self) -> str:
        return self.machine.node

    @property
    def is_unhealthy(self) -> bool:
        return bool(self.why)

    @property
    def is_well(self) -> bool:
        """Nothing is wrong with it, whatever is being done."""
        return not self.why and self.due is None and self.node is not None and not self.is_leaving

    @property
    def is_healthy(self) -> bool:
        return self.is_well and not self.care

    @property
    def is_failed(self) -> bool:
        return text_in(self.machine.item.status, "phase") == FAILED

    @property
    def is_leaving(self) -> bool:
        return self.machine.item.metadata.deletion_timestamp is not None

    @property
    def is_paused(self) -> bool:
        return PAUSED in self.machine.item.annotations or SKIPPED in self.machine.item.annotations

    @property
    def is_control_plane(self) -> bool:
        return self.machine.is_master or (self.node is not None and is_control_plane(self.node))


def judge(machine: Machine, check: MachineCheck, nodes: Mapping[str, Node], now: datetime) -> Verdict:
    there = nodes.get(machine.node) if machine.node else None
    node = there if there is not None and _is_its_own(there, machine, check) else None
    verdict = Verdict(machine=machine, node=node)
    if verdict.is_failed:
        return msgspec.structs.replace(verdict, why=f"its phase is {FAILED}")
    if not machine.node:
        return _without_node(verdict, check, now)
    if there is None:
        return msgspec.structs.replace(verdict, why=f"its node {machine.node} is gone")
    return _with_node(verdict, node, check, now) if node is not None else verdict


def is_here(check: MachineCheck, nodes: Mapping[str, Node]) -> bool:
    """Whether the nodes of its machines are in this cluster. Those of Cluster API are often in another one."""
    return not check.is_of_cluster_api or any(_belongs(node, check) for node in nodes.values())


def _is_its_own(node: Node, machine: Machine, check: MachineCheck) -> bool:
    """A cluster that manages others has their machines, whose nodes elsewhere may have the same names as its own."""
    claimed = node.spec.provider_id
    if claimed and machine.provider_id and claimed != machine.provider_id:
        return False
    return not check.is_of_cluster_api or _belongs(node, check)


def _belongs(node: Node, check: MachineCheck) -> bool:
    owner = (node.annotations.get(CLUSTER_NAMESPACE), node.annotations.get(CLUSTER_NAME))
    return owner == (check.item.namespace, check.cluster)


def _without_node(verdict: Verdict, check: MachineCheck, now: datetime) -> Verdict:
    since = read_moment(text_in(verdict.machine.item.status, "lastUpdated"))
    if check.startup is None or since is None:
        return verdict
    if now > since + check.startup:
        return msgspec.structs.replace(verdict, why=f"it has had no node for more than {say(check.startup)}")
    return msgspec.structs.replace(verdict, due=since + check.startup)


def _with_node(verdict: Verdict, node: Node, check: MachineCheck, now: datetime) -> Verdict:
    trouble = trouble_of(node, check.conditions)
    if trouble is None:
        return verdict
    if now <= trouble.unhealthy_at:
        return msgspec.structs.replace(verdict, due=trouble.unhealthy_at)
    because = trouble.because
    why = f"{because.type} of its node {node.name} is {because.status} for too long"
    return msgspec.structs.replace(verdict, why=why, because=because)
