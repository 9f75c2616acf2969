"""The times of medik8s' NodeHealthCheck with self-node-remediation (SNR), as both have them by default and publish them.

The check waits. Then the remediator waits until a node that cannot be reached must have noticed it, asked its peers in vain,
and been restarted by its watchdog.
"""

from math import ceil

UNHEALTHY_SECONDS = 300.0

_API_CHECK_SECONDS = 15.0
_API_TIMEOUT_SECONDS = 5.0
_API_ERRORS = 3
_PEER_DIAL_SECONDS, _PEER_ANSWER_SECONDS = 5.0, 7.0
_ASKING_AT_LEAST_SECONDS = 30.0
_WATCHDOG_SECONDS = 60.0  # where a node does not say what its own has
_MARGIN_SECONDS = 30.0
_BATCH = 3
_LATER_BATCH_SHARE = 10


def safe_seconds(workers: int) -> float:
    asking = _batches(workers) * (_PEER_DIAL_SECONDS + _PEER_ANSWER_SECONDS)
    noticing = (_API_CHECK_SECONDS + _API_TIMEOUT_SECONDS) * _API_ERRORS
    return noticing + max(_ASKING_AT_LEAST_SECONDS, asking) + _WATCHDOG_SECONDS + _MARGIN_SECONDS


def _batches(peers: int) -> int:
    """The first of three, then of a tenth of the rest each, but of three at least."""
    rest = max(0, peers - _BATCH)
    return 1 + ceil(rest / max(_BATCH, rest // _LATER_BATCH_SHARE))
