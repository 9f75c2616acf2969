"""Whether the API server answers us well: one more reason to doubt what we see, besides watches that are broken."""

import msgspec

from defib.kube.client import Answer
from defib.kube.errors import HTTP_SERVER_FAILED

WINDOW_SECONDS = 30
ANSWERS_MIN = 5  # fewer say nothing about a server
THROTTLED = "429"


class _Second(msgspec.Struct):
    """What came within one second of the monotonic clock."""

    at: int = -WINDOW_SECONDS
    answers: int = 0
    failed: int = 0
    throttled: int = 0


class ApiHealth:
    """Counts answers by the second, as far back as the window reaches and no further."""

    def __init__(self) -> None:
        self._seconds = [_Second() for _ in range(WINDOW_SECONDS)]

    def answered(self, answer: Answer, monotonic: float) -> None:
        place = int(monotonic) % WINDOW_SECONDS
        if self._seconds[place].at != int(monotonic):
            self._seconds[place] = _Second(at=int(monotonic))
        second = self._seconds[place]
        second.answers += 1
        second.failed += _is_failure(answer.code)
        second.throttled += answer.code == THROTTLED

    def doubt(self, monotonic: float) -> str:
        """Why not to trust it now; empty when there is no reason. The words do not change while the trouble lasts."""
        oldest = int(monotonic) - WINDOW_SECONDS
        recent = [second for second in self._seconds if second.at > oldest]
        answers = sum(second.answers for second in recent)
        failed = sum(second.failed for second in recent)
        if answers < ANSWERS_MIN:
            return ""
        if 2 * failed > answers:
            return f"most answers of the API server in the last {WINDOW_SECONDS} s were failures, or never came"
        # It is there and says so: that it is busy is doubtful only when nothing else comes from it.
        if failed + sum(second.throttled for second in recent) == answers:
            return f"the API server has refused everything in the last {WINDOW_SECONDS} s because it is too busy"
        return ""


def _is_failure(code: str) -> bool:
    """A 5xx, or no answer at all, for which the client has no number."""
    return not code.isdecimal() or int(code) >= HTTP_SERVER_FAILED
