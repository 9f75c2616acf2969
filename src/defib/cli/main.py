"""The commands and their arguments. What is heavy is imported by the command that needs it, so that `--help` is quick.

Exit codes: 0 done, or stopped by Ctrl-C or SIGTERM as asked; 1 it cannot be done, and one line says why; 2 the command
line or the settings are wrong; 3 what was asked after is not well; 130 stopped a second time while it was still ending.
"""

import platform
import sys
from pathlib import Path

import click

from defib import __version__
from defib.cli.lean import without
from defib.cli.options import Length, output_option, settings_from, settings_options
from defib.config import BadSettings

KUBECTL_PLUGIN = "kubectl-defib"
INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """Defib keeps workloads alive when Kubernetes nodes die.

    It looks after the nodes that NodeHealthChecks select, and can always say why it does something, or does not.

    \b
    Examples:
      defib demo                     watch it save the pods of a simulated node; needs nothing else
      defib run --context staging    run the operator on a real one
      defib why worker-7             why a node is, or is not, being remediated
      defib drain worker-7           why a drain does not end, and what comes next
      defib pause                    nothing destructive is done any more, in the whole cluster
      defib elect --leader-lock x -- ./server    run any program on one of several machines
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
    with without("rich"):  # structlog brings it along where it is there: some MiB in each replica, for nothing
        from defib.cli.run import run_operator

    run_operator(settings_from(flags))


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

    Nine simulated nodes with eighteen pods; a node loses its power, and Defib has its pods start elsewhere. Nothing is
    installed, no cluster is touched. On a terminal it is a live table, elsewhere one line for each thing that happens.

    \b
    Examples:
      defib demo
      defib demo --seconds 60 --speed 4
    """  # noqa: D301  see cli
    from defib.cli.demo import run_demo

    run_demo(seconds=seconds, seed=seed, speed=speed)


# What the answer depends on, besides the cluster: the operator's own settings, as far as they are about deciding.
DECIDING = ("kubeconfig", "context", "namespace", "lock_namespace", "brake", "upgrade_signals", "upgrade_limit")


# Who takes part in which election, and what is logged of it.
ELECTING = (
    "kubeconfig",
    "context",
    "namespace",
    "election",
    "leader_lock",
    "replica_name",
    "lease_duration",
    "renew_deadline",
    "retry_period",
    "leader_url",
    "tooz_url",
    "leader_address",
    "log_format",
    "log_level",
)


@cli.command()
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


@cli.command()
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


@cli.command()
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


@cli.command()
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


@cli.command()
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


@cli.command()
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


@cli.command("confirm-off")
@click.argument("node")
@settings_options("kubeconfig", "context")
def confirm_off(node: str, **flags: str | None) -> None:
    """Say that you have seen that the machine of NODE is off.

    For machines whose power Defib cannot read or switch. It is a proof, with your name and the time: the workloads of
    the node are started elsewhere at once. If the machine runs after all, two of them write to the same disk.

    \b
    Examples:
      defib confirm-off worker-7
      kubectl defib confirm-off worker-7 --context staging
    """  # noqa: D301  see cli
    from defib.cli.hand import confirm_node_off

    confirm_node_off(node, settings_from(flags))


@cli.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND [ARG]...")
@click.option(
    "--lost-grace",
    type=Length("0s", "1h"),
    metavar="DURATION",
    default="3s",
    show_default=True,
    help="How long the command may take to end when we no longer lead; then it is killed.",
)
@click.option(
    "--stop-grace",
    type=Length("0s", "1h"),
    metavar="DURATION",
    default="25s",
    show_default=True,
    help="How long it may take to end when we are told to stop; then it is killed.",
)
@settings_options(*ELECTING)
def elect(command: tuple[str, ...], lost_grace: float, stop_grace: float, **flags: str | None) -> int:
    """Run COMMAND only while this replica leads.

    Start it on several machines, or in several pods, with the same --leader-lock, which must be given: COMMAND runs on
    one of them. The lock is a Lease in --namespace. Whoever ceases to lead ends COMMAND (SIGTERM, after --lost-grace
    SIGKILL) and all that came from it, before another one can lead, and stands by again. When COMMAND ends by itself,
    the lock is released, and this ends too. COMMAND finds the name of its replica in DEFIB_REPLICA_NAME.

    SIGTERM and SIGINT are passed on; when all has ended, within --stop-grace, the lock is released. SIGHUP, SIGUSR1 and
    SIGUSR2 are only passed on. Killed by SIGKILL or stopped by SIGSTOP, it still has COMMAND ended in time. Only if the
    whole machine or container is frozen, COMMAND may run for a moment when it goes on, before it is ended.

    \b
    Examples:
      defib elect --leader-lock report --namespace shop -- /usr/bin/send-report --daily
      defib elect --leader-lock report --namespace shop --leader-address :16401 -- ./server
      defib elect --election follow --leader-url http://127.0.0.1:16401/ -- ./server

    \b
    Exit codes: those of COMMAND, 128 and more if a signal ended it; 0 stopped while it stood by;
    1 it cannot take part, one line says why; 2 the settings are wrong; 126 COMMAND cannot be run;
    127 there is no such COMMAND.
    """  # noqa: D301  see cli
    with without("rich"):
        from defib.cli.elect import run_elected

    return run_elected(settings_from(flags), command, lost_grace, stop_grace)


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

        click.echo(f"server {server_version(settings_from(flags))}")


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
