"""Whoever may create remediations says what they are about, and makes as many as they like."""

from typing import Any

import pytest

from defib.decide.accounts.plan import OPEN_IN_ALL, OPEN_PER_NODE, RUSH
from defib.model import medik8s
from defib.model.account_action import OpenAccount
from defib.model.incident import NAME_MAX, is_object_name
from defib.model.meta import Meta, OwnerReference, Unstructured
from tests.builders import T0, a_node
from tests.unit.decide.accounts.books import Books, an_ill_cluster
from tests.unit.decide.checks import FOO


def by_hand(number: int, node: str = "n1", **annotations: str) -> Unstructured:
    owner = OwnerReference(api_version=medik8s.API_VERSION, kind=medik8s.CHECK_KIND, name="workers", uid="uid-workers")
    meta: dict[str, Any] = {"name": f"by-hand-{number}", "namespace": "ns", "uid": f"{number:08x}-0000"}
    notes = {medik8s.NODE_NAME: node, **annotations}
    return Unstructured(
        api_version=FOO.api_version,
        kind=FOO.name,
        metadata=Meta(**meta, annotations=notes, owner_references=[owner], creation_timestamp=T0),
    )


def a_cluster_with(*made: Unstructured) -> Books:
    books = an_ill_cluster()
    for one in made:
        books.others["foos"][f"ns/{one.name}"] = one
    return books


def opened_now(books: Books) -> list[OpenAccount]:
    """Nobody waits for ever until many of them have been ended."""
    books.decide()
    books.now += RUSH
    return [action for action in books.decide().actions if isinstance(action, OpenAccount)]


@pytest.mark.parametrize(
    "node", ["../../pods", "N1", "n1 n2", "n1\n", "-", "a..b", "n" * (NAME_MAX + 1), "x" * 100_000]
)
def test_there_is_no_account_of_what_cannot_be_a_node(node: str) -> None:
    books = a_cluster_with(by_hand(1, node))
    books.settle()
    assert books.all() == []


def test_one_node_has_only_so_many_open_accounts() -> None:
    books = a_cluster_with(*(by_hand(number) for number in range(50)))
    assert len(opened_now(books)) == OPEN_PER_NODE
    for action in opened_now(books):
        books.carry_out(action)
    assert opened_now(books) == []


def test_there_are_only_so_many_open_accounts_in_all() -> None:
    nodes = [f"w{number}" for number in range(OPEN_IN_ALL // OPEN_PER_NODE + 5)]
    books = a_cluster_with(*(by_hand(n, node) for n, node in enumerate(nodes * OPEN_PER_NODE)))
    books.nodes |= {name: a_node(name) for name in nodes}
    assert len(opened_now(books)) == OPEN_IN_ALL


def test_of_a_node_that_was_never_there_nothing_is_written() -> None:
    assert opened_now(a_cluster_with(by_hand(1, "not-there"))) == []


def test_what_is_too_long_for_an_account_is_cut() -> None:
    books = a_cluster_with(by_hand(1, **{medik8s.TEMPLATE_NAME: "t" * 100_000}))
    books.settle()
    account = books.the_only()
    assert len(account.spec.template) == NAME_MAX
    assert is_object_name(account.name)
