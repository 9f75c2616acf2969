"""The brake: a ConfigMap that stops every destructive action of every operator of the cluster until it is let go."""

from datetime import datetime

from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.console.session import NotDone, connected, forbidden, who
from defib.decide.doubt import brake_reason
from defib.decide.entries import stamp
from defib.decide.rules import Rules
from defib.kube.client import Apply, Client
from defib.kube.errors import Forbidden, NotFound
from defib.kube.kinds import CONFIG_MAPS
from defib.model.cluster import CONFIG_MAPS as COLLECTION
from defib.model.cluster import Cluster
from defib.model.config_map import ConfigMap

BRAKE = "defib-brake"
MANAGER = "defib-console"  # not the operator's: it must never take our fields for its own


async def pause(settings: Settings, reason: str) -> str:
    """One line that says what is now so. Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await pull(session.client, session.clock, settings.namespace, reason)


async def resume(settings: Settings) -> str:
    """One line that says what is now so. Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await release(session.client, session.clock, settings.namespace)


async def pull(client: Client, clock: Clock, namespace: str, reason: str) -> str:
    """A second pull changes the reason, if there is a new one, and not since when."""
    before = await _read(client, namespace)
    said = _said(before)
    if is_on(before, clock.now()) and reason in ("", said.get("reason", "")):
        return f"Defib was paused already{_history(said)}"
    since = said.get("since", "") if is_on(before, clock.now()) else ""
    now = stamp(clock.now())
    data = {"paused": "true", "reason": reason, "by": await who(client), "since": since or now}
    await _write(client, namespace, data)
    return f"Defib is paused{_history(data)}; defib resume lets it go on"


async def release(client: Client, clock: Clock, namespace: str) -> str:
    """Who pulled it, when and why stays to be read, with who let go and when beside it."""
    before = await _read(client, namespace)
    if not is_on(before, clock.now()):
        return f"Defib was not paused: {_why_not(before, namespace)}"
    kept = {key: value for key, value in _said(before).items() if key in ("reason", "by", "since")}
    resumed = {"paused": "false", "resumedBy": await who(client), "resumedAt": stamp(clock.now())}
    await _write(client, namespace, kept | resumed)
    return f"Defib goes on; it was paused{_history(kept)}"


def is_on(brake: ConfigMap | None, now: datetime) -> bool:
    """Asked of the rule by which the operator decides."""
    if brake is None:
        return False
    cluster = Cluster(now=now, others={COLLECTION: {brake.key: brake}})
    return bool(brake_reason(cluster, Rules(namespace=brake.namespace)))


def _said(brake: ConfigMap | None) -> dict[str, str]:
    return (brake.data if brake is not None else None) or {}


def _history(said: dict[str, str]) -> str:
    since = f" since {said['since']}" if said.get("since") else ""
    by = f" by {said['by']}" if said.get("by") else ""
    why = f": {said['reason']}" if said.get("reason") else ""
    return f"{since}{by}{why}"


def _why_not(brake: ConfigMap | None, namespace: str) -> str:
    if brake is None:
        return f"there is no ConfigMap {namespace}/{BRAKE}"
    said = _said(brake)
    at = f" at {said['resumedAt']}" if said.get("resumedAt") else ""
    by = f" by {said['resumedBy']}" if said.get("resumedBy") else ""
    return f"ConfigMap {brake.key} was let go{at}{by}"


async def _read(client: Client, namespace: str) -> ConfigMap | None:
    try:
        return await client.get(CONFIG_MAPS.at(BRAKE, namespace))
    except NotFound:
        return None
    except Forbidden as error:
        raise forbidden(error, "get", f"configmaps/{BRAKE}", namespace) from error


async def _write(client: Client, namespace: str, data: dict[str, str]) -> None:
    """Applied by force: whoever touched the brake last, what a person says now is what counts."""
    body = {"metadata": {"name": BRAKE, "namespace": namespace}, "data": data}
    try:
        await client.patch(CONFIG_MAPS.at(BRAKE, namespace), Apply(body=body, manager=MANAGER, force=True))
    except NotFound as error:
        raise NotDone(
            f"there is no namespace {namespace}: is Defib installed in another? then name it with --namespace"
        ) from error
    except Forbidden as error:
        raise forbidden(error, "patch", f"configmaps/{BRAKE}", namespace) from error
