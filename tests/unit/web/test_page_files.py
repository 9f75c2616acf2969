"""The files of the page, as text: small, without anything from elsewhere, and without a way to make markup of a name."""

import re
from pathlib import Path

import pytest

from defib.web.files import FOLDER, INDEX, TYPES, read_files

BYTES_MAX = 100_000
FILES = sorted(path for path in FOLDER.iterdir() if path.is_file())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
MARKUP_MAKERS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|srcdoc"
)
NAMESPACES = {"http://www.w3.org/2000/svg"}  # a name, not an address


def test_all_of_it_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES) < BYTES_MAX


def test_every_file_has_a_type_that_is_served() -> None:
    assert [path.name for path in FILES if path.suffix not in TYPES] == []
    assert read_files().keys() == {"", *(path.name for path in FILES)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    assert set(re.findall(r"(?:https?:)?//[\w.-]+\.[\w./-]+", path.read_text())) - NAMESPACES == set()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_text_never_becomes_markup(path: Path) -> None:
    assert MARKUP_MAKERS.findall(path.read_text()) == []


def test_nothing_stands_inline_in_the_page() -> None:
    page = (FOLDER / INDEX).read_text()
    assert re.findall(r"<style|<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=|javascript:", page) == []


def test_every_script_of_the_page_is_asked_for_at_once() -> None:
    """A module that is only found in another one would cost a journey more before anything is shown."""
    page = (FOLDER / INDEX).read_text()
    late = {"demo.js"}  # only in the show
    assert {path.name for path in SCRIPTS} - late == set(re.findall(r'(?:href|src)="(\w+\.js)"', page))
