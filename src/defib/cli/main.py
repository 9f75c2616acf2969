"""The commands and their arguments. What is heavy is imported by the command that needs it, so that `--help` is quick.

Exit codes: 0 done, or stopped by Ctrl-C or SIGTERM as asked; 1 it cannot be done, and one line says why; 2 the command
line or the settings are wrong; 130 stopped a second time while it was still ending.
"""

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from defib import __version__
from defib.config import FILE_VARIABLE, SETTINGS, BadSettings, Setting, Settings, load

KUBECTL_PLUGIN = "kubectl-defib"
INTERRUPTED = 130

Command = Callable[..., Any]


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


def _settings(flags: dict[str, str | None]) -> Settings:
    given = {key: value for key, value in flags.items() if value is not None}
    return load(given, os.environ, lambda path: Path(path).read_text(encoding="utf-8"))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """Defib keeps workloads alive when Kubernetes nodes die.

    This version watches a cluster and says what happens to its nodes. It does not act on them yet.

    \b
    Examples:
      defib demo                     watch a simulated cluster lose a node; needs nothing else
      defib run --context staging    watch a real one
    """  # noqa: D301  the backspace is click's mark for lines that keep their breaks


@cli.command()
@settings_options()
def run(**flags: str | None) -> None:
    """Run the operator on a cluster, until Ctrl-C or SIGTERM.

    A flag beats its environment variable, which beats the file, which beats the default. Durations are written
    45s, 5m or 1h30m.

    \b
    Examples:
      defib run
      defib run --kubeconfig ~/.kube/staging --context blue --log-format pretty
      DEFIB_RESYNC=10m defib run --config /etc/defib/settings.yaml

    \b
    Exit codes: 0 stopped as asked; 1 it cannot run, one line says why; 2 the settings are wrong.
    """  # noqa: D301  see cli
    from defib.cli.run import run_operator

    run_operator(_settings(flags))


@cli.command()
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), metavar="N", help="End by itself after N seconds."
)
@click.option("--seed", type=int, default=1, show_default=True, metavar="N", help="The same seed tells the same story.")
@click.option(
    "--speed",
    type=click.FloatRange(min=1, max=100),
    default=10.0,
    show_default=True,
    metavar="X",
    help="How many times faster than real Kubernetes its timers run.",
)
def demo(seconds: float | None, seed: int, speed: float) -> None:
    """Show Defib at work on a cluster that lives in this process.

    Nine simulated nodes in three zones; one of them loses its power and comes back. Nothing is installed, no cluster
    is touched. On a terminal it is a live table, elsewhere one line for each thing that happens.

    \b
    Examples:
      defib demo
      defib demo --seconds 60 --speed 4
    """  # noqa: D301  see cli
    from defib.cli.demo import run_demo

    run_demo(seconds=seconds, seed=seed, speed=speed)


@cli.command()
@click.option("--server", is_flag=True, help="Ask the cluster for its version too.")
@settings_options("kubeconfig", "context")
def version(server: bool, **flags: str | None) -> None:
    """Print the versions of Defib, Python and, if asked, the cluster.

    \b
    Examples:
      defib version
      kubectl defib version --server
    """  # noqa: D301  see cli
    click.echo(f"defib {__version__}")
    click.echo(f"python {platform.python_version()}")
    if server:
        from defib.cli.run import server_version

        click.echo(f"server {server_version(_settings(flags))}")


def main() -> None:
    """The entry point of both `defib` and `kubectl-defib`."""
    name = Path(sys.argv[0]).name
    sys.exit(execute(sys.argv[1:], program="kubectl defib" if name == KUBECTL_PLUGIN else "defib"))


def execute(arguments: list[str], *, program: str) -> int:
    """Run one command; its exit code. What goes wrong is told in one line."""
    try:
        code = cli.main(arguments, prog_name=program, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else program
        return _complain(2, f"{error.format_message()} (see {command} --help)")
    except click.ClickException as error:
        return _complain(error.exit_code, error.format_message())
    except BadSettings as error:
        return _complain(2, *error.problems)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _complain(code: int, *problems: str) -> int:
    """What a server or a file says may be hostile, or have several lines; a problem here has one."""
    from defib.telemetry.log import printable

    for problem in problems:
        click.echo(f"defib: {printable(' '.join(problem.split()))}", err=True)
    return code
