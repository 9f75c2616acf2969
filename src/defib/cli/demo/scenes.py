"""The demo's scenes: what goes wrong in each, and one sentence or two about what is to be seen at every moment of it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from defib.cli.demo.furniture import CACHE, DATABASES, MOST_AT_ONCE
from defib.cli.demo.story import DEMO, POWER
from defib.decide.drains.intent import UNSCHEDULABLE
from defib.decide.explain import explain
from defib.model.incident import NodeIncident, Phase
from defib.model.node_drain import DRAIN_MARK
from defib.model.verdict import State, Verdict
from defib.picture import Picture
from defib.simulate.faults import Fault, Refuse
from defib.simulate.workloads.hands import Hands

if TYPE_CHECKING:
    from defib.cli.demo.stage import Stage

NODES = "nodes"
MISSED = "503 from a busy API server"
API_TROUBLE_SECONDS = 8.0  # of the show: long enough to be seen, whatever the speed
HOLDING_SECONDS = 4.0


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How fast the demo runs, and how long that makes what a person waits for."""

    speed: float
    grace_seconds: float
    patience_seconds: float
    toleration_seconds: float
    drain_seconds: float

    @property
    def verdict_seconds(self) -> float:
        return self.grace_seconds + self.patience_seconds

    @property
    def alone_seconds(self) -> float:
        """From the loss of a node until Kubernetes by itself lets its stateless pods run elsewhere."""
        return self.grace_seconds + self.toleration_seconds


class Scene(msgspec.Struct, frozen=True):
    """`key` is what a person presses, `name` what a button says."""

    key: str
    name: str
    play: Callable[["Stage"], Awaitable[None]]
    caption: Callable[["Stage", Picture], str]


# A node hangs.


async def node_hangs(stage: "Stage") -> None:
    victim = stage.place_of(DATABASES[0]) or stage.next_victim()
    stage.fails(victim, "hangs: it has power, and answers nobody")
    stage.nodes[victim].hang()
    await _until_recovered(stage, victim)


def node_hangs_said(stage: "Stage", picture: Picture) -> str:
    (victim,) = stage.victims or ("the node",)
    incident = picture.cluster.incidents().get(victim)
    if incident is not None and incident.is_open:
        return f"{_phase_said(incident, victim)} {_database_said(stage, victim)}".rstrip()
    verdict = _verdict(picture, victim)
    node = picture.cluster.nodes.get(victim)
    if node is not None and node.ready == "True":
        if stage.nodes[victim].answers:
            return f"{victim} is back, and Defib is done with it. {_database_said(stage, victim)}".rstrip()
        return f"{victim} hangs. Kubernetes notices after {stage.pace.grace_seconds:.3g} s without heartbeat."
    if verdict.state is State.SUSPECT:
        return f"{victim} is not ready. Defib waits {stage.pace.patience_seconds:.3g} s, in case it comes back."
    return f"{victim} is not ready: {verdict.message}."


# A zone is lost.


async def zone_lost(stage: "Stage") -> None:
    zone = stage.zone("c")
    stage.victims = tuple(zone)
    stage.say(POWER, f"the network of zone-c is cut: {len(zone)} machines run on, and nobody hears them", bad=True)
    for name in zone:
        stage.nodes[name].partition()
    await stage.until(lambda: _holds_all(stage), stage.pace.verdict_seconds + HOLDING_SECONDS)
    await stage.until(lambda: False, HOLDING_SECONDS)
    stage.say(POWER, "the network of zone-c is back")
    for name in zone:
        stage.nodes[name].heal()
    await stage.until(lambda: all(_is_ready(stage, name) for name in zone), stage.pace.verdict_seconds)
    await stage.until(lambda: False, HOLDING_SECONDS)


def zone_lost_said(stage: "Stage", picture: Picture) -> str:
    silent = [name for name in stage.victims if not stage.nodes[name].answers]
    if not silent:
        return "The network is back. No machine was switched off, and no pod was moved: nothing of it was needed."
    held = [verdict for name in silent if (verdict := _verdict(picture, name)).state is State.UNHEALTHY]
    if held:
        why = f"{len(silent)} nodes fail at once, at most {MOST_AT_ONCE} may: that looks like the network"
        return f"{why}. Defib holds back: {held[0].message}."
    return "A whole zone is silent. Are its machines dead, or is it the network? Defib asks before it acts."


# The API server is ailing.


async def api_degraded(stage: "Stage") -> None:
    victim = stage.next_victim(lambda name: stage.nodes[name].answers)
    stage.say(DEMO, "the API server refuses most of what is asked of it", bad=True)
    faults = [Fault(effect=Refuse(code=503, message=MISSED), client=name, chance=0.8) for name in stage.cast.names]
    stage.cluster.server.faults.inject(*faults)
    stage.fails(victim, "loses its power")
    stage.nodes[victim].machine.set_power(False)
    await stage.until(lambda: False, max(API_TROUBLE_SECONDS, stage.pace.verdict_seconds + HOLDING_SECONDS))
    for fault in faults:
        stage.cluster.server.faults.remove(fault)
    stage.say(DEMO, "the API server is well again")
    await _until_recovered(stage, victim)


def api_degraded_said(stage: "Stage", picture: Picture) -> str:
    (victim,) = stage.victims or ("the node",)
    if stage.cluster.server.faults.any_set:
        doubts = ", ".join(picture.cluster.doubts)
        why = f": {doubts}" if doubts else ""
        return f"The API server is ailing, and {victim} lost its power. Defib does not trust what it sees{why}."
    return node_hangs_said(stage, picture)


# A drain hangs.


async def drain_hangs(stage: "Stage") -> None:
    victim = stage.place_of(CACHE) or stage.next_victim()
    stage.victims = (victim,)
    stage.say(DEMO, f"somebody drains {victim} for a new kernel")
    hands = Hands(stage.cluster.server, "admin")
    node = _stored(stage, victim)
    cordon = {"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": f"{stage.clock.now():%Y-%m-%dT%H:%M:%SZ}"}
    closed = {"unschedulable": True, "taints": [cordon]}
    hands.patch(NODES, node, {"metadata": {"annotations": {DRAIN_MARK: "new kernel"}}, "spec": closed})
    await stage.until(lambda: stage.place_of(CACHE) not in ("", victim), stage.pace.drain_seconds + 5 * HOLDING_SECONDS)
    await stage.until(lambda: False, HOLDING_SECONDS)
    stage.say(DEMO, f"{victim} is empty, gets its kernel, and takes part again")
    hands.patch(
        NODES,
        _stored(stage, victim),
        {"metadata": {"annotations": {DRAIN_MARK: None}}, "spec": {"unschedulable": None, "taints": None}},
    )


def drain_hangs_said(stage: "Stage", picture: Picture) -> str:
    (victim,) = stage.victims or ("the node",)
    if stage.place_of(CACHE) == victim:
        standing = picture.own.drains.standings.get(victim)
        why = f" {standing.status.message}" if standing is not None and standing.status.message else ""
        return (
            f"{victim} is drained, and one pod does not leave: its disruption budget allows no pod to go, ever."
            f" Defib gives the budget its time, then moves the pod.{why}"
        )
    return f"The drain of {victim} has ended. Every step stands in its record: kubectl get nodedrains."


# The leader is killed.


async def leader_killed(stage: "Stage") -> None:
    victim = stage.place_of(DATABASES[1]) or stage.next_victim()
    stage.fails(victim, "hangs")
    stage.nodes[victim].hang()
    begun = lambda: _incident(stage, victim) is not None  # noqa: E731  a name for the question
    await stage.until(begun, stage.pace.verdict_seconds + HOLDING_SECONDS)
    dead = stage.cast.kill_leader()
    stage.say(DEMO, f"{dead} is killed in the middle of it, without a chance to say anything", bad=True)
    await stage.until(lambda: stage.cast.leader != "", 10 * HOLDING_SECONDS)
    stage.say(DEMO, f"{stage.cast.leader} leads now, and goes on where the other one was")
    await _until_recovered(stage, victim)


def leader_killed_said(stage: "Stage", picture: Picture) -> str:
    if not stage.cast.leader:
        return (
            "The replica that led was killed half way through a remediation. When its lease ends, the other one leads."
        )
    return f"{node_hangs_said(stage, picture)} {stage.cast.leader} leads."


SCENES = (
    Scene("1", "A node hangs", node_hangs, node_hangs_said),
    Scene("2", "A zone is lost", zone_lost, zone_lost_said),
    Scene("3", "A drain hangs", drain_hangs, drain_hangs_said),
    Scene("4", "The leader is killed", leader_killed, leader_killed_said),
    Scene("5", "The API server ails", api_degraded, api_degraded_said),
)

_PHASES = {
    Phase.OPEN: "{node} counts as failed. Defib takes its lock, so that nobody else acts on it.",
    Phase.LOOKING: "Defib asks the machine of {node} whether it is on.",
    Phase.TESTING: "{node} says that it was off before: Defib makes sure that its BMC tells the truth.",
    Phase.POWERING_OFF: "Defib switches {node} off, and reads back that it is: only then may its disks be used elsewhere.",
    Phase.FREEING: "{node} is proved to be down. Its pods and volumes are set free.",
    Phase.POWERING_ON: "The workloads are safe. Defib switches {node} on again.",
    Phase.RETURNING: "{node} boots.",
    Phase.RESTORING: "{node} is back, and gets back what it had.",
    Phase.CANCELLING: "{node} came back by itself. Defib undoes what it had begun.",
    Phase.RESTING: "It did not work at the first attempt. Defib tries again.",
    Phase.NEEDS_PERSON: "This needs a person: kubectl get nodeincidents says for what.",
}


def _phase_said(incident: NodeIncident, node: str) -> str:
    return _PHASES.get(incident.status.phase, "{node}: " + incident.status.phase).format(node=node)


def _database_said(stage: "Stage", victim: str) -> str:
    places = {pod: stage.place_of(pod) for pod in DATABASES}
    waiting = [pod for pod, place in places.items() if not place]
    if waiting:
        return f"{waiting[0]}, with a disk that one node may hold, waits for that."
    return "Every database pod runs." if victim not in places.values() else ""


def _verdict(picture: Picture, node: str) -> Verdict:
    return explain(node, picture.cluster, picture.plan)[0]


def _incident(stage: "Stage", node: str) -> NodeIncident | None:
    picture = stage.picture
    found = picture.cluster.incidents().get(node) if picture is not None else None
    return found if found is not None and found.is_open else None


def _is_ready(stage: "Stage", name: str) -> bool:
    picture = stage.picture
    node = picture.cluster.nodes.get(name) if picture is not None else None
    return node is not None and node.ready == "True"


def _holds_all(stage: "Stage") -> bool:
    picture = stage.picture
    return picture is not None and all(_verdict(picture, name).state is State.UNHEALTHY for name in stage.victims)


def _stored(stage: "Stage", node: str) -> dict[str, object]:
    version = stage.cluster.server.store.get(NODES, node)
    assert version is not None, f"{node} is gone"
    return version.object


async def _until_recovered(stage: "Stage", victim: str) -> None:
    """Its incident came and went; or somebody holds Defib back, and then the machine mends itself in the end."""
    patience = stage.pace.alone_seconds + 10 * HOLDING_SECONDS
    await stage.until(lambda: _incident(stage, victim) is not None, stage.pace.verdict_seconds + 2 * HOLDING_SECONDS)
    if await stage.until(lambda: stage.is_served, patience):
        seconds = stage.clock.monotonic() - stage.failed_at
        stage.say(DEMO, f"every pod runs again, {seconds:.1f} s after {victim} failed")
    recovered = await stage.until(lambda: _incident(stage, victim) is None and _is_ready(stage, victim), patience)
    if not recovered:
        stage.say(POWER, f"somebody walks over and presses the button of {victim}")
        stage.nodes[victim].machine.set_power(False)
        stage.nodes[victim].machine.set_power(True)
