"""The rhythm in which we hear of a node, by our own clock: what a node says about its own time counts for nothing here."""

import msgspec

USUAL_SECONDS = 10.0  # a kubelet renews its heartbeat so often, if nobody told it otherwise
LEAST_SLACK_SECONDS = 2.0  # a kubelet adds some chance to its pauses, and news takes its time


class Pulse(msgspec.Struct, frozen=True, gc=False):
    """When we saw the last renewal of a heartbeat (POSIX seconds), how far apart they are, and how much that varies."""

    heard: float
    every: float = USUAL_SECONDS
    wobble: float = 0.0

    def due(self, missed: int) -> float:
        """From then on so many renewals are missing."""
        return self.heard + missed * self.every + max(LEAST_SLACK_SECONDS, 4 * self.wobble)
