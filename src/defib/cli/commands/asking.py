"""Commands that look at a live cluster and answer. They change nothing."""

import click

from defib.cli.options import DECIDING, output_option, settings_from, settings_options


@click.command()
@click.argument("node")
@output_option
@settings_options(*DECIDING)
def why(node: str, output: str, **flags: str | None) -> None:
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
@click.option("--node", default="", metavar="NAME", help="Say also who looks after this node.")
@output_option
@settings_options("kubeconfig", "context", "namespace", "leader_lock")
def shards(node: str, output: str, **flags: str | None) -> int:
    """Show which replica of the operator holds what.

    Where replicas share the work (election shards): who is there, which buckets and how many nodes each has, what
    nobody has, and who admits. Where one leads in everything: who it is.

    \b
    Examples:
      defib shards
      kubectl defib shards --node worker-7 --context staging
      defib shards -o json | jq '[.idle[].bucket]'

    \b
    Exit codes: 0 everything is somebody's; 1 something is nobody's, or cannot be known; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.shards import show_shards

    return show_shards(settings_from(flags), node, output)


@click.command()
@click.argument("node", default="")
@click.option(
    "--forecast", is_flag=True, help="Say of all nodes whether they could be drained, and whose budget is in the way."
)
@click.option(
    "--selector", default="", metavar="LABELS", help="Only nodes with these labels, as kubectl -l; with --forecast."
)
@output_option
@settings_options("kubeconfig", "context", "namespace", "lock_namespace", "brake")
def drain(node: str, forecast: bool, selector: str, output: str, **flags: str | None) -> int:
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
