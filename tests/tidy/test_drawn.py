"""What is drawn and listed in docs/ is all that there is: no gate, phase, rung or state is missing from it."""

from defib.decide.fencing.table import TRANSITIONS
from defib.decide.outlook import OPENERS
from defib.model.incident import Phase
from defib.model.node_drain import Rung
from defib.model.verdict import State
from docs.generate.gates import asked, gates_picture
from docs.generate.phases import phases_picture
from docs.generate.pictures import drawn
from tests.tidy.repository import ROOT


def test_every_gate_is_asked_about_a_failed_node() -> None:
    assert sorted(asked()) == sorted(OPENERS)


def test_every_gate_is_drawn_with_its_place_and_explained() -> None:
    picture, page = gates_picture(), (ROOT / "docs/node-health-check.md").read_text()
    for place, gate in enumerate(asked(), 1):
        assert f">{place}. {gate}<" in picture
        assert f"`{gate}`" in page.partition("## The gates")[2].partition("\n## ")[0]


def test_every_phase_of_a_power_cycle_is_drawn_with_all_that_it_leads_to() -> None:
    picture = phases_picture()
    arrows = {(row.source, row.target) for row in TRANSITIONS}
    chips = picture.count('rx="12"/>') - 1  # but for the sheet itself
    assert all(f">{phase.value}<" in picture for phase in Phase)
    assert chips + picture.count("marker-end") == len(arrows)


def test_every_state_and_every_rung_is_drawn() -> None:
    pictures = drawn()
    assert all(state.value in pictures["states.svg"] for state in State)
    assert all(f">{rung.value}<" in pictures["ladder.svg"] for rung in Rung)


def test_a_drawing_asks_nobody_for_anything_and_runs_nothing() -> None:
    for picture in (gates_picture(), phases_picture(), *drawn().values()):
        assert "<script" not in picture
        assert "href" not in picture
        assert picture.count("http") == 1, "the name of the language, and nothing else"
