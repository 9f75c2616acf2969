"""The NodeHealthCheck kind on the embedded server: its schema holds there as well; its rules in CEL do not."""

from pathlib import Path
from typing import Any

import yaml

from defib.simulate.server import ApiServer
from tests.check_corpus import BAD, GOOD, a_check, simple, wrong_types
from tests.unit.simulate.asking import Asker, simulated

CRD = Path(__file__).parents[3] / "deploy/crds/remediation.medik8s.io_nodehealthchecks.yaml"
CHECKS = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"


async def install(asker: Asker) -> None:
    crd = yaml.safe_load(CRD.read_text())
    await asker.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)


def test_it_can_be_installed_and_fills_in_its_defaults() -> None:
    async def story(_server: ApiServer, asker: Asker) -> Any:
        await install(asker)
        return (await asker.create(CHECKS, a_check(simple())))["spec"]

    conditions = [{"type": "Ready", "status": status, "duration": "300s"} for status in ("False", "Unknown")]
    assert simulated(story) == simple(mode="Automatic", unhealthyConditions=conditions)


def test_every_check_that_makes_sense_is_taken() -> None:
    async def story(_server: ApiServer, asker: Asker) -> list[str]:
        await install(asker)
        answers = [(case.name, await asker.ask("POST", CHECKS, a_check(case.spec), dryRun="All")) for case in GOOD]
        return [f"{name}: {said}" for name, (code, said) in answers if code != 201]

    assert simulated(story) == []


def test_a_check_with_a_wrong_type_is_refused_and_its_field_named() -> None:
    wrong = {case.name for case in wrong_types()}

    async def story(_server: ApiServer, asker: Asker) -> list[str]:
        await install(asker)
        cases = [case for case in BAD if case.name in wrong]
        answers = [(case, await asker.ask("POST", CHECKS, a_check(case.spec), dryRun="All")) for case in cases]
        return [
            f"{case.name}: {said}" for case, (code, said) in answers if code != 422 or case.field not in said["message"]
        ]

    assert simulated(story) == []
