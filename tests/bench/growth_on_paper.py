"""What a cluster that nobody has measured would take, if all goes on as it did: straight lines, and called so."""

from collections.abc import Callable, Sequence

import msgspec

from tests.bench.growth import RENEW_SECONDS, SHARE, Step, extrapolated, failing_of
from tests.bench.heard import HASTY, Hearing

NODES = 100_000
EACH, SHARED, ONE = "each replica", "shared, but for admission", "one replica admits"


class Grows(msgspec.Struct, frozen=True):
    what: str
    of: Callable[[Step], float]
    unit: str
    falls_to: str
    """Whom it falls to with `election: shards`."""


GROWS = (
    Grows("memory, the most", lambda step: step.peak_mib, "MiB", EACH),
    Grows("until a replica that starts sees everything", lambda step: step.start_seconds, "s", EACH),
    Grows("CPU to start", lambda step: step.start_cpu_seconds, "s", EACH),
    Grows(f"CPU when {SHARE} fail", lambda step: step.many.cpu_seconds, "s", SHARED),
    Grows(f"requests when {SHARE} fail", lambda step: step.many.requests, "", SHARED),
    Grows(f"until the last of {SHARE} is remediated", lambda step: step.many.max_seconds, "s", ONE),
)


def rows(steps: Sequence[Step], hearing: Hearing) -> list[dict[str, str]]:
    largest = steps[-1]
    lines = [
        _row(
            one.what,
            _value(one.of(largest), one.unit),
            _value(extrapolated(steps, one.of, NODES), one.unit),
            one.falls_to,
            largest,
        )
        for one in GROWS
    ]
    return [*lines, _rest(hearing, largest)]


def _rest(hearing: Hearing, largest: Step) -> dict[str, str]:
    """In proportion to the renewals that were seen, which a busy machine may write too slowly."""
    rest = hearing.stretches[HASTY]
    seen, wanted = rest.heartbeats / rest.seconds, NODES / RENEW_SECONDS
    here = f"{100 * rest.cpu_share:.1f} % of a core ({hearing.nodes:,} nodes, {seen:.0f} renewals/s)"
    drawn_on = f"{100 * rest.cpu_share * wanted / seen:.0f} % of a core ({wanted:,.0f} renewals/s)"
    return _row("CPU at rest, with a fast path", here, drawn_on, EACH, largest)


def _row(what: str, measured: str, drawn_on: str, falls_to: str, largest: Step) -> dict[str, str]:
    return {
        "": what,
        f"measured, {largest.nodes:,} nodes, {largest.many.failing:,} fail": measured,
        f"extrapolated, {NODES:,} nodes, {failing_of(NODES):,} fail": drawn_on,
        "with `election: shards`": falls_to,
    }


def _value(value: float, unit: str) -> str:
    return f"{value:,.{0 if value >= 100 else 1}f} {unit}".strip()
