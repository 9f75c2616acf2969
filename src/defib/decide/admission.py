"""What can hold back one node, and whose turn it is when not all may be remediated at once.

Nodes are admitted one after the other, the longest unhealthy first, and each admission counts for the next, so that
no budget is overdrawn within a pass. What is in flight is counted from the cluster, so a restart changes nothing.
"""

from collections import Counter
from collections.abc import Callable

from defib.decide.course import Course
from defib.decide.ground import control_plane_out, is_control_plane
from defib.decide.history import began, recent
from defib.decide.quorum import quorum_gate
from defib.decide.upgrade import holding
from defib.decide.view import View, holder
from defib.model import medik8s
from defib.model.duration import say
from defib.model.health_check import Began, Domain, Mode
from defib.model.lock import ends_at, held_by_another
from defib.model.moment import read_moment
from defib.model.node import Node
from defib.model.verdict import Gate

APPROVED_UNTIL = "defib.dev/approved-until"


class Ledger:
    """What is out already, and what this pass adds to it. Lives for one check and one pass."""

    def __init__(self, view: View, control_plane_busy: set[str]) -> None:
        self.view = view
        self.in_flight = {node for node in view.owned if view.remediations(node)} | view.starting
        self.begun = began(view)
        self.control_plane_busy = control_plane_busy
        self._sizes: dict[str, Counter[str]] = {}

    def admit(self, node: Node, *, is_new: bool) -> None:
        self.in_flight.add(node.name)
        if is_new:
            self.begun.append(Began(node=node.name, started=self.view.now))
        if is_control_plane(node):
            self.control_plane_busy.add(node.name)

    def in_domain(self, domain: Domain, value: str) -> int:
        nodes = self.view.ground.cluster.nodes
        return sum(1 for name in self.in_flight if name in nodes and nodes[name].labels.get(domain.label, "") == value)

    def size_of(self, domain: Domain, value: str) -> int:
        """How many selected nodes are in that domain; counted once, when somebody asks."""
        if domain.label not in self._sizes:
            nodes = self.view.ground.cluster.nodes
            self._sizes[domain.label] = Counter(
                nodes[name].labels.get(domain.label, "") for name in self.view.census.selected
            )
        return self._sizes[domain.label][value]


def busy_control_plane(view: View) -> set[str]:
    return set(control_plane_out(view.ground))


def node_gates(node: Node, course: Course, ledger: Ledger, *, is_new: bool) -> tuple[Gate, ...]:
    """Gates for one node; those of the second group only for a node that is not in flight yet."""
    gates = [gate(node, course, ledger) for gate in _ALWAYS]
    if is_new:
        gates += [gate(node, course, ledger) for gate in _ADMISSION]
        gates += [_domain(node, domain, ledger) for domain in ledger.view.check.guards.domains]
    return tuple(gates)


def _excluded(node: Node, _: Course, __: Ledger) -> Gate:
    value = node.labels.get(medik8s.EXCLUDED)
    excluded = value == "true"
    message = f"the node carries the label {medik8s.EXCLUDED}=true" if excluded else "the node is not excluded"
    return Gate(name="Excluded", is_open=not excluded, value=value or "", message=message)


def _lock(node: Node, _: Course, ledger: Ledger) -> Gate:
    view = ledger.view
    lease = view.ground.lock_of(node.name)
    by = held_by_another(lease, holder(view.check), view.now)
    if not by or lease is None:
        return Gate(name="Lock", is_open=True, message="nobody else works on the node")
    ends = ends_at(lease)
    until = f" until {ends:%H:%M:%S} UTC" if ends else ""
    return Gate(name="Lock", is_open=False, value=by, message=f"{by} works on the node and holds its lock{until}")


def _foreign(node: Node, course: Course, ledger: Ledger) -> Gate:
    """A remediation of the same kind that somebody else made for this node: ours would be a second one."""
    ours = ledger.view.check.name
    makes = course.step.template.makes
    found = next(
        (r for r in ledger.view.ground.by_node.get(node.name, ()) if r.kind == makes and r.owner != ours), None
    )
    if found is None:
        return Gate(name="ForeignRemediation", is_open=True, message="nobody else remediates the node")
    whose = f"{medik8s.CHECK_KIND} {found.owner}" if found.owner else "somebody else"
    return Gate(
        name="ForeignRemediation", is_open=False, value=str(found), message=f"{found} of {whose} is there already"
    )


def _control_plane(node: Node, _: Course, ledger: Ledger) -> Gate:
    if not is_control_plane(node):
        return Gate(name="ControlPlane", is_open=True, message="it is not a control-plane node")
    others = sorted(ledger.control_plane_busy - {node.name})
    if others:
        return Gate(
            name="ControlPlane",
            is_open=False,
            value=others[0],
            limit="one at a time",
            message=f"control-plane node {others[0]} is being remediated, and only one may be at a time",
        )
    return Gate(name="ControlPlane", is_open=True, message="no other control-plane node is being remediated")


def _quorum(node: Node, _: Course, ledger: Ledger) -> Gate:
    return quorum_gate(node, ledger.view.ground)


def _approval(node: Node, _: Course, ledger: Ledger) -> Gate:
    if ledger.view.check.mode is not Mode.APPROVE:
        return Gate(name="Approval", is_open=True, message="no approval is needed")
    text = node.annotations.get(APPROVED_UNTIL, "")
    until = read_moment(text)
    if until is not None and ledger.view.now < until:
        return Gate(name="Approval", is_open=True, value=text, message=f"a person has approved it until {text}")
    why = "waits for a person's approval"
    if text:
        why = f"the approval ended at {text}" if until else f"the approval {text!r} is not a time"
    return Gate(name="Approval", is_open=False, value=text, message=f"{why}: defib approve {node.name}")


def _upgrading(node: Node, _: Course, ledger: Ledger) -> Gate:
    view = ledger.view
    signal = holding(view.ground.signals, view.check.name, node.name)
    if signal is None or signal.nodes is None:
        return Gate(name="NodeUpgrade", is_open=True, message="the node is not being upgraded")
    limit = view.ground.rules.upgrade_limit
    trouble = view.unhealthy.get(node.name)
    if trouble is not None and view.now - trouble.unhealthy_at > limit:
        return Gate(
            name="NodeUpgrade", is_open=True, limit=say(limit), message=f"its upgrade is stuck: {signal.message}"
        )
    return Gate(name="NodeUpgrade", is_open=False, value=signal.name, limit=say(limit), message=signal.message)


def _in_flight(_: Node, __: Course, ledger: Ledger) -> Gate:
    amount = ledger.view.check.guards.max_in_flight
    if amount is None:
        return Gate(name="InFlight", is_open=True, message="there is no limit on remediations at once")
    count, limit = len(ledger.in_flight), amount.of(ledger.view.total)
    message = f"{count} nodes are being remediated, at most {limit} may be at once"
    return Gate(name="InFlight", is_open=count < limit, value=str(count), limit=str(limit), message=message)


def _domain(node: Node, domain: Domain, ledger: Ledger) -> Gate:
    value = node.labels.get(domain.label, "")
    count, limit = ledger.in_domain(domain, value), domain.max_in_flight.of(ledger.size_of(domain, value))
    message = f"{count} nodes with {domain.label}={value} are being remediated, at most {limit} may be at once"
    return Gate(name="FailureDomain", is_open=count < limit, value=str(count), limit=str(limit), message=message)


def _rate(_: Node, __: Course, ledger: Ledger) -> Gate:
    rate = ledger.view.check.guards.rate_limit
    if rate is None:
        return Gate(name="RateLimit", is_open=True, message="there is no limit on remediations over time")
    count = recent(ledger.begun, rate, ledger.view.now)
    message = f"{count} nodes were newly remediated within {say(rate.within)}, at most {rate.count} may be"
    return Gate(name="RateLimit", is_open=count < rate.count, value=str(count), limit=str(rate.count), message=message)


def _flapping(node: Node, _: Course, ledger: Ledger) -> Gate:
    rate = ledger.view.check.guards.flap_damping
    if rate is None:
        return Gate(name="Flapping", is_open=True, message="remediations of one node are not counted")
    count = recent((one for one in ledger.begun if one.node == node.name), rate, ledger.view.now)
    message = f"the node was remediated {count} times within {say(rate.within)}, fewer than {rate.count} are allowed"
    return Gate(name="Flapping", is_open=count < rate.count, value=str(count), limit=str(rate.count), message=message)


_Gate = Callable[[Node, Course, Ledger], Gate]
_ALWAYS: tuple[_Gate, ...] = (_excluded, _approval, _lock, _foreign, _control_plane, _quorum)
_ADMISSION: tuple[_Gate, ...] = (_upgrading, _flapping, _in_flight, _rate)
