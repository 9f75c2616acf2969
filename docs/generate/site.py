"""What `mkdocs build` does besides: pages that live outside of docs/ are part of the site, and links to them hold.

A page keeps the links that are right in the repository. Where one leads to a page of the site, it is turned towards
that; where it leads to a file that is no page (a manifest, a program), only its text is left.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PROJECT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "STYLE.md", "CHANGELOG.md")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_CELL_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")


def guests() -> dict[str, str]:
    """Pages from outside of docs/: where each is in the site, by where it is in the repository."""
    examples = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").glob("*/README.md"))
    return {name: f"project/{name.lower()}" for name in PROJECT} | {name: name for name in examples}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = [_spread(entry) for entry in config.nav or ()]
    return config


def _spread(entry: Any) -> Any:
    """An entry that names a folder, with a slash at its end, is all pages of that folder, its first page first."""
    if isinstance(entry, str):
        return _pages_of(entry) if entry.endswith("/") else entry
    return {title: _inside(inner) for title, inner in entry.items()}


def _inside(inner: Any) -> Any:
    if isinstance(inner, str):
        return _pages_of(inner) if inner.endswith("/") else inner
    return [_spread(one) for one in inner]


def _pages_of(folder: str) -> list[str]:
    here = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / folder).glob("*.md")}
    found = here | {place for place in guests().values() if place.startswith(folder)}
    return sorted(found, key=lambda path: (Path(path).stem not in ("index", "README"), path))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, place in guests().items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  mkdocs names them
    home = {place: name for name, place in guests().items()}
    source = home.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = _FENCE.split(markdown)
    return "".join(
        part if part.startswith("```") else _plain_pipes(_turn(part, source, page.file.src_uri)) for part in parts
    )


def _plain_pipes(text: str) -> str:
    """In the code of a table a browser of repositories wants a backslash before each pipe, and MkDocs would show it."""
    lines = text.split("\n")
    return "\n".join(
        _CELL_CODE.sub(lambda found: found.group().replace("\\|", "|"), line) if line.startswith("|") else line
        for line in lines
    )


def _turn(text: str, source: str, place: str) -> str:
    """`source` is where the page is in the repository, `place` where it is in the site."""
    return _LINK.sub(lambda found: _turned(found, source, place), text)


def _turned(found: re.Match[str], source: str, place: str) -> str:
    picture, text, link = found.groups()
    target, mark, fragment = link.partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return found.group()
    goal = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    there = _place_of(goal)
    if not there:
        return text
    return f"{picture}[{text}]({posixpath.relpath(there, posixpath.dirname(place) or '.')}{mark}{fragment})"


def _place_of(goal: str) -> str:
    """Where a file of the repository is in the site; empty when it is not in it."""
    if goal.startswith("docs/"):
        inside = goal.removeprefix("docs/")
        return f"{inside}/README.md" if (ROOT / goal / "README.md").is_file() else inside
    return {"README.md": "index.md"}.get(goal) or guests().get(goal, "")
