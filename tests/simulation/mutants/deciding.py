"""Guards that stand where Defib decides about checks: budgets, quorum, doubt, the mode, the order of nodes."""

from datetime import timedelta
from itertools import count
from typing import Any

import msgspec

from defib.act.locks import Locked
from defib.act.means import Means
from defib.act.outcome import Held
from defib.decide.admission import Ledger
from defib.decide.entries import release
from defib.decide.unhealthy import NodePlan
from defib.decide.view import View, holder
from defib.model.lock import Claim
from defib.model.node import Lease
from defib.model.verdict import Gate
from tests.simulation.mutants.days import Drawn, acting, switching, two_ill
from tests.simulation.mutants.switching import Mutant, Swap, always

OPEN = Gate(name="Open", is_open=True, message="nobody guards it")


def _one_too_many(good: Any) -> Any:
    return lambda taken, limit: good(taken, limit + 1)


def _forgetful(good: Any) -> Any:
    """A ledger that counts only what begins now."""

    def begin(self: Ledger, view: View, taken: Any) -> None:
        good(self, view, taken)
        self.in_flight = set(view.starting)
        self.unsure = frozenset()

    return begin


def _without(name: str) -> Any:
    """A table of gates that lacks one."""
    return lambda good: tuple(gate for gate in good if gate.__name__ != name)


def _gives_back_others(_: Any) -> Any:
    def free_locks(view: View) -> list[Any]:
        locks = view.ground.cluster.locks.values()
        others = [lease for lease in locks if lease.spec.holder_identity != holder(view.check)]
        return [release(lease.name.removeprefix("node-"), lease) for lease in others]

    return free_locks


def _without_asking(good: Any) -> Any:
    """As if a lock that another one holds were ours already."""

    async def take_lock(means: Means, claim: Claim) -> Locked | Held:
        locked: Locked | Held = await good(means, claim)
        return Locked(Lease(), is_new=False) if isinstance(locked, Held) else locked

    return take_lock


def _does_it_all(good: Any) -> Any:
    def deeds(view: View, plans: Any, sharing: Any) -> Any:
        automatic = msgspec.structs.replace(view.check, mode="Automatic")
        return good(msgspec.structs.replace(view, check=automatic), plans, sharing)

    return deeds


def _now_one_now_the_other(good: Any) -> Any:
    """Depends on how often it was asked."""
    times = count()

    def plan_nodes(view: View, *more: Any) -> Any:
        if next(times) % 2:
            swapped = dict(reversed(list(view.unhealthy.items())))
            moments = sorted((one.unhealthy_at for one in swapped.values()), reverse=True)
            view = msgspec.structs.replace(
                view,
                unhealthy={
                    name: msgspec.structs.replace(one, unhealthy_at=at)
                    for (name, one), at in zip(swapped.items(), moments, strict=True)
                },
            )
        return good(view, *more)

    return plan_nodes


def _only_when_all_is_well(good: Any) -> Any:
    def leftover(view: View, standing: Any, *more: Any) -> NodePlan:
        plan: NodePlan = good(view, standing, *more)
        is_held = any(not gate.is_open for gate in standing.gates.all)
        return msgspec.structs.replace(plan, actions=()) if is_held else plan

    return leftover


def _members(day: Drawn) -> frozenset[str]:
    """Nodes of the control plane that are ill."""
    return day.ill & set(day.shape.node_names[: day.shape.control_plane])


SEEN_SECONDS = 40.0  # by then whoever acts has heard of a brake, on a quiet day


def _braked(day: Drawn) -> bool:
    """For so long that everybody has seen it."""
    return day.acts and any(
        one.name == "person: pulls the brake" and one.seconds > SEEN_SECONDS for one in day.troubles
    )


def _locked(day: Drawn) -> bool:
    return day.acts and day.has_for_ill("person: takes the lock", "stranger: renews the lock")


DECIDING = (
    Mutant(
        name="StatefulSets moved like copies",
        invariant="I1",
        broken="a pod that must not run twice is moved without a proof that its node is down",
        needs=lambda day: day.moves_pods and bool(day.running),
        swaps=(Swap("defib.decide.failover.pods:needs_proof", always(False)),),
    ),
    Mutant(
        name="lock not honoured",
        invariant="I2",
        broken="a node is remediated while somebody else holds its lock",
        needs=_locked,
        swaps=(
            Swap("defib.decide.admission:_ALWAYS", _without("_lock")),
            Swap("defib.decide.fencing.obstacles:_lock", always(None)),
            Swap("defib.act.locks:take_lock", _without_asking),
        ),
    ),
    Mutant(
        name="lock taken away",
        invariant="I7",
        broken="a lock that somebody else holds counts as free, and is taken over",
        needs=_locked,
        swaps=(Swap("defib.model.lock:held_by_another", always("")),),
    ),
    Mutant(
        name="foreign lock given back",
        invariant="I7",
        broken="locks of others are deleted as if they were left over",
        needs=_locked,
        swaps=(Swap("defib.decide.recovery:_free_locks", _gives_back_others),),
    ),
    Mutant(
        name="lock not kept",
        invariant="I2",
        broken="the node's lock is taken for a second, and never renewed",
        needs=switching,
        swaps=(
            Swap("defib.decide.course:lock_length", always(timedelta(seconds=1))),
            Swap("defib.decide.unhealthy:_keep_lock", always(((), None))),
        ),
    ),
    Mutant(
        name="one too many in flight",
        invariant="I3",
        broken="maxInFlight is off by one",
        needs=lambda day: two_ill(day) and day.shape.max_in_flight == 1,
        swaps=(Swap("defib.decide.admission:in_flight_gate", _one_too_many),),
    ),
    Mutant(
        name="budget forgets",
        invariant="I3",
        broken="only what begins now counts for budgets, and not what began earlier",
        needs=lambda day: two_ill(day) and day.shape.max_in_flight == 1,
        swaps=(Swap("defib.decide.admission:Ledger.__init__", _forgetful),),
    ),
    Mutant(
        name="threshold ignored",
        invariant="I3",
        broken="nodes are remediated although fewer than minHealthy are healthy",
        needs=two_ill,
        swaps=(Swap("defib.decide.gates:_threshold", always(OPEN)),),
    ),
    Mutant(
        name="zone budget ignored",
        invariant="I3",
        broken="failureDomains allow any number of nodes",
        needs=lambda day: two_ill(day) and day.shape.per_zone == 1 and day.shape.zones == 1,
        swaps=(Swap("defib.decide.admission:_domain", always(OPEN)),),
    ),
    Mutant(
        name="control plane not spared",
        invariant="I4",
        broken="any number of control-plane nodes may be out at once",
        needs=lambda day: day.acts and len(_members(day)) > 1,
        swaps=(
            Swap("defib.decide.admission:_ALWAYS", _without("_control_plane")),
            Swap("defib.decide.fencing.obstacles:_control_plane", always(None)),
            Swap("defib.decide.quorum:quorum_gate", always(OPEN)),
        ),
    ),
    Mutant(
        name="quorum not asked",
        invariant="I4",
        broken="a control-plane node is remediated although etcd has no other member to spare",
        needs=lambda day: (
            day.acts and (len(_members(day)) > 1 or (day.shape.control_plane == 1 and bool(_members(day))))
        ),
        swaps=(Swap("defib.decide.quorum:quorum_gate", always(OPEN)),),
    ),
    Mutant(
        name="silence believed",
        invariant="I5",
        broken="when most heartbeats stop at once, all those nodes count as failed",
        needs=lambda day: day.acts and 2 * len(day.ill) > day.shape.nodes,
        swaps=(Swap("defib.decide.doubt:_silence", always(())),),
    ),
    Mutant(
        name="brake ignored",
        invariant="I5",
        broken="what destroys something begins although a person has pulled the brake",
        needs=_braked,
        swaps=tuple(
            Swap(f"defib.{where}:brake_reason", always("")) for where in ("decide.doubt", "decide.gates", "app")
        ),
    ),
    Mutant(
        name="Observe acts",
        invariant="I9",
        broken="a check in Observe remediates",
        needs=lambda day: day.shape.observes,
        swaps=(
            Swap("defib.decide.gates:_ALWAYS", _without("_mode")),
            Swap("defib.decide.check_plan:_deeds", _does_it_all),
        ),
    ),
    Mutant(
        name="order by chance",
        invariant="I12",
        broken="which node goes first depends on how often that was asked",
        needs=two_ill,
        swaps=(Swap("defib.decide.check_plan:_plan_nodes", _now_one_now_the_other),),
    ),
    Mutant(
        name="moments are missed",
        invariant="I10",
        broken="nobody wakes when a time is up: only changes make it look again",
        needs=acting,
        swaps=(
            Swap("defib.observe.trigger:Trigger.wake_at", always(None)),
            Swap("defib.observe.trigger:Trigger._alarm", always(None)),
        ),
    ),
    Mutant(
        name="guards hold back cleaning",
        invariant="I14",
        broken="while any gate is closed, remediations of recovered nodes stay",
        needs=lambda day: day.acts and day.has("person: pulls the brake", "person: pauses the check"),
        swaps=(Swap("defib.decide.check_plan:_leftover", _only_when_all_is_well),),
    ),
)
