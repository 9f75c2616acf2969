"""The rules that need more than a line, as pure functions from text to findings. test_rules.py breaks each of them."""

import ast
import re
from collections.abc import Iterator

# Written so that this file does not break its own rules.
MACHINE_PATH = re.compile(r"(?<![\w.~$}])/(?:work|root|home|Users)/[\w.]")
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|(?:proxy|sum)\.golang\.org|npmjs\.(?:org|com)|crates\.io|goproxy\.\w"
)
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X|NotImplemented[E]rror)\b")

_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOCKED = re.compile(r"^[a-z0-9][\w.-]*(?:\[[\w,-]+\])?==\S+", re.IGNORECASE)
_CLAIMING_CALLS = {
    "pytest.raises",
    "pytest.fail",
    "run_state_machine_as_test",
    "asyncio.timeout",  # it ends in time, or the test fails
}
_SLEEPS = {"time.sleep", "asyncio.sleep", "sleep"}


def function_lines(source: str) -> dict[str, int]:
    """Every function by its dotted name, with the lines from `def` to its end."""
    return {
        path: node.end_lineno - node.lineno + 1
        for path, node in _functions(ast.parse(source), "")
        if node.end_lineno is not None
    }


def _functions(parent: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(parent):
        path = f"{prefix}.{node.name}".lstrip(".") if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) else prefix
        if isinstance(node, _FUNCTIONS):
            yield path, node
        yield from _functions(node, path)


def links(markdown: str) -> list[str]:
    """Targets that lead into this repository."""
    found = (inline or picture for inline, picture in _LINK.findall(markdown))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def unhashed(lock: str) -> list[str]:
    """Lines of a lock file that pin nothing, or pin without a hash, or say where to fetch from."""
    logical = re.sub(r"\\\n\s*", "", lock).splitlines()
    wanted = [line for line in logical if line.strip() and not line.startswith("#")]
    return [line for line in wanted if not _LOCKED.match(line) or "--hash=sha256:" not in line or "://" in line]


def claims_nothing(source: str) -> list[str]:
    """Tests that cannot fail: no assert, no expected error, no deadline, and no call to a function that has one."""
    functions = {node.name: node for _, node in _functions(ast.parse(source), "")}
    claiming = {name for name, node in functions.items() if any(_claims(part) for part in ast.walk(node))}
    grown = True
    while grown:
        more = {name for name, node in functions.items() if name not in claiming and _calls(node) & claiming}
        claiming |= more
        grown = bool(more)
    return [name for name in functions if name.startswith("test_") and name not in claiming]


def _claims(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return True
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    last = called.rpartition(".")[2]
    is_seen = called.startswith("expect(")  # in a browser: it comes true in time, or the test fails
    return is_seen or called in _CLAIMING_CALLS or last.startswith(("expect_", "assert_", "eventually"))


def _calls(node: ast.AST) -> set[str]:
    return {ast.unparse(part.func).rpartition(".")[2] for part in ast.walk(node) if isinstance(part, ast.Call)}


def unexplained_sleeps(source: str) -> list[int]:
    """Line numbers of sleeps that nothing explains: no comment beside or above, and no docstring of a function around.

    A test's own docstring says what it tests, so it explains no sleep. A sleep of 0 only gives way to other tasks.
    """
    tree, lines = ast.parse(source), source.splitlines()
    explained = [node for _, node in _functions(tree, "") if ast.get_docstring(node) and node.name[:5] != "test_"]
    return [
        call.lineno
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in _SLEEPS
        and not _gives_way(call)
        and not any("#" in line for line in lines[call.lineno - 2 : call.lineno])
        and not any(call in ast.walk(function) for function in explained)
    ]


def _gives_way(call: ast.Call) -> bool:
    return len(call.args) == 1 and ast.unparse(call.args[0]) in {"0", "0.0"}
