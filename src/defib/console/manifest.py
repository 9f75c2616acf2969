"""Files of Kubernetes objects: each object with the line at which everything in it stands, so that a person finds it."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

LARGEST = 8 * 1024 * 1024
MOST_PARTS = 200_000  # of one file, with what is repeated by an alias counted again: a few lines can mean millions
DEEPEST = 64
TIMESTAMP = "tag:yaml.org,2002:timestamp"
_TOKENS = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class Unclear(Exception):
    """A file that is no YAML, or more than anybody could mean. `line` is where that shows, from 1 on."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


class Document(msgspec.Struct, frozen=True):
    """One object; `number` is which document of the file it is, from 1 on."""

    number: int
    line: int
    content: Any
    node: Any  # as it was parsed, with the place of everything
    twice: tuple[tuple[int, str], ...] = ()  # keys that stand there twice, and where

    def line_of(self, path: str) -> int:
        """Where a field like `spec.steps[0].timeout` stands; of one that is missing, what it is missing in."""
        node, line = self.node, self.line
        for index, key in _TOKENS.findall(path):
            found = _inside(node, index or key)
            if found is None:
                break
            line, node = found
        return line


class _Loader(yaml.SafeLoader):
    """As Kubernetes reads it: what looks like a date is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != TIMESTAMP]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def documents(text: str) -> Iterator[Document]:
    """Empty ones are left out; those of a List come one by one. Raises Unclear."""
    if len(text) > LARGEST:
        raise Unclear(1, f"the file is larger than {LARGEST // 1024**2} MiB")
    try:
        yield from _parsed(_Loader(text))
    except yaml.reader.ReaderError as error:
        raise Unclear(text.count("\n", 0, error.position) + 1, f"this is no YAML: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unclear(mark.line + 1 if mark else 1, f"this is no YAML: {error.problem or error.context}") from error
    except (RecursionError, ValueError) as error:
        raise Unclear(1, "this is nested too deeply, or has a number or a text that means nothing") from error


def _parsed(loader: _Loader) -> Iterator[Document]:
    number = 0
    while loader.check_node():
        number += 1
        node = loader.get_node()
        _count(node)
        yield from _objects(number, node, loader.construct_document(node))


def _objects(number: int, node: Any, content: Any) -> Iterator[Document]:
    if content is None:
        return
    line = node.start_mark.line + 1
    items = _inside(node, "items")
    if isinstance(content, dict) and content.get("kind") == "List" and items and isinstance(content.get("items"), list):
        for inner, one in zip(items[1].value, content["items"], strict=True):
            yield Document(number, inner.start_mark.line + 1, one, inner, tuple(_repeated(inner)))
        return
    yield Document(number, line, content, node, tuple(_repeated(node)))


def _count(root: Any) -> None:
    """Raises Unclear before anybody walks through what never ends."""
    parts, stack = 0, [(root, 0)]
    while stack:
        node, depth = stack.pop()
        parts += 1
        if parts > MOST_PARTS or depth > DEEPEST:
            raise Unclear(node.start_mark.line + 1, "this has more parts than anybody could mean")
        stack += ((inner, depth + 1) for inner in _parts(node))


def _parts(node: Any) -> Iterator[Any]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _repeated(root: Any) -> Iterator[tuple[int, str]]:
    """The API server refuses such an object; to a parser, the last one counts."""
    stack = [root]
    while stack:
        node = stack.pop()
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if str(key.value) in seen:
                yield key.start_mark.line + 1, str(key.value)
            seen.add(str(key.value))
        stack += _parts(node)


def _inside(node: Any, key: str) -> tuple[int, Any] | None:
    """Where it begins, and what it is; None when it is not there."""
    if isinstance(node, yaml.SequenceNode):
        place = int(key) if key.isdigit() else len(node.value)
        return (node.value[place].start_mark.line + 1, node.value[place]) if place < len(node.value) else None
    if isinstance(node, yaml.MappingNode):
        return next(((name.start_mark.line + 1, value) for name, value in node.value if name.value == key), None)
    return None
