"""The network of nodes loses what it is told to lose, in the direction that was named, and nothing else."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from testbed.network import OUTSIDE, Network

SEND = (
    "import socket, sys; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', (sys.argv[1], int(sys.argv[2])))"
)


@pytest.fixture
def network(tunnels: None) -> Iterator[Network]:  # noqa: ARG001  without them, there is none
    with Network(["n1", "n2"]) as network:
        yield network


@pytest.fixture
def here(network: Network) -> Iterator[socket.socket]:
    """A socket outside, to which nodes can send."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind((network.address(OUTSIDE), 0))
        here.settimeout(0.5)
        yield here


def arrives(network: Network, node: str, here: socket.socket) -> bool:
    command = [*network.inside(node), sys.executable, "-c", SEND, *map(str, here.getsockname())]
    subprocess.run(command, check=True)
    try:
        data, sender = here.recvfrom(10)
    except TimeoutError:
        return False
    assert (data, sender[0]) == (b"x", network.address(node))
    return True


def test_nodes_reach_who_is_outside_unless_that_was_cut(network: Network, here: socket.socket) -> None:
    assert arrives(network, "n1", here)
    network.cut((OUTSIDE, "n1"))
    assert arrives(network, "n1", here), "the other direction is cut"
    network.cut(("n1", OUTSIDE))
    assert not arrives(network, "n1", here)
    assert arrives(network, "n2", here)
    network.heal()
    assert arrives(network, "n1", here)


def test_a_part_of_all_packets_is_lost_by_chance(network: Network, here: socket.socket) -> None:
    network.lose(1.0)
    assert not arrives(network, "n1", here)
    network.heal()
    network.isolate("n2")
    assert arrives(network, "n1", here)
    assert not arrives(network, "n2", here)
