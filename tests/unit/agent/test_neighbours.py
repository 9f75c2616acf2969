"""Who the peers are, by what they wrote into their Leases: nothing there can stop us from asking the others."""

import msgspec
import pytest

from defib.agent.asking import Address
from defib.agent.lease import Neighbour, neighbours
from defib.decide.self_fence.verdict import Peer
from defib.model.meta import Meta
from defib.model.node import Lease
from defib.model.self_fence import REPORT, lease_name, text_of
from tests.unit.decide.self_fence.test_safe_time import REPORTED


def lease(node: str, **changes: object) -> Lease:
    told = text_of(msgspec.structs.replace(REPORTED, **changes))
    return Lease(metadata=Meta(name=lease_name(node), annotations={REPORT: told}))


def test_all_others_are_peers() -> None:
    found = neighbours([lease("n1"), lease("n2", address="fd00::2", domain="west")], "n1")
    assert found == (Neighbour(Peer("n2", "west"), Address("n2", "fd00::2", 9640)),)


@pytest.mark.parametrize("wrong", [{"address": "x" * 300}, {"address": ""}, {"port": 70000}, {"port": 0}])
def test_a_peer_without_a_real_address_is_known_and_not_asked(wrong: dict[str, object]) -> None:
    assert neighbours([lease("n2", **wrong)], "n1") == (Neighbour(Peer("n2", "east"), None),)


def test_a_peer_that_we_do_not_understand_is_known_and_not_asked() -> None:
    silent = Lease(metadata=Meta(name=lease_name("n2")))
    assert neighbours([silent], "n1") == (Neighbour(Peer("n2", "unknown n2"), None),)
