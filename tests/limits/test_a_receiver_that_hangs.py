"""What cannot be told outside waits, but not without end, and the log says so once."""

import asyncio

import msgspec
from structlog.testing import capture_logs

from defib.clock import SystemClock
from defib.outbox import WAITING_MAX, Outbox, Patience, Place
from defib.telemetry.metrics import Metrics
from tests.limits.deaf import never_answering
from tests.limits.weighing import weigh

IMPATIENT = Patience(answer_seconds=0.01, pause_seconds=0.001, pause_max_seconds=0.002)
ATTEMPTS = 20
BODY_BYTES = 1000


class Address(msgspec.Struct, frozen=True):
    port: int

    async def __call__(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


async def test_a_receiver_that_never_answers_costs_a_bounded_queue_and_a_line_for_each_trouble() -> None:
    metrics = Metrics()
    async with never_answering() as (port, came):
        place = Place(name="webhook", content_type="text/plain", address=Address(port))
        outbox = Outbox(place, SystemClock(), metrics, IMPATIENT)
        with capture_logs() as logs:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(outbox.run())
                async with asyncio.timeout(15):
                    while len(came) < ATTEMPTS:
                        for _ in range(WAITING_MAX // 4):  # more than a storm of failing nodes has to tell
                            outbox.put(b"x" * BODY_BYTES)
                        await asyncio.sleep(0.005)  # until it has tried again, in its own time
                kib = weigh(outbox).kib
                running.cancel()
        told = [line["why"] for line in logs if line["event"] == "something cannot be told"]
    assert sorted(told) == ["no answer within 0.01 s", "too much waits to be told"]
    assert kib < 2 * WAITING_MAX * BODY_BYTES / 1024
