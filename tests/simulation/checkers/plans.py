"""I12: whoever decides by the same once more, with nothing remembered of what was thought before, decides the same."""

from collections.abc import Iterator

from tests.simulation.checkers.state import Finding, State
from tests.simulation.history import Entry, Planned


def decided_alike(entry: Entry, _: State) -> Iterator[Finding]:
    if isinstance(entry, Planned) and entry.actions != entry.again:
        once = [action for action in entry.actions if action not in entry.again]
        anew = [action for action in entry.again if action not in entry.actions]
        what = f"{entry.replica} decided otherwise by the same look: {once[:1]}, then {anew[:1]}"
        yield Finding("I12", entry.at, what)
