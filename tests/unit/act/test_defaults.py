"""The default check is created once, after a live look, and whatever refuses it is told in one line."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from defib.act.outcome import Done, Stale
from defib.decide.defaults import default_check
from defib.kube.errors import ServerFailed
from defib.kube.kinds import unstructured
from defib.model import medik8s
from defib.model.action import AddDefaultCheck
from defib.model.cluster import Cluster, Served
from defib.model.pod_failover import REMEDIATION, TEMPLATE
from defib.simulate.faults import Fault, Refuse
from defib.simulate.virtual_time import START
from tests.unit.act.stage import CHECKS, PLACE, Stage, a_crd, play

TEMPLATES = unstructured(
    TEMPLATE.group, TEMPLATE.version, "podfailoverremediationtemplates", TEMPLATE.name, namespaced=True
)


def wanted(namespace: str = PLACE) -> AddDefaultCheck:
    kinds = {kind: Served(kind.name, namespaced=True) for kind in (TEMPLATE, REMEDIATION)}
    action = default_check(Cluster(now=START, others={medik8s.CHECKS: {}}, kinds=kinds), namespace)
    assert isinstance(action, AddDefaultCheck)
    return action


def names(stage: Stage, kind: Any) -> list[str]:
    return [item["metadata"]["name"] for item in stage.objects(str(kind))]


def installed(stage: Stage) -> None:
    stage.server.put("customresourcedefinitions.apiextensions.k8s.io", a_crd(TEMPLATES))


def test_the_template_comes_first_and_then_the_check() -> None:
    async def scenario(stage: Stage) -> None:
        installed(stage)
        outcome = await stage.do(wanted())
        assert isinstance(outcome, Done)
        assert outcome.result is not None
        assert outcome.result.name == "nhc-worker-default"
        assert stage.asked() == [
            "list nodehealthchecks 200",
            "create podfailoverremediationtemplates 201",
            "create nodehealthchecks 201",
        ]
        assert [kind for kind, _ in stage.noted] == [str(TEMPLATES), str(CHECKS)]

    play(scenario)


def test_a_check_that_somebody_made_in_this_moment_is_enough() -> None:
    async def scenario(stage: Stage) -> None:
        installed(stage)
        await stage.world.create(CHECKS, {"metadata": {"name": "mine"}, "spec": {}})
        assert await stage.do(wanted()) == Stale("the cluster has a NodeHealthCheck now")
        assert names(stage, TEMPLATES) == []

    play(scenario)


def test_a_template_that_is_there_stays_as_it_is() -> None:
    async def scenario(stage: Stage) -> None:
        installed(stage)
        action = wanted()
        changed = {"metadata": {"name": action.template.name}, "spec": {"template": {"spec": {"mine": True}}}}
        await stage.world.create(TEMPLATES, changed, namespace=PLACE)
        assert isinstance(await stage.do(action), Done)
        assert stage.objects(str(TEMPLATES))[0]["spec"] == changed["spec"]
        assert names(stage, CHECKS) == ["nhc-worker-default"]

    play(scenario)


def test_when_another_replica_was_faster_there_is_nothing_to_tell() -> None:
    async def scenario(stage: Stage) -> None:
        installed(stage)
        stage.fault(Fault(effect=Refuse(code=409, reason="AlreadyExists"), verbs=("create",), resource=str(CHECKS)))
        assert await stage.do(wanted()) == Done(None)

    play(scenario)


@pytest.mark.parametrize("what", ["the kind", "the namespace", "the right"])
def test_what_is_missing_is_told_once_with_what_to_do(what: str) -> None:
    async def scenario(stage: Stage) -> None:
        if what != "the kind":
            installed(stage)
        if what == "the right":
            stage.fault(Fault(effect=Refuse(code=403), verbs=("create",), resource=str(TEMPLATES)))
        with capture_logs() as told:
            outcome = await stage.do(wanted("nowhere" if what == "the namespace" else PLACE))
        assert isinstance(outcome, Stale)
        assert [(line["event"], line["log_level"]) for line in told] == [("default check not created", "warning")]
        assert "--default-check off" in told[0]["advice"]
        assert names(stage, CHECKS) == []

    play(scenario)


def test_a_server_that_is_out_of_order_is_asked_again_later() -> None:
    async def scenario(stage: Stage) -> None:
        installed(stage)
        stage.fault(Fault(effect=Refuse(code=500), verbs=("create",), resource=str(CHECKS)))
        with pytest.raises(ServerFailed):
            await stage.do(wanted())

    play(scenario)
