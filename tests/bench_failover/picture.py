"""The benchmark as a picture: a bar for each row, cut into its phases, drawn by hand as SVG. Readable on light and dark."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from tests.bench_failover.results import Benchmark, Phase, Summary

WIDTH = 1160
LABELS = 500
RIGHT = 150
TOP = 84
ROW = 30
BAR = 18
LEGEND_ROW = 22
LEGEND_COLUMN = 242
LEGEND_COLUMNS = 4

COLOURS = {
    Phase.UNKNOWN: "#8d99ae",
    Phase.VERDICT: "#b08968",
    Phase.FENCED: "#d08c3c",
    Phase.TERMINATING: "#5b8db8",
    Phase.DELETED: "#6c6fb0",
    Phase.DETACHED: "#a06cb0",
    Phase.RUNNING: "#4c9f70",
}
MEANINGS = {
    Phase.UNKNOWN: "until Ready is Unknown",
    Phase.VERDICT: "until the verdict",
    Phase.FENCED: "until fenced",
    Phase.TERMINATING: "until the pod is told to go",
    Phase.DELETED: "until the pod is deleted",
    Phase.DETACHED: "until the volume is detached",
    Phase.RUNNING: "until a new pod runs",
}
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 17px; font-weight: 600 } .faint { fill: #6e7781; font-size: 12px } .bad { fill: #c0392b; font-weight: 600 }
  .axis { stroke: #8c959f; stroke-opacity: .35 } .never { fill: url(#never) } .hatch { stroke: #8c959f }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .faint { fill: #9198a1 } .bad { fill: #ff7b72 } }
"""


def picture(benchmark: Benchmark) -> str:
    longest = max((_end(summary) for summary in benchmark.summaries()), default=1.0)
    drawing = _Drawing(benchmark, (WIDTH - LABELS - RIGHT) / longest, longest)
    return "\n".join((*drawing.head(), *drawing.body(), "</svg>", ""))


def _end(summary: Summary) -> float:
    return summary.seconds.get(Phase.RUNNING, summary.limit_seconds)


class _Drawing:
    def __init__(self, benchmark: Benchmark, scale: float, longest: float) -> None:
        self._benchmark = benchmark
        self._summaries = benchmark.summaries()
        self._scale = scale
        self._longest = longest
        self._bottom = TOP + ROW * len(self._summaries)
        found = {phase for summary in self._summaries for phase in summary.seconds}
        self._used = [phase for phase in Phase if phase in found]

    def head(self) -> Iterator[str]:
        height = self._bottom + 12 + LEGEND_ROW * -(-len(self._used) // LEGEND_COLUMNS) + 16
        yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        yield f"<style>{STYLE}</style>"
        yield '<defs><pattern id="never" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        yield '<line class="hatch" x1="0" y1="0" x2="0" y2="8" stroke-width="4" stroke-opacity=".5"/></pattern></defs>'
        yield _text(16, 28, "From the fault to a new pod that runs", "title")
        yield _text(16, 50, f"Kubernetes {self._benchmark.kubernetes}, medians where there are several runs", "faint")

    def body(self) -> Iterator[str]:
        yield from self._axis()
        seen: tuple[str, str] | None = None
        for number, summary in enumerate(self._summaries):
            top = TOP + ROW * number
            name = (summary.mode, summary.fault)
            if name != seen:
                yield _text(16, top + BAR - 4, f"{summary.mode}, {summary.fault}")
            seen = name
            yield _text(LABELS - 10, top + BAR - 4, summary.workload.value, "faint", anchor="end")
            yield from self._bar(summary, top)
        yield from self._legend()

    def _axis(self) -> Iterator[str]:
        step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if self._longest / step <= 8)
        for seconds in range(0, int(self._longest) + 1, step):
            x = LABELS + seconds * self._scale
            yield f'<line class="axis" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{self._bottom - 4}"/>'
            yield _text(x, TOP - 14, f"{seconds} s", "faint", anchor="middle")

    def _bar(self, summary: Summary, top: int) -> Iterator[str]:
        at = 0.0
        for phase, seconds in sorted(summary.seconds.items(), key=lambda item: item[1]):
            if seconds > summary.seconds.get(Phase.RUNNING, seconds):
                break  # what comes after the new pod runs does not delay it
            yield self._rect(at, seconds, top, f'fill="{COLOURS[phase]}"', f"{MEANINGS[phase]}: {seconds:.1f} s")
            at = seconds
        never = f"never: not within {summary.limit_seconds:g} s"
        if Phase.RUNNING not in summary.seconds:
            yield self._rect(at, summary.limit_seconds, top, 'class="never"', never)
        end = LABELS + _end(summary) * self._scale + 8
        said = f"{at:.1f} s" if Phase.RUNNING in summary.seconds else "never"
        yield _text(end, top + BAR - 4, said)
        if summary.corrupted:
            yield _text(end + 52, top + BAR - 4, "corrupted", "bad")

    def _rect(self, start: float, end: float, top: int, paint: str, tip: str) -> str:
        x, width = LABELS + start * self._scale, max((end - start) * self._scale, 0.5)
        place = f'x="{x:.1f}" y="{top}" width="{width:.1f}" height="{BAR}"'
        return f"<rect {place} {paint}><title>{escape(tip)}</title></rect>"

    def _legend(self) -> Iterator[str]:
        for number, phase in enumerate(self._used):
            row, column = divmod(number, LEGEND_COLUMNS)
            x, y = 16 + LEGEND_COLUMN * column, self._bottom + 24 + LEGEND_ROW * row
            yield f'<rect x="{x}" y="{y - 11}" width="12" height="12" fill="{COLOURS[phase]}"/>'
            yield _text(x + 18, y, MEANINGS[phase], "faint")


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
