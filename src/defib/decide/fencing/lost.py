"""Pods that are lost with their machine: they have no controller, so nobody makes others in their place.

They are named in the incident before they are ended. Whether they have been is read there, too.
"""

from itertools import takewhile

from defib.decide.fencing.case import Case
from defib.model.incident import Phase

NAMED_MAX = 5
NOBODY = "no controller makes these pods again"  # by which the entry is known


def words(case: Case) -> str:
    """What is to be said of them; empty when none is in sight."""
    bare = [pod.key for pod in case.pods or () if pod.is_bare]
    if not bare:
        return ""
    others = f" and {len(bare) - NAMED_MAX} more" if len(bare) > NAMED_MAX else ""
    return f"{NOBODY} ({len(bare)}): {', '.join(bare[:NAMED_MAX])}{others}"


def is_untold(case: Case) -> bool:
    """While workloads are freed: whether any are in sight, and it was not written since that began."""
    newest = reversed(case.status.timeline or ())
    return words(case) != "" and not any(
        NOBODY in entry.message for entry in takewhile(lambda entry: entry.phase == Phase.FREEING, newest)
    )
