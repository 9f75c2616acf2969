"""What has to leave a machine that is down before it may come back."""

from datetime import datetime

from defib.model.meta import Resource
from defib.model.node import OUT_OF_SERVICE_TAINT
from defib.model.pod import Pod


def must_go(pod: Pod, proved_at: datetime) -> bool:
    """What tolerates the taint may be put there again, when it was freed: that one is left, and not waited for."""
    if pod.is_mirror:
        return False
    if pod.tolerates(OUT_OF_SERVICE_TAINT) and (pod.is_of_daemon_set or not is_from_before(pod, proved_at)):
        return False
    return pod.is_leaving or not pod.is_finished or pod.is_freed_by_us  # we may have died right after marking it


def is_from_before(item: Resource, moment: datetime) -> bool:
    created = item.metadata.creation_timestamp
    return created is None or created <= moment
