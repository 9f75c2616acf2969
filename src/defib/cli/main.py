"""The commands and their arguments. What is heavy is imported by the command that needs it, so that `--help` is quick.

Exit codes: 0 done, or stopped by Ctrl-C or SIGTERM as asked; 1 it cannot be done, and one line says why; 2 the command
line or the settings are wrong; 3 what was asked after is not well; 130 stopped a second time while it was still ending.
"""

import sys
from pathlib import Path

import click

from defib import __version__
from defib.cli.commands import agent, asking, hand, offline, running
from defib.config import BadSettings

KUBECTL_PLUGIN = "kubectl-defib"
INTERRUPTED = 130
SENTENCE_MAX = 200  # longer than any: click would cut them off


class _BySection(click.Group):
    """Its commands are listed by what a person wants, and what they are for is told in whole sentences."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click gives it
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(one.name or "", one.get_short_help_str(limit=SENTENCE_MAX)) for one in commands])


@click.group(cls=_BySection, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="defib %(version)s")
def cli() -> None:
    """Defib keeps workloads alive when Kubernetes nodes die.

    It looks after the nodes that NodeHealthChecks select, and can always say why it does something, or does not.

    \b
    Examples:
      defib demo                     watch it save the pods of a simulated node; needs nothing else
      defib run --context staging    run the operator on a real cluster
      defib status                   how the whole cluster stands, and what to look at first
      defib why worker-7             why a node is, or is not, being remediated
      defib timeline worker-7        what happened to it, and who did it
      defib drain worker-7           why a drain does not end, and what comes next
      defib simulate --kill-zone a   what would be done if a zone were lost, tried on a copy
      defib pause                    nothing destructive is done any more, in the whole cluster
      defib elect --leader-lock x -- ./server    run any program on one of several machines

    \b
    Exit codes: 0 fine; 1 it cannot be done, one line says why; 2 the command line or the settings are wrong;
    3 what was asked after is not well.
    """  # noqa: D301  the backspace is click's mark for lines that keep their breaks


SECTIONS = {
    "Ask": (asking.status, asking.why, asking.incidents, asking.timeline, asking.drain, asking.shards),
    "Take a hand": (hand.pause, hand.resume, hand.approve, hand.reject, hand.confirm_down),
    "What if": (offline.check, offline.plan, offline.simulate, offline.report, offline.dump, offline.replay),
    "Run": (running.demo, running.run, agent.agent, running.elect),
    "Other": (asking.completion, running.version),
}
for _commands in SECTIONS.values():
    for _command in _commands:
        cli.add_command(_command)


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
    from defib.telemetry.printable import printable

    for problem in problems:
        click.echo(f"defib: {printable(' '.join(problem.split()))}", err=True)
    return code
