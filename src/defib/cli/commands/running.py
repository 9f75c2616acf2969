"""Commands that run until they are stopped, and what version they are."""

import platform

import click

from defib import __version__
from defib.cli.lean import without
from defib.cli.options import length_option, output_option, settings_from, settings_options


@click.command()
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


@click.command()
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
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    metavar="N",
    help="Where the page is served, on 127.0.0.1; if that is taken, anywhere.",
)
@click.option("--no-page", is_flag=True, help="Serve no page.")
def demo(seconds: float | None, seed: int, speed: float, port: int, no_page: bool) -> None:
    """Show Defib at work on a cluster that lives in this process.

    Nine simulated machines with pods, disks and disruption budgets, and two replicas of the real operator. A node hangs, a
    zone is lost, a drain hangs, the leader is killed, the API server ails: one after the other by itself, or when you press
    its key, or on the page. Nothing is installed, no cluster is touched. On a terminal it is a live table, elsewhere one
    line for each thing that happens.

    \b
    Examples:
      defib demo
      defib demo --speed 1
      defib demo --seconds 60 --no-page
    """  # noqa: D301  see cli
    from defib.cli.demo.play import Wishes, run_demo

    run_demo(Wishes(seconds=seconds, seed=seed, speed=speed, port=None if no_page else port))


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


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND [ARG]...")
@length_option(
    "--lost-grace",
    "3s",
    "0s",
    "1h",
    "How long the command may take to end when we no longer lead; then it is killed.",
)
@length_option(
    "--stop-grace",
    "25s",
    "0s",
    "1h",
    "How long it may take to end when we are told to stop; then it is killed.",
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


@click.command()
@click.option("--server", is_flag=True, help="Ask the cluster for its version too.")
@output_option
@settings_options("kubeconfig", "context")
def version(server: bool, output: str, **flags: str | None) -> None:
    """Print the versions of Defib, Python and, if asked, the cluster.

    \b
    Examples:
      defib version
      kubectl defib version --server
      defib version -o json
    """  # noqa: D301  see cli
    told = {"defib": __version__, "python": platform.python_version()}
    if server:
        from defib.cli.run import server_version

        told["server"] = server_version(settings_from(flags))
    if output == "text":
        click.echo("\n".join(f"{name} {number}" for name, number in told.items()))
        return
    from defib.cli.output import encoded

    click.echo(encoded(told, output))
