"""One leads, by a real Redis and by a real ZooKeeper: whatever becomes of the leader or of the store, never two at once."""

import asyncio
import signal

import pytest

from defib.clock import SystemClock
from tests.contract.tooz.candidate import TERMS
from tests.contract.tooz.replicas import LEADS_AGAIN_WITHIN, PLACE_SECONDS, Replica, Replicas, eventually, kill
from tests.contract.tooz.servers import Server

pytestmark = pytest.mark.timeout(60)

ABOUT_A_RETRY_PERIOD = 3 * TERMS.retry_seconds


def the_leader(replicas: Replicas) -> Replica:
    assert replicas.leader is not None
    return replicas.leader


async def test_one_of_three_leads_and_all_know_it_and_each_other(replicas: Replicas) -> None:
    assert len(replicas.running) == 3
    assert sum(one.leads for one in replicas.running) == 1
    assert replicas.agree()
    assert replicas.overlaps() == []


async def test_a_standby_leads_within_about_a_retry_period_of_a_release(replicas: Replicas) -> None:
    first, began = the_leader(replicas), replicas.terms()[-1].begun
    is_known = began + TERMS.renew_seconds + ABOUT_A_RETRY_PERIOD  # whoever came last has seen it act by then
    await eventually(lambda: first.last.ends > is_known, replicas, within=LEADS_AGAIN_WITHIN)
    await kill(first, signal.SIGTERM)
    await eventually(lambda: replicas.leader is not None, replicas, within=LEADS_AGAIN_WITHIN)
    last, next_ = replicas.terms()[-2:]
    assert (last.name, next_.name) == (first.name, the_leader(replicas).name)
    assert 0.0 <= next_.begun - last.over < ABOUT_A_RETRY_PERIOD


async def test_a_leader_that_was_killed_is_followed_when_its_mandate_is_over(replicas: Replicas) -> None:
    first = the_leader(replicas)
    await kill(first)
    await eventually(lambda: replicas.leader is not None, replicas, within=LEADS_AGAIN_WITHIN)
    last, next_ = replicas.terms()[-2:]
    assert last.name == first.name
    assert next_.begun >= last.over
    # The store kept its place, and it was seen silent for a whole lease: nobody waited for one more.
    assert next_.begun - last.over < PLACE_SECONDS + ABOUT_A_RETRY_PERIOD
    assert replicas.overlaps() == []


async def test_a_leader_that_was_frozen_wakes_without_a_mandate(replicas: Replicas) -> None:
    first = the_leader(replicas)
    first.process.send_signal(signal.SIGSTOP)
    others = [one for one in replicas.running if one is not first]
    await eventually(lambda: any(one.leads for one in others), replicas, within=LEADS_AGAIN_WITHIN)
    first.process.send_signal(signal.SIGCONT)
    await eventually(replicas.agree, replicas, within=LEADS_AGAIN_WITHIN)
    assert the_leader(replicas) is not first
    assert replicas.overlaps() == []


async def test_a_store_that_hangs_keeps_no_mandate(replicas: Replicas, store: Server) -> None:
    first = the_leader(replicas)
    began = SystemClock().monotonic()
    store.pause()
    try:
        await eventually(lambda: not first.leads, replicas, within=TERMS.renew_seconds + 1.0)
        assert first.last.at < began + TERMS.renew_seconds + 0.5
        await eventually(lambda: SystemClock().monotonic() > began + TERMS.lease_seconds, replicas, within=5.0)
        assert not any(one.leads for one in replicas.running)
    finally:
        store.resume()
    await eventually(replicas.agree, replicas, within=LEADS_AGAIN_WITHIN)
    assert replicas.overlaps() == []


async def test_after_a_store_died_and_came_back_one_leads_again(replicas: Replicas, store: Server) -> None:
    """This Redis comes back empty, while the mandate that it gave still lasts."""
    await asyncio.to_thread(store.kill)
    store.start()
    restarted = SystemClock().monotonic()

    def is_renewed() -> bool:
        return replicas.agree() and the_leader(replicas).last.ends > restarted + TERMS.renew_seconds

    await eventually(is_renewed, replicas, within=LEADS_AGAIN_WITHIN)
    assert replicas.overlaps() == []
