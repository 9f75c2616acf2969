"""Upgrades that somebody announced in a way that does not count, told in the log: they rely on it."""

import structlog

from defib.clock import Clock
from defib.decide.rules import Rules
from defib.decide.upgrade import problems
from defib.model.cluster import Cluster

log = structlog.get_logger("app")

PAUSE_SECONDS = 30.0


class Announcements:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = 0.0
        self._known: tuple[str, ...] = ()

    def look(self, cluster: Cluster, rules: Rules) -> None:
        """Now and then: it goes through all nodes, and a mistake of a minute ago is still one."""
        if "announced" not in rules.upgrade_signals or self._clock.monotonic() < self._due:
            return
        self._due = self._clock.monotonic() + PAUSE_SECONDS
        wrong = problems(cluster, rules.namespace)
        for why in wrong:
            if why not in self._known:
                log.warning("announced upgrade ignored", why=why)
        self._known = wrong
