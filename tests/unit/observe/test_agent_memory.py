"""What is certain of agents after one list of them, and the next. Moments are seconds of the monotonic clock."""

import math

import msgspec

from defib.model.agents import AgentSeen, AgentsListed
from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec
from defib.model.self_fence import ORDER, REPORT, Order, lease_name, text_of
from defib.observe.agent_memory import AgentMemory
from tests.builders import SECOND, T0
from tests.unit.decide.self_fence.test_safe_time import REPORTED

DIES = text_of(Order(remediation="r", boot_id="b-1"))


def a_lease(*, renewed: int = 0, order: str = "", uid: str = "l-1") -> Lease:
    annotations = {REPORT: text_of(REPORTED)} | ({ORDER: order} if order else {})
    meta = Meta(name=lease_name("n1"), uid=uid, annotations=annotations, creation_timestamp=T0 - 100 * SECOND)
    return Lease(metadata=meta, spec=LeaseSpec(renew_time=T0 + renewed * SECOND))


def listed(at: float, *leases: Lease) -> AgentsListed:
    """Asked at that moment, and answered a second later."""
    return AgentsListed(at=T0 + at * SECOND, asked=at, answered=at + 1, leases=leases)


def n1(memory: AgentMemory, now: float) -> AgentSeen:
    seen = memory.seen(T0 + now * SECOND, now)
    assert seen is not None
    return seen.by_node["n1"]


def test_nobody_is_heard_before_a_renewal_was_seen() -> None:
    memory = AgentMemory()
    assert memory.seen(T0, 0) is None
    memory.heard(listed(0, a_lease()))
    assert n1(memory, 2).silent_seconds == math.inf
    assert (n1(memory, 2).report, n1(memory, 2).known_seconds) == (REPORTED, 102)
    assert n1(memory, 2).renewed_seconds == 2, "as it says itself: we were not there"


def test_a_renewal_came_between_two_lists() -> None:
    memory = AgentMemory()
    memory.heard(listed(0, a_lease()))
    memory.heard(listed(10, a_lease(renewed=5)))
    assert (n1(memory, 12).silent_seconds, n1(memory, 12).quiet_seconds) == (12, 0)
    memory.heard(listed(20, a_lease(renewed=5)))
    assert (n1(memory, 25).silent_seconds, n1(memory, 25).quiet_seconds) == (25, 9)
    assert n1(memory, 25).renewed_seconds == 25


def test_an_order_counts_from_the_first_list_that_shows_it_to_the_last() -> None:
    memory = AgentMemory()
    memory.heard(listed(0, a_lease()))
    for at in (10, 20, 30):
        memory.heard(listed(at, a_lease(order=DIES)))
    assert n1(memory, 99).ordered_seconds == 30 - 11


def test_an_order_that_was_away_counts_anew() -> None:
    memory = AgentMemory()
    for at, lease in ((0, a_lease(order=DIES)), (10, a_lease()), (20, a_lease(order=DIES)), (30, a_lease(order=DIES))):
        memory.heard(listed(at, lease))
    assert n1(memory, 30).ordered_seconds == 30 - 21


def test_an_order_in_another_lease_of_that_name_counts_anew() -> None:
    memory = AgentMemory()
    for at, uid in ((0, "l-1"), (10, "l-2"), (20, "l-2")):
        memory.heard(listed(at, a_lease(order=DIES, uid=uid)))
    assert n1(memory, 20).ordered_seconds == 20 - 11


def test_who_is_no_longer_listed_is_forgotten_and_so_are_all_when_nobody_asks() -> None:
    memory = AgentMemory()
    memory.heard(listed(0, a_lease(), msgspec.structs.replace(a_lease(), metadata=Meta(name=lease_name("n2")))))
    memory.heard(listed(10, a_lease()))
    seen = memory.seen(T0, 11)
    assert seen is not None
    assert set(seen.by_node) == {"n1"}
    memory.forget()
    assert memory.seen(T0, 12) is None
