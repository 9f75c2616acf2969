"""The repository as data for the tidy rules: its files, its Makefile, its markdown."""

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "defib"

_TARGET = re.compile(r"^([a-z][a-z-]*):(?!=)(.*)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```[^\n]*\n(.*?)^```$|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def files(*suffixes: str, under: str = ".") -> list[Path]:
    """Every file that git would keep, read from the tree itself: a source archive without git has the same rules."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split() if line]
    return sorted(path for path in _walk(ROOT / under, [".git", *ignored]) if not suffixes or path.suffix in suffixes)


def _walk(folder: Path, ignored: list[str]) -> Iterator[Path]:
    for path in folder.iterdir():
        if any(fnmatch(path.name, pattern) for pattern in ignored):
            continue
        if path.is_dir():
            yield from _walk(path, ignored)
        else:
            yield path


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text(path: Path) -> str | None:
    """None for a picture or another file that is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def make_targets() -> dict[str, str]:
    """Each target of the Makefile with its help, which is empty where there is none."""
    found = _TARGET.findall((ROOT / "Makefile").read_text())
    return {target: rest.partition("##")[2].strip() for target, rest in found}


def code(markdown: str) -> list[str]:
    """The code of a page: fenced blocks and what stands between backticks."""
    return [block or span for block, span in _CODE.findall(markdown)]


def prose(markdown: str) -> str:
    return _FENCE.sub("", markdown)


def anchors(markdown: str) -> set[str]:
    """The fragment of every heading, as a browser of the repository makes it."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(prose(markdown))}
