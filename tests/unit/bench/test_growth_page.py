"""docs/growth.md says what was measured: its tables and its picture are made of the raw data beside it."""

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec

from tests.bench.growth_page import (
    DOCS,
    MEASURED,
    ON_PAPER,
    PAGE,
    PICTURE,
    RAW,
    Published,
    filled,
    marks,
    publish,
    raw,
    read,
)
from tests.bench.growth_picture import picture
from tests.unit.bench.measured import MACHINE, a_growth, a_hearing

EMPTY = "first\n{}\nold\n{}\nbetween\n{}\nold\n{}\nlast\n".format(*marks(MEASURED), *marks(ON_PAPER))
SOME = Published(machine=MACHINE, leases=a_hearing(), growth=a_growth())


def test_the_page_has_the_tables_that_its_data_gives() -> None:
    page = (DOCS / PAGE).read_text()
    assert filled(page, read()) == page, "run the bench with --publish"


def test_the_picture_is_the_one_that_the_data_gives() -> None:
    assert (DOCS / PICTURE).read_text() == picture(read().growth.steps)


def test_only_a_whole_run_is_published() -> None:
    published = read()
    assert published.leases.judged
    assert published.growth.judged


def test_what_is_published_reads_back_and_leaves_the_rest_of_the_page_alone(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_text(EMPTY)
    publish(SOME, tmp_path)
    page = (tmp_path / PAGE).read_text()
    assert [line for line in page.splitlines() if line in EMPTY.splitlines() and line] == [
        *("first", *marks(MEASURED), "between", *marks(ON_PAPER), "last")
    ]
    assert "15,000" in page
    assert raw(read(tmp_path)) == (tmp_path / RAW).read_text()


def test_a_bar_that_is_broken_is_published_as_broken() -> None:
    worse = [msgspec.structs.replace(one, ok=False) for one in SOME.growth.verdicts]
    growth = msgspec.structs.replace(SOME.growth, verdicts=worse)
    page = filled(EMPTY, msgspec.structs.replace(SOME, growth=growth))
    assert page.count("**no**") == len(worse)


def test_a_machine_that_others_used_is_said_to_have_been_busy() -> None:
    busy = msgspec.structs.replace(SOME, machine=msgspec.structs.replace(MACHINE, load=5.0))
    assert "Others used the machine" in filled(EMPTY, busy)
    assert "Others used the machine" not in filled(EMPTY, SOME)


def test_what_is_drawn_on_to_a_hundred_thousand_nodes_is_called_so() -> None:
    drawn_on = filled(EMPTY, SOME).partition(marks(ON_PAPER)[0])[2]
    assert "extrapolated, 100,000 nodes, 2,000 fail" in drawn_on
    assert "| memory, the most | 258 MiB | 1,320 MiB | each replica |" in drawn_on
    assert "| 20 % of a core (10,000 renewals/s) | each replica |" in drawn_on


def test_the_picture_has_a_point_for_each_size_and_asks_nobody_for_anything() -> None:
    drawn = picture(SOME.growth.steps)
    points = ET.fromstring(drawn).findall(".//{*}circle")
    assert len(points) == 5 * len(SOME.growth.steps)
    assert drawn.count("http") == 1, "the name of the language, and nothing else"
    assert "<script" not in drawn
