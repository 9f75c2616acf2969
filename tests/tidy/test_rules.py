"""Each text rule was seen to fail when broken: here it is broken, every time the tests run."""

import pytest

from tests.tidy import rules
from tests.tidy.repository import anchors, code


@pytest.mark.parametrize("path", ["work/main/x", "root/.cache", "home/ann/bin", "Users/ann"])
def test_a_path_of_one_machine_is_found(path: str) -> None:
    assert rules.MACHINE_PATH.search(f"see /{path} for it")


@pytest.mark.parametrize("fine", ["~/.cache/defib", "${HOME}/work/x", "docs/work/x", "/var/run/secrets", "/home/"])
def test_a_path_of_every_machine_is_fine(fine: str) -> None:
    assert not rules.MACHINE_PATH.search(f"see {fine} for it")


@pytest.mark.parametrize("host", ["pypi", "files.pythonhosted", "proxy.golang", "registry.npmjs"])
def test_a_registry_host_is_found(host: str) -> None:
    assert rules.REGISTRY.search(f"from {host}.org today")


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME", "X" * 3, "NotImplemented" + "Error"])
def test_an_unfinished_place_is_found(word: str) -> None:
    assert rules.UNFINISHED.search(f"    # {word}: later")


def test_functions_are_measured_with_their_dotted_names() -> None:
    source = (
        "class A:\n    def b(self):\n        def c():\n            pass\n        return c\nasync def d():\n    pass\n"
    )
    assert rules.function_lines(source) == {"A.b": 4, "A.b.c": 2, "d": 2}


def test_links_into_the_repository_are_found_and_others_left_alone() -> None:
    page = "[a](docs/a.md#b) ![p](p.svg) [w](https://example.org/x) [m](mailto:x@example.org)"
    assert rules.links(page) == ["docs/a.md#b", "p.svg"]


def test_anchors_are_made_as_a_browser_of_the_repository_makes_them() -> None:
    assert anchors("# Where do I put …?\n```\n# not me\n```\n## `make` it, I1\n") == {"where-do-i-put-", "make-it-i1"}


def test_code_is_read_from_fences_and_backticks() -> None:
    assert code("Say `make x`.\n```sh\nmake y\n```\nmake z\n") == ["make x", "make y\n"]


@pytest.mark.parametrize(
    "line",
    [
        "click==8.5.1",
        "click>=8 --hash=sha256:00",
        "click @ https://example.org/click.whl --hash=sha256:00",
        "--index-url https://example.org/simple",
        "-e .",
    ],
)
def test_a_line_of_a_lock_that_is_no_hashed_pin_is_found(line: str) -> None:
    good = "aiohttp[speedups]==3.14.5 ; python_version > '3' \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
    assert rules.unhashed(f"# comment\n{good}{line}\n") == [line]


@pytest.mark.parametrize(
    ("body", "fails"),
    [
        ("run()", True),
        ("x = 1", True),
        ("assert x", False),
        ("with pytest.raises(ValueError): run()", False),
        ("expect_ready(node)", False),
        ("claim()", False),
        ("expect(page).to_have_title(1)", False),
        ("expect(page)", True),
    ],
)
def test_a_test_that_cannot_fail_is_found(body: str, fails: bool) -> None:
    source = f"def claim():\n    assert 1\n\nasync def test_it():\n    {body}\n"
    assert rules.claims_nothing(source) == (["test_it"] if fails else [])


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("await asyncio.sleep(1)", [2]),
        ("time.sleep(delay)", [2]),
        ("await asyncio.sleep(0)", []),
        ('"""Sleeps."""; await asyncio.sleep(1)', [2]),
        ("await asyncio.sleep(1)  # the server's own grace period, which cannot be told to hurry", []),
    ],
)
def test_a_sleep_without_a_reason_is_found(line: str, found: list[int]) -> None:
    assert rules.unexplained_sleeps(f"async def test_it():\n    {line}\n") == found


def test_a_sleep_in_a_function_that_explains_itself_is_fine() -> None:
    source = 'async def poll():\n    """The server cannot tell, so it is asked."""\n    await asyncio.sleep(1)\n'
    assert rules.unexplained_sleeps(source) == []
