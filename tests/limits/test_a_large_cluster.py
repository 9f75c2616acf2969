"""A cluster of 1,000 nodes is looked after in 128 MiB, also while a tenth of it fails, whatever is done about it."""

from pathlib import Path

import pytest
import yaml

from tests.bench.fleet import spread
from tests.limits.deaf import never_answering
from tests.limits.fleet import POWER_CYCLE, Remedy, a_fleet
from tests.limits.running import Running, defib_run

NODES, FAILING, PODS_EACH = 1000, 100, 20
LIMIT_MIB = 128
VALUES = Path(__file__).parents[2] / "deploy" / "helm" / "defib" / "values.yaml"


def test_the_chart_asks_for_the_memory_in_which_this_was_seen_to_fit() -> None:
    resources = yaml.safe_load(VALUES.read_text())["resources"]
    assert resources["requests"]["memory"] == f"{LIMIT_MIB}Mi"


def expect_within_limit(defib: Running) -> None:
    print(f"peak {defib.peak_mib:.0f} MiB, now {defib.resident_mib:.0f} MiB")  # noqa: T201  to be read with pytest -s
    assert defib.peak_mib <= LIMIT_MIB


@pytest.mark.timeout(180)
async def test_a_thousand_nodes_of_which_a_hundred_fail_fit_into_128_mib(tmp_path: Path) -> None:
    failing = spread(NODES, FAILING)
    async with a_fleet(NODES, tmp_path) as fleet:
        fleet.run_pods(failing, PODS_EACH)
        async with defib_run(fleet.kubeconfig) as defib:
            await fleet.until_watched()
            fleet.fail(failing)
            await fleet.until_remediated(FAILING)
            expect_within_limit(defib)


@pytest.mark.timeout(180)
async def test_a_hundred_machines_of_a_thousand_whose_bmc_never_answers_fit_into_128_mib(tmp_path: Path) -> None:
    failing = spread(NODES, FAILING)
    async with never_answering() as (port, came):
        address = f"https://127.0.0.1:{port}/redfish/v1/Systems/{{node}}"
        power = {"driver": "redfish", "address": address, "credentials": {"name": "bmc"}}
        remedy = Remedy(POWER_CYCLE, {"power": power})
        async with a_fleet(NODES, tmp_path, remedy) as fleet, defib_run(fleet.kubeconfig) as defib:
            await fleet.until_watched()
            fleet.fail(failing)
            await fleet.until_in_phase("LookingAtPower", FAILING)
            assert came, "somebody was asked"
            expect_within_limit(defib)
