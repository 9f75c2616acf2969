"""What the pages show: their fenced blocks, and the commands in them, as a reader would type them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.tidy.repository import ROOT, files

_BLOCK = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`((?:kubectl )?defib [^`\n]+)`")
_FILE = re.compile(r"(?<![\w/.-])(?:examples/[\w./-]+|deploy/(?:crds|helm|[\w/-]+\.)[\w./-]*)")
_SHELLS = ("sh", "")
# What ends one command and begins another.
_ENDS = frozenset({"|", "&&", ";", ">", "2>"})


class Block(msgspec.Struct, frozen=True):
    page: Path
    language: str
    text: str


def shown() -> list[Path]:
    """Every page that a reader sees: documentation and examples. The generated reference shows what the code says."""
    return [*files(".md", under="docs"), *files(".md", under="examples")]


def blocks(page: Path) -> list[Block]:
    return [Block(page, language, text) for language, text in _BLOCK.findall(page.read_text())]


def commands(page: Path) -> Iterator[list[str]]:
    """Every call of `defib` in a block that is for a shell, as its arguments."""
    for block in blocks(page):
        if block.language in _SHELLS:
            for line in block.text.replace("\\\n", " ").splitlines():
                yield from called(line)


def called(line: str) -> Iterator[list[str]]:
    """Where a block shows what is answered, only lines behind a prompt are typed. Other programs may stand in front."""
    try:
        words = shlex.split(line.strip().removeprefix("$ "), comments=True)
    except ValueError:
        return  # an answer, and no line for a shell
    while words and "=" in words[0] and not words[0].startswith("-"):
        words = words[1:]
    if words[:2] == ["kubectl", "defib"]:
        words = words[1:]
    if words and Path(words[0]).name == "defib" and (words[0] == "defib" or "/bin/" in words[0]):
        ends = [number for number, word in enumerate(words) if word in _ENDS]
        yield words[1 : ends[0] if ends else None]


def mentioned(page: Path) -> list[list[str]]:
    """Calls of `defib` between backticks in the prose, as their arguments."""
    prose = _BLOCK.sub("", page.read_text())
    return [span.removeprefix("kubectl ").split()[1:] for span in _SPAN.findall(prose)]


def our_files(page: Path) -> set[str]:
    """Files of this repository that a block names. To kubectl `deploy/defib` is a Deployment."""
    found = {name for block in blocks(page) for name in _FILE.findall(block.text)}
    return {name.rstrip(".") for name in found}


def exists(name: str) -> bool:
    return (ROOT / name).exists()
