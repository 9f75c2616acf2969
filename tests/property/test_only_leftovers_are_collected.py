"""GC-01, GC-02: whatever happens, nothing is taken away that is unmarked, wanted, or was wanted a moment ago."""

from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.rules import Rules
from defib.model import power_cycle
from defib.model.action import Action, EndRemediation
from defib.model.incident import INCIDENTS, NodeIncident, Phase
from defib.model.leftover import DropMember, LetHostGo, TakeTaintOff
from defib.model.metal3 import HOST
from defib.model.power import PowerPath
from tests.builders import a_node
from tests.leftover_world import (
    AGE,
    STAMP,
    Watch,
    a_host,
    a_member,
    a_remediation,
    a_tainted_node,
    an_incident,
)

NAMES = ("n1", "n2")


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the cluster at a look. Everything is about the nodes n1 and n2, their hosts and remediations."""

    pause: int  # seconds since the look before
    tainted: frozenset[str]
    marked: frozenset[str]
    ready: frozenset[str]
    in_trouble: frozenset[str]  # an incident is open
    phase: Phase  # in which those are
    way: str  # by which those are switched: by the host of their node, or by anything else
    hosts_marked: frozenset[str]
    hosts_named: frozenset[str]  # on these it stands for which node they are kept off
    made: frozenset[str]  # remediations that a check has made
    check_is_there: bool
    member_version: int
    is_blind: str


_ALL, _NONE = frozenset(NAMES), frozenset[str]()
_MOSTLY = st.sampled_from((_ALL, _ALL, _ALL, _ALL, frozenset({"n1"}), _NONE))
_SELDOM = st.sampled_from((_NONE, _NONE, _NONE, _NONE, frozenset({"n1"}), _ALL))
MOMENTS = st.builds(
    Moment,
    pause=st.sampled_from((1, 60, 299, 300, 600, 86400)),
    tainted=_MOSTLY,
    marked=_MOSTLY,
    ready=_MOSTLY,
    in_trouble=_SELDOM,
    phase=st.sampled_from((Phase.FREEING, Phase.FREEING, *(phase for phase in Phase if phase is not Phase.CLOSED))),
    way=st.sampled_from(("metal3", "manual", "")),
    hosts_marked=_MOSTLY,
    hosts_named=_MOSTLY,
    made=_SELDOM,
    check_is_there=st.booleans(),
    member_version=st.integers(1, 2),
    is_blind=st.sampled_from(("", "", "", "", "", "nodes", INCIDENTS, "clock")),
)


def show(watch: Watch, moment: Moment) -> None:
    watch.nodes = {
        name: a_tainted_node(name, mark=STAMP if name in moment.marked else "", ready=str(name in moment.ready))
        if name in moment.tainted
        else a_node(name)
        for name in NAMES
    }
    watch.incidents(*(incident_of(name, moment) for name in NAMES))
    watch.put(
        HOST,
        *(
            a_host(
                name,
                mark="reboot.metal3.io/defib" if name in moment.hosts_marked else "",
                kept_for=name if name in moment.hosts_named else "",
            )
            for name in NAMES
        ),
    )
    watch.put(power_cycle.REMEDIATION, *(a_remediation(name, owners=("uid-c",)) for name in moment.made))
    watch.checks(*(("uid-c",) if moment.check_is_there else ()))
    watch.members = (a_member(version=str(moment.member_version)), a_member("defib-bucket-1"))
    watch.fields = {}
    if moment.is_blind == "clock":
        watch.fields = {"doubts": ("our own clock has jumped",)}
    elif moment.is_blind:
        watch.blind(moment.is_blind)


def incident_of(name: str, moment: Moment) -> NodeIncident:
    phase = moment.phase if name in moment.in_trouble else Phase.CLOSED
    if moment.way == "metal3":
        return an_incident(name, phase, address=f"metal/{name}")
    return an_incident(name, phase, way=PowerPath(driver=moment.way) if moment.way else None)


SHOULD_BE_ON = (Phase.POWERING_ON, Phase.RETURNING, Phase.RESTORING, Phase.CANCELLING)


def may_be_let_go(name: str, moment: Moment) -> bool:
    """Whether the host of this node may come on without harm to anybody who works on a node."""
    if moment.way == "metal3":
        return name not in moment.in_trouble
    who = moment.in_trouble & {name} if name in moment.hosts_named else moment.in_trouble
    return not who or moment.phase in SHOULD_BE_ON


def is_left(action: Action, moment: Moment) -> bool:
    """As anybody would say who looks at the moment alone."""
    if moment.is_blind in ("nodes", "clock"):
        return False
    match action:
        case TakeTaintOff(node=name):
            free = name not in moment.in_trouble and name not in moment.made and moment.is_blind != INCIDENTS
            return free and name in moment.tainted & moment.marked & moment.ready
        case LetHostGo(host=host):
            free = may_be_let_go(host.name, moment) and moment.is_blind != INCIDENTS
            return free and host.name in moment.hosts_marked
        case EndRemediation(node=name):
            return name in moment.made and not moment.check_is_there
        case DropMember(name=name, version=version):
            return name == "defib-member-a" and int(version) == moment.member_version
    return False


@settings(max_examples=300, deadline=None)
@given(history=st.lists(MOMENTS, min_size=2, max_size=12))
def test_gc_01_and_gc_02_nothing_unmarked_nothing_young_and_nothing_wanted_is_ever_collected(
    history: list[Moment],
) -> None:
    watch = Watch(rules=Rules(has_members=True))
    now, looks = timedelta(), list[tuple[timedelta, Moment]]()
    for moment in history:
        now += timedelta(seconds=moment.pause)
        show(watch, moment)
        looks.append((now, moment))
        for action in watch.look(now).actions:
            left_since = now
            for at, seen in reversed(looks):
                if not is_left(action, seen):
                    break
                left_since = at
            assert now - left_since >= AGE, action
