"""Whoever does not read, does not answer or does not end costs the operator little, and its nodes nothing."""

from pathlib import Path

import pytest

from defib.web.dashboard import CONNECTIONS_MAX
from defib.web.live import LISTENERS_MAX
from defib.web.server import CONNECTIONS_MAX as SCRAPERS_MAX
from tests.bench.fleet import spread
from tests.limits.deaf import DeafCrowd, never_answering
from tests.limits.fleet import a_fleet
from tests.limits.running import defib_run

NODES, FAILING, PODS_EACH = 1000, 100, 5
LIMIT_MIB = 128


@pytest.mark.timeout(180)
async def test_a_deaf_crowd_at_every_door_and_receivers_that_never_answer_hold_up_no_remediation(
    tmp_path: Path,
) -> None:
    failing = spread(NODES, FAILING)
    url = tmp_path / "url"
    async with never_answering() as (receiver, came), a_fleet(NODES, tmp_path) as fleet:
        fleet.run_pods(failing, PODS_EACH)
        url.write_text(f"http://127.0.0.1:{receiver}/hook")
        told = (f"--notify-url-file={url}", "--notify-about=all", f"--traces-url=http://127.0.0.1:{receiver}")
        async with defib_run(fleet.kubeconfig, *told) as defib:
            await fleet.until_watched()
            with DeafCrowd() as crowd:
                crowd.ask(defib.dashboard, "/api/live", LISTENERS_MAX)
                crowd.ask(defib.dashboard, "/api/board", CONNECTIONS_MAX - LISTENERS_MAX)
                crowd.ask(defib.probes_port, "/metrics", 2 * SCRAPERS_MAX)
                fleet.fail(failing)
                await fleet.until_remediated(FAILING)
                assert await defib.is_ready()
                assert 'defib_deliveries_total{result="sent",to="webhook"} 0.0' in await defib.metrics()
            assert came, "somebody was told, and did not answer"
            print(f"peak {defib.peak_mib:.0f} MiB")  # noqa: T201  to be read with pytest -s
            assert defib.peak_mib <= LIMIT_MIB
