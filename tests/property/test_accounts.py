"""Every remediation that a check began has one account, never two; each is closed once; and only so many stay."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.accounts.history import KEPT_IN_ALL, KEPT_PER_NODE
from defib.decide.accounts.plan import SEEN_WITHIN
from defib.decide.plan import Plan
from defib.model.action import Action
from defib.model.incident import GATES_MAX, TIMELINE_MAX, NodeIncident
from tests.builders import MINUTE
from tests.property.worlds import ANY_DEEDS, TEMPLATES, Deed, live, worlds
from tests.unit.decide.accounts.books import Books, an_ill_cluster
from tests.unit.decide.world import World

NODES = ("n1", "n2", "n3")


def with_accounts(world: World) -> Books:
    return Books(
        list(world.checks.values()),
        list(world.nodes.values()),
        templates=TEMPLATES,
        rules=world.rules,
        finalizers=world.finalizers,
    )


def begun(books: Books) -> set[str]:
    """UIDs of the remediations that are there and that a check made."""
    items = (item for collection in ("foos", "bars") for item in books.remediations(collection).values())
    return {item.uid for item in items if item.metadata.owner_references}


def rest(books: Books) -> None:
    """Everything is in sight, and there is time for whatever is left to be written."""
    books.extra, books.underway = {}, []
    for _ in range(8):
        books.step()
        books.now += SEEN_WITHIN
    for _ in range(4):  # what began in the last moment is written down in the next pass
        books.step()


def wrong_with(accounts: list[NodeIncident]) -> Iterator[str]:
    for account in accounts:
        timeline = account.status.timeline or []
        moments = [entry.at for entry in timeline]
        if moments != sorted(moments):
            yield f"{account.name} is not in the order of time"
        if len(timeline) > TIMELINE_MAX or len(account.spec.gates or ()) > GATES_MAX:
            yield f"{account.name} is too long"
        ends = [entry for entry in timeline if entry.phase == "Closed"]
        if len(ends) != (0 if account.is_open else 1):
            yield f"{account.name} ends {len(ends)} times"
        if not account.is_open and not (account.status.outcome and account.status.took):
            yield f"{account.name} does not say how it ended"


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_whatever_happens_there_is_never_a_second_account_and_each_is_closed_once(
    world: World, happenings: list[Deed]
) -> None:
    books = with_accounts(world)
    for _ in live(books, happenings):
        assert max(Counter(books.opened).values(), default=0) <= 1
        assert max(Counter(books.closed).values(), default=0) <= 1
        assert set(books.closed) <= set(books.opened)
        assert list(wrong_with(books.all())) == []


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_in_the_end_what_is_there_has_an_open_account_and_what_is_gone_has_none(
    world: World, happenings: list[Deed]
) -> None:
    books = with_accounts(world)
    for _ in live(books, happenings):
        pass
    rest(books)
    kept = [account.spec.cause.uid for account in books.all() if account.is_open]
    assert sorted(kept) == sorted(begun(books))
    closed = Counter(account.spec.node for account in books.all() if not account.is_open)
    assert max(closed.values(), default=0) <= KEPT_PER_NODE
    assert closed.total() <= KEPT_IN_ALL


def test_however_often_a_node_fails_only_the_latest_few_accounts_stay() -> None:
    books = an_ill_cluster("n1")
    for _ in range(3 * KEPT_PER_NODE):
        books.wait(10 * MINUTE)
        books.turn("n1", "True")
        books.wait(MINUTE)
        books.turn("n1", "Unknown")
    ends = [account.status.closed_at for account in books.all() if account.status.closed_at is not None]
    assert len(ends) == KEPT_PER_NODE
    assert min(ends) > books.now - timedelta(hours=1, minutes=10)
    assert len(books.opened) == 3 * KEPT_PER_NODE


class Mortal(Books):
    """The replica dies after so many writes of its own, and another one goes on that remembers nothing."""

    deaths: tuple[int, ...] = ()
    writes = 0

    def step(self, only: Callable[[Action], bool] = lambda _: True) -> Plan:
        """It may end in the middle."""
        plan = self.decide()
        for action in filter(only, plan.actions):
            self.carry_out(action)
            self.writes += 1
            if self.writes in self.deaths:
                self.forget()
                break
        return plan


def end_of(story: Books) -> list[tuple[str, str, str]]:
    for node in NODES:
        story.turn(node, "True")
    for _ in range(12):
        story.step()
        story.now += SEEN_WITHIN
    return sorted((one.spec.node, one.status.phase.value, one.status.outcome) for one in story.all())


def told(story: Books) -> list[tuple[str, str, str]]:
    for _ in range(6):
        story.step()
        story.now += SEEN_WITHIN
    return end_of(story)


@settings(max_examples=50, deadline=None)
@given(deaths=st.lists(st.integers(1, 60), max_size=6))
def test_a_crash_between_any_two_writes_leads_to_the_same_end(deaths: list[int]) -> None:
    calm, mortal = an_ill_cluster(*NODES), a_mortal(*deaths)
    assert told(mortal) == told(calm) == [(node, "Closed", "Recovered") for node in NODES]
    assert len(mortal.opened) == len(mortal.closed) == len(NODES)


def a_mortal(*deaths: int) -> Mortal:
    calm = an_ill_cluster(*NODES)
    mortal = Mortal(list(calm.checks.values()), list(calm.nodes.values()))
    mortal.deaths = tuple(deaths)
    return mortal


def test_every_write_is_a_place_to_die() -> None:
    calm = a_mortal()
    told(calm)
    for write in range(1, calm.writes + 1):
        assert told(a_mortal(write)) == [(node, "Closed", "Recovered") for node in NODES], write
