"""The settings, in the words of deciding."""

from datetime import timedelta

from defib.config import Settings
from defib.decide.rules import FailoverRules, Rules
from defib.model.amount import read_amount
from defib.model.incident import Grade


def rules_of(settings: Settings) -> Rules:
    return Rules(
        namespace=settings.namespace,
        lock_namespace=settings.lock_namespace,
        brake_setting=settings.brake == "on",
        upgrade_signals=settings.upgrade_signals,
        upgrade_limit=timedelta(seconds=settings.upgrade_limit_seconds),
        own_node=settings.node_name or "",
        serves=frozenset(settings.serves),
        fence_check_pause=timedelta(seconds=settings.fence_check_seconds),
        leftover_age=timedelta(seconds=settings.leftover_age_seconds),
        runs_checks=settings.health_checks == "on",
        has_members=settings.election == "shards",
        failover=FailoverRules(
            serves_policies=settings.pod_failover_policies == "on",
            max_unhealthy=read_amount(settings.failover_max_unhealthy),
            dwell=timedelta(seconds=settings.failover_dwell_seconds),
            shortest_dwell=timedelta(seconds=settings.failover_shortest_dwell_seconds),
            proofs=frozenset(Grade(one) for one in settings.failover_proofs),
            allowed_proofs=frozenset(settings.failover_allowed_proofs),
        ),
    )
