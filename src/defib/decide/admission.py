"""What can hold back one node, and whose turn it is when not all may be remediated at once.

Nodes are admitted one after the other, the longest unhealthy first, and each admission counts for the next, so that
no budget is overdrawn within a pass. What is in flight is counted from the cluster, so a restart changes nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime

from defib.decide.course import Course
from defib.decide.ground import Ground, control_plane_out, is_control_plane
from defib.decide.history import Tally, began, fewer_at
from defib.decide.quorum import quorum_gate
from defib.decide.rejection import rejection_of
from defib.decide.rules import INSTANT
from defib.decide.upgrade import holding
from defib.decide.view import View, holder
from defib.model import medik8s
from defib.model.duration import say
from defib.model.health_check import Domain, Mode, Rate
from defib.model.lock import ends_at, held_by_another
from defib.model.moment import read_moment
from defib.model.node import Node
from defib.model.verdict import Gate

APPROVED_UNTIL = "defib.dev/approved-until"
APPROVED_BY = "defib.dev/approved-by"  # beside it, for whoever reads later who it was; nothing is decided by it


class Taken:
    """What the checks have taken together. It lives for one pass, and grows as they admit nodes."""

    def __init__(self, ground: Ground) -> None:
        self.control_plane = set(control_plane_out(ground))
        self.by_check = {node: check for check, nodes in ground.starting.items() for node in nodes}


class Ledger:
    """What is out already, and what this pass adds to it. Lives for one check and one pass."""

    def __init__(self, view: View, taken: Taken) -> None:
        self.view = view
        seen = {node for node in view.owned if view.remediations(node)} | view.starting
        # Perhaps there is one for these, and nobody has seen it yet: that counts for others, not for themselves.
        self.unsure = view.ground.unsure.get(view.check.name, frozenset()) - seen
        self.in_flight = seen | self.unsure
        self._drained = view.ground.forced & view.census.selected - self.in_flight
        self.begun = Tally(began(view))
        self.taken = taken
        self._sizes: dict[str, Counter[str]] = {}
        self._busy: dict[str, Counter[str]] = {}

    def admit(self, node: Node, *, is_new: bool) -> None:
        self.unsure -= {node.name}
        if node.name not in self.in_flight:
            self.in_flight.add(node.name)
            for label, busy in self._busy.items():
                busy[node.labels.get(label, "")] += node.name not in self._drained
        self.taken.by_check[node.name] = self.view.check.name
        if is_new:
            self.begun.add(node.name, self.view.now)
        if is_control_plane(node):
            self.taken.control_plane.add(node.name)

    def has_place(self, node: Node) -> bool:
        return node.name in self.in_flight and node.name not in self.unsure

    def others(self, node: Node) -> int:
        """How many are in flight, or being drained by force, besides a node that has no place yet."""
        drained = self._drained - self.in_flight - {node.name}
        return len(self.in_flight) - (node.name in self.unsure) + len(drained)

    def others_in(self, domain: Domain, node: Node) -> int:
        """The same, of its domain."""
        if domain.label not in self._busy:
            self._busy[domain.label] = self._by_value(domain.label, self.in_flight | self._drained)
        is_counted = node.name in self.unsure or node.name in self._drained
        return self._busy[domain.label][node.labels.get(domain.label, "")] - is_counted

    def size_of(self, domain: Domain, value: str) -> int:
        """How many selected nodes are in that domain; counted once, when somebody asks."""
        if domain.label not in self._sizes:
            self._sizes[domain.label] = self._by_value(domain.label, self.view.census.selected)
        return self._sizes[domain.label][value]

    def _by_value(self, label: str, names: Iterable[str]) -> Counter[str]:
        nodes = self.view.ground.cluster.nodes
        return Counter(nodes[name].labels.get(label, "") for name in names if name in nodes)


def node_gates(node: Node, course: Course, ledger: Ledger, *, is_new: bool) -> tuple[Gate, ...]:
    """Gates for one node. A node that was admitted need not be again; but a place it must have, or get."""
    gates = [gate(node, course, ledger) for gate in _ALWAYS]
    if is_new:
        gates += [gate(node, course, ledger) for gate in _ADMISSION]
    if not ledger.has_place(node):
        gates.append(_in_flight(node, ledger))
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
    first = ledger.taken.by_check.get(node.name, view.check.name)
    if not by and first != view.check.name:
        by = medik8s.holder_of(first)
        return Gate(name="Lock", is_open=False, value=by, message=f"{by} is about to work on the node")
    if not by or lease is None:
        return Gate(name="Lock", is_open=True, message="nobody else works on the node")
    ends = ends_at(lease)
    assert ends is not None, "what does not end is held by nobody"
    message = f"{by} works on the node and holds its lock until {ends:%H:%M:%S} UTC"
    return Gate(name="Lock", is_open=False, value=by, message=message, opens_at=ends + INSTANT)


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
    others = sorted(ledger.taken.control_plane - {node.name})
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
    no = rejection_of(node.annotations)
    if no is not None and no.holds(ledger.view.now):
        return Gate(name="Approval", is_open=False, value="rejected", message=f"{no.said}: defib approve {node.name}")
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
    stuck_after = view.unhealthy[node.name].unhealthy_at + limit
    if view.now > stuck_after:
        return Gate(
            name="NodeUpgrade", is_open=True, limit=say(limit), message=f"its upgrade is stuck: {signal.message}"
        )
    return Gate(
        name="NodeUpgrade",
        is_open=False,
        value=signal.name,
        limit=say(limit),
        message=signal.message,
        opens_at=min(stuck_after + INSTANT, signal.until or stuck_after + INSTANT),
    )


def _in_flight(node: Node, ledger: Ledger) -> Gate:
    amount = ledger.view.check.guards.max_in_flight
    if amount is None:
        return Gate(name="InFlight", is_open=True, message="there is no limit on remediations at once")
    return in_flight_gate(ledger.others(node), amount.of(ledger.view.total))


def in_flight_gate(count: int, limit: int) -> Gate:
    message = f"{_more(is_open=count < limit)} may be remediated: at most {limit} at once"
    return Gate(name="InFlight", is_open=count < limit, value=str(count), limit=str(limit), message=message)


def _more(*, is_open: bool) -> str:
    """How sentences about limits begin. The count is not in them: with it, the status would change all the time."""
    return "one more node" if is_open else "no more nodes"


def _domain(node: Node, domain: Domain, ledger: Ledger) -> Gate:
    value = node.labels.get(domain.label, "")
    count, limit = ledger.others_in(domain, node), domain.max_in_flight.of(ledger.size_of(domain, value))
    message = f"{_more(is_open=count < limit)} with {domain.label}={value} may be remediated: at most {limit} at once"
    return Gate(name="FailureDomain", is_open=count < limit, value=str(count), limit=str(limit), message=message)


def _rate(_: Node, __: Course, ledger: Ledger) -> Gate:
    rate = ledger.view.check.guards.rate_limit
    if rate is None:
        return Gate(name="RateLimit", is_open=True, message="there is no limit on remediations over time")
    return rate_gate(ledger.begun.recent(rate, ledger.view.now), rate)


def rate_gate(counted: list[datetime], rate: Rate) -> Gate:
    """`counted` are the moments at which remediations began, those that count, oldest first."""
    more = _more(is_open=len(counted) < rate.count)
    message = f"{more} may be newly remediated: at most {rate.count} within {say(rate.within)}"
    return _counting("RateLimit", counted, rate, message)


def _flapping(node: Node, _: Course, ledger: Ledger) -> Gate:
    rate = ledger.view.check.guards.flap_damping
    if rate is None:
        return Gate(name="Flapping", is_open=True, message="remediations of one node are not counted")
    counted = ledger.begun.recent_of(node.name, rate, ledger.view.now)
    may = "may" if len(counted) < rate.count else "may not"
    message = f"the node {may} be remediated once more: at most {rate.count} times within {say(rate.within)}"
    return _counting("Flapping", counted, rate, message)


def _counting(name: str, counted: list[datetime], rate: Rate, message: str) -> Gate:
    opens_at = fewer_at(counted, rate)
    return Gate(
        name=name,
        is_open=opens_at is None,
        value=str(len(counted)),
        limit=str(rate.count),
        message=message,
        opens_at=opens_at,
    )


_Gate = Callable[[Node, Course, Ledger], Gate]
_ALWAYS: tuple[_Gate, ...] = (_excluded, _approval, _lock, _foreign, _control_plane, _quorum)
_ADMISSION: tuple[_Gate, ...] = (_upgrading, _flapping, _rate)
