"""What the evidence about a silent node comes to. One table: the first row that fits is what is thought."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from defib.model.evidence import Evidence, Says, Source

FRESH = timedelta(seconds=30)  # what was found out longer ago counts for nothing


class Conclusion(StrEnum):
    ALIVE = "Alive"
    DEAD = "Dead"
    ISOLATED = "Isolated"
    CONTROL_PLANE = "ControlPlaneTrouble"
    DONT_KNOW = "DontKnow"


ACTED_ON = frozenset({Conclusion.DEAD, Conclusion.ISOLATED})  # all others wait for what Kubernetes says


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What each side says of one node, as far as it is fresh. `crowd`: too many are silent for it to be their own fault."""

    heartbeat: Says = Says.UNKNOWN
    kubelet: Says = Says.UNKNOWN
    neighbours: Says = Says.UNKNOWN
    power: Says = Says.UNKNOWN
    log: Says = Says.UNKNOWN
    others: Says = Says.UNKNOWN
    crowd: str = ""


class Row(msgspec.Struct, frozen=True):
    fits: Callable[[Facts], bool]
    conclusion: Conclusion
    because: str


TABLE = (
    Row(lambda f: bool(f.crowd), Conclusion.CONTROL_PLANE, "so many do not fall silent at once by themselves"),
    Row(lambda f: f.heartbeat is Says.RENEWED, Conclusion.ALIVE, "its heartbeat goes on, and only the news was late"),
    Row(lambda f: f.heartbeat is not Says.SAME, Conclusion.DONT_KNOW, "its heartbeat could not be read"),
    Row(
        lambda f: f.kubelet is Says.ANSWERS,
        Conclusion.CONTROL_PLANE,
        "its kubelet answers us, so what is broken lies between it and the API server",
    ),
    Row(
        lambda f: f.others is Says.ALIVE,
        Conclusion.DONT_KNOW,
        "somebody else still hears from it, so it may live, whatever is not heard of it here",
    ),
    Row(lambda f: f.power is Says.OFF, Conclusion.DEAD, "its power is off, and nothing is heard of it"),
    Row(
        lambda f: f.kubelet is Says.REFUSES,
        Conclusion.DONT_KNOW,
        "the machine is there and its kubelet is not: its pods may run, and a kubelet comes back quickly",
    ),
    Row(
        lambda f: f.kubelet is Says.SILENT and f.power is Says.ON and f.log is Says.STOPPED,
        Conclusion.ISOLATED,
        "its machine is on, nothing comes back from it, and by the log of its BMC it stopped after its last heartbeat",
    ),
    Row(
        lambda f: f.kubelet is Says.SILENT and f.neighbours is Says.SILENT,
        Conclusion.CONTROL_PLANE,
        "its neighbours do not answer us either, so it is the way to them that is broken",
    ),
    Row(
        lambda f: (f.kubelet, f.neighbours, f.power, f.others) == (Says.SILENT, Says.UNKNOWN, Says.ON, Says.GONE),
        Conclusion.ISOLATED,
        "its machine is on, nothing comes back from it, and others have lost it too: it hangs, or it is cut off",
    ),
    Row(
        lambda f: f.kubelet is Says.SILENT and f.neighbours is not Says.ANSWERS,
        Conclusion.DONT_KNOW,
        "nothing comes back from it, and no neighbour could be asked whether that is its own fault",
    ),
    Row(
        lambda f: f.kubelet is Says.SILENT and f.power is Says.ON,
        Conclusion.ISOLATED,
        "its machine is on, its neighbours answer, and nothing comes back from it: it hangs, or it is cut off",
    ),
    Row(
        lambda f: f.kubelet is Says.SILENT,
        Conclusion.DONT_KNOW,
        "nothing comes back from it, and its power cannot be told",
    ),
    Row(lambda _: True, Conclusion.DONT_KNOW, "too little is known"),
)


def conclude(facts: Facts) -> Row:
    return next(row for row in TABLE if row.fits(facts))


def is_log_wanted(facts: Facts) -> bool:
    """Whether the log of its BMC could change what is thought: reading it costs a slow one many seconds."""
    stopped, unread = (msgspec.structs.replace(facts, log=log) for log in (Says.STOPPED, Says.UNKNOWN))
    return conclude(stopped).conclusion is not conclude(unread).conclusion


def facts_from(evidence: Iterable[Evidence], since: datetime, now: datetime, crowd: str) -> Facts:
    """Only what was asked after the node fell silent, and not long ago. Of one source the latest counts."""
    latest = {one.source: one.says for one in fresh(evidence, since, now)}
    return Facts(
        heartbeat=latest.get(Source.HEARTBEAT, Says.UNKNOWN),
        kubelet=latest.get(Source.KUBELET, Says.UNKNOWN),
        neighbours=latest.get(Source.NEIGHBOURS, Says.UNKNOWN),
        power=latest.get(Source.POWER, Says.UNKNOWN),
        log=latest.get(Source.LOG, Says.UNKNOWN),
        others=latest.get(Source.OTHERS, Says.UNKNOWN),
        crowd=crowd,
    )


def fresh(evidence: Iterable[Evidence], since: datetime, now: datetime) -> list[Evidence]:
    """In the order in which it was asked."""
    asked = sorted(evidence, key=lambda one: one.at)
    return [one for one in asked if since <= one.at <= now and now - one.at <= FRESH]


def missing(facts: Facts, required: Iterable[Source]) -> tuple[Source, ...]:
    """Those that were asked for and have not said anything."""
    said = {Source.HEARTBEAT: facts.heartbeat, Source.KUBELET: facts.kubelet, Source.POWER: facts.power}
    return tuple(source for source in required if said[source] is Says.UNKNOWN)
