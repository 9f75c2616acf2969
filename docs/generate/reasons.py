"""The page of reasons: what Events say, and what holds something back, from the tables that the code takes them from."""

from defib.decide.outlook import OPENERS
from defib.model.reasons import EVENTS, Told

HEAD = """# Reasons

Words by which people filter and alerts are made. They stay as they are; the sentence beside each may change. Events are
told once when something changes, not in every pass:

```sh
kubectl get events -A --field-selector reason=NeedsPerson
```

## Events

"""
TAIL = """
## Why a node is held back

In `status.unhealthyNodes[].reason` of a NodeHealthCheck, in its events `RemediationSkipped` and in `defib why`: the name of
the [gate](gates.md) that is closed. It is one of {gates}.
"""


def reasons_page() -> str:
    kinds = dict.fromkeys(told.about for told in EVENTS)
    gates = ", ".join(f"`{name}`" for name in OPENERS)
    return HEAD + "\n".join(_table(kind) for kind in kinds) + TAIL.format(gates=gates)


def _table(kind: str) -> str:
    rows = "".join(_row(told) for told in EVENTS if told.about == kind)
    return f"### On a {kind}\n\n| reason | type | meaning |\n|---|---|---|\n{rows}"


def _row(told: Told) -> str:
    return f"| `{told.reason.value}` | {told.sort.value} | {told.meaning} |\n"
