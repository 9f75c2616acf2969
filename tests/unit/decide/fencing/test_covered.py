"""What is concluded about one node from its path and from what came of trying it."""

from typing import Any

import pytest

from defib.decide.fencing.covered import LIES, RETRY, UNREADABLE, machine_of
from defib.model.cluster import Blindness
from defib.model.failure import Failure
from defib.model.power import PowerPath
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.fencing.hall import PAUSE, POWER, Hall, cannot_tell, many, says_off

SECRET = "node-restriction.kubernetes.io/secret"


def test_a_machine_that_is_read_as_off_while_its_node_reports_is_not_ready() -> None:
    hall = Hall("n1")
    hall.bmcs["n1"] = says_off
    hall.beat("n1")
    hall.wait(5 * SECOND)
    assert hall.last.ready == {}
    hall.beat("n1")
    hall.wait(RETRY)
    assert hall.not_ready() == {"n1": LIES}


def test_a_machine_that_went_off_a_moment_ago_is_not_called_a_liar() -> None:
    hall = Hall("n1")
    hall.wait(5 * SECOND)
    hall.beat("n1")
    hall.bmcs["n1"] = says_off
    hall.wait(PAUSE * 1.5 + RETRY / 2)
    assert hall.last.ready == {"n1": True}
    hall.put_node(a_node("n1", ready="Unknown", version=2))
    hall.wait(HOUR)
    assert hall.last.ready == {"n1": True}


def test_a_node_that_is_not_ready_may_be_off() -> None:
    hall = Hall()
    hall.put_node(a_node("n1", ready="Unknown"))
    hall.bmcs["n1"] = says_off
    hall.beat("n1")
    hall.wait(5 * SECOND)
    assert hall.last.ready == {"n1": True}


@pytest.mark.parametrize(("accepted", "why"), [(["A", "D"], {"n1": UNREADABLE}), (["A", "C"], {})])
def test_a_driver_that_cannot_read_is_good_enough_only_where_time_is_a_proof(
    accepted: list[str], why: dict[str, str]
) -> None:
    hall = Hall("n1", acceptedProofs=accepted)
    hall.bmcs["n1"] = cannot_tell
    hall.wait(5 * SECOND)
    assert hall.not_ready() == why


def test_a_path_that_cannot_be_filled_in_is_never_tried() -> None:
    hall = Hall("n1", power=POWER | {"address": "{label:node-restriction.kubernetes.io/bmc}"})
    hall.wait(HOUR)
    assert hall.not_ready() == {"n1": "node n1 has no label node-restriction.kubernetes.io/bmc, which spec.power names"}
    assert hall.tries == []


def test_a_template_that_makes_no_sense_covers_nodes_that_are_not_ready() -> None:
    hall = Hall("n1", attempts=99)
    hall.wait(5 * SECOND)
    assert hall.condition() == ("False", "InvalidSpec")
    assert hall.last.ready == {"n1": False}
    hall.put_template("pcr")
    hall.wait(5 * SECOND)
    assert hall.condition() == ("True", "AllReady")


def test_nodes_whose_paths_lead_to_one_machine_are_all_not_ready_and_never_tried() -> None:
    hall = many(6)
    hall.put_template("pcr", power={"driver": "redfish", "address": "https://bmc"})
    hall.wait(HOUR)
    whys = hall.not_ready()
    assert len(whys) == 6
    assert "(redfish https://bmc) is also that of n0001, n0002, n0003 and 2 more" in whys["n0000"]
    assert "is also that of n0000, n0001, n0002 and 2 more" in whys["n0005"]
    assert hall.tries == []


@pytest.mark.parametrize(
    ("power", "shared"),
    [
        ({"driver": "redfish", "address": "https://a/", "nodes": {"n1": {"address": "https://a"}}}, True),
        ({"driver": "redfish", "address": "https://a", "nodes": {"n1": {"options": {"insecure": "true"}}}}, True),
        ({"driver": "redfish", "address": "https://a", "nodes": {"n1": {"address": "https://b"}}}, False),
        ({"driver": "ipmi", "address": "a", "nodes": {"n1": {"credentials": {"name": "other"}}}}, True),
        ({"driver": "metal3", "address": "ns/host", "nodes": {"n1": {"options": {"key": "reboot.metal3.io/x"}}}}, True),
        ({"driver": "fence-agent", "address": "pdu", "options": {"plug": "{node}"}}, False),
        ({"driver": "fence-agent", "address": "pdu", "options": {"plug": "1"}}, True),
        ({"driver": "webhook", "address": "https://switch"}, False),
        ({"driver": "manual"}, False),
    ],
)
def test_what_counts_as_the_same_machine(power: dict[str, Any], shared: bool) -> None:
    hall = Hall("n1", "n2", power=power)
    hall.wait(5 * SECOND)
    assert hall.not_ready().keys() == ({"n1", "n2"} if shared else set())


def test_a_machine_is_shared_across_templates_and_until_one_of_them_leaves() -> None:
    hall = Hall("n1")
    hall.put_node(a_node("w1", labels={"role": "worker"}))
    hall.put_template("other", power=POWER | {"address": "https://n1.bmc"})
    hall.use("other", check="workers", labels={"role": "worker"})
    hall.wait(MINUTE)
    assert hall.not_ready("pcr").keys() == {"n1"}
    assert hall.not_ready("other").keys() == {"w1"}
    hall.put_template("other", power=POWER | {"address": "https://w1.pdu"})
    hall.wait(MINUTE)
    assert hall.last.ready == {"n1": True, "w1": True}


def test_other_credentials_do_not_make_a_shared_machine_one_of_its_own() -> None:
    power = {"driver": "redfish", "address": "https://bmc", "credentials": {"name": f"{{label:{SECRET}}}"}}
    hall = Hall(power=power)
    for name in ("n1", "n2"):
        hall.put_node(a_node(name, labels={SECRET: "one"}))
    hall.wait(MINUTE)
    hall.put_node(a_node("n1", labels={SECRET: "other"}, version=2))
    hall.wait(MINUTE)
    assert hall.last.ready == {"n1": False, "n2": False}
    assert hall.tries == []


def test_a_machine_that_a_person_switches_counts_as_ready_and_says_by_hand() -> None:
    hall = Hall("n1", "n2", power={"driver": "manual"})
    hall.wait(HOUR)
    assert hall.tries == []
    assert hall.status()["conditions"][0]["message"] == "2 of 2 nodes could be fenced, 2 of them by hand"
    assert hall.last.ready == {"n1": True, "n2": True}
    assert hall.last.checked_at is None


def test_what_fails_on_our_own_side_counts_after_some_tries_and_not_while_we_are_blind() -> None:
    hall = Hall("n1")
    hall.bmcs["n1"] = None
    hall.step()
    hall.failures["check power n1"] = Failure(why="secrets is forbidden", times=2, again_in=SECOND)
    hall.step()
    assert hall.last.ready == {}
    hall.failures["check power n1"] = Failure(why="secrets is forbidden", times=3, again_in=SECOND)
    hall.blind = (Blindness("pods", T0, "the API server is away"),)
    hall.step()
    assert hall.last.ready == {}
    hall.blind = ()
    hall.wait(2 * SECOND)
    assert hall.not_ready() == {"n1": "secrets is forbidden"}
    assert hall.asked == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://bmc", "https://BMC/"),
        ("https://bmc:443", "https://bmc"),
        ("https://bmc:443/redfish/v1/Systems/1", "https://bmc/redfish/v1/Systems/1/"),
    ],
)
def test_an_address_is_the_same_however_it_is_written(one: str, other: str) -> None:
    first, second = (machine_of(PowerPath(driver="redfish", address=address)) for address in (one, other))
    assert first == second
    assert first != machine_of(PowerPath(driver="redfish", address="https://bmc:8443"))
    assert machine_of(PowerPath(driver="ipmi", address="10.0.0.1:623")) == machine_of(
        PowerPath(driver="ipmi", address="10.0.0.1")
    )
