"""`python -m testbed up` starts a cluster for a person, and `kill`, `hang`, `partition`, `heal`, `revive` and `status`
speak to it from another terminal; `story` tells stories; `build` only makes the control plane's programs ready.
"""

import argparse
import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NoReturn

from defib.clock import SystemClock
from testbed.cluster import ControlPlane, ControlPlaneFailed
from testbed.people.cluster import instructions, staffed
from testbed.people.orders import HELP, Order, Verb, give
from testbed.people.place import NoCluster, find
from testbed.programs import NoControlPlane, Program, Programs, control_plane_programs, helm_program
from testbed.quiet import only_warnings
from testbed.scenario.command import tell_stories
from testbed.scenario.errors import StoryError
from testbed.scenario.profiles import PROFILES, has_unmount_flag
from testbed.scenario.story import Timers
from testbed.settings import Settings

_LOOK_EVERY = 0.5


def main() -> int:
    asked = _arguments()
    only_warnings()
    try:
        return _do(asked)
    except (NoControlPlane, ControlPlaneFailed, NoCluster, StoryError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # during the build; later Ctrl-C is the usual end
        return 130


def _do(asked: argparse.Namespace) -> int:
    match asked.command:
        case "story":
            return 1 if tell_stories(asked.story, real=asked.real) else 0
        case "build":
            built = helm_program() if asked.helm else control_plane_programs(api_only=asked.api_only)[Program.APISERVER]
            print(built.parent)
            return 0
        case "up":
            if asked.api_only and asked.nodes:
                raise ControlPlaneFailed("--api-only has no scheduler and no controllers, so it takes no --nodes")
            return asyncio.run(_up(control_plane_programs(api_only=asked.api_only), asked))
        case verb:
            reply = give(Order(verb=Verb(verb), nodes=tuple(asked.node)), find(asked.dir, os.environ))
            print(reply.text, file=sys.stderr if reply.refused else sys.stdout)
            return int(reply.refused)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m testbed", description="A real Kubernetes control plane on loopback, with hollow nodes."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="find or build the programs, and print where they are")
    build.add_argument(
        "--helm", action="store_true", help="Helm, for what is rendered from the chart, and nothing else"
    )
    up = commands.add_parser("up", help="start a cluster and keep it until Ctrl-C")
    up.add_argument("--nodes", type=int, default=0, help="how many hollow nodes it has (default: none)")
    up.add_argument("--timers", choices=[one.value for one in Timers], default="default", help="how fast it lives")
    up.add_argument("--dir", type=Path, help="empty or new directory for its files (default: a temporary one)")
    for command in (build, up):
        command.add_argument("--api-only", action="store_true", help="etcd and API server only, no controllers")
    story = commands.add_parser("story", help="tell stories (docs/scenarios.md) and print what was seen")
    story.add_argument("--real", action="store_true", help="on a real control plane rather than the embedded server")
    story.add_argument("story", nargs="+", type=Path)
    for verb in Verb:
        order = commands.add_parser(verb.value, help=HELP[verb])
        order.add_argument("--dir", type=Path, help="of the running cluster (default: the one that was started last)")
        order.add_argument("node", nargs="*" if verb is Verb.STATUS else "+")
    return parser.parse_args()


async def _up(programs: Programs, asked: argparse.Namespace) -> int:
    """Until Ctrl-C or SIGTERM, also in the middle of the start; a second one does not wait for an orderly end."""
    me = asyncio.current_task()
    assert me is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    try:
        async with AsyncExitStack() as stack:
            await _stay(await _start(stack, programs, asked))
    except asyncio.CancelledError:
        return 0


async def _start(stack: AsyncExitStack, programs: Programs, asked: argparse.Namespace) -> ControlPlane:
    clock, profile = SystemClock(), PROFILES[Timers(asked.timers)]
    began = clock.monotonic()
    settings = Settings(api_only=True)
    if not asked.api_only:
        flag = await asyncio.to_thread(has_unmount_flag, programs)
        settings, profile = profile.settings(unmount_flag=flag), profile.as_run(unmount_flag=flag)
    plane = await stack.enter_async_context(ControlPlane(programs, settings, directory=asked.dir))
    await plane.wait_for_namespace("default")
    more: list[str] = [f"  {plane.kubectl} get namespaces"]
    if asked.nodes:
        hollow = await stack.enter_async_context(staffed(plane, clock, profile, asked.nodes))
        more = instructions(plane, hollow, profile, asked.dir)
    nodes = f"{asked.nodes} hollow nodes are ready." if asked.nodes else "It has no nodes."
    headline = f"Kubernetes {await plane.version()} is up after {clock.monotonic() - began:.1f} s"
    print(_welcome(plane, f"{headline}: {', '.join(settings.components)}. {nodes}", more), flush=True)
    return plane


def _welcome(plane: ControlPlane, headline: str, more: list[str]) -> str:
    return "\n".join(
        (
            headline,
            "",
            f"  export KUBECONFIG={plane.kubeconfig}",
            *more,
            "",
            f"  A user without any role: {plane.restricted_kubeconfig}",
            f"  Logs: {plane.directory}/*.log",
            "  Ctrl-C stops it and removes its directory.",
        )
    )


async def _stay(plane: ControlPlane) -> NoReturn:
    while True:
        await plane.fail_if_dead()
        await asyncio.sleep(_LOOK_EVERY)


if __name__ == "__main__":
    sys.exit(main())
