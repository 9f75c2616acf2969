"""Closed accounts stay to be read, but not for ever, and open ones are never dropped."""

from datetime import datetime

from defib.decide.accounts.history import DROPPED_AT_ONCE, KEPT_IN_ALL, KEPT_PER_NODE, drops, surplus
from defib.model.incident import Cause, IncidentSpec, IncidentStatus, NodeIncident, Phase, account_name
from defib.model.meta import Meta
from tests.builders import MINUTE, T0


def an_account(node: str, number: int, *, closed: datetime | None = T0) -> NodeIncident:
    uid = f"{number:08x}-0000"
    status = IncidentStatus(phase=Phase.CLOSED, closed_at=closed) if closed is not None else IncidentStatus()
    meta = Meta(name=account_name(node, uid), uid=f"account-{uid}", resource_version=str(number))
    return NodeIncident(metadata=meta, spec=IncidentSpec(node=node, cause=Cause(uid=uid)), status=status)


def test_of_one_node_the_latest_few_stay() -> None:
    accounts = [an_account("n1", number, closed=T0 + number * MINUTE) for number in range(KEPT_PER_NODE + 2)]
    assert surplus(accounts) == (accounts[0], accounts[1])
    assert surplus(accounts[2:]) == ()


def test_in_all_there_are_only_so_many_and_the_oldest_goes_first() -> None:
    accounts = [an_account(f"n{number}", number, closed=T0 + number * MINUTE) for number in range(KEPT_IN_ALL + 3)]
    assert surplus(accounts) == tuple(accounts[:3])


def test_an_open_one_stays_whatever_comes() -> None:
    accounts = [an_account("n1", number, closed=None) for number in range(KEPT_PER_NODE + 5)]
    assert surplus(accounts) == ()


def test_one_without_a_time_counts_as_old() -> None:
    unknown = an_account("n1", 99)
    unknown = NodeIncident(metadata=unknown.metadata, spec=unknown.spec, status=IncidentStatus(phase=Phase.CLOSED))
    accounts = [unknown, *(an_account("n1", number, closed=T0) for number in range(KEPT_PER_NODE))]
    assert surplus(accounts) == (unknown,)


def test_they_go_a_few_at_a_time_and_only_as_they_were_seen() -> None:
    accounts = [an_account("n1", number, closed=T0 + number * MINUTE) for number in range(100)]
    gone = drops(surplus(accounts))
    assert len(gone) == DROPPED_AT_ONCE
    assert (gone[0].account.name, gone[0].account.uid, gone[0].version) == (accounts[0].name, accounts[0].uid, "0")
