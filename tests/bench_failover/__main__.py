"""`python -m tests.bench_failover`: seconds from the loss of a node to its pods running elsewhere, phase by phase.

On the real control plane, with the timers of Kubernetes or with compressed ones. Writes a table, a JSON file and a
picture. A row may end with `never`: then it did not happen within the limit that the table names.

The modes `defib`, `defib-standard` and `defib-fast` have Defib in them, which switches the machines by Redfish, time and again
while faults are drawn. The first counts from the verdict, with a silence that is noticed soon; the others count from the fault,
with the timers of Kubernetes, and are rows of the table. They end with 1 when they do not keep their promise.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
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
from tests.bench_failover.power_draws import Hardware, PowerFault
from tests.bench_failover.power_measure import PowerPlan, measure_with_defib, row_of
from tests.bench_failover.power_results import broken_promises, power_table
from tests.bench_failover.results import Benchmark
from tests.bench_failover.services import SERVICES, Service
from tests.bench_failover.table import table
from tests.bench_failover.ward import Fault, NotArranged

SEEDS = 10_000


def main() -> int:
    asked = _arguments()
    only_warnings()
    try:
        programs = control_plane_programs()
        flag = has_unmount_flag(programs)
        measured = [_without_defib(programs, plan, unmount_flag=flag) for plan in _plans(asked, unmount_flag=flag)]
        services = [service for name, service in SERVICES.items() if name in asked.modes]
        outcomes = [_with_defib(programs, asked, service) for service in services]
        measured += [benchmark for benchmark, _ in outcomes if benchmark.rows]
        if measured:
            _write(measured, asked.out)
        return max((code for _, code in outcomes), default=0)
    except (NoControlPlane, ControlPlaneFailed, NotArranged) as error:
        tell(str(error))
        return 1
    except KeyboardInterrupt:
        return 130


def _arguments() -> argparse.Namespace:
    every = [*MODES, *SERVICES]
    parser = argparse.ArgumentParser(prog="python -m tests.bench_failover", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, help="how many times it is measured (default: 1, and with Defib 50 or 5)")
    parser.add_argument("--profile", choices=[one.value for one in Timers], default=Timers.COMPRESSED.value)
    parser.add_argument("--modes", nargs="+", choices=every, default=every, metavar="MODE")
    parser.add_argument(
        "--faults",
        nargs="+",
        choices=sorted({fault.value for fault in (*Fault, *PowerFault)}),
        default=[fault.value for fault in (*Fault, *PowerFault)],
        metavar="FAULT",
        help='"power off", partition, and with Defib also hung (default: all of them)',
    )
    parser.add_argument("--limit", type=float, help="seconds after which it is never (default: 45 or 900)")
    parser.add_argument("--seed", type=int, help="of the faults with defib (default: another one every time)")
    parser.add_argument(
        "--slowest", type=float, default=0.25, help="seconds of a BMC for a request, at most (default: 0.25)"
    )
    parser.add_argument("--out", type=Path, default=Path("build"), help="where the files go (default: build)")
    return parser.parse_args()


def _plans(asked: argparse.Namespace, *, unmount_flag: bool) -> Iterator[Plan]:
    """Each needs a control plane of its own. A mode that brings its own flags has the heartbeats of Kubernetes with them."""
    modes = [MODES[name] for name in asked.modes if name in MODES]
    timers = Timers(asked.profile)
    if as_ever := tuple(mode for mode in modes if mode.flags is None):
        yield _plan(as_ever, timers, PROFILES[timers].as_run(unmount_flag=unmount_flag), asked)
    for mode in modes:
        if mode.flags is not None:
            yield _plan((mode,), Timers.DEFAULT, mode.flags, asked)


def _plan(modes: tuple[Mode, ...], timers: Timers, profile: Profile, asked: argparse.Namespace) -> Plan:
    return Plan(
        modes=modes,
        timers=timers,
        profile=profile,
        runs=asked.runs or 1,
        limit_seconds=asked.limit or LIMITS[timers],
        faults=tuple(fault for fault in Fault if fault.value in asked.faults),
    )


def _without_defib(programs: Programs, plan: Plan, *, unmount_flag: bool) -> Benchmark:
    return asyncio.run(_measure(ControlPlane(programs, plan.profile.settings(unmount_flag=unmount_flag)), plan))


async def _measure(plane: ControlPlane, plan: Plan) -> Benchmark:
    clock = SystemClock()
    async with plane as cluster:
        await cluster.wait_for_namespace("default")
        version = await cluster.version()
        rows = await measure(ControlPlaneStage(cluster, clock), clock, plan, tell)
    return Benchmark(kubernetes=version, rows=tuple(rows))


def _with_defib(programs: Programs, asked: argparse.Namespace, service: Service) -> tuple[Benchmark, int]:
    """Not 0 when it took too long, or a disk was corrupted, in any of the runs."""
    clock = SystemClock()
    plan = PowerPlan(
        seed=int(clock.jitter(SEEDS)) if asked.seed is None else asked.seed,
        runs=asked.runs or service.runs,
        hardware=Hardware(answer_seconds=(0.0, asked.slowest)),
        service=service,
        faults=tuple(fault for fault in PowerFault if fault.value in asked.faults),
    )
    tell(f"{service.name}: {plan.runs} runs, seed {plan.seed}")
    report = asyncio.run(measure_with_defib(programs, clock, plan, tell))
    asked.out.mkdir(parents=True, exist_ok=True)
    file = asked.out / f"bench-failover-{service.name}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    print(f"{power_table(report)}\n\n{file} has every run.")  # noqa: T201 - the result
    rows = (row_of(plan, report),) if service.from_fault else ()
    return Benchmark(kubernetes=report.kubernetes, rows=rows), 1 if broken_promises(report) else 0


def _write(measured: Sequence[Benchmark], directory: Path) -> None:
    """One table of all that was counted from the fault."""
    rows = tuple(row for benchmark in measured for row in benchmark.rows)
    benchmark = Benchmark(kubernetes=measured[0].kubernetes, rows=rows)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "bench-failover.json").write_bytes(msgspec.json.format(msgspec.json.encode(benchmark)))
    (directory / "bench-failover.svg").write_text(picture(benchmark))
    files = f"{directory}/bench-failover.json has every run, {directory}/bench-failover.svg the picture."
    print(f"{table(benchmark)}\n\n{files}")  # noqa: T201 - the result


if __name__ == "__main__":
    sys.exit(main())
