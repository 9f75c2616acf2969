"""The power of machines, by whichever way: the record first, then the command; a reading; a try whether it would work.

What a driver answers is a value. What the API server answers, on the way there, is a KubeError as everywhere.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import structlog

from defib.act.agent import Agent
from defib.act.means import REQUEST_SECONDS, Means
from defib.act.metal3 import Metal3
from defib.act.outcome import Failed, Outcome, PowerChecked, PowerRead, PowerSwitched, Stale, Withheld
from defib.kube.client import Merge
from defib.kube.errors import Conflict, KubeError, NotFound
from defib.kube.kinds import LEASES, NODE_INCIDENTS, NODES, SECRETS
from defib.model import medik8s
from defib.model.action import CheckPower, ReadPower, SwitchPower
from defib.model.cluster import HEARTBEAT_NAMESPACE
from defib.model.mandate import Mandate
from defib.model.meta import Unstructured
from defib.model.metal3 import why_no_way
from defib.model.power import AGENT, METAL3, FenceCheck, PowerPath, PowerState, Reading, Sent
from defib.model.secret import Secret
from defib.power.base import Accepted, Credentials, Driver, NotReady, Refused, Target, Unknown
from defib.power.calls import one_line
from defib.power.event_log import EventLog, KeepsLog
from defib.power.registry import Unavailable

log = structlog.get_logger("act")

T = TypeVar("T")

COMMAND_SECONDS = 25.0  # fence agents wait until the machine is off before they answer
READING_SECONDS = 15.0
LOG_SECONDS = 8.0  # a command to the same BMC waits for so long at most
CA_KEY = "ca.crt"  # of the Secret: the certificates that a BMC is trusted by
_USERNAME, _PASSWORD = "username", "password"


async def switch_power(means: Means, action: SwitchPower, mandate: Mandate) -> Outcome:
    """The record is compared and swapped before the command is sent: a replica that is too late loses, and sends nothing."""
    if why := await _why_not(means, action):
        return Stale(why)
    forbids = means.forbids_start if action.power is PowerState.OFF else means.forbids
    if why := forbids(mandate):
        return Withheld(why)
    found = await _driver(means, action.node, action.path)
    if isinstance(found, str):
        return Failed(found)
    driver, target = found
    if lost := await _write_down(means, action, mandate):
        return lost
    if why := forbids(mandate):  # it took a while: whoever comes after us may have read the record before we send it
        return Withheld(why)
    log.info("power is switched", node=action.node, power=action.power.value, attempt=action.attempt, by=mandate.token)
    return await _send(means, action, driver, target)


async def _send(means: Means, action: SwitchPower, driver: Driver, target: Target) -> Outcome:
    command = driver.off if action.power is PowerState.OFF else driver.on
    answer = await _asked(command(target, COMMAND_SECONDS), Unknown)
    at = means.clock.now()  # after it: what was read before it ended says nothing, and a slow BMC needs its time
    match answer:
        case Accepted():
            return PowerSwitched(Sent(action.power, at))
        case Refused(why):
            return Failed(_safe(why, target))
        case unknown:
            why = _safe(unknown.why, target)
            log.warning("power may have been switched", node=action.node, power=action.power.value, why=why)
            # Where nothing can be read back, only a clear yes counts for anything.
            return PowerSwitched(Sent(action.power, at)) if driver.can_read_state else Failed(why)


async def _why_not(means: Means, action: SwitchPower) -> str:
    """What has changed since an off was decided; empty when nothing has. Everything is read live. On is always right."""
    if action.power is not PowerState.OFF:
        return ""
    cause = await means.address(action.cause.kind, action.cause.name, action.cause.namespace)
    item = await means.live(cause) if cause is not None else None
    if item is None or item.uid != action.cause.uid or item.metadata.deletion_timestamp is not None:
        return f"{action.cause} is gone, or going"
    if (why := _withdrawn(action, item)) or not action.node_uid:
        return why
    node = await means.live(NODES.at(action.node))
    if node is not None and node.uid != action.node_uid:
        return f"node {action.node} is another one now"
    if not action.unless_ready or node is None or node.ready != "True" or await is_unheard(means, action):
        return ""
    return f"node {action.node} is ready again"


async def is_unheard(means: Means, action: SwitchPower) -> bool:
    """Whether its conditions are older than its silence."""
    if action.silent_since is None:
        return False
    lease = await means.live(LEASES.at(action.node, HEARTBEAT_NAMESPACE))
    return lease is not None and lease.spec.renew_time == action.silent_since


def _withdrawn(action: SwitchPower, item: Unstructured) -> str:
    if action.marker and action.marker not in item.annotations:
        return f"{action.cause} has no annotation {action.marker} any more"
    return f"the time of {action.cause} is up" if medik8s.TIMED_OUT in item.annotations else ""


async def _write_down(means: Means, action: SwitchPower, mandate: Mandate) -> Stale | None:
    command = {
        "power": action.power.value,
        "at": means.clock.now().isoformat(),
        "attempt": action.attempt,
        "token": mandate.token,
    }
    meta = {"uid": action.incident.uid, "resourceVersion": action.version}
    patch = Merge({"metadata": meta, "status": {"command": command}})
    ref = NODE_INCIDENTS.at(action.incident.name)
    try:
        incident = await means.client.patch(ref, patch, subresource="status", deadline=REQUEST_SECONDS)
    except (Conflict, NotFound):
        return Stale(f"{action.incident} is newer than what was judged")
    means.note(NODE_INCIDENTS, incident)
    return None


async def read_power(means: Means, action: ReadPower) -> Outcome:
    found = await _driver(means, action.node, action.path)
    if isinstance(found, str):
        return PowerRead(Reading(PowerState.UNKNOWN, means.clock.now(), found))
    driver, target = found
    return PowerRead(await _reading(means, driver, target), can_read=driver.can_read_state)


async def check_power(means: Means, action: CheckPower) -> Outcome:
    """Whether it would work, and what is read: a machine that is alive and read as off has a BMC that lies."""
    found = await _driver(means, action.node, action.path)
    if isinstance(found, str):
        return PowerChecked(FenceCheck(action.path, means.clock.now(), found))
    driver, target = found
    readiness = await _asked(driver.check(target, READING_SECONDS), NotReady)
    if isinstance(readiness, NotReady):
        return PowerChecked(FenceCheck(action.path, means.clock.now(), _safe(readiness.why, target)))
    reading = await _reading(means, driver, target)
    is_unreadable = driver.can_read_state and reading.state is PowerState.UNKNOWN
    why = f"the power cannot be read: {reading.detail}" if is_unreadable else ""
    return PowerChecked(FenceCheck(action.path, reading.at, why, reading.state))


async def read_log(means: Means, node: str, path: PowerPath) -> EventLog:
    """The event log of a machine's BMC, as far as this driver can read one."""
    found = await _driver(means, node, path)
    if isinstance(found, str):
        return EventLog(why_not=found)
    driver, target = found
    if not isinstance(driver, KeepsLog):
        return EventLog(why_not=f"the driver {path.driver} reads no event log")
    log = await _asked(driver.log(target, LOG_SECONDS), lambda why: EventLog(why_not=why))
    entries = (msgspec.structs.replace(one, text=one_line(_safe(one.text, target))) for one in log.entries)
    return msgspec.structs.replace(log, entries=tuple(entries), why_not=one_line(_safe(log.why_not, target)))


async def _reading(means: Means, driver: Driver, target: Target) -> Reading:
    reading = await _asked(
        driver.state(target, READING_SECONDS), lambda why: Reading(PowerState.UNKNOWN, means.clock.now(), why)
    )
    return msgspec.structs.replace(reading, detail=_safe(reading.detail, target))


async def _asked(call: Awaitable[T], broken: Callable[[str], T]) -> T:
    """A driver of another package may raise whatever it likes, with the login in its words: only the kind is told."""
    try:
        return await call
    except KubeError:
        raise
    except Exception as error:  # noqa: BLE001 - one machine's driver must not end the work on all others
        return broken(f"its driver broke ({type(error).__name__}), which is a mistake in the driver")


def _safe(said: str, target: Target) -> str:
    """What a driver says goes into events, logs and messages; one that is not ours may repeat the login that it was given."""
    return target.credentials.hide(said)


async def _driver(means: Means, node: str, path: PowerPath) -> tuple[Driver, Target] | str:
    """Who switches it, and with what; or why nobody can. The Secret is read for every call, and not kept."""
    if path.driver == METAL3:
        why = why_no_way(path.address, (path.options or {}).get("key", ""))
        return why or (Metal3(means), Target(node=node, address=path.address, options=path.options or {}))
    if path.driver == AGENT:
        return Agent(means), Target(node=node, address="", options=path.options or {})
    driver = await means.drivers.named(path.driver)
    if isinstance(driver, Unavailable):
        return driver.why
    texts = await _texts(means, path.secret) if path.secret else {}
    if isinstance(texts, str):
        return texts
    ca = texts.pop(CA_KEY, None)
    options = ({"ca": ca.reveal()} if ca is not None else {}) | (path.options or {})
    credentials = Credentials(
        username=texts.pop(_USERNAME, Secret("")), password=texts.pop(_PASSWORD, Secret("")), more=texts
    )
    return driver, Target(node=node, address=path.address, credentials=credentials, options=options)


async def _texts(means: Means, key: str) -> dict[str, Secret] | str:
    """What the Secret holds; or why it cannot be used."""
    namespace, _, name = key.partition("/")
    if not (namespace and name):
        return f"{key!r} is not the namespace/name of a Secret"
    secret = await means.live(SECRETS.at(name, namespace))
    if secret is None:
        return f"there is no Secret {key}; create it, with {_USERNAME} and {_PASSWORD}"
    try:
        return secret.texts()
    except ValueError as error:
        return f"Secret {key} cannot be used: {error}"
