"""I1, I8, I11 when the day is over: no disk is spoiled, no machine is left off in silence, nobody is forgotten."""

from collections.abc import Iterator

from defib.model.incident import INCIDENTS, Phase
from tests.simulation.checkers.state import Finding
from tests.simulation.history import Entry, Switched
from tests.simulation.world import World, phase_of, ready_of


def at_the_end(world: World, entries: list[Entry]) -> Iterator[Finding]:
    now = world.history.now
    for verdict in world.cluster.disks.corrupted():
        writers = ({clash.earlier.writer.node, clash.later.writer.node} for clash in verdict.clashes)
        if any(both.isdisjoint(world.shape.unguarded) for both in writers):
            yield Finding("I1", now, verdict.story)
    told = {item["metadata"]["name"] for item in world.all(INCIDENTS) if phase_of(item) != Phase.CLOSED}
    switched = {entry.node for entry in entries if isinstance(entry, Switched)}
    for name, node in world.nodes.items():
        if name in switched and not node.is_on and name not in told:
            yield Finding("I8", now, f"{name} was switched off, is off, and nobody is told")
    open_ones = [line for line in world.unsettled() if not _is_explained(line, world)]
    if open_ones:
        yield Finding("I11", now, f"troubles are long over, and {'; '.join(open_ones)}")


def _is_explained(line: str, world: World) -> bool:
    """What waits for a person is told to them; whoever is ill because of that, too."""
    waiting = {item["metadata"]["name"] for item in world.all(INCIDENTS) if phase_of(item) == Phase.NEEDS_PERSON}
    if not waiting:
        return False
    ill = {node["metadata"]["name"] for node in world.all("nodes") if ready_of(node) != "True"}
    return ("pods serve" in line and bool(ill & waiting)) or any(f" {name} " in f"{line} " for name in waiting)
