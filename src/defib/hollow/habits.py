"""How a hollow container behaves: annotations of its pod say so, and one without any starts, runs and stops politely.

hollow.defib.dev/start-seconds    from having all it needs to running
hollow.defib.dev/stop-seconds     from the signal to its end; the sleep of a preStop hook comes before it
hollow.defib.dev/ignores-sigterm  "true": it runs until its grace ends and it is killed
hollow.defib.dev/outlives-grace   "true": its kubelet has lost count of its grace, and kills it only when told to at once
hollow.defib.dev/run-seconds      it ends by itself after this long, as a job does
hollow.defib.dev/exit-code        with this code, then
hollow.defib.dev/never-starts     "true": its image cannot be pulled
hollow.defib.dev/never-ready      "true": it runs, and is never ready
"""

import msgspec

from defib.hollow.objects import Pod
from defib.hollow.timers import Timers

PREFIX = "hollow.defib.dev/"
FOREVER = float("inf")


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    start_seconds: float
    stop_seconds: float
    outlives_grace: bool = False
    run_seconds: float = FOREVER
    exit_code: int = 0
    starts: bool = True
    gets_ready: bool = True


def habits_of(pod: Pod, timers: Timers) -> Habits:
    """An annotation that is no number counts as absent: a hollow node survives what a person writes."""
    said = {name.removeprefix(PREFIX): value for name, value in pod.annotations.items() if name.startswith(PREFIX)}
    stop_seconds = _seconds(said, "stop-seconds", timers.stop_seconds) + _pre_stop_seconds(pod)
    return Habits(
        start_seconds=_seconds(said, "start-seconds", timers.start_seconds),
        stop_seconds=FOREVER if said.get("ignores-sigterm") == "true" else stop_seconds,
        outlives_grace=said.get("outlives-grace") == "true",
        run_seconds=_seconds(said, "run-seconds", FOREVER),
        exit_code=int(_seconds(said, "exit-code", 0)),
        starts=said.get("never-starts") != "true",
        gets_ready=said.get("never-ready") != "true",
    )


def _seconds(said: dict[str, str], name: str, otherwise: float) -> float:
    text = said.get(name, "")
    whole = text.replace(".", "", 1)
    return float(text) if whole.isascii() and whole.isdigit() else otherwise


def _pre_stop_seconds(pod: Pod) -> float:
    """The one hook whose time can be read off a pod is a sleep."""
    hooks = [(container.lifecycle or {}).get("preStop") or {} for container in pod.spec.containers or ()]
    return max((float((hook.get("sleep") or {}).get("seconds") or 0) for hook in hooks), default=0.0)
