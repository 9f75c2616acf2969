"""A leader that is told to end while something that changes nothing hangs: the next one need not wait for that."""

from defib.act.executor import NEWS_SECONDS
from defib.kube.kinds import NODE_HEALTH_CHECKS
from defib.model.action import CheckPower, TellEvent
from defib.model.power_cycle import TEMPLATE
from defib.simulate.faults import Fault, Refuse
from tests.mute_machine import Mute
from tests.unit.test_fence_readiness import TEMPLATES
from tests.unit.three_nodes import HOME, Cluster3
from tests.unit.three_replicas import MOMENT, RETRY, SICK, Replica, Replicas, together


async def make_mute_machines(stage: Cluster3) -> None:
    """Whether they could be switched off is asked again and again, and no answer ever comes."""
    power = {"driver": "mute", "address": "{node}"}
    spec = {"template": {"spec": {"power": power}}}
    await stage.admin.create(TEMPLATES, {"metadata": {"name": "mute"}, "spec": spec}, namespace=HOME)
    ref = {"apiVersion": TEMPLATE.api_version, "kind": TEMPLATE.name, "name": "mute", "namespace": HOME}
    check = {"selector": {}, "remediationTemplate": ref, "minHealthy": "51%"}
    await stage.admin.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "mute"}, "spec": check})


def underway(replica: Replica) -> set[type]:
    replica.operator.notice()
    return {type(action) for action in replica.operator.picture.cluster.underway}


def test_le_07_a_machine_that_does_not_answer_keeps_nobody_from_leading_next() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        await make_mute_machines(stage)
        a = replicas.start("a", drivers={"mute": Mute()})
        await replicas.until_leads("a", 1.0)
        replicas.start("b", drivers={"mute": Mute()})
        await replicas.pass_by(5)
        while underway(a) != {CheckPower}:
            await replicas.pass_by(MOMENT)
        a.terminate()
        assert await replicas.until_leads("b", 60) <= RETRY + MOMENT

    together(scenario)


def test_le_07_events_that_are_refused_keep_nobody_from_leading_next() -> None:
    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        a = replicas.start("a")
        await replicas.until_leads("a", 1.0)
        replicas.start("b")
        await replicas.pass_by(5)
        busy = Fault(effect=Refuse(code=429), verbs=("create",), resource="events", client="a")
        stage.server.faults.inject(busy)
        await stage.turn("Unknown")
        await replicas.pass_by(SICK)
        while TellEvent not in underway(a):
            await replicas.pass_by(MOMENT)
        a.terminate()
        assert await replicas.until_leads("b", 60) <= NEWS_SECONDS + RETRY + MOMENT

    together(scenario)
