"""`python -m tests.bench_failover`: seconds from the loss of a node to its pods running elsewhere, phase by phase.

On the real control plane, with the timers of Kubernetes or with compressed ones. Writes a table, a JSON file and a
picture. A row may end with `never`: then it did not happen within the limit that the table names.

The modes `defib` and `defib-fast` are another matter: Defib switches the machines by Redfish, with the timers of Kubernetes,
time and again while faults are drawn. The first counts from the verdict; the second, with the fast path of a check, from the
fault. They end with 1 when they do not keep their promise.
"""

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from defib.clock import SystemClock
from testbed.cluster import ControlPlane, ControlPlaneFailed
from testbed.programs import NoControlPlane, Programs, control_plane_programs, tell
from testbed.quiet import only_warnings
from testbed.scenario.control_plane import ControlPlaneStage
from testbed.scenario.profiles import PROFILES, Profile, has_unmount_flag
from testbed.scenario.story import Timers
from tests.bench_failover.measure import LIMITS, Plan, measure
from tests.bench_failover.modes import MODES, Mode
from tests.bench_failover.picture import picture
from tests.bench_failover.power_draws import Hardware
from tests.bench_failover.power_measure import RUNS, PowerPlan, measure_with_defib
from tests.bench_failover.power_results import broken_promises, power_table
from tests.bench_failover.results import Benchmark, summarise
from tests.bench_failover.table import table
from tests.bench_failover.ward import NotArranged

DEFIB, FAST = "defib", "defib-fast"
SEEDS = 10_000


def main() -> int:
    asked = _arguments()
    only_warnings()
    try:
        programs = control_plane_programs()
        if others := tuple(MODES[name] for name in asked.modes if name in MODES):
            _write(_without_defib(programs, others, asked), asked.out)
        return max((_with_defib(programs, asked, mode) for mode in (DEFIB, FAST) if mode in asked.modes), default=0)
    except (NoControlPlane, ControlPlaneFailed, NotArranged) as error:
        tell(str(error))
        return 1
    except KeyboardInterrupt:
        return 130


def _arguments() -> argparse.Namespace:
    every = [*MODES, DEFIB, FAST]
    parser = argparse.ArgumentParser(prog="python -m tests.bench_failover", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, help=f"how many times it is measured (default: 1, and {RUNS} with defib)")
    parser.add_argument("--profile", choices=[one.value for one in Timers], default=Timers.COMPRESSED.value)
    parser.add_argument("--modes", nargs="+", choices=every, default=every, metavar="MODE")
    parser.add_argument("--limit", type=float, help="seconds after which it is never (default: 45 or 900)")
    parser.add_argument("--seed", type=int, help="of the faults with defib (default: another one every time)")
    parser.add_argument(
        "--slowest", type=float, default=0.25, help="seconds of a BMC for a request, at most (default: 0.25)"
    )
    parser.add_argument("--out", type=Path, default=Path("build"), help="where the files go (default: build)")
    return parser.parse_args()


def _without_defib(programs: Programs, modes: tuple[Mode, ...], asked: argparse.Namespace) -> Benchmark:
    timers = Timers(asked.profile)
    plan = Plan(modes=modes, timers=timers, runs=asked.runs or 1, limit_seconds=asked.limit or LIMITS[timers])
    flag = has_unmount_flag(programs)
    settings, profile = PROFILES[timers].settings(unmount_flag=flag), PROFILES[timers].as_run(unmount_flag=flag)
    return asyncio.run(_measure(ControlPlane(programs, settings), plan, profile))


def _with_defib(programs: Programs, asked: argparse.Namespace, mode: str) -> int:
    """Not 0 when it took too long, or a disk was corrupted, in any of the runs."""
    clock = SystemClock()
    seed = int(clock.jitter(SEEDS)) if asked.seed is None else asked.seed
    hardware = Hardware(answer_seconds=(0.0, asked.slowest))
    plan = PowerPlan(seed=seed, runs=asked.runs or RUNS, hardware=hardware, is_fast=mode == FAST)
    tell(f"{mode}: {plan.runs} runs, seed {seed}")
    report = asyncio.run(measure_with_defib(programs, clock, plan, tell))
    asked.out.mkdir(parents=True, exist_ok=True)
    file = asked.out / f"bench-failover-{mode}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    print(f"{power_table(report)}\n\n{file} has every run.")  # noqa: T201 - the result
    return 1 if broken_promises(report) else 0


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
