"""An Event about a policy of a team stands in the team's namespace, where the team may read it."""

import msgspec

from defib.act.news import MANY, News
from defib.act.outcome import Done
from defib.model.action import TellEvent
from defib.model.failover_policy import POLICY
from defib.simulate.virtual_time import START
from tests.unit.act.stage import PLACE, Stage, play


def about_a_policy(namespace: str = PLACE) -> TellEvent:
    return TellEvent(
        check="web",
        uid="u1",
        kind=POLICY,
        namespace=namespace,
        is_warning=False,
        reason="PodsMoving",
        message="node n1: 2 pods to be moved",
        at=START,
    )


def test_an_event_about_something_in_a_namespace_is_there() -> None:
    async def scenario(stage: Stage) -> None:
        told = about_a_policy()
        assert isinstance(await stage.do(told), Done)
        assert await stage.do(told) == Done(), "the same once more"
        (event,) = stage.objects("events")
        assert event["metadata"]["namespace"] == PLACE
        assert event["involvedObject"] == {
            "apiVersion": "defib.dev/v1alpha1",
            "kind": "PodFailoverPolicy",
            "namespace": PLACE,
            "name": "web",
            "uid": "u1",
        }
        assert event["source"]["component"] == "defib"
        assert told.key != about_a_policy("other").key

    play(scenario)


def test_policies_of_one_name_in_many_namespaces_are_told_apart() -> None:
    """Of very much of one sort only the beginning is told, and each team hears of its own."""
    events = [
        msgspec.structs.replace(about_a_policy(place), message=f"node {number}")
        for place in ("apps", "shop")
        for number in range(MANY)
    ]
    assert News().worth_telling(events, 0.0) == events
