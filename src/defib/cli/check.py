"""`defib check`: problems as compilers tell them, each on one line with file and line first, so that editors find it."""

import asyncio
from collections.abc import Iterator

import click

from defib.cli.drawing import count, names
from defib.cli.output import ask, show
from defib.config import Settings
from defib.console.check import Checked, Finding, check_files
from defib.rules_of import rules_of
from defib.telemetry.printable import printable

NOT_WELL = 3


def check_files_of(files: tuple[str, ...], settings: Settings, output: str) -> int:
    checked = ask(asyncio.to_thread(check_files, files, rules_of(settings).failover), "checking")
    if output == "text":
        click.echo("\n".join(lines(checked)))  # without colours where no terminal is
    else:
        show(checked, lambda _: "", output)
    return NOT_WELL if checked.problems else 0


def lines(checked: Checked) -> Iterator[str]:
    yield from map(_problem, checked.problems)
    where = f"{count(checked.objects, 'object')} in {count(checked.files, 'file')}"
    if checked.problems:
        yield click.style(f"{count(len(checked.problems), 'problem')} in {where}", fg="red", bold=True)
    else:
        yield click.style(f"{where}: all is well", fg="green", bold=True)
    if checked.skipped:
        many = count(len(checked.skipped), "object")
        yield printable(f"not looked at, being of other kinds: {many} ({names(checked.skipped)})")


def _problem(one: Finding) -> str:
    whom = " ".join(part for part in (one.kind, one.name) if part)
    told = ": ".join(part for part in (whom, one.field, one.message) if part)
    return click.style(printable(f"{one.file}:{one.line}: "), bold=True) + printable(" ".join(told.split()))
