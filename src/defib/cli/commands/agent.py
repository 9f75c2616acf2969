"""The command that runs on each node, and its arguments."""

from pathlib import Path
from typing import Any

import click

from defib.cli.lean import without
from defib.cli.options import Written, length_option, settings_from, settings_options
from defib.forms import Address, HostAndPort


@click.command()
@click.option("--node", required=True, metavar="NAME", help="This node.")
@click.option(
    "--address",
    type=Written(HostAndPort()),
    required=True,
    metavar="HOST:PORT",
    help="Where peers reach this agent; it listens there only.",
)
@click.option(
    "--tls",
    type=click.Path(path_type=Path),
    default="/etc/defib/agent",
    show_default=True,
    metavar="FOLDER",
    help="Holds ca.crt, tls.crt and tls.key, for the name defib-agent. They may be replaced at any time.",
)
@click.option(
    "--watchdog",
    default="/dev/watchdog",
    show_default=True,
    metavar="PATH",
    help="A device; or `software`, which is weaker; or unix:PATH, a process that counts.",
)
@click.option(
    "--failures",
    type=click.IntRange(1, 100),
    default=2,
    show_default=True,
    metavar="N",
    help="So many requests in a row fail before peers are asked.",
)
@length_option("--interval", "15s", "1s", "1m", "How often the API server is asked.")
@length_option("--request-timeout", "3s", "1s", "1m", "How long it has to answer.")
@length_option("--peer-time", "12s", "1s", "10m", "How long peers are asked before the node gives itself up.")
@length_option("--watchdog-timeout", "15s", "5s", "10m", "After how long without being fed the watchdog shall fire.")
@settings_options("kubeconfig", "context", "namespace", "log_format", "log_level")
def agent(node: str, address: Address, tls: Path, watchdog: str, failures: int, **flags: Any) -> int:
    """Run the agent of this node, which takes the node down when it must.

    It feeds a watchdog while the API server, or most failure domains of its peers, say that nobody wants this boot of the
    node dead, or while most domains cannot reach the API server either. In every other case it stops feeding, and the
    watchdog resets the machine. SIGTERM disarms the watchdog, once the API server knows of it.

    \b
    Examples:
      defib agent --node worker-7 --address 10.0.0.7:9640
      defib agent --node worker-7 --address 10.0.0.7:9640 --watchdog software --interval 30s --request-timeout 5s

    \b
    Exit codes: 0 stopped, and the watchdog is disarmed; 1 it cannot run, one line says why;
    2 the settings are wrong; 3 stopped, and the watchdog counts on.
    """  # noqa: D301  the backspace is click's mark for lines that keep their breaks
    with without("rich"):
        from defib.agent.settings import AgentSettings
        from defib.cli.agent import run_until_stopped
        from defib.model.self_fence import Pace

    times = ("interval", "request_timeout", "peer_time", "watchdog_timeout")
    interval, request, peers, timeout = (flags.pop(name) for name in times)
    pace = Pace(interval_seconds=interval, request_seconds=request, failures=failures, peer_seconds=peers)
    settings = settings_from(flags)
    chosen = AgentSettings(
        node=node,
        namespace=settings.namespace,
        address=address,
        tls=tls,
        watchdog=watchdog,
        watchdog_seconds=timeout,
        pace=pace,
        kubeconfig=settings.kubeconfig,
        context=settings.context,
    )
    return run_until_stopped(settings, chosen)
