"""How many closed accounts stay: the latest few of each node, and not too many in all. Open ones always stay."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from defib.model.account_action import DropAccount
from defib.model.incident import INCIDENT, NodeIncident
from defib.model.target import Target

KEPT_PER_NODE = 5
KEPT_IN_ALL = 500
DROPPED_AT_ONCE = 20

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def surplus(accounts: Iterable[NodeIncident]) -> tuple[NodeIncident, ...]:
    """Those that are to go, the oldest first."""
    latest_first = sorted((one for one in accounts if not one.is_open), key=_closed, reverse=True)
    kept_of: Counter[str] = Counter()
    kept, gone = 0, []
    for account in latest_first:
        node = account.spec.node
        if kept_of[node] < KEPT_PER_NODE and kept < KEPT_IN_ALL:
            kept_of[node] += 1
            kept += 1
        else:
            gone.append(account)
    return tuple(reversed(gone))


def drops(gone: tuple[NodeIncident, ...]) -> tuple[DropAccount, ...]:
    return tuple(
        DropAccount(account=target(account), version=account.metadata.resource_version)
        for account in gone[:DROPPED_AT_ONCE]
    )


def target(account: NodeIncident) -> Target:
    return Target(kind=INCIDENT, namespace="", name=account.name, uid=account.uid)


def _closed(account: NodeIncident) -> tuple[datetime, str]:
    moment = account.status.closed_at or account.status.since or account.opened
    return moment or _LONG_AGO, account.name
