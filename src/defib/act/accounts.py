"""Accounts, and what incidents tell: written down by whoever has the mandate, in their own name."""

from typing import Any

from defib.act.means import REQUEST_SECONDS, Means
from defib.act.outcome import Done, Outcome, Stale
from defib.kube.client import Deletion, Merge
from defib.kube.errors import AlreadyExists, Conflict, NotFound
from defib.kube.kinds import NODE_INCIDENTS
from defib.model.account_action import AccountAction, DropAccount, OpenAccount, WriteAccount
from defib.model.incident import US
from defib.model.mandate import Mandate


async def keep_accounts(means: Means, action: AccountAction, mandate: Mandate) -> Outcome:
    match action:
        case OpenAccount():
            return await _open(means, action, mandate)
        case WriteAccount():
            return await _write(means, action, mandate)
        case DropAccount():
            return await _drop(means, action)


async def _open(means: Means, action: OpenAccount, mandate: Mandate) -> Outcome:
    body = with_author(action.body, mandate)
    try:
        account = await means.client.create(NODE_INCIDENTS, body, deadline=REQUEST_SECONDS)
    except AlreadyExists:  # another replica was first, or we were, and the answer was lost
        return Stale(f"there is an account {action.name} already")
    means.note(NODE_INCIDENTS, account)
    return Done(account)


async def _write(means: Means, action: WriteAccount, mandate: Mandate) -> Outcome:
    known = {"uid": action.account.uid, "resourceVersion": action.version}
    patch = Merge({"metadata": known, "status": signed(action.status, mandate)})
    ref = NODE_INCIDENTS.at(action.account.name)
    try:
        account = await means.client.patch(ref, patch, subresource="status", deadline=REQUEST_SECONDS)
    except NotFound:
        return Stale(f"{action.account} is gone")
    except Conflict:
        return Stale(f"{action.account} is newer than what was judged")
    means.note(NODE_INCIDENTS, account)
    return Done(account)


async def _drop(means: Means, action: DropAccount) -> Outcome:
    how = Deletion(uid=action.account.uid, version=action.version)
    try:
        await means.client.delete(NODE_INCIDENTS.at(action.account.name), how, deadline=REQUEST_SECONDS)
    except NotFound:
        return Done()
    except Conflict:
        return Stale(f"{action.account} is newer than what was judged")
    return Done()


def author(mandate: Mandate) -> str:
    """The name of the replica, without the number of its term; where there is only one, it needs none."""
    return mandate.token.rpartition("/")[0] or US


def with_author(body: dict[str, Any], mandate: Mandate) -> dict[str, Any]:
    return {**body, "spec": {**body["spec"], "by": author(mandate)}}


def signed(status: dict[str, Any], mandate: Mandate) -> dict[str, Any]:
    """What was decided to be ours to tell becomes this replica's."""
    entries = status.get("timeline")
    if not entries:
        return status
    by = author(mandate)
    return {**status, "timeline": [one | {"by": by} if one.get("by") == US else one for one in entries]}
