"""A sheet to draw on: boxes, arrows and words as one SVG file. It brings its own colours, for light and for dark.

No script, no font and no address of anybody else is in it, so it can be shown anywhere.
"""

from html import escape

STYLE = """
.sheet{fill:#ffffff}.box{fill:#f3f6fb;stroke:#5b6b84;stroke-width:1.5}.key{fill:#dff1e6;stroke:#2f7d4f}
.warn{fill:#fdeccf;stroke:#a86a10}.bad{fill:#fbe0de;stroke:#a8322a}.quiet{fill:none;stroke:#9aa7ba;stroke-dasharray:5 4}
.line{stroke:#5b6b84;stroke-width:1.8;fill:none}.tip{fill:#5b6b84}
text{font-family:system-ui,sans-serif;font-size:14px;fill:#1c2736}.name{font-weight:600}.small{font-size:12px;fill:#4c5a70}
.title{font-size:17px;font-weight:700}
@media (prefers-color-scheme:dark){.sheet{fill:#171c26}.box{fill:#222b3a;stroke:#8b9cb8}.key{fill:#1d3a2a;stroke:#63b888}
.warn{fill:#43320f;stroke:#dba84f}.bad{fill:#45201e;stroke:#e5857d}.quiet{fill:none;stroke:#6d7b92}
.line{stroke:#8b9cb8}.tip{fill:#8b9cb8}text{fill:#e6ebf3}.small{fill:#a9b5c8}}
"""
CHARACTER = 7.6  # how wide one is, about: nobody who draws here knows the reader's font
LINE = 18


class Sheet:
    """Coordinates count from the top left. `says` is what a person hears who cannot see it."""

    def __init__(self, width: int, height: int, says: str) -> None:
        self.width, self.height, self._says = width, height, says
        self._parts: list[str] = []

    def box(self, x: float, y: float, size: tuple[float, float], *lines: str, look: str = "box") -> None:
        """The first line is its name, the others are smaller."""
        width, height = size
        self._parts.append(
            f'<rect class="box {look}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8"/>'
        )
        top = y + height / 2 - (len(lines) - 1) * LINE / 2 + 5
        for number, line in enumerate(lines):
            self.word(x + width / 2, top + number * LINE, line, look="small" if number else "name", anchor="middle")

    def word(self, x: float, y: float, text: str, *, look: str = "", anchor: str = "start") -> None:
        self._parts.append(f'<text class="{look}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, *points: tuple[float, float]) -> None:
        """Along straight lines, with its tip at the last point."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path class="line" d="M{path}" marker-end="url(#tip)"/>')

    def chip(self, x: float, y: float, text: str, *, look: str = "quiet") -> float:
        """A small box that is as wide as its text; where the next one can begin."""
        width = len(text) * CHARACTER * 0.87 + 18
        self._parts.append(f'<rect class="box {look}" x="{x:g}" y="{y:g}" width="{width:.0f}" height="24" rx="12"/>')
        self.word(x + width / 2, y + 16.5, text, look="small", anchor="middle")
        return x + width + 8

    def svg(self) -> str:
        whole = f'<rect class="sheet" width="{self.width}" height="{self.height}" rx="12"/>'
        tip = (
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path class="tip" d="M0 0 L10 5 L0 10 z"/></marker></defs>'
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" aria-label="{escape(self._says)}">'
        )
        return "\n".join((head, f"<style>{STYLE}</style>", tip, whole, *self._parts, "</svg>")) + "\n"
