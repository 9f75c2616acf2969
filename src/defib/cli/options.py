"""Arguments that several commands have: settings as flags, times, and for whom the answer is."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from defib.config import FILE_VARIABLE, SETTINGS, Setting, Settings, load
from defib.console.acting_as import ActingAs
from defib.forms import Duration, Form

Command = Callable[..., Any]

SHORT = {"namespace": ("-n",)}  # as kubectl has it

# What the answer depends on, besides the cluster: the operator's own settings, as far as they are about deciding.
DECIDING = ("kubeconfig", "context", "namespace", "lock_namespace", "brake", "upgrade_signals", "upgrade_limit")


def settings_options(*keys: str) -> Callable[[Command], Command]:
    """The flags of these settings, or of all, from the table of settings."""

    def add(command: Command) -> Command:
        for setting in reversed(SETTINGS):
            if not keys or setting.key in keys:
                command = _option(setting)(command)
        return click.option("--config", metavar="FILE", help=f"A YAML file of settings. [env: {FILE_VARIABLE}]")(
            command
        )

    return add


def live_options(*keys: str) -> Callable[[Command], Command]:
    """The same, for a command that is over soon: a person may give it in the name of somebody else."""

    def add(command: Command) -> Command:
        command = click.option(
            "--as-group",
            "as_groups",
            multiple=True,
            metavar="GROUP",
            help="With --as: a group of that user. May be given again.",
        )(command)
        command = click.option(
            "--as", "as_user", metavar="USER", help="Do it in the name of this user, as kubectl --as does."
        )(command)
        return settings_options(*keys)(command)

    return add


def _option(setting: Setting) -> Callable[[Command], Command]:
    default = f"; default: {setting.default_text}" if setting.default_text else ""
    text = f"{setting.about.description} [env: {setting.variable}{default}]"
    return click.option(
        *SHORT.get(setting.key, ()), setting.flag, setting.key, metavar=setting.about.form.placeholder, help=text
    )


class Written(click.ParamType[Any]):
    """A value as the settings write it."""

    def __init__(self, form: Form) -> None:
        self.name = form.placeholder.lower()
        self._form = form

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._form.read(value)
        except ValueError:
            self.fail(f"{value!r} is not {self._form.allowed}", param, ctx)


class Length(Written):
    """A time, in seconds."""

    def __init__(self, at_least: str, at_most: str) -> None:
        super().__init__(Duration(at_least, at_most))


def length_option(flag: str, default: str, at_least: str, at_most: str, text: str) -> Callable[[Command], Command]:
    """A time that has a default."""
    length = Length(at_least, at_most)
    return click.option(flag, type=length, metavar="DURATION", default=default, show_default=True, help=text)


def settings_from(flags: Mapping[str, Any]) -> Settings:
    """What the flags of `settings_options` or `live_options` say. Raises BadSettings, UsageError."""
    given = {key: value for key, value in flags.items() if value is not None and key not in ("as_user", "as_groups")}
    settings = load(given, os.environ, lambda path: Path(path).read_text(encoding="utf-8"))
    user, groups = flags.get("as_user"), flags.get("as_groups") or ()
    if user:
        return ActingAs(**msgspec.structs.asdict(settings), as_user=user, as_groups=tuple(groups))
    if groups or user is not None:
        raise click.UsageError("--as-group says in which groups the user of --as is; give --as with a name too")
    return settings


def output_option(command: Command) -> Command:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "yaml"]),
        default="text",
        show_default=True,
        help="Text for people; JSON or YAML for machines.",
    )(command)
