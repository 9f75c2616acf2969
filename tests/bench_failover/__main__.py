"""`python -m tests.bench_failover`: seconds from the loss of a node to its pods running elsewhere, phase by phase.

On the real control plane, with the timers of Kubernetes or with compressed ones. Writes a table, a JSON file and a
picture. A row may end with `never`: then it did not happen within the limit that the table names.
"""

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from defib.clock import SystemClock
from testbed.cluster import ControlPlane, ControlPlaneFailed
from testbed.programs import NoControlPlane, control_plane_programs, tell
from testbed.quiet import only_warnings
from testbed.scenario.control_plane import ControlPlaneStage
from testbed.scenario.profiles import PROFILES, Profile, has_unmount_flag
from testbed.scenario.story import Timers
from tests.bench_failover.measure import LIMITS, Plan, measure
from tests.bench_failover.modes import MODES
from tests.bench_failover.picture import picture
from tests.bench_failover.results import Benchmark, summarise
from tests.bench_failover.table import table
from tests.bench_failover.ward import NotArranged


def main() -> int:
    asked = _arguments()
    only_warnings()
    timers = Timers(asked.profile)
    plan = Plan(
        modes=tuple(MODES[name] for name in asked.modes),
        timers=timers,
        runs=asked.runs,
        limit_seconds=asked.limit or LIMITS[timers],
    )
    try:
        programs = control_plane_programs()
        flag = has_unmount_flag(programs)
        settings, profile = PROFILES[timers].settings(unmount_flag=flag), PROFILES[timers].as_run(unmount_flag=flag)
        benchmark = asyncio.run(_measure(ControlPlane(programs, settings), plan, profile))
    except (NoControlPlane, ControlPlaneFailed, NotArranged) as error:
        tell(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    _write(benchmark, asked.out)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench_failover", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1, help="how many times everything is measured (default: 1)")
    parser.add_argument("--profile", choices=[one.value for one in Timers], default=Timers.COMPRESSED.value)
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES), metavar="MODE")
    parser.add_argument("--limit", type=float, help="seconds after which it is never (default: 45 or 900)")
    parser.add_argument("--out", type=Path, default=Path("build"), help="where the files go (default: build)")
    return parser.parse_args()


async def _measure(plane: ControlPlane, plan: Plan, profile: Profile) -> Benchmark:
    clock = SystemClock()
    async with plane as cluster:
        await cluster.wait_for_namespace("default")
        version = await cluster.version()
        failovers = await measure(ControlPlaneStage(cluster, clock), clock, plan, tell)
    return Benchmark(
        kubernetes=version,
        profile=plan.timers.value,
        timers=str(profile),
        limit_seconds=plan.limit_seconds,
        failovers=tuple(failovers),
        summaries=summarise(failovers, [mode.name for mode in plan.modes if mode.decides]),
    )


def _write(benchmark: Benchmark, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "bench-failover.json").write_bytes(msgspec.json.format(msgspec.json.encode(benchmark)))
    (directory / "bench-failover.svg").write_text(picture(benchmark))
    files = f"{directory}/bench-failover.json has every run, {directory}/bench-failover.svg the picture."
    print(f"{table(benchmark)}\n\n{files}")  # noqa: T201 - the result


if __name__ == "__main__":
    sys.exit(main())
