"""`defib dump`: what was written, and what could not be."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from rich.console import Group, RenderableType

from defib.cli.drawing import Fact, count, facts, text
from defib.cli.output import ask, show
from defib.cli.output import say as answer
from defib.config import Settings
from defib.console.dump import Dumped, dump
from defib.model.duration import say
from defib.rules_of import rules_of


def write_dump(file: Path, seconds: float, settings: Settings, output: str) -> None:
    length = timedelta(seconds=seconds)
    doing = f"recording for {say(length)}; Ctrl-C ends it and keeps what there is" if length else "reading the cluster"
    before = _written_at(file)
    try:
        dumped = ask(dump(file, length, settings, rules_of(settings)), doing)
    except KeyboardInterrupt:
        if _written_at(file) == before:
            raise
        answer(f"ended by Ctrl-C; what was seen until then is in {file}: defib replay {file}", output)
        return
    show(dumped, lambda _: page(dumped), output)


def _written_at(file: Path) -> int:
    """Zero when it is not there."""
    return file.stat().st_mtime_ns if file.exists() else 0


def page(dumped: Dumped) -> RenderableType:
    return Group(text(f"{dumped.file} is written", "bold"), facts(_facts(dumped)))


def _facts(dumped: Dumped) -> Iterator[Fact]:
    pods = "no pods, which this account may not read" if dumped.pods is None else count(dumped.pods, "pod")
    yield "holds", text(f"{count(dumped.frames, 'look')} at {count(dumped.nodes, 'node')}, {pods}")
    yield "size", text(f"{dumped.bytes / 1024:,.0f} KiB")
    for note in dumped.unknown:
        yield "not known", text(note, "yellow")
    yield "secrets", text(f"none are read; have a look before you give it away: zcat {dumped.file} | less")
    yield "next", text(f"defib plan --dump {dumped.file}")
    yield "", text(f"defib simulate --dump {dumped.file} --kill-node NAME")
