"""The documentation builds as a site without a warning, can be searched, and asks nobody else for anything."""

import json
import re
from pathlib import Path

import pytest

from docs.generate import DOCS, pages
from tests.tidy.repository import ROOT, files, name, text
from tests.tidy.site import build_site

FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data)=["'](?:https?:)?//"""
    r"""|<link\b[^>]*\bhref=["'](?:https?:)?//|url\(\s*["']?(?:https?:)?//|@import\s+["'](?:https?:)?//""",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


@pytest.mark.timeout(120)
def test_every_page_is_in_it(site: Path) -> None:
    written = files(".md", under="docs")
    built = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    places = {name(path).removeprefix("docs/").removesuffix(".md").replace("README", "index") for path in written}
    assert places - built == set()


@pytest.mark.timeout(120)
def test_it_asks_nobody_else_for_anything(site: Path) -> None:
    shown = [path for path in site.rglob("*") if path.suffix in (".html", ".css", ".svg")]
    asking = {
        path.relative_to(site).as_posix(): found.group()
        for path in shown
        if (found := FETCHED.search(path.read_text()))
    }
    assert asking == {}


@pytest.mark.timeout(120)
def test_it_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text())
    known = {page["location"].partition("#")[0] for page in index["docs"]}
    assert {"tutorial.html", "reference/settings.html", "examples/02-protect-workers/index.html"} <= known
    assert 'data-md-component="search-query"' in (site / "index.html").read_text()


@pytest.mark.timeout(120)
def test_its_program_is_not_in_it(site: Path) -> None:
    assert [path.name for path in site.rglob("*.py")] == []


@pytest.mark.parametrize("line", ['<script src="https://x">', '<link rel="a" href="//x">', "a{b:url(http://x)}"])
def test_what_is_fetched_from_elsewhere_is_found(line: str) -> None:
    assert FETCHED.search(line)


@pytest.mark.parametrize("line", ['<a href="https://x">', '<script src="../a.js">', "url(data:image/svg+xml;x)"])
def test_what_is_only_a_link_or_our_own_is_fine(line: str) -> None:
    assert not FETCHED.search(line)


def test_every_generated_file_is_what_the_code_generates_now() -> None:
    made = pages()
    written = {path: (DOCS / path).read_text(encoding="utf-8") for path in made if (DOCS / path).exists()}
    assert written == made, "run `make docs`"


def test_nothing_is_left_of_what_is_no_longer_generated() -> None:
    others = {"drawings/favicon.svg", "reference/rights.md"}  # by hand; from the rendered chart (make render)
    folders = ("reference", "drawings")
    there = {name(path).removeprefix("docs/") for folder in folders for path in files(under=f"docs/{folder}")}
    assert there - pages().keys() == others


@pytest.mark.parametrize("path", sorted(DOCS.glob("drawings/*.svg")), ids=name)
def test_every_drawing_is_on_a_page(path: Path) -> None:
    places = (text(page) or "" for page in (*files(".md", under="docs"), ROOT / "mkdocs.yml"))
    assert any(f"drawings/{path.name}" in page for page in places)
