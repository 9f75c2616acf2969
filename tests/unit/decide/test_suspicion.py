"""Who has fallen silent is suspected, long before Kubernetes says so; and nothing is done to anybody for that."""

from datetime import timedelta

import msgspec
import pytest

from defib.decide.changes import What, silences
from defib.decide.plan import decide
from defib.decide.rules import Rules
from defib.decide.suspicion import LOOK_EVERY, NOBODY, suspect
from defib.model.cluster import Blindness, Cluster
from defib.model.pulse import Pulse
from tests.builders import T0, a_cluster, a_node

HEARD = T0.timestamp()


def at(seconds: float, **pulses: Pulse) -> Cluster:
    cluster = a_cluster(*(a_node(name) for name in pulses), now=T0 + timedelta(seconds=seconds))
    return msgspec.structs.replace(cluster, pulses=pulses)


@pytest.mark.parametrize(("seconds", "is_silent"), [(0, False), (21.9, False), (22, True), (25, True), (600, True)])
def test_a_node_is_suspected_when_two_heartbeats_are_missing(seconds: float, is_silent: bool) -> None:
    assert ("n1" in suspect(at(seconds, n1=Pulse(HEARD)), NOBODY).silent) is is_silent


def test_one_that_is_slow_by_habit_gets_its_time() -> None:
    assert not suspect(at(40, n1=Pulse(HEARD, every=20.0)), NOBODY).silent
    assert not suspect(at(40, n1=Pulse(HEARD, every=10.0, wobble=6.0)), NOBODY).silent


def test_while_heartbeats_are_out_of_sight_nobody_is_suspected() -> None:
    blind = (Blindness("heartbeats", T0, "connection refused"),)
    assert suspect(msgspec.structs.replace(at(60, n1=Pulse(HEARD)), blind=blind), NOBODY) == NOBODY


def test_a_heartbeat_without_a_node_is_nobody() -> None:
    cluster = msgspec.structs.replace(at(60), pulses={"gone": Pulse(HEARD)})
    assert not suspect(cluster, NOBODY).silent


def test_it_is_looked_again_when_the_next_one_would_be_silent_and_soon_in_any_case() -> None:
    assert suspect(at(18, n1=Pulse(HEARD)), NOBODY).wake_at == T0 + timedelta(seconds=22)
    assert suspect(at(1, n1=Pulse(HEARD)), NOBODY).wake_at == T0 + timedelta(seconds=1) + LOOK_EVERY
    assert suspect(at(30, n1=Pulse(HEARD)), NOBODY).wake_at == T0 + timedelta(seconds=30) + LOOK_EVERY
    assert suspect(at(0), NOBODY).wake_at is None


def test_who_is_heard_again_is_suspected_no_more_at_once() -> None:
    first = suspect(at(30, n1=Pulse(HEARD), n2=Pulse(HEARD + 28)), NOBODY)
    assert first.silent.keys() == {"n1"}
    again = suspect(at(31, n1=Pulse(HEARD + 31), n2=Pulse(HEARD + 28)), first)
    assert not again.silent
    assert again.wake_at == first.wake_at


@pytest.mark.parametrize("seconds", range(0, 90, 3))
def test_what_was_known_before_spares_work_and_changes_nothing(seconds: int) -> None:
    pulses = {f"n{number}": Pulse(HEARD + number) for number in range(0, 60, 5)}
    before = NOBODY
    for moment in range(seconds + 1):
        before = suspect(at(moment, **pulses), before)
    assert before.silent == suspect(at(seconds, **pulses), NOBODY).silent


def test_suspicion_alone_does_nothing_and_is_told() -> None:
    plan = decide(at(30, n1=Pulse(HEARD)), Rules())
    assert (plan.actions, set(plan.suspicion.silent)) == ((), {"n1"})
    cluster = at(30, n1=Pulse(HEARD))
    (told,) = silences(NOBODY, plan.suspicion, cluster)
    assert (told.subject, told.what, told.why) == (
        "n1",
        What.SILENT,
        "no heartbeat for 30 s, where one comes every 10 s",
    )
    (back,) = silences(plan.suspicion, NOBODY, cluster)
    assert (back.subject, back.what) == ("n1", What.HEARD)


def test_of_a_node_that_kubernetes_does_not_call_ready_no_silence_is_told() -> None:
    ill = a_cluster(a_node("n1", ready="Unknown"), now=T0)
    silent = suspect(at(30, n1=Pulse(HEARD)), NOBODY)
    assert list(silences(NOBODY, silent, ill)) == []
    assert list(silences(silent, NOBODY, ill)) == []


def test_when_many_fall_silent_at_once_that_is_told_once() -> None:
    cluster = at(30, **{f"n{number}": Pulse(HEARD) for number in range(10)})
    silent = suspect(cluster, NOBODY)
    (told,) = silences(NOBODY, silent, cluster)
    assert str(told) == "10 nodes silent: n0, n1, n2, n3, n4 and others"
    (back,) = silences(silent, NOBODY, cluster)
    assert (back.subject, back.what) == ("10 nodes", What.HEARD)
