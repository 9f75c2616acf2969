"""One replica of the operator as a cluster runs it: `defib run` in a process of its own, and what that costs."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import aiohttp
import msgspec
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from defib.config import PREFIX
from defib.decide.changes import What
from tests.bench.processes import ROOT, BenchFailed
from tests.bench.spent import Counted
from tests.bench.usage import cpu_seconds_of, mib_of

STARTED_WITHIN = 30.0
ENDED_WITHIN = 10.0
LOOK_EVERY = 0.1
QUIET_WITHIN = 60.0
QUIET_SECONDS = 1.0
QUIET_CPU_SECONDS = 0.02  # two ticks of the kernel's clock
STARTED = "remediation started"
READING_VERBS = {"GET", "WATCH"}
LAST_WORDS = 2000
CLOCK_SECONDS = 0.5  # a pass may know of a write before its writer does
READY_WITHIN = 60.0
READY = 200


class Said(msgspec.Struct, frozen=True):
    """A line of its log, as far as it tells where the probes are, or what it saw or did when."""

    time: datetime
    event: str = ""
    probes: str = ""
    subject: str = ""
    what: str = ""
    node: str = ""


class Replica:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._probes = ""

    async def until_started(self) -> None:
        try:
            async with asyncio.timeout(STARTED_WITHIN):
                while not self._probes:
                    self.fail_if_dead()
                    self._probes = self._find_probes()
                    await asyncio.sleep(LOOK_EVERY)  # another process, which tells nobody
        except TimeoutError:
            raise BenchFailed(
                f"the operator did not start within {STARTED_WITHIN:.0f} s: {self._last_words()}"
            ) from None

    async def until_ready(self, within: float = READY_WITHIN) -> None:
        """Until it sees everything that it has to know."""
        try:
            async with asyncio.timeout(within), aiohttp.ClientSession() as session:
                while not await self._is_ready(session):
                    self.fail_if_dead()
                    await asyncio.sleep(LOOK_EVERY)  # another process, which tells nobody
        except TimeoutError:
            raise BenchFailed(f"the operator was not ready within {within:.0f} s: {self._last_words()}") from None

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        async with session.get(f"{self._probes}readyz") as answer:
            return answer.status == READY

    def send(self, number: signal.Signals) -> None:
        self.fail_if_dead()
        self._process.send_signal(number)

    async def until_ended(self) -> int:
        """What it ended with, after a signal."""
        try:
            return await asyncio.wait_for(self._process.wait(), ENDED_WITHIN)
        except TimeoutError:
            raise BenchFailed(f"the operator did not end within {ENDED_WITHIN:.0f} s: {self._last_words()}") from None

    def fail_if_dead(self) -> None:
        if self._process.returncode is not None:
            raise BenchFailed(f"the operator ended with {self._process.returncode}: {self._last_words()}")

    async def until_quiet(self, rest: float = QUIET_CPU_SECONDS) -> None:
        """Until everything that was to be done is done: a whole second with no more work than it has at rest."""
        try:
            async with asyncio.timeout(QUIET_WITHIN):
                while True:
                    before = self.cpu_seconds
                    await asyncio.sleep(QUIET_SECONDS)  # the quiet itself is what is waited for
                    if self.cpu_seconds - before <= rest:
                        return
        except TimeoutError:
            raise BenchFailed(f"the operator did not come to rest within {QUIET_WITHIN:.0f} s") from None

    @property
    def cpu_seconds(self) -> float:
        self.fail_if_dead()
        return cpu_seconds_of(self._process.pid)

    @property
    def resident_mib(self) -> float:
        return mib_of("VmRSS", self._process.pid)

    @property
    def peak_mib(self) -> float:
        return mib_of("VmHWM", self._process.pid)

    async def counted(self) -> Counted:
        samples = await self._samples()

        def total(name: str, **labels: str) -> int:
            return int(sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items()))

        requests = {s.labels["verb"]: 0 for s in samples if s.name == "defib_api_requests_total"}
        return Counted(
            writes=sum(total("defib_api_requests_total", verb=verb) for verb in requests.keys() - READING_VERBS),
            heartbeats=total("defib_watch_events_total", kind="heartbeats"),
            node_events=total("defib_watch_events_total", kind="nodes"),
            passes=total("defib_passes_total"),
            pods_moved=total("defib_pods_moved_total"),
        )

    async def totals(self, name: str, label: str) -> dict[str, int]:
        """What one of its metrics has counted, by one of its labels."""
        found: dict[str, int] = {}
        for sample in await self._samples():
            if sample.name == name:
                found[sample.labels[label]] = found.get(sample.labels[label], 0) + int(sample.value)
        return found

    async def _samples(self) -> list[Sample]:
        async with aiohttp.ClientSession() as session, session.get(f"{self._probes}metrics") as answer:
            text = await answer.text()
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def when_not_ready(self, node: str, after: float) -> float:
        """When a pass first knew that the node is not ready, in Unix time; `after` is when that was written."""
        moments = (one.time.timestamp() for one in self._said() if (one.subject, one.what) == (node, What.NOT_READY))
        found = next((moment for moment in moments if moment > after - CLOCK_SECONDS), None)
        if found is None:
            raise BenchFailed(f"the operator never saw that {node} is not ready: {self._last_words()}")
        return found

    def has_remediated(self, node: str, after: float) -> bool:
        """Whether it was this one that started a remediation, later than that."""
        return any(
            (one.event, one.node) == (STARTED, node) and one.time.timestamp() > after - CLOCK_SECONDS
            for one in self._said()
        )

    def _find_probes(self) -> str:
        return next((one.probes for one in self._said() if one.probes), "")

    def _said(self) -> Iterator[Said]:
        lines = self._log.read_bytes().splitlines()
        return (msgspec.json.decode(line, type=Said) for line in lines if line.startswith(b"{"))

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-LAST_WORDS:].strip()


@asynccontextmanager
async def operating(kubeconfig: Path, log: Path, *more: str) -> AsyncIterator[Replica]:
    """With the default settings but for where the cluster is, a port that is free, and what else is asked for."""
    flags = ("--kubeconfig", str(kubeconfig), "--probes-address", "127.0.0.1:0", "--log-format", "json", *more)
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "defib", "run", *flags),
            cwd=ROOT,
            env=_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        replica = Replica(process, log)
        await replica.until_started()
        yield replica
    finally:
        await _end(process)


def _environment() -> dict[str, str]:
    """Ours, without what it says about Defib's settings: they are the defaults here."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return plain | {"PYTHONPATH": str(ROOT / "src")}


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), ENDED_WITHIN)
    except TimeoutError:
        process.kill()
        await process.wait()
