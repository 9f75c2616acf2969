"""What a log line looks like, and what must never be in one."""

import logging
import os
import pty
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from defib.telemetry.log import Style, set_up, style_for
from defib.telemetry.printable import printable

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


def test_a_pretty_line_leaves_out_what_is_empty_and_keeps_zero() -> None:
    line = written(lambda: structlog.get_logger("app").info("node cordoned", why="", count=0), "pretty")
    assert line == "03:04:05.678 info    node cordoned  logger=app count=0\n"


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


def a_socket() -> tuple[int, int]:
    reading, writing = socket.socketpair()
    return reading.detach(), writing.detach()


@contextmanager
def both_ends(opened: Callable[[], tuple[int, int]]) -> Iterator[tuple[int, int]]:
    reading, writing = opened()
    try:
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


def read_now(reading: int) -> str:
    """All that is there to be read. The kernel may take a moment to hand a terminal's bytes over."""
    found = b""
    while select.select([reading], [], [], 0 if found else 0.1)[0] and (part := os.read(reading, 65536)):
        found += part
    return found.decode().replace("\r\n", "\n")


def lose_nodes(lines: int, length: int = 150) -> None:
    for number in range(lines):
        structlog.get_logger("app").info("node lost", number=number, padding="x" * length)


@pytest.mark.parametrize("opened", [os.pipe, a_socket, pty.openpty])
@pytest.mark.parametrize("length", [1, 150, 9_000, 300_000])
def test_a_reader_that_stalls_holds_nothing_up_and_is_told_later_what_it_missed(
    opened: Callable[[], tuple[int, int]], length: int
) -> None:
    lines = 5_000 if length < 1_000 else 50
    text, attempt = "", 0
    with both_ends(opened) as (reading, writing), logs_to(writing):
        lose_nodes(lines, length)
        while '"event":"again"' not in text or not text.endswith("\n"):
            text += read_now(reading)
            structlog.get_logger("app").info("again", attempt=attempt)
            attempt += 1
            text += read_now(reading)
    read = [msgspec.json.decode(line) for line in text.splitlines()]
    first = next(line for line in read if line["event"] == "again")
    before = read[: read.index(first)]
    told = [line for line in before if line["event"] == "log lines were lost"]
    assert {(line["level"], line["why"], line["logger"]) for line in told} == {("warning", "nobody read them", "log")}
    assert sum(line["lines"] for line in told) + len(before) - len(told) == lines + first["attempt"]


def test_lost_lines_are_told_whatever_the_level() -> None:
    with both_ends(os.pipe) as (reading, writing), logs_to(writing, level="error"):
        for _ in range(5_000):
            structlog.get_logger("app").error("node lost")
        read_now(reading)
        structlog.get_logger("app").error("again")
        told, again = read_now(reading).splitlines()
    assert '"event":"log lines were lost"' in told
    assert '"event":"again"' in again


def test_lines_lost_to_an_error_are_told_with_it() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, both_ends(os.pipe) as (reading, writing):
        output = os.dup(full.fileno())
        with logs_to(output):
            lose_nodes(3)
            os.dup2(writing, output)
            lose_nodes(1)
        os.close(output)
        told = msgspec.json.decode(read_now(reading).splitlines()[0])
    assert (told["lines"], told["why"]) == (3, "No space left on device")


def test_a_stalled_output_is_left_as_it_was_for_the_others_that_write_to_it() -> None:
    for opened in (os.pipe, pty.openpty):
        with both_ends(opened) as (_, writing), logs_to(writing):
            lose_nodes(1_000)
            assert os.get_blocking(writing)


def test_lines_of_many_threads_are_all_there_and_whole(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("wb") as output, logs_to(output.fileno()):
        threads = [threading.Thread(target=lose_nodes, args=(50, 10_000)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    read = [msgspec.json.decode(line) for line in file.read_text().splitlines()]
    assert sorted(line["number"] for line in read) == sorted([*range(50)] * 4)


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
