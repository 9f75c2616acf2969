"""I5: nothing new is begun while we doubt our own sight, whatever the reason for the doubt."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.plan import decide
from defib.model import medik8s
from defib.model.action import EndRemediation, StartRemediation
from defib.model.cluster import Blindness, Cluster, Unread
from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec
from tests.builders import MINUTE, SECOND, T0
from tests.property.worlds import ANY_DEEDS, Deed, live, worlds
from tests.unit.decide.checks import of_type
from tests.unit.decide.world import World

ALWAYS_NEEDED = ("nodes", "heartbeats", "locks", "configmaps", medik8s.CHECKS)


def heartbeats(cluster: Cluster, silent: int) -> dict[str, Lease]:
    """Of all nodes; the first so many of them are silent."""
    return {
        f"kube-node-lease/{name}": Lease(
            metadata=Meta(name=name, namespace="kube-node-lease"),
            spec=LeaseSpec(
                holder_identity=name,
                lease_duration_seconds=40,
                renew_time=cluster.now - (MINUTE if place < silent else SECOND),
            ),
        )
        for place, name in enumerate(sorted(cluster.nodes))
    }


@st.composite
def doubts(draw: st.DrawFn) -> dict[str, Any]:
    """What makes us doubt, as fields of a look."""
    kind = draw(st.sampled_from(ALWAYS_NEEDED))
    return draw(
        st.sampled_from(
            [
                {"blind": (Blindness(kind, T0, "connection refused"),)},
                {"absent": {kind: "forbidden"}},
                {"doubts": ("most answers of the API server were failures",)},
            ]
        )
    )


@settings(max_examples=100, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS, doubt=doubts())
def test_nothing_is_begun_in_doubt(world: World, happenings: list[Deed], doubt: dict[str, Any]) -> None:
    for moment in live(world, happenings):
        plan = decide(msgspec.structs.replace(moment.cluster, **doubt), world.rules)
        assert of_type(plan, StartRemediation) == []


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS, silent=st.integers(0, 7))
def test_nothing_is_begun_while_most_heartbeats_are_overdue(world: World, happenings: list[Deed], silent: int) -> None:
    for moment in live(world, happenings):
        cluster = moment.cluster
        leases = heartbeats(cluster, silent)
        plan = decide(msgspec.structs.replace(cluster, heartbeats=leases), world.rules)
        if 2 * min(silent, len(cluster.nodes)) > len(cluster.nodes):
            assert of_type(plan, StartRemediation) == []
        else:
            assert of_type(plan, StartRemediation) == of_type(moment.plan, StartRemediation)


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_a_check_whose_remediations_are_out_of_sight_begins_nothing(world: World, happenings: list[Deed]) -> None:
    for moment in live(world, happenings):
        for kind, made in (("foos", "FooRemediation"), ("bars", "BarRemediation")):
            blind = (Blindness(kind, T0, "connection refused"),)
            plan = decide(msgspec.structs.replace(moment.cluster, blind=blind), world.rules)
            assert [one.node for one in of_type(plan, StartRemediation) if one.kind.name == made] == []


@settings(max_examples=40, deadline=None)
@given(world=worlds(), happenings=ANY_DEEDS)
def test_nothing_is_concluded_about_nodes_that_cannot_be_read(world: World, happenings: list[Deed]) -> None:
    for moment in live(world, happenings):
        cluster = moment.cluster
        unread = tuple(Unread("nodes", name, "Expected `str`, got `int`") for name in cluster.nodes)
        plan = decide(msgspec.structs.replace(cluster, nodes={}, unread=unread), world.rules)
        touched = {one.node for kind in (StartRemediation, EndRemediation) for one in of_type(plan, kind)}
        assert not touched & cluster.nodes.keys()
