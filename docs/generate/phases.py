"""The phases of a power cycle, as a page and as a picture, from the one table by which it goes."""

from defib.decide.fencing.table import TRANSITIONS
from defib.model.incident import Phase
from docs.generate.drawing import Sheet

HEAD = """# Phases of a power cycle

Drawn from the table in `src/defib/decide/fencing/table.py`, which is the whole of it. What each phase is for:
[power cycles](../power-cycle.md). The way down on the left is a power cycle that goes well; beside each phase stands
where else it can lead.

![The phases of a power cycle](../drawings/power-cycle-phases.svg)

In a phase, the first row that fits is taken.

| in | when | to |
|---|---|---|
"""

WELL = (
    Phase.OPEN,
    Phase.LOOKING,
    Phase.TESTING,
    Phase.POWERING_OFF,
    Phase.FREEING,
    Phase.POWERING_ON,
    Phase.RETURNING,
    Phase.RESTORING,
    Phase.CLOSED,
)
LOOKS = {
    Phase.CLOSED: "key",
    Phase.RESTORING: "key",
    Phase.NEEDS_PERSON: "bad",
    Phase.REPLACING: "warn",
    Phase.RESTING: "warn",
    Phase.CANCELLING: "warn",
}
ROW, TOP, LEFT, BOX = 74, 64, 24, (180.0, 44.0)


def phases_page() -> str:
    return HEAD + "".join(f"| {row.source.value} | {row.name} | {row.target.value} |\n" for row in TRANSITIONS)


def phases_picture() -> str:
    aside = [phase for phase in Phase if phase not in WELL]
    gap = 40
    sheet = Sheet(900, TOP + ROW * len(Phase) + gap, "The phases of a power cycle, and where each can lead")
    sheet.word(LEFT, 36, "A power cycle: the phases of a NodeIncident", look="title")
    for number, phase in enumerate(WELL):
        below = WELL[number + 1] if number + 1 < len(WELL) else None
        _row(sheet, phase, TOP + number * ROW, below)
    side = TOP + len(WELL) * ROW + gap
    sheet.word(LEFT, side - 14, "When it does not go well, or is not wanted any more", look="small")
    for number, phase in enumerate(aside):
        _row(sheet, phase, side + number * ROW, None)
    return sheet.svg()


def _row(sheet: Sheet, phase: Phase, y: float, below: Phase | None) -> None:
    """The phase, the arrow to the one below, and a chip for each other one that it can lead to."""
    sheet.box(LEFT, y, BOX, phase.value, look=LOOKS.get(phase, "box"))
    targets = list(dict.fromkeys(row.target for row in TRANSITIONS if row.source is phase))
    middle = LEFT + BOX[0] / 2
    if below in targets:
        sheet.arrow((middle, y + BOX[1]), (middle, y + ROW - 2))
    others = [target for target in targets if target is not below]
    x = LEFT + BOX[0] + 24
    if others:
        sheet.word(x, y + 27, "or to" if below in targets else "to", look="small")
        x += 40
    for target in others:
        x = sheet.chip(x, y + 10, target.value, look=LOOKS.get(target, "quiet"))
