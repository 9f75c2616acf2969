"""What a PowerCycleRemediation asks for: all of it understood, and one clear sentence for everything that is wrong."""

from datetime import timedelta
from typing import Any

import pytest

from defib.decide.fencing.policy import read_policy
from defib.model.incident import Grade
from defib.model.power_cycle import HandOver, Policy, Way, Workloads

POWER = {"driver": "redfish"}


def problems(**spec: Any) -> tuple[str, ...]:
    read = read_policy({"power": POWER} | spec)
    assert not isinstance(read, Policy), "nothing was found to be wrong"
    return read


def test_everything_that_can_be_asked_for_is_understood() -> None:
    policy = read_policy(
        {
            "power": {
                "driver": "redfish",
                "address": "https://bmc-{node}.example.com",
                "credentials": {"name": "bmc-{node}"},
                "options": {"system": "1"},
                "nodes": {"n1": {"driver": "ipmi", "address": "10.0.0.1"}},
            },
            "workloads": "DeleteNode",
            "acceptedProofs": ["A", "C"],
            "attempts": 5,
            "backoff": "1m",
            "timeouts": {"powerOff": "2s", "free": "3s", "powerOn": "4s", "nodeReady": "5s"},
            "requireNewBoot": False,
            "restoreTaints": False,
            "handOver": "DeleteMachine",
        }
    )
    assert policy == Policy(
        way=Way(
            driver="redfish",
            address="https://bmc-{node}.example.com",
            credentials="bmc-{node}",
            options={"system": "1"},
        ),
        ways={"n1": Way(driver="ipmi", address="10.0.0.1", options={})},
        workloads=Workloads.DELETE_NODE,
        accepts=(Grade.POWER, Grade.TIME),
        attempts=5,
        backoff=timedelta(minutes=1),
        off_within=timedelta(seconds=2),
        free_within=timedelta(seconds=3),
        on_within=timedelta(seconds=4),
        back_within=timedelta(seconds=5),
        needs_new_boot=False,
        restores_taints=False,
        hand_over=HandOver.DELETE_MACHINE,
    )


def test_a_driver_is_all_that_must_be_said() -> None:
    assert read_policy({"power": POWER}) == Policy(way=Way(driver="redfish", options={}))


def test_without_power_the_proofs_that_count_are_those_of_power_and_people() -> None:
    assert Policy().accepts == (Grade.POWER, Grade.PERSON)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (None, "spec.power: must be given"),
        ([], "spec: must be a map, not a list"),
        ({}, "spec.power: must be given"),
        ({"power": "redfish"}, "spec.power: must be a map, not a text"),
        ({"power": {}}, "spec.power.driver: must be given"),
        ({"power": {"driver": 7}}, "spec.power.driver: must be a text, not a number"),
        ({"power": {"driver": "Red Fish"}}, "spec.power.driver: must be the name of a power driver, not 'Red Fish'"),
        ({"power": POWER | {"address": "a b"}}, "spec.power.address: must be an address, not 'a b'"),
        ({"power": POWER | {"credentials": "bmc"}}, "spec.power.credentials: must be a map, not a text"),
        ({"power": POWER | {"credentials": {"name": 7}}}, "spec.power.credentials.name: must be a text, not a number"),
        ({"power": POWER | {"options": []}}, "spec.power.options: must be a map, not a list"),
        ({"power": POWER | {"options": {"a": 1}}}, "spec.power.options[a]: must be a text, not a number"),
        ({"power": POWER | {"nodes": []}}, "spec.power.nodes: must be a map, not a list"),
        ({"power": POWER | {"nodes": {"n1": "x"}}}, "spec.power.nodes[n1]: must be a map, not a text"),
        ({"power": POWER | {"nodes": {"n1": {"driver": "X"}}}}, "spec.power.nodes[n1].driver: must be the name"),
    ],
)
def test_what_is_wrong_about_the_power_is_told_with_its_place(spec: Any, sentence: str) -> None:
    read = read_policy(spec)
    assert not isinstance(read, Policy)
    assert any(told.startswith(sentence) for told in read), read


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("workloads", "Drain", "spec.workloads: must be one of Auto, OutOfServiceTaint, DeleteNode, not 'Drain'"),
        ("workloads", 1, "spec.workloads: must be a text, not a number"),
        ("handOver", "Nobody", "spec.handOver: must be one of Person, DeleteMachine, not 'Nobody'"),
        ("acceptedProofs", "A", "spec.acceptedProofs: must be a list, not a text"),
        ("acceptedProofs", [], "spec.acceptedProofs: must name at least one of A, B, C, D"),
        ("acceptedProofs", ["A", "Z"], "spec.acceptedProofs[1]: must be one of A, B, C, D, not 'Z'"),
        ("acceptedProofs", ["A", "B", "C", "D", "A"], "spec.acceptedProofs: has 5 entries; at most 4"),
        ("attempts", 0, "spec.attempts: must be from 1 to 10"),
        ("attempts", 11, "spec.attempts: must be from 1 to 10"),
        ("attempts", "3", "spec.attempts: must be a number, not a text"),
        ("attempts", True, "spec.attempts: must be a number, not true or false"),
        ("backoff", "soon", "spec.backoff: 'soon' is not a duration; write it like 300s, 5m or 1h30m"),
        ("backoff", "0s", "spec.backoff: must be from 1s to 24h"),
        ("backoff", "25h", "spec.backoff: must be from 1s to 24h"),
        ("backoff", 30, "spec.backoff: this is not a duration"),
        ("requireNewBoot", "yes", "spec.requireNewBoot: must be true or false, not a text"),
        ("restoreTaints", 1, "spec.restoreTaints: must be true or false, not a number"),
        ("timeouts", "60s", "spec.timeouts: must be a map, not a text"),
        ("timeouts", {"powerOff": "x"}, "spec.timeouts.powerOff: 'x' is not a duration"),
        ("timeouts", {"free": "x"}, "spec.timeouts.free: 'x' is not a duration"),
        ("timeouts", {"powerOn": "-1s"}, "spec.timeouts.powerOn: must be from 1s to 24h"),
        ("timeouts", {"nodeReady": "x"}, "spec.timeouts.nodeReady: 'x' is not a duration"),
    ],
)
def test_each_field_that_is_wrong_is_told_with_its_place(field: str, value: Any, sentence: str) -> None:
    (told,) = problems(**{field: value})
    assert told.startswith(sentence)


def test_all_that_is_wrong_is_told_at_once() -> None:
    told = problems(attempts=0, backoff="x", handOver="y")
    assert [sentence.split(":")[0] for sentence in told] == ["spec.attempts", "spec.backoff", "spec.handOver"]


def test_the_shortest_and_the_longest_time_are_allowed() -> None:
    for length in ("1s", "24h"):
        assert isinstance(read_policy({"power": POWER, "backoff": length}), Policy)


def test_what_is_said_for_other_nodes_is_not_read_for_one() -> None:
    """A storm makes many remediations of one template, which may list thousands of nodes."""
    nodes = {"n1": {"address": "a"}, "n2": {"address": 2}, "n3": "x"}
    power = POWER | {"nodes": nodes}
    read = read_policy({"power": power}, "n1")
    assert isinstance(read, Policy)
    assert list(read.ways) == ["n1"]
    assert read_policy({"power": power}, "n2") == ("spec.power.nodes[n2].address: must be a text, not a number",)
    assert read_policy({"power": POWER | {"nodes": []}}, "n1") == ("spec.power.nodes: must be a map, not a list",)
    assert isinstance(read_policy({"power": power}, "n4"), Policy)
