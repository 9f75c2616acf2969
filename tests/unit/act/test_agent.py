"""Orders to nodes that take themselves down, on the embedded server: when one is written, and what is heard of agents."""

from typing import Any

import msgspec
import pytest

from defib.act.agent import Agent, hear_agents
from defib.act.outcome import AgentsHeard, Done
from defib.kube.client import Merge
from defib.kube.errors import Conflict
from defib.kube.kinds import LEASES, NODES
from defib.model.agents import DistrustNode, HearAgents
from defib.model.node import Lease
from defib.model.power import PowerState
from defib.model.self_fence import LABEL, LABEL_VALUE, ORDER, REPORT, Order, lease_name, read_order, text_of
from defib.model.self_fencing import ALLOWS_SOFTWARE, NEVER_REBOOTED
from defib.power.base import Accepted, NotReady, Ready, Refused, Target
from defib.simulate.faults import Fault, Refuse
from tests.unit.act.stage import Stage, play
from tests.unit.decide.self_fence.test_safe_time import REPORTED

HOME = "defib-system"
NODE = "n1"


async def guard(stage: Stage, **changes: Any) -> None:
    """Its node is in boot b-1, and so is its agent, if nothing else is said."""
    stage.server.put("namespaces", {"metadata": {"name": HOME}})
    info = {"status": {"nodeInfo": {"bootID": "b-1"}}}
    await stage.world.patch(NODES.at(NODE), Merge(info), subresource="status")
    report = text_of(msgspec.structs.replace(REPORTED, **changes))
    body = {
        "metadata": {"name": lease_name(NODE), "labels": {LABEL: LABEL_VALUE}, "annotations": {REPORT: report}},
        "spec": {"holderIdentity": NODE, "renewTime": "2030-01-01T00:00:00.000000Z"},
    }
    await stage.world.create(LEASES, body, namespace=HOME)


async def lease_of(stage: Stage) -> Lease:
    return await stage.world.get(LEASES.at(lease_name(NODE), HOME))


def target(**options: str) -> Target:
    return Target(node=NODE, address="", options=options)


def test_an_order_is_for_the_boot_that_reports_and_is_written_once() -> None:
    async def story(stage: Stage) -> None:
        await guard(stage)
        driver = Agent(stage.means())
        assert await driver.check(target(), 5) == Ready()
        assert await driver.off(target(), 5) == Accepted()
        ordered = await lease_of(stage)
        assert read_order(ordered) == Order(remediation=f"NodeIncident {NODE}", boot_id="b-1")
        assert ordered.annotations[REPORT] == text_of(REPORTED)
        assert await driver.off(target(), 5) == Accepted()
        assert (await lease_of(stage)).metadata.resource_version == ordered.metadata.resource_version

    play(story)


def test_it_is_taken_back_where_nobody_needs_it_any_more() -> None:
    async def story(stage: Stage) -> None:
        await guard(stage)
        driver = Agent(stage.means())
        await driver.off(target(), 5)
        assert await driver.on(target(), 5) == Accepted()
        assert ORDER not in (await lease_of(stage)).annotations
        assert await Agent(stage.means()).on(Target(node="nobody", address=""), 5) == Accepted()

    play(story)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"armed": False}, "not armed"),
        ({"boot_id": "b-0"}, "started anew"),
        ({"watchdog": "software"}, ALLOWS_SOFTWARE),
    ],
)
def test_no_order_is_written_for_an_agent_that_would_not_do_it(changes: dict[str, Any], says: str) -> None:
    async def story(stage: Stage) -> None:
        await guard(stage, **changes)
        driver = Agent(stage.means())
        ready, answer = await driver.check(target(), 5), await driver.off(target(), 5)
        assert isinstance(ready, NotReady)
        assert isinstance(answer, Refused)
        assert says in ready.why == answer.why
        assert ORDER not in (await lease_of(stage)).annotations

    play(story)


def test_a_software_watchdog_does_where_the_policy_says_so() -> None:
    async def story(stage: Stage) -> None:
        await guard(stage, watchdog="software")
        assert await Agent(stage.means()).off(target(**{ALLOWS_SOFTWARE: "true"}), 5) == Accepted()

    play(story)


def test_the_order_is_written_into_the_very_lease_that_was_read() -> None:
    """Its agent may write in between: what it reports then may be something else."""

    async def story(stage: Stage) -> None:
        await guard(stage)
        stopped = text_of(msgspec.structs.replace(REPORTED, armed=False))

        async def write_first() -> None:
            await stage.world.patch(
                LEASES.at(lease_name(NODE), HOME), Merge({"metadata": {"annotations": {REPORT: stopped}}})
            )

        driver = Agent(stage.means())
        lease = await lease_of(stage)
        await write_first()
        with pytest.raises(Conflict):
            await driver._write(lease, Order(remediation="r", boot_id="b-1"))
        assert isinstance(await driver.off(target(), 5), Refused)

    play(story)


def test_nobody_knows_whether_an_order_was_written_whose_answer_was_lost() -> None:
    async def story(stage: Stage) -> None:
        await guard(stage)
        stage.fault(Fault(effect=Refuse(code=503), verbs=("patch",), resource=str(LEASES)))
        answer = await Agent(stage.means()).off(target(), 5)
        assert not isinstance(answer, Accepted | Refused)

    play(story)


def test_all_agents_are_heard_at_once_and_what_is_no_agent_is_not() -> None:
    async def story(stage: Stage) -> None:
        await guard(stage)
        await stage.world.create(LEASES, {"metadata": {"name": "defib-leader"}, "spec": {}}, namespace=HOME)
        heard = await hear_agents(stage.means(), HearAgents(namespace=HOME))
        assert isinstance(heard, AgentsHeard)
        assert [lease.name for lease in heard.listed.leases] == [lease_name(NODE)]
        assert heard.listed.asked <= heard.listed.answered

    play(story)


def test_a_node_that_had_not_rebooted_says_so_from_then_on() -> None:
    async def story(stage: Stage) -> None:
        node = await stage.world.get(NODES.at(NODE))
        distrust = DistrustNode(node=NODE, node_uid=node.uid, since=stage.clock.now())
        assert isinstance(await stage.do(distrust), Done)
        since = (await stage.world.get(NODES.at(NODE))).annotations[NEVER_REBOOTED]
        assert since == stage.clock.now().isoformat(timespec="seconds")
        await guard(stage)
        assert isinstance(await Agent(stage.means()).check(target(), 5), NotReady)

    play(story)


def test_its_power_cannot_be_read() -> None:
    async def story(stage: Stage) -> None:
        reading = await Agent(stage.means()).state(target(), 5)
        assert (reading.state, Agent.can_read_state) == (PowerState.UNKNOWN, False)

    play(story)
