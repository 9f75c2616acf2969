"""What a log line looks like, and what must never be in one."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from defib.telemetry.log import Style, printable, set_up, style_for

EVIL = "n1\x1b[2J\x1b]0;owned\x07\r\nlevel=error\u202e\x9b31m"


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    def jitter(self, span: float) -> float:
        return span / 2


@contextmanager
def logs_to(fd: int, style: Style = "json", level: str = "info") -> Iterator[None]:
    """The set-up is the process's own, so it is put back."""
    root = logging.getLogger()
    before = root.handlers, root.level
    set_up(style=style, level=level, fd=fd, clock=StoppedClock())
    try:
        yield
    finally:
        root.handlers, root.level = before
        logging.captureWarnings(capture=False)
        structlog.reset_defaults()


def written(say: Callable[[], object], style: Style = "json", level: str = "info") -> str:
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as lines:
        with os.fdopen(writing, "wb"), logs_to(writing, style, level):
            say()
        return lines.read()


def fields(say: Callable[[], object], level: str = "info") -> dict[str, Any]:
    (line,) = written(say, "json", level).splitlines()
    decoded: dict[str, Any] = msgspec.json.decode(line)
    return decoded


def test_a_json_line_has_time_level_event_and_fields_in_this_order() -> None:
    line = written(lambda: structlog.get_logger("observe").warning("watch is silent", kind="nodes", seconds=90.5))
    assert line == (
        '{"time":"2026-01-02T03:04:05.678Z","level":"warning","event":"watch is silent",'
        '"logger":"observe","kind":"nodes","seconds":90.5}\n'
    )


def test_a_pretty_line_is_for_people() -> None:
    line = written(lambda: structlog.get_logger("app").info("node lost", node="n1", why="power off", count=2), "pretty")
    assert line == '03:04:05.678 info    node lost  logger=app node=n1 why="power off" count=2\n'


def test_colours_are_only_around_the_frame_of_a_line() -> None:
    line = written(lambda: structlog.get_logger("app").error("node lost", node="n1"), "colour")
    assert (
        line
        == "\x1b[2m03:04:05.678\x1b[0m \x1b[31merror  \x1b[0m node lost  \x1b[2mlogger=\x1b[0mapp \x1b[2mnode=\x1b[0mn1\n"
    )


def test_a_line_below_the_level_is_not_written() -> None:
    assert written(lambda: structlog.get_logger("app").info("calm"), level="warning") == ""


@pytest.mark.parametrize(
    "key",
    [
        "token",
        "Authorization",
        "password",
        "client_secret",
        "client-key-data",
        "clientKeyData",
        "id-token",
        "private_key",
    ],
)
def test_the_value_of_a_secret_key_is_never_written(key: str) -> None:
    line = written(
        lambda: structlog.get_logger("kube").info("login", **{key: "hunter2"}, more=[{"user": {key: "hunter2"}}])
    )
    assert "hunter2" not in line
    assert line.count("[redacted]") == 2


def test_a_token_is_not_written_when_it_hides_in_a_sentence() -> None:
    line = fields(lambda: structlog.get_logger("kube").info("sent Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.abc"))
    assert line["event"] == "sent Authorization: Bearer [redacted]"


def test_the_name_of_a_token_file_is_no_secret() -> None:
    assert fields(lambda: structlog.get_logger("kube").info("read", token_file="a/b"))["token_file"] == "a/b"


@pytest.mark.parametrize("style", ["json", "pretty"])
def test_a_hostile_name_can_neither_steer_the_terminal_nor_forge_a_line(style: Style) -> None:
    line = written(
        lambda: structlog.get_logger("app").info("node " + EVIL, node=EVIL, list=[EVIL], map={EVIL: EVIL}), style
    )
    assert line.count("\n") == 1
    assert printable(line[:-1]) == line[:-1]


def test_text_that_is_not_valid_unicode_is_shown_and_does_not_fail() -> None:
    assert fields(lambda: structlog.get_logger("app").info("odd", path="a\udc80"))["path"] == "a\\udc80"


def test_a_value_of_any_type_can_be_logged() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd one"

    line = fields(
        lambda: structlog.get_logger("app").info("odd", odd=Odd(), error=ValueError("no"), at=StoppedClock().now())
    )
    assert (line["odd"], line["error"], line["at"]) == ("odd one", "ValueError: no", "2026-01-02T03:04:05.678900Z")


def fail() -> None:
    raise ValueError("bad\x1b[2J\nnews")


def fail_and_log() -> None:
    try:
        fail()
    except ValueError:
        structlog.get_logger("app").exception("pass failed")


def test_a_traceback_is_one_field_in_json() -> None:
    line = fields(fail_and_log)
    assert line["level"] == "error"
    assert line["exception"].splitlines()[-2:] == ["ValueError: bad\\x1b[2J", "news"]


def test_a_traceback_is_indented_below_its_pretty_line() -> None:
    first, *rest = written(fail_and_log, "pretty").splitlines()
    assert first.endswith("pass failed  logger=app")
    assert rest[-2:] == ["    ValueError: bad\\x1b[2J", "    news"]
    assert all(line.startswith("    ") for line in rest)


def test_what_a_library_logs_comes_out_like_ours() -> None:
    line = fields(lambda: logging.getLogger("aiohttp.server").error("bad request from %s", EVIL))
    assert (line["level"], line["logger"]) == ("error", "aiohttp.server")
    assert line["event"].startswith("bad request from n1\\x1b")


def test_a_library_is_held_to_the_same_level() -> None:
    assert written(lambda: logging.getLogger("asyncio").info("selector")) != ""
    assert written(lambda: logging.getLogger("asyncio").info("selector"), level="warning") == ""


def test_a_librarys_broken_format_string_is_still_a_line() -> None:
    assert fields(lambda: logging.getLogger("x").error("%d things", "many"))["event"] == "%d things"


def test_a_reader_that_went_away_does_not_matter() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb"), logs_to(writing):
        with pytest.raises(BrokenPipeError):
            os.write(writing, b"so it is")
        structlog.get_logger("app").info("nobody reads this")


def test_a_closed_or_full_output_does_not_matter() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, logs_to(full.fileno()):
        with pytest.raises(OSError, match="No space left"):
            full.write(b"so it is")
        structlog.get_logger("app").info("no room")
        full.close()
        structlog.get_logger("app").info("closed")
        logging.getLogger("x").error("closed")


@pytest.mark.parametrize(
    ("log_format", "terminal", "environ", "style"),
    [
        ("auto", True, {}, "colour"),
        ("auto", False, {}, "json"),
        ("json", True, {}, "json"),
        ("pretty", False, {}, "pretty"),
        ("pretty", True, {"NO_COLOR": "1"}, "pretty"),
        ("auto", True, {"TERM": "dumb"}, "pretty"),
    ],
)
def test_the_style_follows_the_setting_and_the_terminal(
    log_format: str, terminal: bool, environ: dict[str, str], style: str
) -> None:
    assert style_for(log_format, terminal=terminal, environ=environ) == style
