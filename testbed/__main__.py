"""`python -m testbed up` starts a control plane for a person; `python -m testbed build` only makes its programs ready."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import NoReturn

from defib.clock import SystemClock
from testbed.cluster import ControlPlane, ControlPlaneFailed
from testbed.programs import NoControlPlane, Program, Programs, control_plane_programs
from testbed.settings import Settings

_LOOK_EVERY = 0.5


def main() -> int:
    asked = _arguments()
    try:
        programs = control_plane_programs(api_only=asked.api_only)
        if asked.command == "build":
            print(programs[Program.APISERVER].parent)
            return 0
        return asyncio.run(_up(programs, Settings(api_only=asked.api_only), asked.dir))
    except (NoControlPlane, ControlPlaneFailed) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # during the build; later Ctrl-C is the usual end
        return 130


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m testbed", description="A real Kubernetes control plane on loopback."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="find or build the programs, and print where they are")
    up = commands.add_parser("up", help="start a control plane and keep it until Ctrl-C")
    up.add_argument("--dir", type=Path, help="empty or new directory for its files (default: a temporary one)")
    for command in (build, up):
        command.add_argument("--api-only", action="store_true", help="etcd and API server only, no controllers")
    return parser.parse_args()


async def _up(programs: Programs, settings: Settings, directory: Path | None) -> int:
    """Until Ctrl-C or SIGTERM, also in the middle of the start; a second one does not wait for an orderly end."""
    me = asyncio.current_task()
    assert me is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    clock = SystemClock()
    began = clock.monotonic()
    try:
        async with ControlPlane(programs, settings, directory=directory) as cluster:
            await cluster.wait_for_namespace("default")
            headline = f"Kubernetes {await cluster.version()} is up after {clock.monotonic() - began:.1f} s"
            print(_welcome(cluster, settings, headline), flush=True)
            await _stay(cluster)
    except asyncio.CancelledError:
        return 0


def _welcome(cluster: ControlPlane, settings: Settings, headline: str) -> str:
    return "\n".join(
        (
            f"{headline}: {', '.join(settings.components)}. It has no nodes.",
            "",
            f"  export KUBECONFIG={cluster.kubeconfig}",
            f"  {cluster.kubectl} get namespaces",
            "",
            f"  A user without any role: {cluster.restricted_kubeconfig}",
            f"  Logs: {cluster.directory}/*.log",
            "  Ctrl-C stops it and removes its directory.",
        )
    )


async def _stay(cluster: ControlPlane) -> NoReturn:
    while True:
        await cluster.fail_if_dead()
        await asyncio.sleep(_LOOK_EVERY)


if __name__ == "__main__":
    sys.exit(main())
