"""Our own writes are seen at once and never lost again, however answers, watch events and lists overtake each other.

The server here is a history of versions. What it owes us are the answers to our own writes, in any order; the events of
the watch, in order, from where the watch was opened; and at most one list, as it was when it was asked for.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from defib.kube.decode import Event
from defib.kube.kinds import NODES
from defib.model.node import Node
from defib.observe.shelf import Contents, Shelf
from tests.builders import T0, a_node

names = st.sampled_from("abc")


class Overtaking(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.history: list[Event[Node]] = []
        self.server: dict[str, Node] = {}
        self.answers: list[Node] = []
        self.told = 0  # so many events of the history the watch has delivered
        self.list: tuple[dict[str, Node], int] | None = None
        self.promised: dict[str, int] = {}  # noted and not yet confirmed: at least this version must be seen
        self.shelf = Shelf(NODES, since=T0)

    @initialize()
    def begin(self) -> None:
        self.shelf.replace(Contents(), "0")

    # What the server does

    def write(self, name: str) -> Node:
        before = self.server.get(name)
        node = a_node(name, version=len(self.history) + 1, uid=before.uid if before else f"uid-{len(self.history)}")
        self.history.append(Event("MODIFIED" if before else "ADDED", node))
        self.server[name] = node
        return node

    @rule(name=names)
    def somebody_writes(self, name: str) -> None:
        self.write(name)

    @rule(name=names)
    def we_write(self, name: str) -> None:
        self.answers.append(self.write(name))

    @precondition(lambda self: self.server)
    @rule(data=st.data())
    def somebody_deletes(self, data: st.DataObject) -> None:
        last = self.server.pop(data.draw(st.sampled_from(sorted(self.server))))
        self.history.append(Event("DELETED", a_node(last.name, version=len(self.history) + 1, uid=last.uid)))

    # What reaches us

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def an_answer_comes(self, data: st.DataObject) -> None:
        node = self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1)))
        resume, before = self.shelf.version, seen(self.shelf, node.name)
        if self.shelf.note(node):
            assert version(node) > before
            self.promised[node.name] = version(node)
        assert self.shelf.version == resume, "the watch would skip what it has not told yet"

    @precondition(lambda self: self.list is None and self.told < len(self.history))
    @rule(count=st.integers(1, 3))
    def the_watch_tells(self, count: int) -> None:
        self.tell(self.history[self.told : self.told + count])

    def tell(self, events: list[Event[Node]]) -> None:
        self.shelf.apply(events)
        self.told += len(events)
        self.confirm(self.told)

    @precondition(lambda self: self.list is None)
    @rule()
    def a_list_is_asked_for(self) -> None:
        self.list = dict(self.server), len(self.history)
        self.shelf.version = ""

    @precondition(lambda self: self.list is not None)
    @rule()
    def the_list_comes(self) -> None:
        assert self.list is not None
        (objects, self.told), self.list = self.list, None
        self.shelf.replace(Contents(dict(objects)), str(self.told))
        self.confirm(self.told)

    def confirm(self, up_to: int) -> None:
        self.promised = {name: promised for name, promised in self.promised.items() if promised > up_to}

    @invariant()
    def nothing_that_we_wrote_is_lost_before_the_server_has_told_it(self) -> None:
        assert all(seen(self.shelf, name) >= promised for name, promised in self.promised.items())

    def teardown(self) -> None:
        """Everything that is owed arrives; the answers last, when they are old."""
        if self.list is not None:
            self.the_list_comes()
        self.tell(self.history[self.told :])
        assert dict(self.shelf.objects) == self.server
        assert not any(self.shelf.note(node) for node in self.answers), "an old answer is no news"
        assert dict(self.shelf.objects) == self.server


def version(node: Node) -> int:
    return int(node.metadata.resource_version)


def seen(shelf: Shelf[Node], name: str) -> int:
    node = shelf.objects.get(name)
    return version(node) if node else 0


def test_whatever_overtakes_what_our_writes_are_seen_and_the_end_is_the_truth() -> None:
    run_state_machine_as_test(Overtaking, settings=settings(max_examples=300, stateful_step_count=40, deadline=None))
