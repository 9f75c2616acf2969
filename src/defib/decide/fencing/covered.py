"""One node that a template covers: the way to its power, what came of trying it, and when to try it again.

    no path, or one that two nodes share ──▶ not ready, and never tried
    a person switches it (driver manual) ──▶ ready, by hand, and never tried
    new, or its path has changed ──▶ tried at once ──▶ ready: tried again once per pause, at a moment of its own
                                          │    ▲
                                          └────┴─ not ready: tried again sooner, less often each time

A node that only a person can switch counts as ready. Nothing of it could ever be tried, so an alarm about it would never
end; whoever chose that driver knows. The condition says of how many nodes this is so.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from zlib import crc32

import msgspec

from defib.decide.fencing.order import Obstacle
from defib.decide.status import whole
from defib.model.cluster import Cluster
from defib.model.incident import Grade
from defib.model.power import AGENT, MANUAL, METAL3, FenceCheck, PowerPath, PowerState
from defib.model.power_cycle import Policy

RETRY = timedelta(seconds=15)
DOUBLINGS_MAX = 20
SHARERS_NAMED = 3
LIES = (
    "its power is read as off, and its node is ready and reports: its BMC does not tell the truth, or the path leads "
    "to another machine"
)
UNREADABLE = "its power cannot be read back, and acceptedProofs does not name C, which would do without"

_USUAL_PORT = re.compile(r"(?<=[^:/]):(443|623)(?=/|$)")  # of Redfish and IPMI
_ONE_ADDRESS_ONE_MACHINE = frozenset({"redfish", "ipmi", METAL3})  # whatever the options say
_TOLD_THE_NODE = frozenset({"webhook", MANUAL, AGENT})  # one service, person or Lease for each: they know it by name
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Machine = tuple[str, str, tuple[tuple[str, str], ...]]  # where a path leads: driver, address, and options that matter


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    path: PowerPath | Obstacle
    machine: Machine | None = None
    check: FenceCheck | None = None  # the last one of this very path
    is_tried: bool = False  # or need not be: what is said of it is known, and not just what was known before
    why: str = ""  # it could not be fenced; empty: it could, or nobody knows yet
    since: datetime | None = None  # when that began
    times: int = 0  # how often it has failed in a row
    due: datetime | None = None  # when to try it next; None: there is nothing to try

    @property
    def is_by_hand(self) -> bool:
        return isinstance(self.path, PowerPath) and self.path.driver == MANUAL

    def looks_the_same(self, other: "Covered") -> bool:
        """To a person."""
        return (self.is_tried, self.why, self.is_by_hand) == (other.is_tried, other.why, other.is_by_hand)


def machine_of(path: PowerPath | Obstacle) -> Machine | None:
    """None: it leads nowhere, or to a place that knows the nodes by name."""
    if isinstance(path, Obstacle) or path.driver in _TOLD_THE_NODE:
        return None
    options = {} if path.driver in _ONE_ADDRESS_ONE_MACHINE else path.options or {}
    return path.driver, _alike(path.address), tuple(sorted(options.items()))


def _alike(address: str) -> str:
    """The same for addresses that differ only in how they are written."""
    return _USUAL_PORT.sub("", address.lower()).rstrip("/")


def sharers_of(node: str, users: list[str]) -> str:
    """The others whose path leads to the same machine, by name as far as that helps; empty when there are none."""
    named = [user for user in users[: SHARERS_NAMED + 1] if user != node][:SHARERS_NAMED]
    more = len(users) - 1 - len(named)
    return f"{', '.join(named)} and {more} more" if more else ", ".join(named)


def begin(known: Covered, sharers: str, now: datetime) -> Covered:
    """On a path that is new. What was said of the node before stays until it is tried, which is at once."""
    path = known.path
    if isinstance(path, Obstacle):
        return _settled(known, path.message, now)
    if known.is_by_hand:
        return _settled(known, "", now)
    if sharers:
        return _settled(known, told_shared(path, sharers), now)
    return msgspec.structs.replace(known, is_tried=False, due=now)


def _settled(known: Covered, why: str, now: datetime) -> Covered:
    """There is nothing to try."""
    return msgspec.structs.replace(_saying(known, why, now), check=None, due=None, times=0)


def told_shared(path: PowerPath, sharers: str) -> str:
    return (
        f"the path to its power ({path.driver} {path.address[:100]}) is also that of {sharers}: the wrong machine "
        "would be switched off; give each node its own address, or its own options"
    )


def answered(known: Covered, check: FenceCheck, policy: Policy, cluster: Cluster, pause: timedelta) -> Covered:
    """It was tried, and this came of it."""
    why = _why_not(known, check, policy, cluster)
    if why is None:
        return msgspec.structs.replace(known, check=check, due=_second(cluster.now + min(RETRY, pause)))
    return failed(known, why, check, cluster.now, pause) if why else _worked(known, check, cluster.now, pause)


def failed(known: Covered, why: str, check: FenceCheck | None, now: datetime, pause: timedelta) -> Covered:
    rest = RETRY * 2 ** min(known.times, DOUBLINGS_MAX)
    due = _second(now + rest) if rest < pause else turn_of(known.node, now, pause)
    return msgspec.structs.replace(_saying(known, why, now), check=check, times=known.times + 1, due=due)


def _worked(known: Covered, check: FenceCheck, now: datetime, pause: timedelta) -> Covered:
    due = turn_of(known.node, now, pause)
    return msgspec.structs.replace(_saying(known, "", now), check=check, times=0, due=due)


def _saying(known: Covered, why: str, now: datetime) -> Covered:
    since = (known.since if known.why else None) or whole(now)
    return msgspec.structs.replace(known, is_tried=True, why=why, since=since if why else None)


def _why_not(known: Covered, check: FenceCheck, policy: Policy, cluster: Cluster) -> str | None:
    """None: nobody can say yet. A machine that has gone off a moment ago has a node that still seems to be well."""
    if check.why_not:
        return check.why_not
    node, lease = cluster.nodes.get(known.node), cluster.heartbeat_of(known.node)
    if check.state is PowerState.OFF and node is not None and node.ready == "True" and lease is not None:
        before = known.check
        was_off = before is not None and before.state is PowerState.OFF and not before.why_not
        beat = lease.spec.renew_time
        return LIES if was_off and before is not None and beat is not None and beat > before.at else None
    if check.state is PowerState.UNKNOWN and Grade.TIME not in policy.accepts:
        return UNREADABLE
    return ""


def turn_of(node: str, after: datetime, pause: timedelta) -> datetime:
    """Each node has a moment of its own in every pause, so that thousands do not come at once.

    The first that leaves half a pause to what was tried last, on a whole second: those of one second share a pass.
    """
    length = pause.total_seconds()
    earliest = (after - _EPOCH).total_seconds() + length / 2
    moment = crc32(node.encode()) / 2**32 * length
    return _EPOCH + timedelta(seconds=math.ceil(earliest + (moment - earliest) % length))


def _second(moment: datetime) -> datetime:
    """The next whole one."""
    return whole(moment + timedelta(seconds=1, microseconds=-1))
