"""Why a story cannot be told, or did not end as it says."""

from collections.abc import Iterable
from difflib import get_close_matches


class StoryError(Exception):
    """A line of a story makes no sense. `str()` is one line: file, line, what was expected."""

    def __init__(self, path: str, line: int, why: str) -> None:
        super().__init__(f"{path}:{line}: {why}")


class StoryFailed(AssertionError):
    """What a story expects was not seen. `str()` is its log book, which ends with the line that failed."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean `{near[0]}`?" if near else ""
