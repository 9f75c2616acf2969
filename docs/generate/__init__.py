"""Writes the reference and the drawings of docs/ from the tables in the code: `python -m docs.generate`.

Nothing in those files is written by hand, and a test fails when one of them is not what the code says now.
"""

from pathlib import Path

from docs.generate.commands import commands_page
from docs.generate.gates import gates_page, gates_picture
from docs.generate.grafana import dashboard
from docs.generate.kinds import kind_pages
from docs.generate.metrics import metrics_page
from docs.generate.phases import phases_page, phases_picture
from docs.generate.pictures import drawn
from docs.generate.reasons import reasons_page
from docs.generate.settings import settings_page

DOCS = Path(__file__).parents[1]


def pages() -> dict[str, str]:
    """Every generated file, by its path below docs/."""
    return {
        "reference/settings.md": settings_page(),
        "reference/metrics.md": metrics_page(),
        "reference/commands.md": commands_page(),
        "reference/gates.md": gates_page(),
        "reference/reasons.md": reasons_page(),
        "reference/power-cycle-phases.md": phases_page(),
        **{f"reference/kinds/{name}": text for name, text in kind_pages().items()},
        "drawings/power-cycle-phases.svg": phases_picture(),
        "drawings/gates.svg": gates_picture(),
        **{f"drawings/{name}": text for name, text in drawn().items()},
        "../deploy/grafana/defib.json": dashboard(),
    }


def write() -> None:
    for name, text in pages().items():
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
