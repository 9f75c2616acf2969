"""When each node was heard last, by our own clock, and in which rhythm."""

from datetime import datetime, timedelta

import pytest

from defib.kube.client import Scope
from defib.kube.decode import Event
from defib.model.cluster import HEARTBEAT_NAMESPACE
from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec
from defib.model.pulse import Pulse
from defib.observe.pulses import HeartbeatShelf, heard_again
from defib.observe.shelf import Contents
from tests.builders import T0

SECOND = timedelta(seconds=1)
LONG_AGO = T0 - timedelta(days=3)


class Watch:
    """A clock that somebody sets."""

    def __init__(self) -> None:
        self.at = T0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def jitter(self, most: float) -> float:
        return most


def a_heartbeat(name: str, renewed: datetime, *, version: int = 1, uid: str = "", lasts: int | None = 40) -> Lease:
    meta = Meta(name=name, namespace=HEARTBEAT_NAMESPACE, uid=uid or f"uid-{name}", resource_version=str(version))
    return Lease(metadata=meta, spec=LeaseSpec(renew_time=renewed, lease_duration_seconds=lasts))


def a_shelf(watch: Watch, *leases: Lease) -> HeartbeatShelf:
    shelf = HeartbeatShelf(Scope(namespace=HEARTBEAT_NAMESPACE), watch, "heartbeats")
    shelf.replace(Contents({lease.key: lease for lease in leases}), "1")
    shelf.saw(watch.now())
    return shelf


def after(watch: Watch, seconds: float) -> float:
    watch.at += seconds * SECOND
    return watch.at.timestamp()


def test_what_was_there_before_we_looked_is_heard_when_we_look_whatever_the_node_says_of_its_time() -> None:
    watch = Watch()
    shelf = a_shelf(watch, a_heartbeat("n1", LONG_AGO), a_heartbeat("n2", T0 + timedelta(days=9)))
    assert shelf.pulses == {"n1": Pulse(T0.timestamp(), 10.0), "n2": Pulse(T0.timestamp(), 10.0)}


def test_a_renewal_is_heard_when_it_comes() -> None:
    watch = Watch()
    shelf = a_shelf(watch, a_heartbeat("n1", LONG_AGO))
    at = after(watch, 10)
    shelf.apply([Event("MODIFIED", a_heartbeat("n1", LONG_AGO + SECOND, version=2))])
    assert shelf.pulses["n1"].heard == at


def test_a_change_that_is_no_renewal_is_no_sign_of_life() -> None:
    watch = Watch()
    shelf = a_shelf(watch, a_heartbeat("n1", LONG_AGO))
    after(watch, 10)
    shelf.apply([Event("MODIFIED", a_heartbeat("n1", LONG_AGO, version=2))])
    assert shelf.pulses["n1"].heard == T0.timestamp()


def test_an_old_renewal_that_comes_late_is_no_sign_of_life() -> None:
    watch = Watch()
    shelf = a_shelf(watch, a_heartbeat("n1", T0, version=9))
    after(watch, 10)
    shelf.apply([Event("MODIFIED", a_heartbeat("n1", LONG_AGO, version=8))])
    assert shelf.pulses["n1"].heard == T0.timestamp()


def test_a_list_hears_of_those_that_were_renewed_and_forgets_those_that_are_gone() -> None:
    watch = Watch()
    shelf = a_shelf(watch, a_heartbeat("n1", T0), a_heartbeat("n2", T0), a_heartbeat("n3", T0))
    at = after(watch, 10)
    fresh = (a_heartbeat("n1", T0 + SECOND, version=2), a_heartbeat("n2", T0))
    shelf.replace(Contents({lease.key: lease for lease in fresh}), "5")
    assert {name: pulse.heard for name, pulse in shelf.pulses.items()} == {"n1": at, "n2": T0.timestamp()}


def test_while_we_saw_nothing_nobody_was_silent() -> None:
    watch = Watch()
    shelf = a_shelf(watch, a_heartbeat("n1", T0))
    shelf.went_blind("connection refused")
    at = after(watch, 180)
    shelf.saw(watch.now())
    assert shelf.pulses["n1"].heard == at
    after(watch, 1)
    shelf.saw(watch.now())
    assert shelf.pulses["n1"].heard == at, "a sign of life of the server is none of a node"


def test_a_node_that_is_made_anew_has_no_rhythm_yet_and_one_that_goes_has_none_any_more() -> None:
    watch = Watch()
    shelf = a_shelf(watch, a_heartbeat("n1", T0))
    for version in range(2, 20):
        after(watch, 3)
        shelf.apply([Event("MODIFIED", a_heartbeat("n1", watch.now(), version=version))])
    assert shelf.pulses["n1"].every < 5
    shelf.apply([Event("MODIFIED", a_heartbeat("n1", watch.now(), version=30, uid="another"))])
    assert shelf.pulses["n1"].every == 10.0
    shelf.apply([Event("DELETED", a_heartbeat("n1", watch.now(), version=31, uid="another"))])
    assert shelf.pulses == {}


@pytest.mark.parametrize(("lasts", "every"), [(40, 10.0), (20, 5.0), (None, 10.0), (0, 10.0)])
def test_until_it_is_known_the_rhythm_is_a_quarter_of_the_lease(lasts: int | None, every: float) -> None:
    shelf = a_shelf(Watch(), a_heartbeat("n1", T0, lasts=lasts))
    assert shelf.pulses["n1"].every == every


def test_a_picture_that_was_taken_does_not_change() -> None:
    watch = Watch()
    shelf = a_shelf(watch, a_heartbeat("n1", T0))
    before = shelf.pulses
    assert shelf.pulses is before
    after(watch, 10)
    shelf.apply([Event("MODIFIED", a_heartbeat("n1", T0 + SECOND, version=2))])
    assert before["n1"].heard == T0.timestamp()


def test_a_rhythm_is_learnt_and_a_steady_one_leaves_little_slack() -> None:
    pulse = Pulse(0.0)
    for beat in range(1, 60):
        pulse = heard_again(pulse, 15.0 * beat)
    assert pulse.every == pytest.approx(15.0, abs=0.1)
    assert pulse.due(2) - pulse.heard == pytest.approx(32.0, abs=0.5)


def test_an_uneven_rhythm_is_given_more_time() -> None:
    even, uneven = Pulse(0.0), Pulse(0.0)
    for beat in range(1, 60):
        even = heard_again(even, 10.0 * beat)
        uneven = heard_again(uneven, 10.0 * beat + (4.0 if beat % 2 else 0.0))
    assert uneven.due(2) - uneven.heard > even.due(2) - even.heard + 5.0


def test_who_was_away_comes_back_with_the_rhythm_that_they_had() -> None:
    """A machine that was down for a minute is suspected as soon as any other when it falls silent again."""
    assert heard_again(Pulse(0.0, 12.0, 0.5), 3600.0) == Pulse(3600.0, 12.0, 0.5)


def test_who_only_stalls_is_given_more_time_from_then_on() -> None:
    pulse = heard_again(Pulse(0.0), 35.0)
    assert pulse.every == pytest.approx(11.25)
    assert pulse.due(2) - pulse.heard > 30.0
