"""What the settings say about deciding, in the words of deciding."""

from datetime import timedelta

import msgspec

from defib.model import medik8s
from defib.model.amount import Amount
from defib.model.incident import Grade
from defib.model.pod_failover import USUAL_PROOFS


class FailoverRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster operator says about PodFailoverPolicies: what holds where they say nothing, and what they may."""

    serves_policies: bool = True
    max_unhealthy: Amount = Amount(49, is_percent=True)
    dwell: timedelta = timedelta()
    shortest_dwell: timedelta = timedelta()
    proofs: frozenset[Grade] = USUAL_PROOFS
    allowed_proofs: frozenset[str] = frozenset({*Grade, "None"})


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str = "defib-system"
    lock_namespace: str = medik8s.LOCK_NAMESPACE
    brake_setting: bool = False
    upgrade_signals: tuple[str, ...] = ()
    upgrade_limit: timedelta = timedelta(hours=3)
    own_node: str = ""  # the node on which this replica runs, if it knows
    serves: frozenset[str] = frozenset()  # triggers of other projects that are served too
    fence_check_pause: timedelta = timedelta(minutes=10)  # how often the power path of each covered node is tried
    failover: FailoverRules = FailoverRules()
    leftover_age: timedelta = timedelta(minutes=10)  # for so long nobody may have wanted it, before it is taken away
    runs_checks: bool = True  # or another operator does, and remediators have given their rights to that one
    has_members: bool = False  # replicas share the work, and each has a Lease in `namespace`


# As upstream has them: how long a remediation may take where nobody says, how much longer its lock lasts, how many
# times that long it may go on before a person is needed, and from when on it is old.
REMEDIATION_TIME = timedelta(minutes=10)
LOCK_SLACK = timedelta(seconds=60)
OVERDUE_FACTOR = 3
OLD_AFTER = timedelta(hours=48)

# A remediation that should go is gone within seconds, and a machine is replaced within hours. After these a person
# should look.
STUCK_AFTER = timedelta(minutes=10)
REPLACED_WITHIN = timedelta(hours=24)

# A deadline has passed strictly after it: the pass for it comes this much later.
INSTANT = timedelta(milliseconds=1)
# Heartbeats do not cause passes, so whoever waits for them looks again after this.
LOOK_AGAIN = timedelta(seconds=1)
