"""The small world of decide, with the accounts that are kept of it."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from defib.decide.accounts.facts import Memory, facts_of, remember
from defib.decide.accounts.plan import NOTHING as NO_ACCOUNTS
from defib.decide.accounts.plan import Accounts, plan_accounts
from defib.decide.plan import Plan
from defib.model.account_action import DropAccount, OpenAccount, WriteAccount
from defib.model.action import Action
from defib.model.health_check import NodeHealthCheck
from defib.model.incident import INCIDENTS, IncidentSpec, IncidentStatus, NodeIncident
from defib.model.meta import Meta
from defib.model.node import Node
from tests.builders import T0, a_node
from tests.unit.decide.checks import a_check
from tests.unit.decide.world import World

change = msgspec.structs.replace

SINCE = T0 - timedelta(minutes=10)
UNHEALTHY = [{"type": "Ready", "status": status, "duration": "300s"} for status in ("Unknown", "False")]


class Books(World):
    """`opened` counts every account that was ever created, `closed` how often each was closed."""

    def __init__(self, checks: Iterable[NodeHealthCheck] | NodeHealthCheck, nodes: Iterable[Node], **more: Any) -> None:
        super().__init__(checks, nodes, **more)
        self.others[INCIDENTS] = {}
        self.accounts: Accounts = NO_ACCOUNTS
        self.memory: Memory = {}
        self.opened: list[str] = []
        self.closed: list[str] = []

    def decide(self) -> Plan:
        plan, cluster = super().decide(), self.look()
        self.memory = remember(cluster, plan, self.memory)
        facts = facts_of(cluster, plan, self.memory)
        self.accounts = plan_accounts(cluster, self.rules, plan, facts, self.accounts)
        wakes = [moment for moment in (plan.wake_at, self.accounts.wake_at) if moment is not None]
        return change(plan, actions=(*plan.actions, *self.accounts.actions), wake_at=min(wakes, default=None))

    def forget(self) -> None:
        super().forget()
        self.accounts, self.memory = NO_ACCOUNTS, {}

    def carry_out(self, action: Action) -> None:
        match action:
            case OpenAccount():
                self._open(action)
            case WriteAccount():
                self._write_account(action)
            case DropAccount():
                known = self.others[INCIDENTS].get(action.account.name)
                if known is not None and (known.uid, known.metadata.resource_version) == (
                    action.account.uid,
                    action.version,
                ):
                    del self.others[INCIDENTS][action.account.name]
            case _:
                super().carry_out(action)

    def _open(self, action: OpenAccount) -> None:
        if action.name in self.others[INCIDENTS]:
            return
        version = self._next()
        meta = Meta(name=action.name, uid=f"account-{version}", resource_version=version, creation_timestamp=self.now)
        spec = msgspec.convert(action.body["spec"], IncidentSpec)
        self.others[INCIDENTS][action.name] = NodeIncident(metadata=meta, spec=spec)
        self.opened.append(spec.cause.uid)
        self.events += action.tells

    def _write_account(self, action: WriteAccount) -> None:
        known = self.others[INCIDENTS].get(action.account.name)
        if not isinstance(known, NodeIncident) or known.metadata.resource_version != action.version:
            return
        merged = {**msgspec.to_builtins(known.status), **action.status}
        after = msgspec.convert(merged, IncidentStatus)
        meta = change(known.metadata, resource_version=self._next())
        fresh = change(known, status=after, metadata=meta)
        self.others[INCIDENTS][action.account.name] = fresh
        if known.is_open and not fresh.is_open:
            self.closed.append(known.spec.cause.uid)
        self.events += action.tells

    def all(self) -> list[NodeIncident]:
        """In the order in which they were opened."""
        items = self.others[INCIDENTS].values()
        return [item for item in items if isinstance(item, NodeIncident)]

    def the_only(self) -> NodeIncident:
        (account,) = self.all()
        return account

    def on_node(self, node: str) -> list[str]:
        """The reasons of what was told on a node."""
        return [str(event.reason) for event in self.events if (event.kind.name, event.check) == ("Node", node)]


def an_ill_cluster(*ill: str, check: NodeHealthCheck | None = None, **more: Any) -> Books:
    """Nine nodes, of which these are ill since before T0."""
    names = [f"n{number}" for number in range(1, 10)]
    nodes = [
        a_node(name, ready="Unknown" if name in ill else "True", since=SINCE if name in ill else None) for name in names
    ]
    return Books(check or a_check(unhealthyConditions=UNHEALTHY), nodes, **more)
