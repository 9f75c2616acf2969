"""Commands on files, and what-ifs: what would be done, what was, and whether what somebody wrote makes sense."""

from pathlib import Path
from typing import Any

import click

from defib.cli.completion import node_names
from defib.cli.options import DECIDING, Length, live_options, output_option, settings_from, settings_options

DUMP = click.Path(dir_okay=False, path_type=Path)
dump_option = click.option(
    "--dump", type=DUMP, metavar="FILE", help="Of the cluster in this dump, by its own settings; no cluster is asked."
)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@output_option
@settings_options("failover_allowed_proofs")
def check(files: tuple[str, ...], output: str, **flags: Any) -> int:
    """Say what is wrong with the NodeHealthChecks, templates and policies in FILE.

    By the schemas of the CRDs and the rules of the operator, before anybody applies them; no cluster is needed. Each
    problem comes with its file and line. A FILE may hold many objects; - is what comes in on the standard input. Objects
    of other kinds are not looked at.

    \b
    Examples:
      defib check checks.yaml policies/*.yaml
      helm template ./my-chart | defib check -
      defib check checks.yaml -o json | jq -r '.problems[] | "\\(.file):\\(.line): \\(.message)"'

    \b
    Exit codes: 0 all is well; 1 a file cannot be read, or holds nothing to check; 2 the command line is wrong;
    3 something is wrong with what stands in a file.
    """  # noqa: D301  see cli
    from defib.cli.check import check_files_of

    return check_files_of(files, settings_from(flags), output)


@click.command()
@dump_option
@output_option
@live_options(*DECIDING)
def plan(dump: Path | None, output: str, **flags: Any) -> None:
    """Say what Defib would do now, and what holds it back. Nothing is done.

    For each check: what would be done to which node and why, which nodes wait and for what, and every gate that is
    closed; then what would be done for drains, machines and pods. Where the operator has other settings than the default,
    give the same ones here.

    \b
    Examples:
      defib plan
      kubectl defib plan --context staging
      defib plan --dump incident.json.gz
      defib plan -o json | jq -r '.checks[].deeds[] | select(.effect == "acts").what'

    \b
    Exit codes: 0 here is the plan; 1 there is none, one line says why; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.plan import show_plan

    show_plan(dump, settings_from(flags), output)


@click.command()
@click.argument("check", default="", metavar="[CHECK]")
@click.option(
    "--by", default="", metavar="LABEL", help="Tell nodes apart by this label, such as topology.kubernetes.io/zone."
)
@dump_option
@output_option
@live_options("kubeconfig", "context")
def report(check: str, by: str, dump: Path | None, output: str, **flags: Any) -> None:
    """Say what other durations would have done so far, and recommend one.

    Every NodeHealthCheck remembers for how long its nodes were ill, in every mode, also when they came back before anything
    was done. From that: how often each duration, the fast path and other budgets would have acted, how many of those nodes
    came back by themselves, and how much sooner the others would have been mended. What cannot be known is said.

    \b
    Examples:
      defib report
      defib report workers --by topology.kubernetes.io/zone
      defib report --dump incident.json.gz
      defib report -o json | jq -r '.checks[] | .check as $c | .pools[].conditions[] | "\\($c) \\(.advice.duration)"'

    \b
    Exit codes: 0 here it is; 1 there is none, one line says why; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.report import show_report
    from defib.console.report import Question

    show_report(Question(check=check, by=by), dump, settings_from(flags), output)


@click.command()
@click.argument("file", type=DUMP)
@click.option(
    "--for",
    "length",
    type=Length("0s", "24h"),
    metavar="DURATION",
    default="0s",
    show_default=True,
    help="Go on for so long, with another look every 10 s, up to 24h. Ctrl-C ends it and keeps what there is.",
)
@output_option
@live_options(*DECIDING)
def dump(file: Path, length: float, output: str, **flags: Any) -> None:
    """Write all that Defib sees of a cluster to FILE, without secrets.

    For a report, for defib plan, replay and simulate, and for looking at an incident afterwards. It holds nodes, checks,
    remediations, policies, incidents, heartbeats and pods, as far as Defib reads them and this account may, and what Defib
    would do. No Secret is read; values under keys like password or token are left out. Have a look before you give it
    away all the same: zcat FILE.

    \b
    Examples:
      defib dump incident.json.gz
      defib dump incident.json.gz --for 10m
      kubectl defib dump staging.json.gz --context staging

    \b
    Exit codes: 0 the file is complete; 1 there is none, one line says why; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.dump import write_dump

    write_dump(file, length, settings_from(flags), output)


@click.command()
@click.argument("file", type=DUMP)
@output_option
def replay(file: Path, output: str) -> int:
    """Decide again on everything in the dump FILE, and compare.

    The same cluster gives the same plan, always. Another version of Defib may decide otherwise: this shows where. What
    happened from one look to the next is told as well.

    \b
    Examples:
      defib replay incident.json.gz
      defib replay incident.json.gz -o json | jq '.frames[] | select(.differences != [])'

    \b
    Exit codes: 0 the same plan; 1 the file cannot be read, one line says why; 2 the command line is wrong;
    3 something is decided otherwise.
    """  # noqa: D301  see cli
    from defib.cli.replay import show_replay

    return show_replay(file, output)


@click.command()
@click.option(
    "--kill-node", multiple=True, metavar="NAME", shell_complete=node_names, help="This node dies. May be given again."
)
@click.option("--kill-zone", multiple=True, metavar="ZONE", help="All nodes of this zone die. May be given again.")
@click.option("--api-down", is_flag=True, help="The API server is away for 10 minutes, or half of the time.")
@click.option(
    "--for",
    "length",
    type=Length("1m", "24h"),
    metavar="DURATION",
    default="30m",
    show_default=True,
    help="How long to look on, from 1m to 24h. It takes no time.",
)
@dump_option
@output_option
@live_options(*DECIDING)
def simulate(  # noqa: PLR0913, PLR0917  click gives each flag by its name
    kill_node: tuple[str, ...],
    kill_zone: tuple[str, ...],
    api_down: bool,
    length: float,
    dump: Path | None,
    output: str,
    **flags: Any,
) -> None:
    """Say what Defib would do if nodes, a zone or the API server failed now.

    It is tried on a copy of your cluster, in memory: when each node counts as unhealthy, which are remediated, which are
    held back and by which gate, and what runs on them. Nothing is done to the cluster; no operator needs to run.

    \b
    Examples:
      defib simulate --kill-node worker-7
      defib simulate --kill-zone eu-west-1a --for 1h
      defib simulate --api-down --kill-node worker-7 --dump incident.json.gz
      defib simulate --kill-zone eu-west-1a -o json | jq '.fates[] | select(.heldBy != "")'

    \b
    Exit codes: 0 here is what would happen; 1 that cannot be known, one line says why; 2 the command line is wrong.
    """  # noqa: D301  see cli
    from defib.cli.what_if import show_what_if
    from defib.console.mishap import Mishap

    if not (kill_node or kill_zone or api_down):
        raise click.UsageError("say what fails: --kill-node, --kill-zone or --api-down")
    mishap = Mishap(nodes=kill_node, zones=kill_zone, api_down=api_down)
    show_what_if(mishap, length, dump, settings_from(flags), output)
