"""Arguments that several commands have: settings as flags, times, and for whom the answer is."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from defib.config import FILE_VARIABLE, SETTINGS, Setting, Settings, load
from defib.forms import Duration

Command = Callable[..., Any]

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


def _option(setting: Setting) -> Callable[[Command], Command]:
    default = f"; default: {setting.default_text}" if setting.default_text else ""
    text = f"{setting.about.description} [env: {setting.variable}{default}]"
    return click.option(setting.flag, setting.key, metavar=setting.about.form.placeholder, help=text)


class Length(click.ParamType[float]):
    """A time as the settings write it, in seconds."""

    name = "duration"

    def __init__(self, at_least: str, at_most: str) -> None:
        self._form = Duration(at_least, at_most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return self._form.read(value)
        except ValueError:
            self.fail(f"{value!r} is not {self._form.allowed}", param, ctx)


def settings_from(flags: dict[str, str | None]) -> Settings:
    given = {key: value for key, value in flags.items() if value is not None}
    return load(given, os.environ, lambda path: Path(path).read_text(encoding="utf-8"))


def output_option(command: Command) -> Command:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="For people, or for machines.",
    )(command)
