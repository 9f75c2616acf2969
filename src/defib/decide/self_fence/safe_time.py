"""After how long the others may count a node as dead that was ordered to die: a sum of what its own agent reports."""

import msgspec

from defib.model.self_fence import Report

REBOOT_SECONDS = {"device": 10.0, "software": 30.0}
CLOCKS_SHARE = 0.1


class Part(msgspec.Struct, frozen=True):
    name: str
    seconds: float
    why: str


class SafeTime(msgspec.Struct, frozen=True):
    """Counted from the answer of the API server to the order."""

    parts: tuple[Part, ...]

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)


def safe_time(report: Report) -> SafeTime:
    pace, hardware = report.pace, report.watchdog == "device"
    parts = (
        Part("renewals", pace.fresh_seconds, f"{pace.failures} requests fail before the agent asks its peers"),
        Part("peers", pace.peer_seconds, "all peers are asked"),
        Part("feed", report.feed_seconds, "the watchdog was fed just before"),
        Part("watchdog", report.watchdog_seconds, "as the watchdog itself says"),
        Part(
            "reboot",
            REBOOT_SECONDS[report.watchdog],
            "the machine is reset, and what it sent is over"
            if hardware
            else "the kernel is asked to reboot, and may be slow",
        ),
    )
    clocks = Part("clocks", CLOCKS_SHARE * sum(part.seconds for part in parts), "clocks do not run at one rate")
    return SafeTime((*parts, clocks))


def as_sum(time: SafeTime) -> str:
    """The sum as a person reads it: 24 s renewals + 12 s peers + ... = 70.4 s."""
    parts = " + ".join(f"{part.seconds:.3g} s {part.name}" for part in time.parts)
    return f"{parts} = {time.seconds:.1f} s"
