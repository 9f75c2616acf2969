"""What does not work with locks, told once: the same every two seconds would hide everything else."""

import structlog

from defib.kube.errors import Forbidden, NotFound

log = structlog.get_logger("coordinate")


class Trouble:
    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, what: str, error: Exception) -> None:
        why = str(error) or "no answer in time"
        if self._told.get(what) != why:
            log.warning(what, why=why, advice=_advice_on(error))
        self._told[what] = why

    def over(self, what: str) -> None:
        """It works again."""
        if self._told.pop(what, None) is not None:
            log.info("no longer so", what=what)


def _advice_on(error: Exception) -> str:
    if isinstance(error, NotFound):
        return "the namespace must be there: kubectl create namespace, or another one by --namespace"
    if isinstance(error, Forbidden):
        return "grant get, list, create and patch on it to our account, as deploy/install.yaml does; until then nothing is done"
    return "nothing is done without the lock, which ends by itself in time; it is tried again"
