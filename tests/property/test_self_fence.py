"""No node that the operator counts as dead is alive, whatever the network does, and links in one direction only.

Agents that have no word live only if more than half of the domains are cut off; the operator believes in a death only if at
least half of them are heard. Both are tried here: all networks of five nodes as they stand, and some as they change.
"""

from collections import Counter
from collections.abc import Collection
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.self_fence.heard import Meant, Witness, enough_heard
from defib.decide.self_fence.memory import Place
from defib.decide.self_fence.verdict import Peer, Reason, Round, Says, Sight, judge
from defib.model.self_fence import Report
from tests.property.self_fence_model import API, LONG_AGO, PACE, WATCHDOG_SECONDS, Agent, Link, World

NODES = ("n1", "n2", "n3", "n4", "n5")
SPLITS = ("abccc", "aaaaa", "aaabb", "aabbb", "abbbb", "aabbc", "abbcc", "abbbc")
LIVES_WITHOUT_WORD = (Reason.RELAYED, Reason.NOBODY_REACHES)


PACES = pytest.mark.parametrize(
    "slow", [(), NODES, ("n1",), NODES[1:], ("n2", "n4")], ids=lambda slow: f"slow {' '.join(slow)}"
)


def worlds(split: str, slow: Collection[str] = ()) -> World:
    """Some agents ask much less often than others."""
    return World(dict(zip(NODES, split, strict=True)), doomed="n1", slow=slow)


@pytest.mark.parametrize("split", SPLITS)
def test_in_no_standing_network_of_five_nodes_an_agent_lives_that_is_counted_as_dead(split: str) -> None:
    """`reach`: which nodes have both directions to the API server. Those with one only are as good as cut off to both halves."""
    peers = tuple(Peer(node, domain) for node, domain in zip(NODES, split, strict=True))
    reports = {peer.node: Agent(Place(me=peer)) for peer in peers}
    meant = Meant(
        node="n1",
        known=Counter(split),
        lives_seconds=20,
        safe_seconds=30,
        ordered_seconds=60,
        answered_seconds=0,
        interval_seconds=2,
    )
    lived = counted = 0
    for reach, talks in product(product((False, True), repeat=4), product((False, True), repeat=4)):
        words = {
            node: Says.ORDER if reached else Says.CUT_OFF
            for node, reached, talk in zip(NODES[1:], reach, talks, strict=True)
            if talk
        }
        sight = Sight(
            now=12,
            own_at=0,
            word_at=0,
            is_ordered=False,
            me=peers[0],
            peers=peers[1:],
            round=Round(began_at=12, words=words),
        )
        witnesses = [
            Witness(
                node=peer.node,
                domain=peer.domain,
                report=_steady(reports[peer.node]) if heard else None,
                silent_seconds=1,
                known_seconds=LONG_AGO,
            )
            for peer, heard in zip(peers, (False, *reach), strict=True)
        ]
        lives = judge(sight, PACE).reason in LIVES_WITHOUT_WORD
        is_counted = enough_heard(witnesses, meant).enough
        assert not (lives and is_counted), (split, reach, talks)
        lived, counted = lived + lives, counted + is_counted
    assert counted, "the operator never believed anything: the claim would be empty"
    assert lived, "no agent ever lived without word: the claim would be empty"


def _steady(agent: Agent) -> Report:
    """A report of one that was never cut off."""
    return msgspec.structs.replace(agent.report(0), steady_seconds=1000.0)


ENDS = (*NODES, API)
LINKS = [(one, other) for one in ENDS for other in ENDS if one != other]
CUTS = st.one_of(
    st.frozensets(st.sampled_from(LINKS), max_size=len(LINKS)),
    # Two sides that do not hear each other, which chance alone hardly ever makes.
    st.frozensets(st.sampled_from(ENDS), max_size=len(ENDS)).map(
        lambda side: frozenset(link for link in LINKS if (link[0] in side) != (link[1] in side))
    ),
    st.sampled_from(NODES).map(lambda node: frozenset(link for link in LINKS if node in link)),
    st.frozensets(st.sampled_from(NODES)).map(lambda nodes: frozenset((API, node) for node in nodes)),
)


def cut_between(some: set[str], others: set[str]) -> frozenset[Link]:
    return frozenset(link for link in LINKS if set(link) & some and set(link) & others)


LATE = st.sampled_from([0, 0, 0, 1])  # less than two request timeouts: what is later was dropped by the kernel
# Whose Lease somebody deletes. That of the node that is meant takes its order along, and then nobody counts it as dead.
DELETED = st.sampled_from([None, None, *NODES[1:]])
TIMES = st.lists(st.tuples(st.integers(1, 45), CUTS, LATE, DELETED), min_size=1, max_size=5)
Times = list[tuple[int, frozenset[Link], int, str | None]]


@pytest.mark.timeout(120)
@given(split=st.sampled_from(SPLITS), slow=st.frozensets(st.sampled_from(NODES)), before=TIMES, after=TIMES)
@settings(max_examples=250, deadline=None)
def test_on_no_changing_network_a_node_lives_that_is_counted_as_dead(
    split: str, slow: frozenset[str], before: Times, after: Times
) -> None:
    world = worlds(split, slow)
    world.pass_seconds(60, frozenset())
    for seconds, down, late, deleted in before:
        world.delete_lease(deleted)
        world.pass_seconds(seconds, down, late)
    world.order()
    for seconds, down, late, deleted in after:
        world.delete_lease(deleted)
        world.pass_seconds(seconds, down, late)  # the operator looks in each second, and the world asserts
    world.pass_seconds(2 * int(world.safe_seconds), frozenset())
    assert world.ordered_at is not None


def test_a_lease_that_is_deleted_meanwhile_does_not_make_a_minority_enough() -> None:
    """Two of three domains are cut off and tell each other so; the Lease of the other one of them is gone."""
    world = worlds("abccc")
    world.pass_seconds(60, frozenset())
    world.order()
    side = {"n1", "n2"}
    cut = frozenset(link for link in LINKS if (link[0] in side) != (link[1] in side))
    world.pass_seconds(5, cut)
    world.delete_lease("n2")
    world.pass_seconds(3 * int(world.safe_seconds), cut)
    assert world.agents["n1"].is_alive(world.now)
    assert not world.was_counted_as_dead


@pytest.mark.parametrize("seconds", range(1, 9))
def test_an_agent_that_comes_just_before_a_cut_is_counted_by_both_sides_or_by_none(seconds: int) -> None:
    """The node may have listed it and not have reported that any more: then nobody but the node itself knows of a third domain."""
    world = worlds("abccc")
    world.pass_seconds(60, frozenset())
    world.delete_lease("n2")
    world.pass_seconds(10, frozenset(link for link in LINKS if set(link) == {"n2", API}))
    world.pass_seconds(seconds, frozenset())
    world.order()
    side = {"n1", "n2"}
    cut = frozenset(link for link in LINKS if (link[0] in side) != (link[1] in side))
    world.pass_seconds(3 * int(world.safe_seconds), cut)  # the operator looks in each second, and the world asserts
    assert world.agents["n1"].is_alive(world.now) is not world.was_counted_as_dead


@pytest.mark.parametrize(("before", "lasts"), list(product(range(60, 64), range(1, 16))))
def test_a_report_that_was_sent_before_its_sender_said_that_it_is_cut_off_says_nothing_of_later(
    before: int, lasts: int
) -> None:
    """It arrives a second later, when the node that lives by that word would have been dead without it."""
    world = World({"n2": "b", "n1": "a"}, doomed="n1")
    world.pass_seconds(before, frozenset())
    world.order()
    world.pass_seconds(lasts, cut_between({"n1"}, {"n2", API}))
    answers_are_lost = cut_between({"n1"}, {API}) | {(API, "n2")}
    world.pass_seconds(2, answers_are_lost, late=1)
    world.pass_seconds(40, answers_are_lost)  # the operator looks in each second, and the world asserts
    assert not (world.was_counted_as_dead and world.agents["n1"].is_alive(world.now))


@pytest.mark.parametrize(
    ("between", "lives", "counted"), [(1, True, False), (8, True, False), (13, False, False), (20, False, True)]
)
def test_two_domains_that_are_heard_at_different_times_are_not_heard_together(
    between: int, lives: bool, counted: bool
) -> None:
    """The node lives by the word of one of them, and then by that of the other: at each moment one of them was cut off."""
    world = World({"n1": "a", "n2": "b", "n3": "c"}, doomed="n1")
    world.pass_seconds(60, frozenset())
    world.order()
    alone = cut_between({"n1"}, {API})
    world.pass_seconds(60, alone | cut_between({"n2"}, {API}) | cut_between({"n1"}, {"n3"}))
    world.pass_seconds(between, cut_between({"n1"}, {"n2", "n3", API}))
    world.pass_seconds(60, alone | cut_between({"n3"}, {API}) | cut_between({"n1"}, {"n2"}))
    assert (world.agents["n1"].is_alive(world.now), world.was_counted_as_dead) == (lives, counted)


@PACES
@pytest.mark.parametrize("split", SPLITS)
def test_an_isolated_node_is_counted_as_dead_as_soon_as_the_others_report_after_its_time(
    split: str, slow: tuple[str, ...]
) -> None:
    world = worlds(split, slow)
    world.pass_seconds(100, frozenset())
    world.order()
    slowest = max(agent.pace.recent_seconds + agent.pace.late_seconds for agent in world.agents.values())
    world.pass_seconds(int(world.safe_seconds + slowest) + 1, frozenset(link for link in LINKS if "n1" in link))
    # Alone in its domain, or with one other of two domains, it takes half of the domains along; the rest is heard.
    assert world.was_counted_as_dead
    assert [node for node, agent in world.agents.items() if not agent.is_alive(world.now)] == ["n1"]


@PACES
@pytest.mark.parametrize("split", SPLITS)
def test_when_the_api_server_is_down_for_all_nobody_dies(split: str, slow: tuple[str, ...]) -> None:
    """Not those either who notice it long before the others do."""
    world = worlds(split, slow)
    world.pass_seconds(60, frozenset())
    world.pass_seconds(200, frozenset((API, node) for node in NODES))
    assert all(agent.is_alive(world.now) for agent in world.agents.values())
    assert not world.was_counted_as_dead


@PACES
def test_of_two_halves_the_one_without_the_api_server_dies(slow: tuple[str, ...]) -> None:
    world = worlds("aaabb", slow)
    world.pass_seconds(60, frozenset())
    side = {"n4", "n5"}
    world.pass_seconds(60, frozenset(link for link in LINKS if (link[0] in side) != (link[1] in side)))
    assert {node for node, agent in world.agents.items() if not agent.is_alive(world.now)} == side


@PACES
def test_a_node_whose_answers_are_lost_lives_by_the_word_of_its_peers(slow: tuple[str, ...]) -> None:
    world = worlds("aaabb", slow)
    world.pass_seconds(60, frozenset())
    world.pass_seconds(200, frozenset({(API, "n1")}))
    assert world.agents["n1"].is_alive(world.now)


@PACES
def test_a_node_whose_answers_are_lost_hears_of_its_order_from_its_peers(slow: tuple[str, ...]) -> None:
    world = worlds("aaabb", slow)
    world.pass_seconds(60, frozenset())
    world.pass_seconds(60, frozenset({(API, "n1")}))
    world.order()
    fresh = world.agents["n1"].pace.fresh_seconds
    world.pass_seconds(int(fresh) + WATCHDOG_SECONDS + 1, frozenset({(API, "n1")}))
    assert not world.agents["n1"].is_alive(world.now)
