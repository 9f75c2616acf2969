"""Logs: a fixed sentence and fields, as JSON lines for machines or as text for people.

Lines of libraries (the standard `logging`) take the same way out. Nothing secret and nothing that could steer a
terminal gets through, and a reader that went away or does not read never stops the operator.
"""

import logging
import os
import re
import select
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from defib.clock import Clock
from defib.telemetry.printable import printable

Style = Literal["json", "pretty", "colour"]

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "31"}
REDACTED = "[redacted]"
SECRET_KEYS = ("token", "password", "passwd", "authorization", "cookie", "secret", "keydata", "privatekey")
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{16,}")


def set_up(*, style: Style, level: str, fd: int, clock: Clock) -> None:
    """From here on, all logs of this process go to the open file `fd`. May be called again."""
    render: Processor = _as_json if style == "json" else _AsText(style == "colour")
    processors: list[Processor] = [_Stamp(clock), _exception, _cleaned, render]
    output = _Output(fd, processors)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *names: _Sink(output, *names),
    )
    root = logging.getLogger()
    root.handlers = [_Bridge()]
    root.setLevel(LEVELS[level])
    logging.captureWarnings(capture=True)


def style_for(log_format: str, *, terminal: bool, environ: Mapping[str, str]) -> Style:
    """What `auto` means here. Colours only on a terminal, and not where NO_COLOR asks for none."""
    if log_format == "json" or (log_format == "auto" and not terminal):
        return "json"
    return "colour" if terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" else "pretty"


class _Output:
    """Where the lines go. It never waits: what nobody reads is dropped and counted, and told when it is read again.

    It writes past Python's buffers, so that nothing comes back at exit as an error.
    """

    def __init__(self, fd: int, processors: Sequence[Processor]) -> None:
        self._fd = self._opened_to_not_wait(fd) if os.isatty(fd) else fd
        self._processors = processors
        self._turn = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._begun = b""
        self._lost = 0
        self._why = ""

    def write(self, line: bytes) -> None:
        """May be called by any thread, and within itself (by the warning of a destructor): whoever has the turn writes."""
        self._waiting.append(line)
        while self._waiting and self._turn.acquire(blocking=False):
            try:
                while self._waiting:
                    self._put(self._waiting.popleft())
            finally:
                self._turn.release()

    def _put(self, line: bytes) -> None:
        """A line that was begun is ended before another is, so that a reader never sees half of one."""
        self._begun = self._rest_of(self._begun)
        if self._begun:
            self._lost += 1
            return
        whole = self._loss() + line if self._lost else line
        rest = self._rest_of(whole)
        if len(rest) == len(whole):
            self._lost += 1
        else:
            self._begun, self._lost = rest, 0

    def _rest_of(self, text: bytes) -> bytes:
        """Write what can be written now. A pipe that is ready for anything has room for PIPE_BUF."""
        try:
            while text:
                ready = select.poll()
                ready.register(self._fd, select.POLLOUT)
                if not ready.poll(0):
                    self._why = "nobody read them"
                    break
                text = text[os.write(self._fd, text[: select.PIPE_BUF]) :]
        except BlockingIOError:
            self._why = "nobody read them"
        except OSError as error:  # closed, full or gone: there is nobody to tell, and guarding nodes matters more
            self._why = error.strerror or str(error)
        return text

    def _loss(self) -> bytes:
        """The line about lost lines. Not by way of a logger: it must stand before the next line, at any level."""
        told: Any = {"event": "log lines were lost", "lines": self._lost, "why": self._why}
        for processor in self._processors:
            told = processor(_Sink(self, "log"), "warning", told)
        return bytes(told)

    def _opened_to_not_wait(self, terminal: int) -> int:
        """The same terminal, opened again for us alone.

        One that is ready may have room for a single byte, so it must not wait in a write either. That is a property of
        the open file, which other processes share.
        """
        try:
            own = os.open(os.ttyname(terminal), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:  # not ours to open, or not in our file system: then as it is
            return terminal
        weakref.finalize(self, os.close, own).atexit = False  # lines may come until the very end
        return own


class _Sink:
    """What structlog calls a logger: a name, and where its lines go."""

    def __init__(self, output: _Output, name: str = "") -> None:
        self._output = output
        self.name = name

    def msg(self, line: bytes) -> None:
        self._output.write(line)

    debug = info = warning = warn = error = critical = exception = log = msg


class _Bridge(logging.Handler):
    """What libraries log by the standard way goes out as ours does."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event = record.getMessage()
        except (TypeError, ValueError):  # a library's format string that does not fit its arguments
            event = str(record.msg)
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        structlog.get_logger(record.name).log(level, event, exc_info=record.exc_info)


class _Stamp:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, sink: WrappedLogger, method: str, fields: EventDict) -> EventDict:
        time = self._clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        named = {"logger": sink.name} if sink.name else {}
        return {"time": time, "level": method, "event": fields.pop("event", ""), **named, **fields}


def _exception(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    """`exc_info` may be an error, the triple of `sys.exc_info`, or True for the one being handled."""
    given = fields.pop("exc_info", None)
    if isinstance(given, BaseException):
        fields["exception"] = "".join(traceback.format_exception(given))
    elif isinstance(given, tuple) and given[1] is not None:
        fields["exception"] = "".join(traceback.format_exception(*given))
    elif given is True:
        fields["exception"] = traceback.format_exc()
    return fields


def _cleaned(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    cleaned: EventDict = _clean(msgspec.to_builtins(fields, enc_hook=_plain, str_keys=True))
    if "exception" in fields:  # keeps its lines, which the renderers indent or encode
        cleaned["exception"] = "\n".join(_clean(line) for line in str(fields["exception"]).splitlines())
    return cleaned


def _plain(value: object) -> str:
    return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)


def _clean(value: Any) -> Any:
    match value:
        case str():
            return printable(BEARER.sub(rf"\1 {REDACTED}", value))
        case dict():
            return {printable(str(k)): REDACTED if _is_secret(str(k)) else _clean(v) for k, v in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_clean(one) for one in value]
        case _:
            return value


def _is_secret(key: str) -> bool:
    return re.sub(r"[^a-z]", "", key.lower()).endswith(SECRET_KEYS)


def _as_json(_: WrappedLogger, __: str, fields: EventDict) -> bytes:
    return msgspec.json.encode(fields) + b"\n"


class _AsText:
    """`12:00:01.234 warning watch is silent  kind=nodes seconds=90`"""

    def __init__(self, coloured: bool) -> None:
        self._coloured = coloured

    def __call__(self, _: WrappedLogger, level: str, fields: EventDict) -> bytes:
        time, event = fields.pop("time")[11:23], fields.pop("event")
        shown_level = fields.pop("level")
        exception = fields.pop("exception", "")
        told = ((key, value) for key, value in fields.items() if value != "")  # what is empty tells a person nothing
        values = " ".join(f"{self._paint('2', key + '=')}{_text(value)}" for key, value in told)
        head = f"{self._paint('2', time)} {self._paint(COLOURS.get(level, '0'), f'{shown_level:7}')} {event}"
        lines = [f"{head}  {values}".rstrip(), *(f"    {line}" for line in exception.splitlines())]
        return ("\n".join(lines) + "\n").encode()

    def _paint(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured else text


def _text(value: Any) -> str:
    """Quoted only where a reader could not see its end otherwise."""
    if isinstance(value, str) and value and not re.search(r'[\s"=]', value):
        return value
    return msgspec.json.encode(value).decode()
