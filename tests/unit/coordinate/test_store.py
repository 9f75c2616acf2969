"""Settings that name no usable store are told at the start, with what to do."""

import sys

import pytest

from defib.app import StartFailed
from defib.clock import SystemClock
from defib.config import Settings
from defib.coordinate.election import Candidate
from defib.coordinate.outside import Outside
from defib.coordinate.store import NoStore, Store
from defib.replica import election_of

ME = Candidate("a")


def nothing() -> None:
    """Nobody listens."""


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (None, "needs an address: set tooz_url, such as zookeeper://host:2181 or redis://host:6379"),
        ("memcached://host", "begins with memcached://.*; possible are zookeeper://, redis://, kazoo://"),
        ("etcd3+http://host", "begins with etcd3.http://.* cannot carry an election"),
        ("redis://", "names no host: redis://host:port"),
        ("redis://host:many", "is no address"),
        ("zookeeper://[::1", "is no address"),
    ],
)
def test_a_bad_address_is_told_at_the_start(url: str | None, says: str) -> None:
    with pytest.raises(StartFailed, match=says):
        election_of(Settings(election="tooz", tooz_url=url), None, ME, SystemClock(), nothing)


@pytest.mark.parametrize("url", ["redis://host:6379", "zookeeper://one:2181,two:2181,three:2181", "kazoo://host"])
def test_a_good_one_is_not_asked_before_the_election_runs(url: str) -> None:
    election = election_of(Settings(election="tooz", tooz_url=url), None, ME, SystemClock(), nothing)
    assert isinstance(election, Outside)
    assert (election.mandate, election.leader, election.members, election.not_alive()) == (None, "", (), ())


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(NoStore) as told:
        Store("mysql://user:very-secret@host", "defib-leader", ME)
    assert "very-secret" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "library"), [("redis://host", "tooz"), ("redis://host", "redis"), ("zookeeper://host", "kazoo")]
)
def test_what_is_not_installed_is_named(url: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not there
    with pytest.raises(NoStore, match=rf"needs {library}: pip install 'defib\[tooz\]'"):
        Store(url, "defib-leader", ME)
