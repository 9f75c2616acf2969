"""A person confirms that a machine is off: with a name, once, and not of a machine that is alive."""

import pytest

from defib.console.confirmation import confirm
from defib.console.session import NotDone
from defib.simulate.virtual_time import START
from tests.unit.console.desk import Desk, add_incident, add_node, at_the_desk, incident_of

WAITS = "NeedsPerson"


async def refusal(desk: Desk, node: str = "n1") -> str:
    with pytest.raises(NotDone) as error:
        await confirm(node, desk.client, desk.clock)
    return str(error.value)


def test_who_confirms_and_when_is_written_down() -> None:
    async def scene(desk: Desk) -> None:
        add_node(desk.server, "n1", "Unknown")
        add_incident(desk.server, "n1", WAITS)
        line = await confirm("n1", desk.client, desk.clock)
        said = incident_of(desk.server, "n1")["spec"]["confirmedOff"]
        assert said == {"by": said["by"], "at": START.isoformat()}
        assert said["by"] in line

    at_the_desk(scene)


def test_a_machine_of_a_deleted_node_can_be_confirmed_too() -> None:
    async def scene(desk: Desk) -> None:
        add_incident(desk.server, "n1", "PoweringOff")
        assert "confirms" in await confirm("n1", desk.client, desk.clock)

    at_the_desk(scene)


def test_nobody_confirms_that_a_node_is_off_which_says_that_it_is_ready() -> None:
    async def scene(desk: Desk) -> None:
        add_node(desk.server, "n1", "True")
        add_incident(desk.server, "n1", WAITS)
        assert "is it the right one?" in await refusal(desk)
        assert "confirmedOff" not in incident_of(desk.server, "n1")["spec"]

    at_the_desk(scene)


def test_what_nobody_asks_for_is_refused() -> None:
    async def scene(desk: Desk) -> None:
        add_incident(desk.server, "n1", "WaitingForNode")
        assert "its incident is WaitingForNode" in await refusal(desk)
        add_incident(desk.server, "n2", WAITS, proof={"grade": "A", "at": START.isoformat(), "how": "read"})
        assert "proved already (grade A)" in await refusal(desk, "n2")

    at_the_desk(scene)


def test_without_an_open_incident_one_hears_how_there_can_be_one() -> None:
    async def scene(desk: Desk) -> None:
        said = await refusal(desk)
        assert said.startswith("there is no incident of node n1")
        assert "PowerCycleRemediation opens one, with the driver manual" in said
        assert "PodFailoverRemediation with D in its acceptedProofs" in said
        proof = {"grade": "A", "at": START.isoformat(), "how": "read"}
        add_incident(desk.server, "n1", "Closed", outcome="Recovered", proof=proof)
        said = await refusal(desk)
        assert said.startswith("the incident of node n1 is closed"), "an old proof says nothing about today"
        assert "PowerCycleRemediation opens one" in said

    at_the_desk(scene)


def test_without_the_right_to_it_one_hears_which_right_is_missing() -> None:
    async def scene(desk: Desk) -> None:
        add_incident(desk.server, "n1", WAITS)
        desk.refuse("nodeincidents.defib.dev", "patch")
        assert "kubectl auth can-i patch nodeincidents/n1" in await refusal(desk)

    at_the_desk(scene)


def test_without_a_name_there_is_no_confirmation() -> None:
    async def scene(desk: Desk) -> None:
        add_incident(desk.server, "n1", WAITS)
        desk.refuse("selfsubjectreviews.authentication.k8s.io", "create")
        assert "needs a name" in await refusal(desk)

    at_the_desk(scene)
