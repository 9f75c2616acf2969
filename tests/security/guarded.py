"""An embedded API server that knows the roles of the chart: it refuses what they do not allow, and notes what was used."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from defib.clock import Clock
from defib.simulate import server
from defib.simulate.faults import Faults, Refuse, RequestEffect, WatchEffect
from defib.simulate.routing import Call
from tests.security.roles import Asked, Right, allowed, asked_by

OPERATORS = frozenset({"defib", "operator"})  # by what names the stages connect those whose rights are limited
_NO = Refuse(code=403, message="the roles of the chart do not allow it")


class Guard:
    """What the operator asked while the tour was made: `used` was allowed, `refused` was not."""

    def __init__(self, rights: Iterable[Right]) -> None:
        self._rights = tuple(rights)
        self._judged: dict[Asked, bool] = {}

    def judge(self, call: Call) -> bool:
        asked = asked_by(call)
        if asked not in self._judged:
            self._judged[asked] = allowed(self._rights, asked)
        return self._judged[asked]

    @property
    def used(self) -> frozenset[Asked]:
        return frozenset(asked for asked, is_allowed in self._judged.items() if is_allowed)

    @property
    def refused(self) -> list[str]:
        return sorted(str(asked) for asked, is_allowed in self._judged.items() if not is_allowed)


class _Guarding(Faults):
    """Whatever else goes wrong: who has no right is refused first, as on a real server."""

    def __init__(self, clock: Clock, guard: Guard) -> None:
        super().__init__(clock)
        self._guard = guard

    @property
    def any_set(self) -> bool:
        return True

    def strike(self, call: Call) -> list[RequestEffect | WatchEffect]:
        if call.client in OPERATORS and not self._guard.judge(call):
            return [_NO]
        return super().strike(call)


@contextmanager
def guarded(rights: Iterable[Right]) -> Iterator[Guard]:
    """Every embedded server that is made meanwhile lets operators do what these rights allow, and no more."""
    guard = Guard(rights)
    with patch.object(server, "Faults", lambda clock: _Guarding(clock, guard)):
        yield guard


def made(tour: Callable[[], None], rights: Iterable[Right]) -> Guard:
    """The tour with these rights, to its end or to where it cannot go on without what was refused."""
    with guarded(rights) as guard:
        try:
            tour()
        except BaseException:
            if not guard.refused:
                raise
    return guard
