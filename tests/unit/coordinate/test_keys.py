"""SH-07, SH-08: what belongs together is one replica's, and what is counted is admitted in one place."""

import types
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from defib.coordinate.keys import ADMISSION, ANYBODY, name_of
from defib.model import account_action, agents, drain_action, leftover, machine_action, medik8s
from defib.model import action as acts
from defib.model.action import CHECK, Action
from defib.model.event import NODE as EVENT_NODE
from defib.model.failover_policy import POLICY
from defib.model.health_check import KindRef, TemplateRef
from defib.model.incident import INCIDENT
from defib.model.lock import Claim
from defib.model.pod_action import MovePod, ReadClaim
from defib.model.power import PowerPath, PowerState
from defib.model.power_cycle import LOCK_HOLDER
from defib.model.saved import Saved
from defib.model.target import Because, Target
from tests.builders import T0

NODE, NOW = "worker-7", datetime(2030, 1, 1, tzinfo=UTC)
HOST_KIND = KindRef("metal3.io/v1alpha1", "BareMetalHost")
POWER_CYCLE = KindRef("defib.dev/v1alpha1", "PowerCycleRemediation")
THING = Target(kind=POWER_CYCLE, namespace="defib-system", name="worker-7-x7k2", uid="u2")
HOST = Target(kind=HOST_KIND, namespace="metal3", name="rack-1-7", uid="u3")
OUR_INCIDENT = Target(kind=INCIDENT, namespace="", name=NODE, uid="u1")
OUR_ACCOUNT = Target(kind=INCIDENT, namespace="", name=f"{NODE}.1a2b3c4d", uid="u4")
PATH = PowerPath(driver="redfish", address="https://bmc")
PATIENT = machine_action.Patient(check=THING, generation=1, machine=THING, version="1", node=NODE, node_uid="u")


def a_claim(holder: str) -> Claim:
    return Claim(node=NODE, node_uid="u", holder=holder, length=timedelta(minutes=1))


def a_release(holder: str) -> acts.ReleaseLock:
    return acts.ReleaseLock(node=NODE, namespace="l", name="node-worker-7", uid="u", version="1", holder=holder)


def a_move(because: str) -> MovePod:
    return MovePod(
        node=NODE, node_uid="u", namespace="shop", name="web-1", uid="p", because=because, since=None, grace_seconds=0
    )


def an_event(kind: KindRef, about: str) -> acts.TellEvent:
    return acts.TellEvent(check=about, uid="u", is_warning=False, reason="R", message="m", at=NOW, kind=kind)


def a_mark(annotation: str, node: str = NODE) -> acts.MarkRemediation:
    return acts.MarkRemediation(node=node, target=THING, annotations={annotation: "x"})


def an_end(**changes: Any) -> acts.EndRemediation:
    """Of a remediation whose node is well, as the node and the check will be asked to confirm."""
    known: dict[str, Any] = {"unless": (("Ready", "Unknown"),), "generation": 1} | changes
    return acts.EndRemediation(check="workers", node=NODE, target=THING, **known)


START = acts.StartRemediation(
    check="workers",
    node=NODE,
    node_uid="u",
    because=Because("Ready", "Unknown"),
    kind=POWER_CYCLE,
    namespace="defib-system",
    body={"metadata": {"name": NODE}},
    claim=a_claim(medik8s.holder_of("workers")),
)
SWITCH = acts.SwitchPower(
    incident=OUR_INCIDENT,
    version="1",
    node=NODE,
    node_uid="u",
    path=PATH,
    power=PowerState.OFF,
    attempt=1,
    cause=THING,
)
DEFAULT_CHECK = acts.AddDefaultCheck(
    template=TemplateRef(POWER_CYCLE, "n", "t"), template_body={}, check="c", check_body={}
)

# What is counted, or done because nothing is there that would be counted.
LEAVING = drain_action.Leaving(
    drain=THING, node=NODE, node_uid="u", taint="", namespace="shop", name="web-1", uid="u1", because="a test"
)
ADMITTED: tuple[Action, ...] = (
    START,
    an_end(unless=()),  # the node shows trouble that is somebody else's: no look at it would tell
    an_end(generation=0),  # nor is its check looked at
    acts.EndRemediation(check="workers", node=NODE, target=THING, node_is_gone=True, is_leftover=True),
    acts.WriteStatus(check="workers", uid="u", version="1", status={}),
    acts.OpenIncident(node=NODE, body={}),
    acts.ClearNodeAnnotation(node=NODE, node_uid="u", annotation="a", value="b"),
    acts.HoldLock(claim=a_claim(medik8s.holder_of("workers"))),
    a_release(medik8s.holder_of("workers")),
    acts.CheckPower(node=NODE, path=PATH),
    acts.GatherEvidence(node=NODE, node_uid="u", renewed=None),
    DEFAULT_CHECK,
    machine_action.AskForPowerCycle(patient=PATIENT, annotation="a"),
    machine_action.RemediateMachine(patient=PATIENT, kind=POWER_CYCLE, body={}),
    machine_action.ReplaceMachine(patient=PATIENT),
    a_mark(medik8s.TIMED_OUT),
    a_mark(medik8s.OLD_REMEDIATION),
    a_mark("metal3.io/kept-off", node=""),
    a_move(f"{POLICY.name} shop/web"),
    an_event(CHECK, "workers"),
    an_event(POLICY, "web"),
    acts.ReportRemediation(target=THING, version="1", status={}),
    acts.SetFinalizers(target=THING, version="1", finalizers=()),
    leftover.LetHostGo(node=NODE, host=HOST, kept_off_by="a"),
    leftover.ReadMembers(namespace="defib-system"),
    leftover.DropMember(namespace="defib-system", name="m", uid="u", version="1"),
    drain_action.OpenDrain(node=NODE, body={}),
    drain_action.DropDrain(node=NODE, drain=THING, version="1"),
    drain_action.EvictPod(pod=LEAVING),
    drain_action.DeletePod(pod=LEAVING),
    drain_action.RemoveFinalizers(pod=LEAVING, version="1", finalizers=("a/b",)),
    account_action.DropAccount(account=OUR_ACCOUNT, version="1"),
)

# What is done to one machine, its node, its pods, its volumes, and told of that.
OF_THE_MACHINE: tuple[Action, ...] = (
    SWITCH,
    acts.ReadPower(incident_uid="u1", node=NODE, path=PATH),
    acts.TaintNode(incident=OUR_INCIDENT, node=NODE, node_uid="u"),
    acts.UntaintNode(node=NODE, node_uid="u"),
    acts.DeleteNode(incident=OUR_INCIDENT, node=NODE, node_uid="u", saved=Saved()),
    acts.RestoreNode(node=NODE, node_uid="u", saved=Saved()),
    acts.FreePod(incident=OUR_INCIDENT, node=NODE, namespace="shop", name="db-0", uid="p"),
    acts.DeleteAttachment(incident=OUR_INCIDENT, node=NODE, name="va", uid="v"),
    acts.DeleteMachine(incident=OUR_INCIDENT, node=NODE, machine=THING),
    agents.DistrustNode(node=NODE, node_uid="u", since=T0),
    acts.DropIncident(incident=OUR_INCIDENT),
    acts.HoldLock(claim=a_claim(LOCK_HOLDER)),
    a_release(LOCK_HOLDER),
    a_mark("host.metal3.io/external-remediation"),
    a_mark(medik8s.HEALTHY_DELAY),  # by which it is known when to end it
    an_end(),
    an_end(unless=(), node_is_gone=True),
    a_move("PodFailoverRemediation defib-system/worker-7"),
    an_event(INCIDENT, NODE),
    acts.ReportRemediation(target=OUR_INCIDENT, version="1", status={}, node=NODE),
    acts.SetFinalizers(target=THING, version="1", finalizers=(), node=NODE),
    leftover.TakeTaintOff(node=NODE, node_uid="u"),
    account_action.OpenAccount(node=NODE, name=OUR_ACCOUNT.name, body={}),
    account_action.WriteAccount(node=NODE, account=OUR_ACCOUNT, version="1", status={}),
    an_event(EVENT_NODE, NODE),
)

ANYBODYS: tuple[Action, ...] = (ReadClaim("shop", "disk-db-0"), agents.HearAgents(namespace="defib-system"))


def kinds(union: Any = Action) -> Iterator[type]:
    for one in get_args(union):
        yield from kinds(one) if isinstance(one, types.UnionType) else (one,)


def test_sh_07_of_every_action_that_there_is_somebody_has_decided_whose_it_is() -> None:
    """A new one must be put into one of the tables above, by whoever has thought about what it depends on."""
    decided = {type(one) for one in (*ADMITTED, *OF_THE_MACHINE, *ANYBODYS)}
    assert decided == set(kinds())


@pytest.mark.parametrize("action", OF_THE_MACHINE, ids=lambda one: type(one).__name__)
def test_sh_07_a_node_its_incident_its_pods_and_its_machine_are_one_replicas(action: Action) -> None:
    assert name_of(action) == NODE


@pytest.mark.parametrize("action", ADMITTED, ids=lambda one: type(one).__name__)
def test_sh_08_what_is_counted_is_admitted_in_one_place(action: Action) -> None:
    assert name_of(action) == ADMISSION


@pytest.mark.parametrize("action", ANYBODYS, ids=lambda one: type(one).__name__)
def test_what_only_finds_something_out_is_anybodys(action: Action) -> None:
    """Whoever moves pods must know their volumes, whichever bucket the node is in."""
    assert name_of(action) == ANYBODY


def test_sh_07_a_machine_without_a_node_has_the_bucket_of_its_incident() -> None:
    incident = Target(kind=INCIDENT, namespace="", name="machine.metal3.rack-1-7", uid="u9")
    drop = acts.DropIncident(incident=incident)
    told = acts.ReportRemediation(target=incident, version="1", status={}, node=incident.name)
    assert name_of(drop) == name_of(told) == incident.name
