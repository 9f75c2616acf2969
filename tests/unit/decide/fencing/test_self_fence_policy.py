"""What a SelfFenceRemediation asks for, and what is wrong with it: every rule of the CRD holds again when it is read."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from defib.decide.fencing.policy import read_self_fence
from defib.model.duration import read_duration
from defib.model.incident import Grade
from defib.model.power import AGENT
from defib.model.power_cycle import HandOver, Policy, Way, Workloads
from defib.model.self_fencing import ALLOWS_SOFTWARE
from tests.check_corpus import Case
from tests.self_fence_corpus import BAD, EVERYTHING, GOOD

CRD = Path(__file__).parents[4] / "deploy/crds/defib.dev_selffenceremediations.yaml"


@pytest.mark.parametrize("case", BAD, ids=[case.name for case in BAD])
def test_what_makes_no_sense_is_refused_with_a_sentence_that_names_the_field(case: Case) -> None:
    problems = read_self_fence(case.spec)
    assert not isinstance(problems, Policy)
    assert any(case.field in problem for problem in problems)
    assert all(problem.startswith("spec") and problem.isprintable() for problem in problems)


@pytest.mark.parametrize("case", GOOD, ids=[case.name for case in GOOD])
def test_what_makes_sense_is_understood(case: Case) -> None:
    policy = read_self_fence(case.spec)
    assert isinstance(policy, Policy), policy
    assert (policy.way.driver, policy.ways) == (AGENT, {})
    assert policy.needs_new_boot, "only that shows that it was down"


def explained(*path: str) -> str:
    """The default of a field, as the CRD explains it."""
    field = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for name in path:
        field = field["properties"][name]
    found = re.search(r"Default: (\w+)", field["description"])
    assert found, path
    return found[1]


def test_the_defaults_are_those_that_are_explained() -> None:
    usual = read_self_fence({})
    assert isinstance(usual, Policy)
    lengths = {
        ("backoff",): usual.backoff,
        ("timeouts", "order"): usual.off_within,
        ("timeouts", "free"): usual.free_within,
        ("timeouts", "nodeReady"): usual.back_within,
    }
    assert {path: read_duration(explained(*path)) for path in lengths} == lengths
    others = {
        "workloads": usual.workloads,
        "attempts": str(usual.attempts),
        "restoreTaints": str(usual.restores_taints).lower(),
        "handOver": usual.hand_over,
        ALLOWS_SOFTWARE: str(ALLOWS_SOFTWARE in (usual.way.options or {})).lower(),
    }
    assert {name: explained(name) for name in others} == others
    assert (explained("acceptedProofs"), usual.accepts) == ("A", (Grade.POWER, Grade.PERSON))


def test_every_field_is_read() -> None:
    assert read_self_fence(EVERYTHING) == Policy(
        way=Way(driver=AGENT, options={ALLOWS_SOFTWARE: "true"}),
        workloads=Workloads.TAINT,
        accepts=(Grade.TIME, Grade.PERSON),
        attempts=5,
        backoff=timedelta(seconds=90),
        off_within=timedelta(seconds=90),
        free_within=timedelta(minutes=3),
        back_within=timedelta(minutes=30),
        restores_taints=False,
        hand_over=HandOver.DELETE_MACHINE,
    )
