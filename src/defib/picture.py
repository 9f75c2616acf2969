"""What the operator sees and thinks at one moment, for whoever looks at it: the demo, the dashboard."""

from datetime import datetime

import msgspec

from defib.decide.changes import Change
from defib.decide.plan import NOTHING, Plan
from defib.decide.remediators import NO_WORK, OwnWork
from defib.model.cluster import Cluster

STORY_LENGTH = 100


class Told(msgspec.Struct, frozen=True):
    """A change, and when we saw it."""

    at: datetime
    change: Change


class Picture(msgspec.Struct, frozen=True):
    """Never changed; the next pass has another one."""

    cluster: Cluster
    plan: Plan = NOTHING
    own: OwnWork = NO_WORK
    story: tuple[Told, ...] = ()
