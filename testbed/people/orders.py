"""What a person can order, and how an order travels: one line of JSON there, one line of JSON back."""

import socket
from enum import Enum
from pathlib import Path

import msgspec

from testbed.people.place import NoCluster

ANSWER_SECONDS = 15.0


class Verb(Enum):
    KILL = "kill"
    HANG = "hang"
    PARTITION = "partition"
    HEAL = "heal"
    REVIVE = "revive"
    STATUS = "status"


HELP = {
    Verb.KILL: "take a node's power away: everything on it stops at once",
    Verb.HANG: "its kubelet falls silent; containers run, and write to their disks",
    Verb.PARTITION: "cut it off from the API server; containers run, and write to their disks",
    Verb.HEAL: "undo hang and partition",
    Verb.REVIVE: "give it power again; it boots, and its kubelet comes back",
    Verb.STATUS: "how the nodes really are, how the API server sees them, and whether a disk is corrupted",
}


class Order(msgspec.Struct, frozen=True, kw_only=True):
    verb: Verb
    nodes: tuple[str, ...] = ()


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    refused: bool = False


def give(order: Order, place: Path) -> Reply:
    """Raises NoCluster when nobody listens any more: a cluster that was killed leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_SECONDS)
        try:
            line.connect(str(place))
        except (ConnectionRefusedError, FileNotFoundError) as error:
            raise NoCluster(f"no cluster answers at {place}: it has ended, and its directory can go") from error
        line.sendall(msgspec.json.encode(order) + b"\n")
        return msgspec.json.decode(_rest(line), type=Reply)


def _rest(line: socket.socket) -> bytes:
    received = b""
    while chunk := line.recv(65536):
        received += chunk
    return received
