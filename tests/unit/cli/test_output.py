"""How every command answers: text for people, JSON and YAML for machines, and nothing that a terminal would obey."""

import os
import subprocess
import sys

import msgspec
import pytest
import yaml
from rich.console import RenderableType
from rich.text import Text

from defib.cli.failed import Failed
from defib.cli.output import PIPED_WIDTH, ask, say, show
from defib.console.session import NotDone

HOSTILE = "\x1b[2J\u202egnp"


class Fact(msgspec.Struct, frozen=True):
    name: str
    number: int | None = None


def drawn(_: int) -> RenderableType:
    return Text("for people   ")


def test_text_is_what_is_drawn_without_blanks_at_the_ends(capsys: pytest.CaptureFixture[str]) -> None:
    show(Fact("n1"), drawn, "text")
    assert capsys.readouterr().out == "for people\n"


def test_json_and_yaml_tell_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    show(Fact("n1", 3), drawn, "json")
    as_json = capsys.readouterr().out
    show(Fact("n1", 3), drawn, "yaml")
    as_yaml = capsys.readouterr().out
    assert msgspec.json.decode(as_json) == yaml.safe_load(as_yaml) == {"name": "n1", "number": 3}
    assert as_yaml == "name: n1\nnumber: 3\n"


def test_into_a_pipe_it_is_as_wide_as_a_screen_and_has_no_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    asked: list[int] = []

    def draw(width: int) -> RenderableType:
        asked.append(width)
        return Text("red", style="red")

    show(Fact("n1"), draw, "text")
    assert asked == [PIPED_WIDTH]
    assert capsys.readouterr().out == "red\n"


@pytest.mark.parametrize("output", ["text", "yaml"])
def test_what_is_hostile_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str], output: str) -> None:
    say(HOSTILE, output)
    out = capsys.readouterr().out
    assert out.strip().isascii()
    assert "\x1b" not in out


def test_in_json_too_and_it_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"{HOSTILE} \x7f \x9b31m \u202e \u2066 \u2028 ü"
    say(words, "json")
    out = capsys.readouterr().out
    assert not set(out) & set("\x1b\x7f\x9b\u202e\u2066\u2028")
    assert msgspec.json.decode(out) == {"message": words}


def test_what_was_done_can_be_read_by_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    say("Defib is paused", "json")
    assert msgspec.json.decode(capsys.readouterr().out) == {"message": "Defib is paused"}


def test_what_cannot_be_done_is_a_failed_command() -> None:
    async def work() -> None:
        raise NotDone("there is no node n1")

    with pytest.raises(Failed, match="there is no node n1"):
        ask(work(), "looking")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    script = "from defib.cli.output import say\nsay('x' * 100000, 'text')"
    reading, writing = os.pipe()
    os.close(reading)
    try:
        told = subprocess.run(
            [sys.executable, "-c", script], stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False
        )
    finally:
        os.close(writing)
    assert (told.returncode, told.stderr) == (0, b"")
