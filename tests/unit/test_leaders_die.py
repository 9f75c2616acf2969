"""The leader dies before and after each thing that it does: the standby ends what was begun, and does nothing twice.

Nothing is started by hand here: the standby is there from the beginning, knows only what it sees, and waits for a lease.
"""

import pytest

from defib.kube.kinds import NODE_HEALTH_CHECKS
from defib.model import medik8s
from tests.mortal_operator import Doom
from tests.unit.three_nodes import FAILOVERS, Cluster3
from tests.unit.three_replicas import LEASE, LEASES, RETRY, Replicas, done, together

TAKEN_OVER = LEASE + 3 * RETRY


def fail_over(doom: Doom) -> tuple[bool, list[str]]:
    """A node fails and comes back. Whether the leader died on the way, and what is wrong with how it went."""
    told: list[tuple[bool, list[str]]] = []

    async def scenario(replicas: Replicas, stage: Cluster3) -> None:
        a = replicas.start("a", doom=doom)
        await replicas.pass_by(1)
        replicas.start("b")
        await replicas.pass_by(5)
        await stage.turn("Unknown")
        await replicas.pass_by(20 + TAKEN_OVER)
        wrong = [] if stage.leaving() == ["web-1", "web-2"] else [f"left: {stage.leaving()}"]
        wrong += [] if len(await stage.names(FAILOVERS)) == 1 else ["there is no remediation"]
        await stage.turn("True")
        await replicas.pass_by(20 + TAKEN_OVER)
        told.append((a.life.is_dead, [*wrong, *await _wrong_in_the_end(stage)]))

    together(scenario)
    return told[0]


async def _wrong_in_the_end(stage: Cluster3) -> list[str]:
    made = done(stage.server, "create", "podfailoverremediations")
    moved = {**done(stage.server, "create", "pods/web-"), **done(stage.server, "delete", "pods/web-")}
    wrong = [] if sum(made.values()) == 1 else [f"made {made}"]
    wrong += [] if set(moved.values()) == {1} and len(moved) == 2 else [f"moved {moved}"]
    wrong += [f"left {name}" for name in await stage.names(FAILOVERS)]
    if stage.server.store.get(LEASES, f"{medik8s.LOCK_NAMESPACE}/{medik8s.lock_of('n1')}") is not None:
        wrong.append("the node is still locked")
    check = stage.server.store.get(str(NODE_HEALTH_CHECKS), "hasty")
    assert check is not None
    wrong += ["the check still calls it unhealthy"] if check.object["status"].get("unhealthyNodes") else []
    return wrong


@pytest.mark.timeout(120)
@pytest.mark.parametrize("after", [False, True])
def test_a_failover_goes_on_wherever_the_leader_dies(after: bool) -> None:
    number, wrong = 1, dict[int, list[str]]()
    while (told := fail_over(Doom(at=number, after=after)))[0]:
        wrong |= {number: told[1]} if told[1] else {}
        number += 1
    assert wrong == {}
    assert told[1] == [], "nor is anything wrong when nobody dies"
    assert number > 10, "it has many steps"
