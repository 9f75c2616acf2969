"""The pages of the repository are true: their links lead somewhere, their commands exist, their numbers agree."""

import re
from pathlib import Path

import pytest

import defib
from tests.tidy.repository import ROOT, anchors, code, files, make_targets, name, prose, pyproject
from tests.tidy.rules import links

PAGES = files(".md")
INVARIANTS = [f"I{number}" for number in range(1, 15)]
DECISIONS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))


def page(path: str) -> str:
    return (ROOT / path).read_text()


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_link_between_pages_leads_somewhere(path: Path) -> None:
    broken = []
    for link in links(prose(path.read_text())):
        target, _, fragment = link.partition("#")
        goal = (path.parent / target).resolve() if target else path
        if not goal.exists() or (fragment and fragment not in anchors(goal.read_text())):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_make_target_that_a_page_names_exists(path: Path) -> None:
    named = {target for part in code(path.read_text()) for target in re.findall(r"\bmake ([a-z][a-z-]*)", part)}
    assert named - make_targets().keys() == set()


def test_every_make_target_explains_itself() -> None:
    targets = make_targets()
    assert {"help", "setup", "check", "test", "demo", "bench", "cluster", "lock"} <= targets.keys()
    assert [target for target, explained in targets.items() if not explained] == []


def test_contributing_explains_every_make_target() -> None:
    explained = set(re.findall(r"`make ([a-z][a-z-]*)`", page("CONTRIBUTING.md")))
    assert make_targets().keys() - explained == set()


def test_the_readme_knows_two_commands() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", page("README.md"), re.MULTILINE | re.DOTALL)
    assert "".join(blocks).split("\n") == ["make demo", "make test", ""]


def test_every_path_that_a_page_names_exists() -> None:
    """A code span that looks like one of our own paths is a promise, on every page that describes the tree as it is."""
    pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "STYLE.md"]
    path = re.compile(r"(?:src|tests|testbed|docs|deploy|examples)/[\w./-]+")
    named = {span for one in pages for span in code(page(one)) if path.fullmatch(span)}
    assert [span for span in sorted(named) if not (ROOT / span).exists()] == []


def test_the_architecture_page_names_every_layer_and_every_contract() -> None:
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    layers = {layer for contract in contracts for row in contract.get("layers", []) for layer in row.split(" | ")}
    section = page("ARCHITECTURE.md").partition("## The layers")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)
    assert layers <= {layer for cell in first_cells for layer in re.findall(r"`(\w+)`", cell)}
    assert {contract["name"] for contract in contracts} <= set(first_cells)


def test_every_invariant_is_stated_once_and_in_order() -> None:
    stated = re.findall(r"^\| (I\d+) \|", page("ARCHITECTURE.md"), re.MULTILINE)
    assert stated == INVARIANTS


@pytest.mark.parametrize("number", INVARIANTS)
def test_an_invariant_names_its_test_or_what_it_arrives_with(number: str) -> None:
    row = re.search(rf"^\| {number} \|.*\| ([^|]+) \|$", page("ARCHITECTURE.md"), re.MULTILINE)
    assert row, f"{number} has no row"
    tests = re.findall(r"`(tests/[\w/]+\.py)`", row[1])
    assert tests or row[1].startswith("arrives with "), f"{number} is kept by nothing: {row[1]}"
    assert [path for path in tests if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("path", DECISIONS, ids=name)
def test_a_decision_says_context_choice_and_price(path: Path) -> None:
    assert re.findall(r"^## (.+)$", path.read_text(), re.MULTILINE) == ["Context", "Choice", "Price"]


def test_every_decision_is_in_the_index_and_numbered_without_gaps() -> None:
    assert [path.name[:4] for path in DECISIONS] == [f"{number:04}" for number in range(1, len(DECISIONS) + 1)]
    assert links(page("docs/decisions/README.md"))[: len(DECISIONS)] == [path.name for path in DECISIONS]


def test_the_changelog_is_about_the_version_that_the_package_has() -> None:
    newest = re.search(r"^## \[([^\]]+)\]", page("CHANGELOG.md"), re.MULTILINE)
    assert newest
    assert newest[1] == defib.__version__
