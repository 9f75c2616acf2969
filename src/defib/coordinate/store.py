"""ZooKeeper or Redis, by Tooz: one lock, and a group whose members tell of themselves. Everything here blocks.

Each call belongs into a thread that may be left behind. Nothing else imports Tooz, and that only when it is used.
"""

import logging
import math
import uuid
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import urlsplit

import msgspec

from defib.coordinate.election import JITTER, Candidate, Terms
from defib.coordinate.rivals import Look, Told

if TYPE_CHECKING:
    from tooz.coordination import CoordinationDriver

LIBRARIES = {"kazoo": "kazoo", "redis": "redis", "zookeeper": "kazoo"}  # by the scheme of the address


class NoStore(Exception):
    """The settings name no store that can carry an election. Says what to do."""


class StoreFailed(Exception):
    """It could not be asked, or did not answer well: nothing is known."""


class _Lock(Protocol):
    """What the locks of all these drivers can do, more than Tooz promises."""

    @property
    def acquired(self) -> bool:
        """As far as its driver knows, without asking."""
        ...

    def acquire(self, *, blocking: bool) -> bool: ...

    def is_still_owner(self) -> bool: ...

    def release(self) -> bool: ...


def problem_of(url: str | None) -> str:
    """Why this address is none of a store that can be used here; empty when it is one. Never repeats a password."""
    if not url:
        return "the election tooz needs an address: set tooz_url, such as zookeeper://host:2181 or redis://host:6379"
    try:
        parts = urlsplit(url)
        _ = parts.scheme == "redis" and parts.port  # ZooKeeper's may be several hosts, each with its port
    except ValueError as error:
        return f"tooz_url is no address: {error}"
    if parts.scheme not in LIBRARIES:
        possible = ", ".join(f"{scheme}://" for scheme in sorted(LIBRARIES, reverse=True))
        return f"tooz_url begins with {parts.scheme}://, which cannot carry an election; possible are {possible}"
    if not parts.netloc.rpartition("@")[2]:
        return f"tooz_url names no host: {parts.scheme}://host:port"
    if missing := [one for one in ("tooz", LIBRARIES[parts.scheme]) if find_spec(one) is None]:
        return f"the election tooz needs {' and '.join(missing)}: pip install 'defib[tooz]'"
    return ""


class Store:
    """Our place in one group. One thread at a time."""

    def __init__(self, url: str | None, group: str, me: Candidate) -> None:
        """Raises NoStore. Connects to nothing yet."""
        if not url or problem_of(url):
            raise NoStore(problem_of(url))
        self.id = uuid.uuid4().hex  # names may be given twice, and need not be fit for a path
        self._url = url
        self._group = group.encode()
        self._me = me
        self._renewals = 0
        self._owns = False
        self._holds = 0
        self._connected: tuple[CoordinationDriver, _Lock] | None = None

    def renew(self, *, acts: bool, wants: bool) -> Look:
        """Tell that we are there, with the lock if we have it or can get it and want it. Raises StoreFailed.

        The order is what makes it safe: the lock, then what we tell, then what others tell, then whether the lock is
        still ours. Writing comes before reading, so that ZooKeeper cannot answer with something older.
        """
        try:
            coordinator, lock = self._connect()
            coordinator.heartbeat()
            if lock.acquired and not (self._owns and wants):
                lock.release()
            holds = lock.acquired or (wants and self._take(lock))
            is_newcomer = self._tell(coordinator, self._told(holds=holds or acts, acts=acts))
            others = _told_in(coordinator.get_members_with_capabilities(self._group).get())
            self._owns = holds and lock.is_still_owner()
        except Exception as error:  # drivers let through whatever their libraries raise: nothing was renewed
            raise StoreFailed(_words_of(error)) from error
        others.pop(self.id, None)
        return Look(owns=self._owns, hold=self._holds, is_newcomer=is_newcomer, others=others)

    def leave(self) -> None:
        """Let another one lead at once. To be called when we no longer act. Raises StoreFailed."""
        if self._connected is None:
            return
        coordinator, lock = self._connected
        try:
            # Our place stays until the store gives it up: there the others read that nobody has to be waited for.
            self._tell(coordinator, self._told(holds=False, acts=False, is_leaving=True))
            if lock.acquired:
                lock.release()
        except Exception as error:  # the same
            raise StoreFailed(_words_of(error)) from error

    def _connect(self) -> "tuple[CoordinationDriver, _Lock]":
        """Once; the drivers find their way back to a store that was away."""
        if self._connected is None:
            from tooz.coordination import get_coordinator

            for library in ("tooz", "kazoo"):  # they tell each failed try; we tell the first, in our own words
                logging.getLogger(library).setLevel(logging.CRITICAL)
            coordinator = get_coordinator(self._url, self.id.encode(), **_options(self._me.terms))
            coordinator.start()
            self._connected = coordinator, cast("_Lock", coordinator.get_lock(self._group + b".leader"))
        return self._connected

    def _take(self, lock: _Lock) -> bool:
        self._holds += 1
        return lock.acquire(blocking=False)

    def _told(self, *, holds: bool, acts: bool, is_leaving: bool = False) -> Told:
        self._renewals += 1
        return Told(name=self._me.name, holds=holds, acts=acts, renewals=self._renewals, is_leaving=is_leaving)

    def _tell(self, coordinator: "CoordinationDriver", told: Told) -> bool:
        """Whether the store did not know us."""
        from tooz.coordination import GroupNotCreated, MemberAlreadyExist, MemberNotJoined

        said: dict[str, Any] = msgspec.to_builtins(told)
        try:
            coordinator.update_capabilities(self._group, said).get()
        except (GroupNotCreated, MemberNotJoined):
            try:
                coordinator.join_group_create(self._group, said)
            except MemberAlreadyExist:
                coordinator.update_capabilities(self._group, said).get()
            return True
        return False


def _options(terms: Terms) -> dict[str, Any]:
    """For all drivers; each takes its own. They win over what stands in the address.

    A place is kept so long that others see its silence for a whole lease first, looking every retry period.
    """
    place_seconds = math.ceil(terms.lease_seconds + 2 * JITTER * terms.retry_seconds)
    answer_seconds = terms.renew_seconds / 2
    return {
        "timeout": place_seconds,  # of ZooKeeper's session, as far as its server agrees
        "membership_timeout": place_seconds,
        "lock_timeout": place_seconds,
        "socket_timeout": answer_seconds,
        "socket_connect_timeout": answer_seconds,
        "executor": "synchronous",  # we are in a thread already, and in one that cannot hold up the end of the process
        "connection_retry": {"max_tries": -1, "max_delay": terms.retry_seconds},
    }


def _told_in(members: Mapping[bytes, Mapping[str, Any] | None]) -> dict[str, Told]:
    """Whoever tells something else than we do is no replica of ours."""
    found = {}
    for id_, said in members.items():
        try:
            found[id_.decode()] = msgspec.convert(said, Told)
        except msgspec.ValidationError:
            continue
    return found


def _words_of(error: BaseException) -> str:
    """Tooz wraps errors of others, and loses their names where they have no words."""
    if not str(error) and error.__cause__ is not None:
        return _words_of(error.__cause__)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
