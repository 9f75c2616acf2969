"""Shell completion: the scripts, and names of nodes as the cluster has them now. Light: what asks a cluster is imported late."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

COMPLETED_WITHIN = 2.0  # whoever presses Tab does not wait for longer
SHOWN_MAX = 200
NO_FILES = ":4"  # in the words of kubectl: names of files are no answer here

Command = Callable[..., Any]


def script(shell: str, program: click.Command) -> str:
    """What the shell is to read, once, so that it asks us whenever somebody presses Tab."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, f"{shell} is one of those that the command offers"
    return kind(program, {}, "defib", "_DEFIB_COMPLETE").source()


def kubectl_complete() -> None:
    """The program kubectl_complete-defib: kubectl asks it what could come next, and shows what it prints."""
    from click.shell_completion import ShellComplete

    from defib.cli.main import cli

    *before, incomplete = sys.argv[1:] or [""]
    for item in ShellComplete(cli, {}, "defib", "").get_completions(before, incomplete):
        click.echo(item.value)
    click.echo(NO_FILES)


def node_argument(**how: Any) -> Callable[[Command], Command]:
    """The argument NODE, which the shell completes from the cluster."""
    return click.argument("node", shell_complete=node_names, **how)


def node_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """None where the cluster cannot be asked: a shell that waits for Tab is no place for complaints."""
    from defib.config import BadSettings
    from defib.console.names import NoNames, live_node_names

    kubeconfig, context = ctx.params.get("kubeconfig"), ctx.params.get("context")
    try:
        names = live_node_names(Path(kubeconfig) if kubeconfig else None, context, COMPLETED_WITHIN)
    except (NoNames, BadSettings):
        return []
    return [name for name in names if name.startswith(incomplete)][:SHOWN_MAX]
