"""What a PowerCycleRemediation asks for, and what is wrong with it: every rule of the CRD holds again when it is read."""

import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import yaml

from defib.decide.fencing.policy import read_policy
from defib.model.duration import read_duration
from defib.model.incident import Grade
from defib.model.power_cycle import HandOver, Policy, Way, Workloads
from tests.check_corpus import Case
from tests.power_cycle_corpus import BAD, EVERYTHING, GOOD, LOGINS, minimal, powered


@pytest.mark.parametrize("case", BAD, ids=[case.name for case in BAD])
def test_what_makes_no_sense_is_refused_with_a_sentence_that_names_the_field(case: Case) -> None:
    problems = read_policy(case.spec)
    assert not isinstance(problems, Policy)
    assert any(case.field in problem for problem in problems)
    assert 1 <= len(problems) <= 10
    for problem in problems:
        assert problem.startswith("spec")
        assert len(problem) <= 300
        assert problem.isprintable()
    msgspec.json.encode(problems)


@pytest.mark.parametrize("case", GOOD, ids=[case.name for case in GOOD])
def test_what_makes_sense_is_understood(case: Case) -> None:
    policy = read_policy(case.spec)
    assert isinstance(policy, Policy), policy
    assert policy.way.driver
    assert policy.accepts
    assert policy.attempts >= 1


def test_what_was_left_out_is_as_the_crd_explains() -> None:
    assert read_policy(minimal()) == Policy(way=Way(driver="redfish", options={}))
    assert Policy().accepts == (Grade.POWER, Grade.PERSON)


def explained(*path: str) -> str:
    """The default of a field, as the CRD explains it."""
    crd = Path(__file__).parents[4] / "deploy/crds/defib.dev_powercycleremediations.yaml"
    field = yaml.safe_load(crd.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for name in path:
        field = field["properties"][name]
    found = re.search(r"Default: (\w+)", field["description"])
    assert found, path
    return found[1]


def test_the_defaults_are_those_that_are_explained() -> None:
    usual = Policy()
    lengths = {
        ("backoff",): usual.backoff,
        ("timeouts", "powerOff"): usual.off_within,
        ("timeouts", "free"): usual.free_within,
        ("timeouts", "powerOn"): usual.on_within,
        ("timeouts", "nodeReady"): usual.back_within,
    }
    assert {path: read_duration(explained(*path)) for path in lengths} == lengths
    others = {
        "workloads": usual.workloads,
        "attempts": str(usual.attempts),
        "requireNewBoot": str(usual.needs_new_boot).lower(),
        "restoreTaints": str(usual.restores_taints).lower(),
        "handOver": usual.hand_over,
    }
    assert {name: explained(name) for name in others} == others


def test_every_field_is_read() -> None:
    power = EVERYTHING["power"]
    assert read_policy(EVERYTHING) == Policy(
        way=Way("redfish", power["address"], "bmc-{node}", power["options"]),
        ways={
            "n7": Way("fence-agent", "10.0.0.7", "ups", {"agent": "fence_apc", "plug": "7"}),
            "n8": Way(address="10.0.0.8", options={}),
        },
        workloads=Workloads.TAINT,
        accepts=(Grade.POWER, Grade.TIME, Grade.PERSON),
        attempts=5,
        backoff=timedelta(seconds=90),
        off_within=timedelta(seconds=90),
        free_within=timedelta(minutes=3),
        on_within=timedelta(minutes=2),
        back_within=timedelta(minutes=30),
        needs_new_boot=False,
        restores_taints=False,
        hand_over=HandOver.DELETE_MACHINE,
    )


@pytest.mark.parametrize("address", LOGINS)
def test_a_password_in_an_address_is_not_repeated(address: str) -> None:
    sentence = "spec.power.address: must not hold a user name or a password: they belong into the Secret"
    assert read_policy(powered(address=address)) == (sentence,)
