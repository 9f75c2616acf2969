"""The hand on the switch: commands by which a person stops, allows or confirms something."""

from datetime import timedelta
from typing import Any

import click

from defib.cli.completion import node_argument
from defib.cli.options import DECIDING, Length, live_options, output_option, settings_from


@click.command()
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever wonders at three in the morning.")
@output_option
@live_options("kubeconfig", "context", "namespace")
def pause(reason: str, output: str, **flags: Any) -> None:
    """Pull the brake: begin nothing more, until defib resume.

    No node of the cluster is remediated anew, whatever its checks say, and no pod is made to leave a node, by a drain or by
    pod failover. Remediations that are there already stay, and those of nodes that recover are still removed. Pulling the
    brake again changes the reason at most.

    \b
    Examples:
      defib pause
      defib pause --reason "storage maintenance until 18:00"
      kubectl defib pause --context staging

    \b
    Exit codes: 0 it is so now; 1 it cannot be done, one line says why; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.hand import pause_all

    pause_all(settings_from(flags), reason, output)


@click.command()
@output_option
@live_options("kubeconfig", "context", "namespace")
def resume(output: str, **flags: Any) -> None:
    """Let the brake go that defib pause has pulled.

    An operator that was started with the setting brake=on stays as it is.

    \b
    Examples:
      defib resume
      kubectl defib resume --context staging

    \b
    Exit codes: 0 it is so now; 1 it cannot be done, one line says why; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.hand import resume_all

    resume_all(settings_from(flags), output)


@click.command()
@node_argument()
@click.option(
    "--for",
    "length",
    type=Length("1m", "24h"),
    metavar="DURATION",
    default="1h",
    show_default=True,
    help="How long the approval holds, from 1m to 24h.",
)
@click.option("--drain", is_flag=True, help="Let a DrainPolicy make pods leave, instead of a check remediate.")
@output_option
@live_options(*DECIDING)
def approve(node: str, length: float, drain: bool, output: str, **flags: Any) -> None:
    """Let a NodeHealthCheck, or a DrainPolicy, in mode Approve act on NODE.

    Until the time is over, it may begin what it waits for. Where nothing waits for approval, nothing is changed.

    \b
    Examples:
      defib approve worker-7
      defib approve worker-7 --drain --for 15m
      kubectl defib approve worker-7 --context staging

    \b
    Exit codes: 0 it is so now; 1 it cannot be done, one line says why; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.hand import approve_drain_of, approve_node

    (approve_drain_of if drain else approve_node)(node, length, settings_from(flags), output)


@click.command()
@node_argument()
@click.option(
    "--for",
    "length",
    type=Length("1m", "24h"),
    metavar="DURATION",
    default="1h",
    show_default=True,
    help="How long the no holds, from 1m to 24h; then it waits for approval again.",
)
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever wonders why nothing happens.")
@click.option("--drain", is_flag=True, help="Take back what defib approve --drain has allowed, instead.")
@output_option
@live_options(*DECIDING)
def reject(node: str, length: float, reason: str, drain: bool, output: str, **flags: Any) -> None:
    """Say no to what a NodeHealthCheck in mode Approve wants to do to NODE.

    An approval that was given is taken back. Until the time is over, the check says who said no and why, and nobody else
    wonders whether to approve; defib approve says yes all the same. Remediations that are there already go on. With
    --drain, the approval of the drain is taken back: the DrainPolicy waits for another one.

    \b
    Examples:
      defib reject worker-7 --reason "the disk is being copied" --for 4h
      defib reject worker-7 --drain
      kubectl defib reject worker-7 --context staging

    \b
    Exit codes: 0 it is so now; 1 it cannot be done, one line says why; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.hand import reject_drain_of, reject_node
    from defib.console.rejection import No

    if drain:
        reject_drain_of(node, settings_from(flags), output)
    else:
        no = No(length=timedelta(seconds=length), reason=" ".join(reason.split()))
        reject_node(node, no, settings_from(flags), output)


@click.command("confirm-down")
@node_argument()
@output_option
@live_options("kubeconfig", "context")
def confirm_down(node: str, output: str, **flags: Any) -> None:
    """Say that you have seen that the machine of NODE is off.

    For machines whose power Defib cannot read or switch. It is a proof, with your name and the time: the workloads of
    the node are started elsewhere at once. If the machine runs after all, two of them write to the same disk.

    \b
    Examples:
      defib confirm-down worker-7
      kubectl defib confirm-down worker-7 --context staging

    \b
    Exit codes: 0 it is so now; 1 it cannot be done, one line says why; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.hand import confirm_node_down

    confirm_node_down(node, settings_from(flags), output)
