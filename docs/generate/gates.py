"""The gates in the order in which they are asked: found by deciding about one failed node of a cluster made for it.

So a gate that is added, renamed or moved in the code shows up here, on the page and in the picture.
"""

import math
from datetime import UTC, datetime, timedelta

from defib.decide.machine_checks import MACHINE_HEALTH_CHECK
from defib.decide.news import OF_A_NODE
from defib.decide.outlook import ALWAYS, OPENERS
from defib.decide.plan import decide
from defib.decide.quorum import CLUSTER_VERSION
from defib.decide.rules import Rules
from defib.decide.topology import INFRASTRUCTURE
from defib.model import medik8s
from defib.model.cluster import Cluster, Missing, Served
from defib.model.health_check import KindRef, NodeHealthCheck
from defib.model.meta import Meta, Resource, Unstructured
from defib.model.node import Condition, Node, NodeStatus
from defib.model.node_drain import DRAIN
from docs.generate.drawing import Sheet

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS, ROW = 4, 54
API = "defib.dev/v1alpha1"
TEMPLATE = KindRef(API, "PodFailoverRemediationTemplate")
REMEDIATION = KindRef(API, "PodFailoverRemediation")
# As they are called while they are closed: an open one may have another name.
CLOSED_NAMES = {"Mode": "ModeObserve"}

HEAD = """# Gates

Before anything is begun about an unhealthy node, these gates are asked, in this order, and all of them must be open.
The list is what the code asks today. What closes each of them: [NodeHealthCheck](../node-health-check.md#the-gates).
`defib why NODE` prints them all for one node, with value and limit.

![The gates in the order in which they are asked](../drawings/gates.svg)

| | gate | asked of | holds back | what opens it |
|---|---|---|---|---|
"""


def asked() -> list[str]:
    """The names of all gates, in their order."""
    guards = {
        "maxInFlight": 1,
        "failureDomains": [{"label": "topology.kubernetes.io/zone", "maxInFlight": 1}],
        "rateLimit": {"remediations": 1, "per": "1m"},
        "flapDamping": {"remediations": 1, "within": "1m"},
    }
    template = {"apiVersion": API, "kind": TEMPLATE.name, "name": "t", "namespace": "n"}
    check = NodeHealthCheck(metadata=Meta(name="c", uid="c"), spec={"guards": guards, "remediationTemplate": template})
    kinds: dict[KindRef, Served | Missing] = {
        TEMPLATE: Served("templates", namespaced=True),
        REMEDIATION: Served("remediations", namespaced=True),
        **{kind: Missing("not here") for kind in (DRAIN, CLUSTER_VERSION, INFRASTRUCTURE, MACHINE_HEALTH_CHECK)},
    }
    made = Unstructured(metadata=Meta(name="t", namespace="n", uid="t"), spec={"template": {"spec": {}}})
    others: dict[str, dict[str, Resource]] = {
        medik8s.CHECKS: {"c": check},
        "templates": {"n/t": made},
        "remediations": {},
    }
    nodes = {name: _node(name, ready) for name, ready in (("n1", "Unknown"), ("n2", "True"), ("n3", "True"))}
    plan = decide(Cluster(now=NOW, nodes=nodes, others=others, kinds=kinds), Rules()).checks["c"]
    return [CLOSED_NAMES.get(gate.name, gate.name) for gate in plan.verdicts["n1"].gates]


def _node(name: str, ready: str) -> Node:
    since = NOW - timedelta(hours=1)
    condition = Condition(type="Ready", status=ready, last_transition_time=since)
    return Node(metadata=Meta(name=name, uid=name), status=NodeStatus(conditions=[condition]))


def _held(name: str) -> str:
    return "everything new" if name in ALWAYS else "this node" if name in OF_A_NODE else "nodes not yet in remediation"


def gates_page() -> str:
    rows = (
        f"| {number} | `{name}` | {'the node' if name in OF_A_NODE else 'the check'} | {_held(name)} | "
        f"{OPENERS[name].replace('{node}', 'NODE')} |\n"
        for number, name in enumerate(asked(), 1)
    )
    return HEAD + "".join(rows)


def gates_picture() -> str:
    names = asked()
    of_check = [name for name in names if name not in OF_A_NODE]
    of_node = [name for name in names if name in OF_A_NODE]
    rows = _rows(of_check) + _rows(of_node)
    sheet = Sheet(960, 250 + rows * ROW, "An unhealthy node passes the gates of its check and then its own, in order")
    sheet.word(24, 36, "Every gate must be open before anything is begun", look="title")
    sheet.box(24, 56, (180, 44), "an unhealthy node", look="bad")
    y = _group(sheet, of_check, 1, 136, "asked of the check: they hold back all of its nodes")
    y = _group(sheet, of_node, len(of_check) + 1, y + 40, "asked of the node: they hold back this one")
    sheet.arrow((114, 100), (114, 134))
    sheet.arrow((114, y - 12), (114, y + 6))
    sheet.box(24, y + 8, (500, 44), "read once more, live; take its lock; start the remediation", look="key")
    return sheet.svg()


def _group(sheet: Sheet, names: list[str], first: int, y: float, says: str) -> float:
    """Rows of boxes, each with its place in the order; where what comes below can begin."""
    sheet.word(134, y - 10, says, look="small")
    for place, name in enumerate(names):
        row, column = divmod(place, COLUMNS)
        sheet.box(24 + column * 230, y + row * ROW, (222, 42), f"{first + place}. {name}", look="box")
    return y + _rows(names) * ROW


def _rows(names: list[str]) -> int:
    return math.ceil(len(names) / COLUMNS)
