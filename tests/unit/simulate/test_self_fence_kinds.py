"""The kinds of self-fencing on the embedded server: their schemas hold there as well; their rules in CEL do not."""

from typing import Any

from defib.simulate.server import ApiServer
from tests.self_fence_corpus import BAD, EVERYTHING, GOOD, a_remediation, a_template, wrong_types
from tests.unit.simulate.asking import Asker, simulated
from tests.unit.simulate.test_power_cycle_kinds import crd, schema, undescribed

KINDS = ("selffenceremediations", "selffenceremediationtemplates")
REMEDIATIONS, TEMPLATES = (f"/apis/defib.dev/v1alpha1/namespaces/default/{plural}" for plural in KINDS)


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
        made = await asker.create(REMEDIATIONS, a_remediation({"attempts": 2}))
        template = await asker.create(TEMPLATES, a_template(EVERYTHING))
        return made["spec"], template["spec"]["template"]["spec"]

    assert simulated(story) == ({"attempts": 2}, EVERYTHING)


def test_a_remediation_and_its_template_take_the_very_same() -> None:
    template = schema(KINDS[1])["properties"]["spec"]["properties"]["template"]
    assert template["properties"]["spec"] == schema(KINDS[0])["properties"]["spec"]


def test_what_has_the_same_name_as_in_a_power_cycle_is_the_same() -> None:
    ours, theirs = (
        schema(f"{which}remediations")["properties"]["spec"]["properties"] for which in ("selffence", "powercycle")
    )
    assert ours.keys() - theirs.keys() == {"allowSoftwareWatchdog"}
    for name in ours.keys() & theirs.keys() - {"timeouts", "acceptedProofs"}:
        assert ours[name] == theirs[name]
    for part in ("remediations", "remediationtemplates"):
        ours, theirs = (schema(f"{which}{part}")["properties"]["status"] for which in ("selffence", "powercycle"))
        assert set(ours["properties"]) == set(theirs["properties"])


def test_every_field_is_described() -> None:
    """Those of the object itself have the API server's own descriptions."""
    own = {"apiVersion", "kind", "metadata"}
    missing = [path for plural in KINDS for path in undescribed(schema(plural), plural)]
    assert [path for path in missing if path.split(".")[1] not in own] == []
