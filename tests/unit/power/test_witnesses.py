"""Who else can be asked whether a node lives: by an entry point, and none of them can do harm by what it says or does."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from defib.clock import SystemClock
from defib.model.evidence import Says
from defib.power.witnesses import Witness, Witnesses

WITHIN = 2.0
PLUGIN = """
from defib.model.evidence import Says

class Clients:
    def __init__(self, clock): ...
    async def ask(self, node, within_seconds):
        return (Says.GONE, f"{node} has no session")

class Refuses:
    def __init__(self, clock): raise OSError("no server")

class Mute:
    def __init__(self, clock): ...
"""


class Saying:
    def __init__(self, says: object, detail: str = "so") -> None:
        self._answer = (says, detail)

    async def ask(self, node: str, within_seconds: float) -> tuple[Says, str]:  # noqa: ARG002  it always says the same
        return self._answer  # type: ignore[return-value]  # what a stranger says is of any type


class Breaking:
    async def ask(self, node: str, within_seconds: float) -> tuple[Says, str]:
        raise RuntimeError(f"login {node} {within_seconds} with hunter2")


class Hanging:
    async def ask(self, node: str, within_seconds: float) -> tuple[Says, str]:  # noqa: ARG002  it never answers
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As pip would leave it: a module, and beside it what it says about itself."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "acme_storage.py").write_text(PLUGIN)
    yield tmp_path
    sys.modules.pop("acme_storage", None)


def offer(folder: Path, *points: str, package: str = "acme_storage") -> None:
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("\n".join(["[defib.evidence]", *points, ""]))


async def test_nobody_is_installed_so_nobody_is_asked() -> None:
    assert await Witnesses(SystemClock()).ask("n1", WITHIN) is None


async def test_a_plug_in_is_found_by_its_entry_point_and_asked(plugin: Path) -> None:
    offer(plugin, "acme = acme_storage:Clients")
    assert await Witnesses(SystemClock()).ask("n1", WITHIN) == (Says.GONE, "acme: n1 has no session")


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("acme = acme_storage:Absent", "acme_storage:Absent cannot be used (AttributeError"),
        ("acme = acme_missing:Clients", "acme_missing:Clients cannot be used (ModuleNotFoundError"),
        ("acme = acme_storage:Refuses", "acme_storage:Refuses cannot be used (OSError: no server)"),
        ("acme = acme_storage:Mute", "acme_storage:Mute has no `ask`"),
    ],
)
async def test_one_that_cannot_be_used_is_told_and_says_nothing(plugin: Path, point: str, why: str) -> None:
    offer(plugin, point)
    said = await Witnesses(SystemClock()).ask("n1", WITHIN)
    assert said is not None
    assert said[0] is Says.UNKNOWN
    assert said[1].startswith(f"acme: {why}")


async def test_a_package_cannot_stand_in_for_another(plugin: Path) -> None:
    offer(plugin, "acme = acme_storage:Clients")
    offer(plugin, "acme = acme_other:Clients", package="acme_other")
    assert await Witnesses(SystemClock()).ask("n1", WITHIN) == (
        Says.UNKNOWN,
        "acme: more than one package offers this name",
    )


@pytest.mark.parametrize(
    ("words", "together"),
    [
        ([Says.GONE, Says.UNKNOWN], Says.GONE),
        ([Says.GONE, Says.ALIVE], Says.ALIVE),
        ([Says.UNKNOWN, Says.UNKNOWN], Says.UNKNOWN),
    ],
)
async def test_one_that_hears_the_node_weighs_more_than_all_that_have_lost_it(
    words: list[Says], together: Says
) -> None:
    given: dict[str, Witness] = {str(number): Saying(word) for number, word in enumerate(words)}
    assert await Witnesses(SystemClock(), given).ask("n1", WITHIN) == (together, "0: so; 1: so")


@pytest.mark.parametrize("word", [Says.OFF, Says.STOPPED, "Dead", None, 7])
async def test_a_word_that_others_may_not_say_means_nothing(word: object) -> None:
    said = await Witnesses(SystemClock(), {"odd": Saying(word)}).ask("n1", WITHIN)
    assert said is not None
    assert said[0] is Says.UNKNOWN


async def test_one_that_breaks_or_hangs_holds_up_nobody_and_its_secrets_stay_its_own() -> None:
    given: dict[str, Witness] = {"breaks": Breaking(), "hangs": Hanging(), "storage": Saying(Says.GONE)}
    assert await Witnesses(SystemClock(), given).ask("n1", 0.05) == (
        Says.GONE,
        "breaks: it broke (RuntimeError), which is a mistake in it; hangs: no answer within 0.05 s; storage: so",
    )
