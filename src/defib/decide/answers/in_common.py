"""What the nodes that fail have in common, if that can hardly be chance: a rack, a switch, a kernel, an image.

Of so many nodes so many are ill. How likely is it that at least so many of them are found among those with one value of a
label, if it had nothing to do with it? The hypergeometric distribution says; and since every value of every label is one
try at a coincidence, only what would also be rare among so many tries is told.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import exp, lgamma

from defib.decide.answers.told import Told
from defib.model.node import Node

LEAST = 3  # two that fail together are a coincidence whatever they share
RARE = 0.001  # by chance, in one of a thousand such cases
MOST_TOLD = 3
_OF_ONE_NODE = frozenset({"kubernetes.io/hostname"})


class InCommon(Told, frozen=True, kw_only=True):
    """`ill` of the `of` nodes with this are ill, where chance would have had about `expected`."""

    what: str
    value: str
    ill: int
    of: int
    expected: float
    chance: float

    @property
    def words(self) -> str:
        return f"{self.ill} of the {self.of} nodes with {self.what} {self.value} fail, where {self.expected:.1f} would be chance"


def in_common(nodes: Mapping[str, Node], ill: Iterable[str]) -> tuple[InCommon, ...]:
    """The least likely first; of several that mean the same nodes, the one with the fewest others."""
    failing = [nodes[name] for name in ill if name in nodes]
    if len(failing) < LEAST:
        return ()
    among = Counter(trait for node in failing for trait in _traits(node))
    shared = {trait for trait, count in among.items() if count >= LEAST}
    total = Counter(trait for node in nodes.values() for trait in _traits(node) if trait in shared)
    tries = len(among)
    found = [
        InCommon(
            what=what,
            value=value,
            ill=count,
            of=total[what, value],
            expected=len(failing) * total[what, value] / len(nodes),
            chance=chance,
        )
        for (what, value), count in among.items()
        if count >= LEAST and (chance := chance_of(count, total[what, value], len(failing), len(nodes))) * tries < RARE
    ]
    return tuple(_without_echoes(sorted(found, key=lambda one: (one.chance, one.what, one.value))))[:MOST_TOLD]


def chance_of(ill: int, of: int, all_ill: int, all_nodes: int) -> float:
    """Of finding at least `ill` among `of`, when `all_ill` of `all_nodes` are drawn by lot."""
    others, every = all_nodes - of, _ways(all_nodes, all_ill)
    some = range(max(ill, all_ill - others), min(of, all_ill) + 1)
    return sum(exp(_ways(of, k) + _ways(others, all_ill - k) - every) for k in some)


def _ways(of: int, chosen: int) -> float:
    """The logarithm of how many ways there are to choose: of thousands of nodes, the number itself is astronomical."""
    return lgamma(of + 1) - lgamma(chosen + 1) - lgamma(of - chosen + 1)


def _traits(node: Node) -> Iterator[tuple[str, str]]:
    info = node.status.node_info
    for name, value in node.labels.items():
        if name not in _OF_ONE_NODE and value:
            yield name, value
    for what, value in (("kernel", info.kernel_version), ("image", info.os_image), ("kubelet", info.kubelet_version)):
        if value:
            yield what, value


def _without_echoes(found: list[InCommon]) -> Iterator[InCommon]:
    told: set[tuple[int, int]] = set()
    for one in found:
        if (one.ill, one.of) not in told:
            told.add((one.ill, one.of))
            yield one
