"""After how long the others may count a node as dead that was ordered to die: a sum of what its own agent reports."""

from defib.model.incident import Part, SafeTime
from defib.model.self_fence import Report

REBOOT = "reboot"
REBOOT_SECONDS = {"device": 10.0, "software": 30.0}
CLOCKS_SHARE = 0.1

_REBOOTS = {
    "device": "the machine is reset, and what it sent is over",
    "software": "the kernel is asked to reboot, and may be slow",
}


def safe_time(report: Report) -> SafeTime:
    pace = report.pace
    parts = (
        Part(
            name="renewals",
            seconds=pace.fresh_seconds,
            why=f"{pace.failures} requests fail before the agent asks its peers",
        ),
        Part(name="peers", seconds=pace.peer_seconds, why="all peers are asked"),
        Part(name="feed", seconds=report.feed_seconds, why="the watchdog was fed just before"),
        Part(name="watchdog", seconds=report.watchdog_seconds, why="as the watchdog itself says"),
        Part(name=REBOOT, seconds=REBOOT_SECONDS[report.watchdog], why=_REBOOTS[report.watchdog]),
    )
    clocks = Part(
        name="clocks", seconds=CLOCKS_SHARE * sum(part.seconds for part in parts), why="clocks do not run at one rate"
    )
    return SafeTime(seconds=sum(part.seconds for part in (*parts, clocks)), parts=[*parts, clocks])


def lives_seconds(time: SafeTime) -> float:
    """So long it may live by what it last heard. Then it is reset, and hears nobody any more."""
    return time.seconds - sum(part.seconds for part in time.parts if part.name == REBOOT)
