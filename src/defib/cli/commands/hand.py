"""The hand on the switch: commands by which a person stops, allows or confirms something."""

import click

from defib.cli.options import DECIDING, Length, settings_from, settings_options


@click.command()
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever wonders at three in the morning.")
@settings_options("kubeconfig", "context", "namespace")
def pause(reason: str, **flags: str | None) -> None:
    """Pull the brake: begin nothing more, until defib resume.

    No node of the cluster is remediated anew, whatever its checks say, and no pod is made to leave a node, by a drain or by
    pod failover. Remediations that are there already stay, and those of nodes that recover are still removed. Pulling the
    brake again changes the reason at most.

    \b
    Examples:
      defib pause
      defib pause --reason "storage maintenance until 18:00"
      kubectl defib pause --context staging
    """  # noqa: D301  see cli
    from defib.cli.hand import pause_all

    pause_all(settings_from(flags), reason)


@click.command()
@settings_options("kubeconfig", "context", "namespace")
def resume(**flags: str | None) -> None:
    """Let the brake go that defib pause has pulled.

    An operator that was started with the setting brake=on stays as it is.

    \b
    Examples:
      defib resume
      kubectl defib resume --context staging
    """  # noqa: D301  see cli
    from defib.cli.hand import resume_all

    resume_all(settings_from(flags))


@click.command()
@click.argument("node")
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
@settings_options(*DECIDING)
def approve(node: str, length: float, drain: bool, **flags: str | None) -> None:
    """Let a NodeHealthCheck, or a DrainPolicy, in mode Approve act on NODE.

    Until the time is over, it may begin what it waits for. Where nothing waits for approval, nothing is changed.

    \b
    Examples:
      defib approve worker-7
      defib approve worker-7 --drain --for 15m
      kubectl defib approve worker-7 --context staging
    """  # noqa: D301  see cli
    from defib.cli.hand import approve_drain_of, approve_node

    (approve_drain_of if drain else approve_node)(node, length, settings_from(flags))


@click.command("confirm-down")
@click.argument("node")
@settings_options("kubeconfig", "context")
def confirm_down(node: str, **flags: str | None) -> None:
    """Say that you have seen that the machine of NODE is off.

    For machines whose power Defib cannot read or switch. It is a proof, with your name and the time: the workloads of
    the node are started elsewhere at once. If the machine runs after all, two of them write to the same disk.

    \b
    Examples:
      defib confirm-down worker-7
      kubectl defib confirm-down worker-7 --context staging
    """  # noqa: D301  see cli
    from defib.cli.hand import confirm_node_down

    confirm_node_down(node, settings_from(flags))
