"""One object of a busy cluster is spoilt: the others are looked after as before, and nothing follows from nonsense."""

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

import msgspec
import pytest

from defib.console.recording import shelves_of
from defib.console.thorough import Thought
from defib.kube.decode import decode_page
from defib.model import medik8s
from defib.model.action import (
    Action,
    DeleteAttachment,
    DeleteMachine,
    DeleteNode,
    FreePod,
    MovePod,
    ReadPower,
    RestoreNode,
    StartRemediation,
    SwitchPower,
    TaintNode,
    UntaintNode,
)
from defib.model.cluster import Cluster, Unread
from defib.model.drain_action import DeletePod, EvictPod, RemoveFinalizers
from defib.model.incident import Phase
from defib.model.machine_action import AskForPowerCycle, RemediateMachine, ReplaceMachine
from defib.model.meta import Resource
from defib.model.pod import pods_on
from tests.hostile.gauntlet import (
    Sights,
    expect_it_can_be_dumped,
    expect_it_can_be_sent,
    expect_it_can_be_shown,
    one_pass,
    sights,
)
from tests.hostile.spoiling import spoil
from tests.hostile.town import DRAINED, HOME, VICTIM, looks

EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "2000"))
SHOWN_SHARE = 20  # one in so many is also drawn, which takes far longer than to decide
PARTS = 2
LONG = 600
FOREIGN_SHARE = 0.5
LARGEST = 1_500_000  # bytes: etcd takes no more
FIXED = ("nodes", "heartbeats", "locks")
CYCLES = "PowerCycleRemediation.v1alpha1.defib.dev"

Object = dict[str, Any]

DESTROYS = (
    StartRemediation,
    SwitchPower,
    TaintNode,
    DeleteNode,
    FreePod,
    DeleteAttachment,
    DeleteMachine,
    MovePod,
    EvictPod,
    DeletePod,
    RemoveFinalizers,
    AskForPowerCycle,
    RemediateMachine,
    ReplaceMachine,
)

TOUCHES = (*DESTROYS, ReadPower, UntaintNode, RestoreNode)


def node_of(action: Action) -> str:
    for holder in ("", "pod", "patient"):
        found = getattr(getattr(action, holder) if holder and hasattr(action, holder) else action, "node", "")
        if found:
            return str(found)
    return ""


def with_spoilt(before: Sights, chance: Random) -> tuple[Cluster, list[str]]:
    """The same look with one object of it as the API server might hold it: what cannot be read is set aside."""
    cluster, texts = before.cluster, before.texts
    filled = [name for name, objects in texts.items() if objects]
    foreign = [name for name in filled if name.endswith(")")]
    ours = [name for name in filled if not name.endswith(")")]
    shelf = chance.choice(foreign if foreign and chance.random() < FOREIGN_SHARE else ours)
    key = chance.choice(sorted(texts[shelf]))
    item, done = a_spoilt(texts[shelf][key], chance)
    objects = shelves_of(cluster)[shelf]
    page = decode_page(msgspec.json.encode({"metadata": {}, "items": [item]}), type(objects[key]))
    others = {one: found for one, found in objects.items() if one != key} | {one.key: one for one in page.items}
    unread = tuple(Unread(shelf, one.key, one.why) for one in page.set_aside)
    return put(cluster, shelf, others, unread), [f"{shelf} {key}", *done]


def a_spoilt(right: Object, chance: Random) -> tuple[Object, list[str]]:
    """Of a size that the API server would keep, under the name that it has."""
    while True:
        item: Object = msgspec.json.decode(msgspec.json.encode(right))
        done = spoil(item, chance)
        with suppress(RecursionError):  # nested so deeply that it cannot even be sent from here
            if len(msgspec.json.encode(item)) < LARGEST:
                break
    if isinstance(meta := item.get("metadata"), dict):
        meta |= {name: value for name, value in right["metadata"].items() if name in ("name", "namespace")}
    return item, done


def put(cluster: Cluster, shelf: str, objects: Mapping[str, Resource], unread: tuple[Unread, ...]) -> Cluster:
    if shelf in FIXED:
        return msgspec.structs.replace(cluster, **{shelf: objects}, unread=unread)
    return msgspec.structs.replace(cluster, others={**cluster.others, shelf: objects}, unread=unread)


def destroyed(thought: Thought) -> set[str]:
    """The nodes to which something is about to be done that cannot be undone."""
    return {node_of(action) for action in thought.actions if isinstance(action, DESTROYS)}


@cache
def all_sights() -> tuple[Sights, ...]:
    return tuple(map(sights, looks()))


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_stands_in_one_object_the_pass_goes_on_and_nodes_that_are_well_stay_untouched(part: int) -> None:
    for seed in range(part, EXAMPLES, PARTS):
        chance = Random(seed)
        before = chance.choice(all_sights())
        cluster, done = with_spoilt(before, chance)
        try:
            thought = one_pass(before, cluster)
            expect_it_can_be_sent(thought)
            touched = destroyed(thought) - {VICTIM, DRAINED} - destroyed(before.thought)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {done}") from error
        assert not touched, f"seed {seed}: {done}"


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_stands_in_one_object_can_be_shown_on_the_page_and_steers_no_terminal(part: int) -> None:
    for seed in range(part, EXAMPLES // SHOWN_SHARE, PARTS):
        chance = Random(seed)
        before = chance.choice(all_sights())
        cluster, done = with_spoilt(before, chance)
        try:
            thought = one_pass(before, cluster)
            expect_it_can_be_shown(cluster, thought)
            expect_it_can_be_dumped(cluster, thought)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {done}") from error


@pytest.mark.parametrize("name", ["n5", "ghost", "n1.", ""])
def test_an_incident_stays_with_its_node_whichever_node_its_remediation_names_later(name: str) -> None:
    met = set()
    for cluster in looks():
        incident, remediation = cluster.incidents().get(VICTIM), cluster.others.get(CYCLES, {}).get(f"{HOME}/{VICTIM}")
        if incident is None or remediation is None or not incident.is_open:
            continue
        annotations = {**remediation.annotations, medik8s.NODE_NAME: name}
        meta = msgspec.structs.replace(remediation.metadata, annotations=annotations)
        renamed = msgspec.structs.replace(remediation, metadata=meta)
        pods = {pods_on(name): cluster.others.get(pods_on(VICTIM), {})}
        others = {**cluster.others, **pods, CYCLES: {renamed.key: renamed}}
        thought = one_pass(sights(cluster), msgspec.structs.replace(cluster, others=others))
        assert {node_of(one) for one in thought.own.fencing.actions if isinstance(one, TOUCHES)} <= {VICTIM}
        met.add(incident.status.phase)
    assert {Phase.POWERING_OFF, Phase.FREEING, Phase.POWERING_ON, Phase.RETURNING} <= met


def test_a_pool_may_claim_to_have_any_number_of_nodes() -> None:
    cluster = looks()[-1]
    shelf = next(name for name in cluster.others if name.startswith("MachineConfigPool"))
    (key, pool), *_ = cluster.others[shelf].items()
    counts = {"machineCount": 2**63 - 1, "updatedMachineCount": 0}
    claims = {key: msgspec.structs.replace(pool, status=counts)}
    expect_it_can_be_sent(one_pass(sights(cluster), put(cluster, shelf, claims, ())))
