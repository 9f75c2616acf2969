"""The results as a person reads them."""

from collections.abc import Sequence

from tests.bench.results import Idle, Machine, Measured, Results


def text(results: Results) -> str:
    parts = [_headline(results.machine, results), _table(_clients(results.clients))]
    if results.idle:
        parts.append(_idle(results.idle))
    parts.append(_table(_verdicts(results)))
    if not results.judged:
        parts.append("A small run: the bounds are for 5,000 nodes and all clients, so none of them was judged.")
    return "\n\n".join(parts)


def _headline(machine: Machine, results: Results) -> str:
    return (
        f"{results.nodes:,} nodes of {results.node_bytes / 1000:.1f} kB on Kubernetes {machine.kubernetes}; "
        f"{machine.cores} cores, Python {machine.python}.\n"
        "CPU is CPU time of the client's process, not time on the wall; MiB are resident memory of the whole process,\n"
        "after garbage collection and with free memory given back. One client at a time; each gets its own events."
    )


def _clients(clients: list[Measured]) -> list[Sequence[str]]:
    head = ("client", "import s", "MiB", "list s", "peak MiB", "rest MiB", "events", "µs/event", "MiB after")
    rows = [
        (
            f"{one.client} {one.version}",
            f"{one.import_seconds:.2f}",
            f"{one.imported_mib:.0f}",
            f"{one.list_seconds:.2f}",
            f"{one.peak_mib:.0f}",
            f"{one.resting_mib:.0f}",
            f"{one.events:,}",
            f"{one.event_microseconds:.0f}",
            f"{one.after_events_mib:.0f}",
        )
        for one in clients
    ]
    return [head, *rows]


def _idle(idle: Idle) -> str:
    return (
        f"Idle for {idle.seconds:.0f} s with {idle.renewals_per_second:.0f} heartbeats/s: the whole operator used "
        f"{100 * idle.cpu_share:.1f} % of one core and {idle.resting_mib:.0f} MiB."
    )


def _verdicts(results: Results) -> list[Sequence[str]]:
    head = ("ours", "measured", "bound or best peer", "ratio", "verdict")
    words = {True: "ok", False: "FAIL"} if results.judged else {True: "-", False: "-"}
    return [head, *((v.what, v.measured, v.bound, f"{v.ratio:.2f}", words[v.ok]) for v in results.verdicts)]


def _table(rows: list[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
