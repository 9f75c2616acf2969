"""Guards that stand where Defib acts: live looks, preconditions, records, locks, and what is left as it was."""

from typing import Any

import msgspec

from defib.act.executor import HELD_BY_THE_BRAKE
from defib.act.locks import Locked
from defib.act.means import Means
from defib.act.outcome import Outcome
from defib.kube.client import Deletion
from defib.kube.kinds import NODES
from defib.model.action import EndRemediation, SetFinalizers, UntaintNode
from defib.model.node import Lease
from defib.model.pod_failover import FINALIZER
from tests.simulation.mutants.days import Drawn, acting, switching
from tests.simulation.mutants.switching import Mutant, Swap, always_at_once, value


async def _locked_by_word(_: Means, claim: Any) -> Locked:
    return Locked(claim.known or Lease(), is_new=False)


def _without_uid(good: Any) -> Any:
    def options(self: Deletion) -> Any:
        return good(self) | {"preconditions": {}}

    return options


def _remembered(good: Any) -> Any:
    """A node is looked at once, and that is believed from then on."""
    known: dict[Any, Any] = {}

    async def live(self: Means, ref: Any) -> Any:
        if ref.kind is not NODES:
            return await good(self, ref)
        key = (id(self.client), ref.name)
        if key not in known:
            known[key] = await good(self, ref)
        return known[key]

    return live


def _patching_more(change: Any) -> Any:
    """What is written to a node when it comes back, and a little more."""

    def made(good: Any) -> Any:
        async def write(means: Means, name: str, uid: str, patch: Any) -> Outcome:
            def worse(node: Any) -> Any:
                found = patch(node)
                return found if found is None else change(found)

            outcome: Outcome = await good(means, name, uid, worse)
            return outcome

        return write

    return made


def _and_uncordoned(patch: dict[str, Any]) -> dict[str, Any]:
    return patch | {"spec": patch.get("spec", {}) | {"unschedulable": None}}


def _without_taints(patch: dict[str, Any]) -> dict[str, Any]:
    return patch | {"spec": patch.get("spec", {}) | {"taints": None}}


def _without_annotations(patch: dict[str, Any]) -> dict[str, Any]:
    return patch | {"metadata": patch.get("metadata", {}) | {"annotations": None}}


def _ours_alone(good: Any) -> Any:
    async def set_finalizers(means: Means, action: SetFinalizers) -> Outcome:
        ours = tuple(one for one in action.finalizers if one == FINALIZER)
        outcome: Outcome = await good(means, msgspec.structs.replace(action, finalizers=ours))
        return outcome

    return set_finalizers


def _writes_nodes(day: Drawn) -> bool:
    """By taking them out of service and back; a Node that is deleted is made anew."""
    return day.switches and day.shape.workloads != "DeleteNode"


def _tainted_by_others(day: Drawn) -> bool:
    """At a time at which we write to the node."""
    taints = [one for one in day.troubles if one.name == "stranger: puts its own taint back" and one.whom in day.ill]
    return _writes_nodes(day) and any(one.at < day.begins_at + 60.0 and one.ends > day.begins_at for one in taints)


ACTING = (
    Mutant(
        name="lock not taken",
        invariant="I2",
        broken="a remediation begins without the node's lock",
        needs=acting,
        swaps=(Swap("defib.act.locks:take_lock", value(_locked_by_word)),),
    ),
    Mutant(
        name="UID left out",
        invariant="I6",
        broken="deletions name no UID, so a namesake could be hit",
        needs=acting,
        swaps=(Swap("defib.kube.client:Deletion.options", _without_uid),),
    ),
    Mutant(
        name="looks remembered",
        invariant="I6",
        broken="a node is looked at live once, and what was seen is believed from then on",
        needs=switching,
        swaps=(Swap("defib.act.means:Means.live", _remembered),),
    ),
    Mutant(
        name="foreign taints removed",
        invariant="I7",
        broken="a node that comes back loses every taint, whoever put it there",
        needs=_tainted_by_others,
        swaps=(Swap("defib.act.fencing:_write_node", _patching_more(_without_taints)),),
    ),
    Mutant(
        name="cordon undone",
        invariant="I7",
        broken="a node that comes back is uncordoned, whoever had cordoned it",
        needs=lambda day: (
            _writes_nodes(day) and day.has_for_ill("person: cordons", "stranger: cordons again and again")
        ),
        swaps=(Swap("defib.act.fencing:_write_node", _patching_more(_and_uncordoned)),),
    ),
    Mutant(
        name="annotations removed",
        invariant="I7",
        broken="a node that is tainted or comes back loses all annotations",
        needs=lambda day: day.switches and day.has("stranger: annotates and labels"),
        swaps=(Swap("defib.act.fencing:_write_node", _patching_more(_without_annotations)),),
    ),
    Mutant(
        name="foreign finalizers removed",
        invariant="I7",
        broken="the finalizers of a remediation are set to ours alone",
        needs=lambda day: day.acts and day.has("stranger: puts finalizers on everything"),
        swaps=(Swap("defib.act.pod_failover:set_finalizers", _ours_alone),),
    ),
    Mutant(
        name="command not recorded",
        invariant="I8",
        broken="a machine is switched without a word in its incident",
        needs=switching,
        swaps=(Swap("defib.act.power:_write_down", always_at_once(None)),),
    ),
    Mutant(
        name="never tried again",
        invariant="I11",
        broken="what has failed once rests for a day",
        needs=acting,
        swaps=(
            Swap("defib.act.ledger:FIRST_PAUSE_SECONDS", value(86400.0)),
            Swap("defib.act.ledger:LONGEST_PAUSE_SECONDS", value(86400.0)),
        ),
    ),
    Mutant(
        name="brake on cleaning",
        invariant="I14",
        broken="the brake also holds back what ends a remediation and takes our taint off",
        needs=lambda day: day.acts and day.has("person: pulls the brake"),
        swaps=(Swap("defib.act.executor:HELD_BY_THE_BRAKE", value(HELD_BY_THE_BRAKE | EndRemediation | UntaintNode)),),
    ),
)
