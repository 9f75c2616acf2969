"""What was measured of growth, for docs/growth.md: the raw data, the tables made of it, and the picture.

Nothing on that page between two marks is written by hand.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tests.bench import growth_on_paper
from tests.bench.growth import SHARE, Growing, Step
from tests.bench.growth_picture import picture
from tests.bench.heard import Hearing
from tests.bench.processes import ROOT
from tests.bench.results import Machine, Verdict

DOCS = ROOT / "docs"
RAW = Path("data/growth.json")
PICTURE = Path("pictures/growth.svg")
PAGE = Path("growth.md")
MEASURED, ON_PAPER = "measured", "on paper"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    leases: Hearing
    growth: Growing


def cells(step: Step) -> dict[str, str]:
    """One row, by column."""
    rest, one, many = step.rest, step.one, step.many
    return {
        "nodes": f"{step.nodes:,}",
        "renewals/s": f"{rest.heartbeats / rest.seconds:.0f}",
        "start: s": f"{step.start_seconds:.1f}",
        "  CPU s": f"{step.start_cpu_seconds:.2f}",
        "at rest: % of a core": f"{100 * rest.cpu_share:.1f}",
        "MiB": f"{rest.resident_mib:.0f}",
        "most MiB": f"{step.peak_mib:.0f}",
        "1 fails: s": f"{one.max_seconds:.2f}",
        "CPU s": f"{one.cpu_seconds:.2f}",
        "requests": f"{one.requests:.0f}",
        f"{SHARE} fail": f"{many.failing:,}",
        "p50 s": f"{many.p50_seconds:.2f}",
        "p99 s": f"{many.p99_seconds:.2f}",
        " CPU s": f"{many.cpu_seconds:.2f}",
        " requests": f"{many.requests:,.0f}",
    }


def filled(page: str, published: Published) -> str:
    """The page with what was measured, and what follows from it, between its marks."""
    drawn_on = "\n".join(_rows(growth_on_paper.rows(published.growth.steps, published.leases)))
    for name, text in ((MEASURED, measured(published)), (ON_PAPER, drawn_on)):
        begin, end = marks(name)
        before, found, rest = page.partition(begin)
        _, ends, after = rest.partition(end)
        assert found, f"{PAGE} has lost the mark {begin}; write it before the tables"
        assert ends, f"{PAGE} has lost the mark {end}; write it after the tables"
        page = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    return page


def marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def measured(published: Published) -> str:
    machine, growth, leases = published.machine, published.growth, published.leases
    loads = [f"{step.load:.1f} before {step.nodes:,} nodes" for step in growth.steps]
    return "\n".join(
        (
            f"Kubernetes {machine.kubernetes}, {machine.cores} cores for everything, Python {machine.python}. The load of the",
            f"machine in the minute before each size: {', '.join(loads)}.{_busy(published)}",
            "",
            *_rows([cells(step) for step in growth.steps]),
            "",
            f"Hearing {leases.nodes:,} nodes, whose Leases are renewed {leases.pace:.0f} times a second (load {leases.load_before:.1f} before):",
            "",
            *_rows([_heard(what, leases) for what in leases.stretches]),
            "",
            *_rows([_bar(one) for one in (*growth.verdicts, *leases.verdicts)]),
        )
    )


def publish(published: Published, docs: Path = DOCS) -> list[Path]:
    """The files that were written."""
    page = (docs / PAGE).read_text()
    texts = {
        docs / RAW: raw(published),
        docs / PICTURE: picture(published.growth.steps),
        docs / PAGE: filled(page, published),
    }
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return [*texts]


def raw(published: Published) -> str:
    return msgspec.json.format(msgspec.json.encode(published), indent=2).decode() + "\n"


def read(docs: Path = DOCS) -> Published:
    return msgspec.json.decode((docs / RAW).read_bytes(), type=Published)


def _busy(published: Published) -> str:
    """Whoever reads seconds should know when the machine had other things to do."""
    is_busy = published.machine.load > published.machine.cores  # later on, the bench itself is a load
    told = " Others used the machine at the same time: on a quiet one, seconds are fewer, and so is some CPU."
    return told if is_busy else ""


def _heard(what: str, leases: Hearing) -> dict[str, str]:
    one = leases.stretches[what]
    return {
        "an operator over nodes with": what,
        "renewals/s": f"{one.heartbeats / one.seconds:.0f}",
        "% of a core": f"{100 * one.cpu_share:.1f}",
        "MiB": f"{one.resident_mib:.1f}",
    }


def _bar(one: Verdict) -> dict[str, str]:
    return {"bar": one.what, "measured": one.measured, "bound": one.bound, "kept": "yes" if one.ok else "**no**"}


def _rows(rows: Sequence[Mapping[str, str]]) -> Iterable[str]:
    yield _line(rows[0])
    yield "|" + "---|" * len(rows[0])
    for row in rows:
        yield _line(row.values())


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(text.strip() for text in texts)} |"
