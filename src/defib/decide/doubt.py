"""Whether we may trust our own sight. When in doubt, nothing new is done: a false alarm is worse than a late one."""

from collections.abc import Iterator

from defib.decide.ground import Ground
from defib.decide.machine_checks import MACHINE_HEALTH_CHECK
from defib.decide.overdue import count
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.cluster import CONFIG_MAPS, HEARTBEAT_NAMESPACE, Cluster, Served
from defib.model.health_check import Check
from defib.model.node_drain import DRAIN
from defib.model.reasons import EventReason

BRAKE, SELF_DOUBT = (
    EventReason.BRAKE,
    EventReason.SELF_DOUBT,
)  # the two that hold back whatever destroys, for as long as they last


def why_held(needed: frozenset[str], cluster: Cluster, rules: Rules, *, goes_on: bool = False) -> tuple[str, str]:
    """Why nothing destructive may be done now by whoever must see these: a word and a sentence, or nothing twice.

    `goes_on`: with a machine that it has told to go off already, and that is not proved to be.
    """
    if why := brake_reason(cluster, rules):
        return BRAKE, f"the brake is on: {why}"
    why = doubts_about(needed, cluster, goes_on=goes_on)
    return (SELF_DOUBT, f"we do not trust our own sight: {why}") if why else ("", "")


def doubts(check: Check, ground: Ground) -> str:
    """Why what we see may not be so; empty when there is no reason to doubt."""
    return doubts_about(_needed(check, ground.cluster), ground.cluster) or next(_unread(check, ground.cluster), "")


def doubts_about(needed: frozenset[str], cluster: Cluster, *, goes_on: bool = False) -> str:
    """The same for whoever must see these. It asks after every heartbeat, so it is not for every node of a pass."""
    return next(_doubts(needed, cluster, goes_on=goes_on), "")


def _doubts(needed: frozenset[str], cluster: Cluster, *, goes_on: bool) -> Iterator[str]:
    for blindness in cluster.blind:
        if blindness.kind in needed:
            yield f"{blindness.kind} are out of sight: {blindness.why}"
    for name in sorted(needed & cluster.absent.keys()):
        yield f"{name} are out of sight: {cluster.absent[name]}"
    yield from cluster.doubts
    yield from _silence(cluster, goes_on=goes_on)


def _unread(check: Check, cluster: Cluster) -> Iterator[str]:
    """Remediations that are there and cannot be read: nobody can say for which nodes they are."""
    made = (cluster.kinds.get(step.template.makes) for step in check.steps)
    collections = {served.collection for served in made if isinstance(served, Served)}
    for item in cluster.unread:
        if item.kind in collections:
            yield f"{item.kind} {item.key} cannot be read: {item.why}"


def _needed(check: Check, cluster: Cluster) -> frozenset[str]:
    used = [kind for step in check.steps for kind in (step.template.kind, step.template.makes)]
    known = (cluster.kinds.get(kind) for kind in (*used, MACHINE_HEALTH_CHECK))
    drains = cluster.kinds.get(DRAIN)
    # Whoever may not see records of drains cannot write any either, and forces none.
    forced = {drains.collection} - cluster.absent.keys() if isinstance(drains, Served) else frozenset[str]()
    return frozenset(
        {
            medik8s.CHECKS,
            "nodes",
            "heartbeats",
            "locks",
            "configmaps",
            *forced,
            *(served.collection for served in known if isinstance(served, Served)),
        }
    )


def _silence(cluster: Cluster, *, goes_on: bool) -> Iterator[str]:
    """Most nodes do not die at once; most heartbeats stop at once when something between them and us is broken.

    The words have no numbers in them: those change all the time, and with them the status would.
    """
    if is_mostly_silent(cluster, goes_on=goes_on):
        yield "most heartbeats of nodes are overdue at once, so it may be the network or the API server"


def is_mostly_silent(cluster: Cluster, *, goes_on: bool) -> bool:
    silent, known = overdue_heartbeats(cluster, goes_on=goes_on)
    return 2 * silent > known


def overdue_heartbeats(cluster: Cluster, *, goes_on: bool = False) -> tuple[int, int]:
    """How many, and of how many. Those of machines that are proved to be down are missing for a reason that is known.

    Whoever goes on leaves out those that we have told to go off as well: two that go off at once would keep each other from
    being proved. Whoever begins does not: they may have fallen silent for the same reason as the one that it would begin with.

    """
    counted = count(cluster)
    open_ones = (one for one in cluster.incidents().values() if one.is_open)
    down = {one.spec.node for one in open_ones if one.status.proof is not None or (goes_on and one.is_switched_off)}
    missing = (cluster.heartbeats.keys() & {f"{HEARTBEAT_NAMESPACE}/{node}" for node in down}) - counted.mute
    return len(counted.silent - missing), len(cluster.heartbeats) - len(counted.mute) - len(missing)


def brake_reason(cluster: Cluster, rules: Rules) -> str:
    """Why a person has stopped everything; empty when nobody has."""
    if rules.brake_setting:
        return "the setting brake is on"
    key = f"{rules.namespace}/defib-brake"
    if any((item.kind, item.key) == (CONFIG_MAPS, key) for item in cluster.unread):
        return f"the ConfigMap {key} is there, and cannot be read"
    brake = cluster.config_map(key)
    if brake is None or (brake.data or {}).get("paused") == "false":
        return ""
    said = (brake.data or {}).get("reason") or "no reason is given"
    by = (brake.data or {}).get("by")
    return f"{said} ({by})" if by else said
