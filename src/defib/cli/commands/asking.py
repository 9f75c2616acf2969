"""Commands that look at a live cluster and answer. They change nothing."""

from typing import Any

import click

from defib.cli.completion import node_argument, node_names
from defib.cli.options import DECIDING, live_options, output_option, settings_from


@click.command()
@node_argument()
@output_option
@live_options(*DECIDING)
def why(node: str, output: str, **flags: Any) -> None:
    """Say why NODE is, or is not, being remediated.

    And what comes next. It reads the cluster as it is now and decides by the operator's rules, without doing anything;
    no operator needs to run. Where the operator has other settings than the default, give the same ones here.

    \b
    Examples:
      defib why worker-7
      kubectl defib why worker-7 --context staging
      defib why worker-7 -o json | jq -r '.checks[].gates[] | select(.open | not).message'

    \b
    Exit codes: 0 here is the answer; 1 there is none, one line says why; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.why import explain_node

    explain_node(node, settings_from(flags), output)


@click.command()
@click.option(
    "--node", default="", metavar="NAME", shell_complete=node_names, help="Say also who looks after this node."
)
@output_option
@live_options("kubeconfig", "context", "namespace", "leader_lock")
def shards(node: str, output: str, **flags: Any) -> int:
    """Show which replica of the operator holds what.

    Where replicas share the work (election shards): who is there, which buckets and how many nodes each has, what
    nobody has, and who admits. Where one leads in everything: who it is.

    \b
    Examples:
      defib shards
      kubectl defib shards --node worker-7 --context staging
      defib shards -o json | jq '[.idle[].bucket]'

    \b
    Exit codes: 0 everything is somebody's; 1 that cannot be known, one line says why; 2 the command line is wrong;
    3 something is nobody's.
    """  # noqa: D301  see cli
    from defib.cli.shards import show_shards

    return show_shards(settings_from(flags), node, output)


@click.command()
@node_argument(default="")
@click.option(
    "--forecast", is_flag=True, help="Say of all nodes whether they could be drained, and whose budget is in the way."
)
@click.option(
    *("-l", "--selector"), default="", metavar="LABELS", help="Only nodes with these labels; with --forecast."
)
@output_option
@live_options("kubeconfig", "context", "namespace", "lock_namespace", "brake")
def drain(node: str, forecast: bool, selector: str, output: str, **flags: Any) -> int:
    """Say why the drain of NODE does not end, or what would be in its way.

    Who drains it and since when, which pods are still there and why, what Defib will do about each of them and when. Of a
    node that nobody drains it says which pods could not leave. With --forecast it says so of all nodes, before anybody
    drains any, and names the disruption budgets that are to blame. Nothing is changed; no operator needs to run.

    \b
    Examples:
      defib drain worker-7
      kubectl defib drain worker-7 --context staging
      defib drain --forecast
      defib drain --forecast --selector topology.kubernetes.io/zone=a
      defib drain --forecast -o json | jq -r '.budgets[] | "\\(.budget) \\(.nodes | length)"'

    \b
    Exit codes: 0 nothing is in the way; 1 that cannot be known, one line says why;
    2 the command line is wrong; 3 a pod does not leave, or could not.
    """  # noqa: D301  see cli
    from defib.cli.drain import check_question, diagnose_drain, forecast_drains

    check_question(node, selector, is_forecast=forecast)
    if forecast:
        return forecast_drains(selector, settings_from(flags), output)
    return diagnose_drain(node, settings_from(flags), output)


@click.command()
@output_option
@live_options(*DECIDING, "leader_lock")
def status(output: str, **flags: Any) -> int:
    """Show how the whole cluster stands, on one screen.

    What to look at first, with the command that says more; nodes by state, checks and what holds them back, the brake, open
    incidents, drains, whether machines could be switched off, and which replica leads. It reads the cluster as it is now
    and decides by the operator's rules; nothing is changed.

    \b
    Examples:
      defib status
      kubectl defib status --context staging
      defib status -o json | jq -r '.first[] | "\\(.message) -> \\(.command)"'

    \b
    Exit codes: 0 all is well; 1 that cannot be known, it says why; 2 the command line is wrong;
    3 there is something to look at.
    """  # noqa: D301  see cli
    from defib.cli.status import show_status

    return show_status(settings_from(flags), output)


@click.command()
@click.option("--all", "every", is_flag=True, help="Also those that are closed.")
@click.option("--node", default="", metavar="NAME", shell_complete=node_names, help="Only those of this node.")
@output_option
@live_options("kubeconfig", "context")
def incidents(every: bool, node: str, output: str, **flags: Any) -> None:
    """List what failed: the incidents that are open, or all.

    Every remediation that Defib began has one. Closed ones are kept for a while, a few of each node.

    \b
    Examples:
      defib incidents
      defib incidents --all --node worker-7
      defib incidents --all -o json | jq '[.incidents[].seconds | numbers] | max'

    \b
    Exit codes: 0 here they are, or there are none; 1 that cannot be known, one line says why;
    2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.incidents import show_incidents

    show_incidents(settings_from(flags), node, output, every=every)


@click.command()
@click.argument("name", metavar="NODE|INCIDENT", shell_complete=node_names)
@output_option
@live_options(*DECIDING)
def timeline(name: str, output: str, **flags: Any) -> None:
    """Tell what happened to NODE, or in INCIDENT, line by line.

    What was seen, which gates were asked, what was decided and done, by whom, and how it was proved and ended: from its
    incidents, its checks, its remediations and Events, in one list by time. Of a node, also how it stands now.

    \b
    Examples:
      defib timeline worker-7
      defib timeline worker-7.1f0c9a3e
      defib timeline worker-7 -o json | jq -r '.happenings[] | [.at, .by, .message] | @tsv'

    \b
    Exit codes: 0 here it is; 1 there is no such node or incident, or it cannot be known; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.timeline import show_timeline

    show_timeline(name, settings_from(flags), output)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what SHELL must read to complete commands, flags and the names of nodes.

    Names of nodes come from the cluster, within two seconds or not at all. For kubectl defib, the program
    kubectl_complete-defib that comes with Defib does the same.

    \b
    Examples:
      defib completion bash > /etc/bash_completion.d/defib
      source <(defib completion zsh)
      defib completion fish > ~/.config/fish/completions/defib.fish

    \b
    Exit codes: 0 here it is; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.completion import script

    click.echo(script(shell, ctx.find_root().command))
