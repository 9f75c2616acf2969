"""What agents say to each other: one question, and one answer.

An answer names the node it is about and repeats the number that came with the question, so that it fits nothing else. It
tells of an order; it never is one.
"""

from enum import StrEnum

import msgspec

from defib.decide.self_fence.verdict import Says
from defib.model.self_fence import Order

PATH = "/about/"
FIND_SECONDS = 3.0  # so long whoever is asked has to find out: the same for all, whatever times they have else


class Word(StrEnum):
    REACHED = "reached"  # the API server answered, and `order` is what it has for the node
    CUT_OFF = "cut-off"  # it does not answer us either
    UNKNOWN = "unknown"  # it has no such Lease, or we were asked too much


class Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`age_seconds`: so long ago the question to the API server began whose answer this is."""

    node: str
    nonce: str
    word: Word
    age_seconds: float
    order: Order | None = None


def says(told: Told, boot_id: str) -> Says | None:
    """What it means to the node it is about. An order for another boot is none."""
    if told.word is Word.CUT_OFF:
        return Says.CUT_OFF
    if told.word is Word.UNKNOWN:
        return None
    is_meant = told.order is not None and told.order.boot_id == boot_id
    return Says.ORDER if is_meant else Says.NO_ORDER
