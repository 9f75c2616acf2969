"""What is said about a drain, in its record and to people."""

from collections import Counter
from collections.abc import Iterable

from defib.decide.drains.survey import DrainLook, PodLook
from defib.model.node_drain import Phase, Rung

_NAMED_MOST = 3
_VERBS = {
    Rung.EVICT: "evict",
    Rung.DELETE: "delete",
    Rung.FINALIZERS: "remove finalizers of",
    Rung.KILL: "kill",
    Rung.FORCE: "delete by force",
}


def count(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"


def how_it_stands(phase: Phase, look: DrainLook, due: tuple[PodLook, ...]) -> str:
    if not look.is_seen:
        return look.unseen or "its pods are being looked at"
    if phase is Phase.DRAINED:
        return "no pod is left that would have to go"
    left = f"{count(len(look.pods))} left"
    doing = _of_phase(phase, look.node.name, due)
    stuck = [one for one in look.pods if one.step.rung is None]
    stays = f"nothing will be done about {_named(stuck)}: {stuck[0].step.why}" if stuck else ""
    return "; ".join(part for part in (left, doing, stays) if part)


def _of_phase(phase: Phase, node: str, due: tuple[PodLook, ...]) -> str:
    match phase:
        case Phase.OBSERVED:
            return f"the policy only observes, else Defib would {_doing(due)}"
        case Phase.APPROVAL:
            return f"Defib would {_doing(due)}, once a person approves it (defib approve {node} --drain)"
        case Phase.FORCING:
            return f"Defib is to {_doing(due)}" if due else "what was done has time to take effect"
    return ""


def what_comes_next(phase: Phase, look: DrainLook, due: tuple[PodLook, ...]) -> str:
    if phase in (Phase.DRAINED, Phase.PAUSED) or not look.is_seen:
        return ""
    if due:
        return _doing(due)
    ahead = [one for one in look.pods if one.step.rung is not None and one.step.at is not None]
    if not ahead:
        return "nothing"
    first = min(one.step.at for one in ahead if one.step.at is not None)
    return _doing(one for one in ahead if one.step.at == first)


def _doing(pods: Iterable[PodLook]) -> str:
    """`evict 3 pods, kill 1 pod`."""
    rungs = Counter(one.step.rung for one in pods if one.step.rung is not None)
    return ", ".join(f"{_VERBS[rung]} {count(rungs[rung])}" for rung in Rung if rung in rungs)


def _named(pods: list[PodLook]) -> str:
    names = ", ".join(one.pod.key for one in pods[:_NAMED_MOST])
    more = len(pods) - _NAMED_MOST
    return f"{names} and {more} more" if more > 0 else names
