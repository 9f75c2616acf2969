"""Growth as a picture: a panel for each thing that grows, drawn by hand as SVG. Readable on light and dark."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil, floor, log10
from xml.sax.saxutils import escape

import msgspec

from tests.bench.growth import LINEAR_TIMES_MAX, PEAK_MIB_MAX, SHARE, Step, extrapolated

WIDTH, HEIGHT = 1000, 330
LEFT, BETWEEN, PANEL = 62, 74, 250
TOP, BOTTOM = 84, 270
GRID_LINES = 5

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f } .title { font-size: 17px; font-weight: 600 } .name { font-weight: 600 }
  .faint { fill: #6e7781 } .axis { stroke: #8c959f; stroke-opacity: .35 } .end { text-anchor: end } .middle { text-anchor: middle }
  polyline { fill: none; stroke-width: 2 } .a { stroke: #2f6f9f } circle.a, text.a { fill: #2f6f9f; stroke: none }
  .b { stroke: #b0602c } circle.b, text.b { fill: #b0602c; stroke: none } .bound { stroke: #8c959f; stroke-dasharray: 5 4 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .faint { fill: #9198a1 } .a { stroke: #79b8e8 }
  circle.a, text.a { fill: #79b8e8 } .b { stroke: #e8a87c } circle.b, text.b { fill: #e8a87c } }
"""

Value = Callable[[Step], float]


class Panel(msgspec.Struct, frozen=True):
    """Up to two curves and a bound, over the number of nodes."""

    name: str
    curves: dict[str, list[float]]
    bound: list[float] = []
    bound_name: str = ""

    @property
    def most(self) -> float:
        return max(max(values) for values in (*self.curves.values(), self.bound or [0.0]))


def picture(steps: Sequence[Step]) -> str:
    nodes = [step.nodes for step in steps]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-label="Memory, CPU and lateness of one replica over the number of nodes">'
    )
    title = _text(16, 28, "One replica, from a small cluster to a large one", "title")
    drawn = (part for place, panel in enumerate(_panels(steps)) for part in _drawn(panel, place, nodes))
    return "\n".join((head, f"<style>{STYLE}</style>", title, *drawn, "</svg>", ""))


def _panels(steps: Sequence[Step]) -> Iterator[Panel]:
    largest, smaller = steps[-1].nodes, steps[:-1]

    def of(value: Value) -> list[float]:
        return [value(step) for step in steps]

    def many(step: Step) -> float:
        return step.many.cpu_seconds

    yield Panel(
        "Memory, MiB",
        {"most": of(lambda step: step.peak_mib), "at rest": of(lambda step: step.rest.resident_mib)},
        [PEAK_MIB_MAX] * len(steps),
        f"bound {PEAK_MIB_MAX:g}",
    )
    line = [extrapolated(smaller, many, step.nodes) for step in steps]
    limit = [max(at, 0.0) * LINEAR_TIMES_MAX for at in line]
    yield Panel(f"CPU seconds when {SHARE} fail", {f"{SHARE} fail": of(many)}, limit, f"bound at {largest:,}")
    yield Panel(
        "Seconds until remediated",
        {
            f"{SHARE} fail, p99": of(lambda step: step.many.p99_seconds),
            "1 fails": of(lambda step: step.one.max_seconds),
        },
    )


def _drawn(panel: Panel, place: int, nodes: Sequence[int]) -> Iterator[str]:
    left = LEFT + place * (PANEL + BETWEEN)
    top_value = _round_up(panel.most)

    def points(values: Sequence[float]) -> list[tuple[float, float]]:
        across = [left + PANEL * count / nodes[-1] for count in nodes]
        return [(x, BOTTOM - (BOTTOM - TOP) * value / top_value) for x, value in zip(across, values, strict=True)]

    yield _text(left, TOP - 22, panel.name, "name")
    for number in range(GRID_LINES + 1):
        y = BOTTOM - (BOTTOM - TOP) * number / GRID_LINES
        yield f'<line class="axis" x1="{left}" y1="{y:.1f}" x2="{left + PANEL}" y2="{y:.1f}"/>'
        yield _text(left - 6, y + 4, f"{top_value * number / GRID_LINES:g}", "faint end")
    for count in (0, nodes[-1] // 3, 2 * nodes[-1] // 3, nodes[-1]):
        yield _text(left + PANEL * count / nodes[-1], BOTTOM + 18, f"{count:,}", "faint middle")
    yield _text(left + PANEL, BOTTOM + 36, "nodes", "faint end")
    if panel.bound:
        yield _line(points(panel.bound), "bound")
    for number, (name, values) in enumerate(panel.curves.items()):
        yield from _curve(points(values), values, "ab"[number])
        yield _text(left + 4 + 110 * number, BOTTOM + 36, f"● {name}", "ab"[number])
    if panel.bound_name:
        yield _text(left + 4, BOTTOM + 54, f"╌ {panel.bound_name}", "faint")


def _curve(points: Sequence[tuple[float, float]], values: Sequence[float], look: str) -> Iterator[str]:
    yield _line(points, look)
    for (x, y), value in zip(points, values, strict=True):
        yield f'<circle class="{look}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{value:.2f}</title></circle>'


def _line(points: Sequence[tuple[float, float]], look: str) -> str:
    return f'<polyline class="{look}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _round_up(value: float) -> float:
    """To a number that a grid divides into numbers that can be read."""
    unit = 10.0 ** floor(log10(value)) / 2 if value > 0 else 1.0
    return ceil(value / unit) * unit


def _text(x: float, y: float, text: str, look: str = "") -> str:
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
