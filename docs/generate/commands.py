"""The page of commands, from the commands themselves: what each is for, its examples, exit codes and flags."""

import inspect
import re
from collections.abc import Iterator

import click

from defib.cli.main import cli
from defib.config import SETTINGS

HEAD = """# Commands

`defib` and `kubectl defib` are the same program: where `kubectl-defib` is on your PATH, kubectl finds it. `--help` after
any command says what stands here. Commands that talk to a cluster find it as kubectl does.

| exit code | means |
|---|---|
| 0 | done, or stopped as asked |
| 1 | it cannot be done; one line on the standard error says why and what to do |
| 2 | the command line or the settings are wrong |
| 3 | what was asked after is not well |
| 130 | stopped a second time while it was still ending |

| command | |
|---|---|
"""
# Of a command that takes all settings, only those that are its own are listed.
ALL_SETTINGS = frozenset(setting.key for setting in SETTINGS)


def commands_page() -> str:
    found = list(_commands(cli, "defib"))
    index = "".join(f"| [`{path}`](#{path.replace(' ', '-')}) | {_first(command)} |\n" for path, command in found)
    return HEAD + index + "".join(_section(path, command) for path, command in found)


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _first(command: click.Command) -> str:
    return _plain((command.help or "").strip().split("\n\n")[0]).replace("|", "\\|")


def _section(path: str, command: click.Command) -> str:
    usage = " ".join([path, *command.collect_usage_pieces(click.Context(command, info_name=path))])
    text = f"\n## {path}\n\n```text\n{usage}\n```\n\n"
    return text + "".join(_paragraph(part) for part in _paragraphs(command.help or "")) + _flags(command)


def _paragraphs(text: str) -> list[str]:
    return [part.strip(" \n") for part in re.split(r"\n\s*\n", text) if part.strip()]


def _paragraph(part: str) -> str:
    """Lines that keep their breaks are examples, or the exit codes; all else is prose."""
    if not part.startswith("\b"):
        return f"{_plain(part)}\n\n"
    lines = part.removeprefix("\b").strip("\n").splitlines()
    if not lines[0].rstrip().endswith(":"):
        return f"{_plain(' '.join(lines))}\n\n"
    shell = inspect.cleandoc("\n" + "\n".join(lines[1:]))
    return f"{lines[0].strip()}\n\n```sh\n{shell}\n```\n\n"


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")


def _flags(command: click.Command) -> str:
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    keys = {one.name for one in options}
    note = ""
    if keys >= ALL_SETTINGS:
        note = "Every [setting](settings.md) is a flag of it, too.\n\n"
        options = [one for one in options if one.name not in ALL_SETTINGS]
    rows = "".join(_flag(option) for option in options)
    return note + (f"| flag | |\n|---|---|\n{rows}" if rows else "")


def _flag(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {option.metavar or _choices(option)}"
    return f"| {names}{value} | {_plain(option.help or '')} |\n".replace("[env:", "\\[env:")


def _choices(option: click.Option) -> str:
    kind = option.type
    return " or ".join(str(one) for one in kind.choices) if isinstance(kind, click.Choice) else kind.name.upper()
