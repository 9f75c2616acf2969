"""The kinds of power cycling on the embedded server: their schemas hold there as well; their rules in CEL do not."""

from pathlib import Path
from typing import Any

import yaml

from defib.simulate.server import ApiServer
from tests.power_cycle_corpus import BAD, EVERYTHING, GOOD, a_remediation, a_template, wrong_types
from tests.unit.simulate.asking import Asker, simulated

CRDS = Path(__file__).parents[3] / "deploy/crds"
KINDS = ("powercycleremediations", "powercycleremediationtemplates", "nodeincidents")
REMEDIATIONS = "/apis/defib.dev/v1alpha1/namespaces/default/powercycleremediations"
TEMPLATES = "/apis/defib.dev/v1alpha1/namespaces/default/powercycleremediationtemplates"


def crd(plural: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CRDS / f"defib.dev_{plural}.yaml").read_text())
    return loaded


def schema(plural: str) -> dict[str, Any]:
    found: dict[str, Any] = crd(plural)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


async def install(asker: Asker) -> None:
    for plural in KINDS:
        await asker.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(plural))


def test_every_spec_that_makes_sense_is_taken() -> None:
    async def story(_server: ApiServer, asker: Asker) -> list[str]:
        await install(asker)
        asked = [(c.name, await asker.ask("POST", REMEDIATIONS, a_remediation(c.spec), dryRun="All")) for c in GOOD]
        return [f"{name}: {said}" for name, (code, said) in asked if code != 201]

    assert simulated(story) == []


def test_a_spec_with_a_wrong_type_is_refused_and_its_field_named() -> None:
    wrong = {case.name for case in wrong_types()}

    async def story(_server: ApiServer, asker: Asker) -> list[str]:
        await install(asker)
        cases = [case for case in BAD if case.name in wrong]
        asked = [(c, await asker.ask("POST", REMEDIATIONS, a_remediation(c.spec), dryRun="All")) for c in cases]
        return [
            f"{case.name}: {said}" for case, (code, said) in asked if code != 422 or case.field not in said["message"]
        ]

    assert simulated(story) == []


def test_nothing_is_filled_in_and_a_template_takes_the_same() -> None:
    """What was left out is up to the operator, so that a better default reaches those who did not choose."""

    async def story(_server: ApiServer, asker: Asker) -> Any:
        await install(asker)
        made = await asker.create(REMEDIATIONS, a_remediation({"power": {"driver": "ipmi"}}))
        template = await asker.create(TEMPLATES, a_template(EVERYTHING))
        return made["spec"], template["spec"]["template"]["spec"]

    assert simulated(story) == ({"power": {"driver": "ipmi"}}, EVERYTHING)


def test_a_remediation_and_its_template_take_the_very_same() -> None:
    template = schema("powercycleremediationtemplates")["properties"]["spec"]["properties"]["template"]
    assert template["properties"]["spec"] == schema("powercycleremediations")["properties"]["spec"]


def undescribed(node: dict[str, Any], path: str) -> list[str]:
    found = []
    for name, field in node.get("properties", {}).items():
        found += [] if field.get("description") else [f"{path}.{name}"]
        for inner in (field, field.get("items", {}), field.get("additionalProperties", {})):
            found += undescribed(inner, f"{path}.{name}")
    return found


def test_every_field_is_described() -> None:
    """Those of the object itself have the API server's own descriptions."""
    own = {"apiVersion", "kind", "metadata"}
    missing = [path for plural in KINDS for path in undescribed(schema(plural), plural)]
    assert [path for path in missing if path.split(".")[1] not in own] == []
