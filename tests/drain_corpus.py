"""Specs of DrainPolicies that make sense, and specs that do not.

The API server must refuse every bad one, and whoever reads one must find it bad again, each with a sentence that names
the field. Null counts as absent wherever a field of an object is null, as it does on the API server.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from defib.model.drain_policy import Source
from tests.check_corpus import (
    AMOUNT,
    BAD_AMOUNTS,
    BAD_DURATIONS,
    BAD_KEYS,
    BAD_VALUES,
    FLAG,
    LIST,
    LONGEST_LABEL,
    MOST_EXPRESSIONS,
    MOST_LABELS,
    MOST_NODES,
    MOST_VALUES,
    OBJECT,
    TEXT,
    WIDE_O,
    WRONG_TYPES,
    Case,
    FieldPath,
    leaf,
    shown,
    wanted,
)

Spec = dict[str, Any]

# The limits that the corpus steps over by one.
MOST_NAMESPACES = 64
MOST_FINALIZERS = 64
LONGEST_KEY = f"{'a.' * 126}b/{'x' * LONGEST_LABEL}"

# In place of Nodekeeper, with everything as it is configured there.
NODEKEEPERS: Spec = {"compatibility": "ManagedUpgradeOperator"}
NOTHING_IS_TOUCHED: Spec = {
    "strategies": dict.fromkeys(("delete", "finalizers", "stuck", "pdbDelete", "pdbFinalizers"), False)
}


def a_policy(spec: Any, name: str = "p1") -> dict[str, Any]:
    return {"apiVersion": "defib.dev/v1alpha1", "kind": "DrainPolicy", "metadata": {"name": name}, "spec": spec}


def a_drain(policy: Any = "p1", name: str = "n1") -> dict[str, Any]:
    head = {"apiVersion": "defib.dev/v1alpha1", "kind": "NodeDrain", "metadata": {"name": name}}
    return head | {"spec": {"policy": policy}}


# One spec with every field set; the generated cases break one field of it at a time.
EVERYTHING: Spec = {
    "mode": "Approve",
    "nodeSelector": {
        "matchLabels": {"node-role.kubernetes.io/worker": "", "tier": "a"},
        "matchExpressions": [wanted("In", "a", "b"), {"key": "gpu", "operator": "DoesNotExist"}],
    },
    "includeControlPlane": True,
    "timeout": "30m",
    "expectedDrainTime": "5m",
    "pdbForceDrainTimeout": "1h30m",
    "extraGrace": "1m",
    "flapWindow": "0s",
    "strategies": {"delete": True, "finalizers": False, "stuck": True, "pdbDelete": False, "pdbFinalizers": True},
    "ignoredNamespaces": ["kube-system", "openshift-*", "team-?"],
    "finalizers": ["example.com/cleanup", "foregroundDeletion"],
    "maxForcedNodes": "10%",
    "sources": ["Kured", "Defib"],
    "acceptedProofs": ["None"],
    "compatibility": "None",
}
DURATIONS = ("timeout", "expectedDrainTime", "pdbForceDrainTimeout", "extraGrace", "flapWindow")
SELECTOR = "nodeSelector"
EXPRESSION: FieldPath = (SELECTOR, "matchExpressions", 0)
FIELDS: dict[FieldPath, str] = {
    ("mode",): TEXT,
    (SELECTOR,): OBJECT,
    (SELECTOR, "matchLabels"): OBJECT,
    (SELECTOR, "matchLabels", "tier"): TEXT,
    (SELECTOR, "matchExpressions"): LIST,
    EXPRESSION: OBJECT,
    (*EXPRESSION, "key"): TEXT,
    (*EXPRESSION, "operator"): TEXT,
    (*EXPRESSION, "values"): LIST,
    (*EXPRESSION, "values", 0): TEXT,
    ("includeControlPlane",): FLAG,
    **{(name,): TEXT for name in DURATIONS},
    ("strategies",): OBJECT,
    **{("strategies", name): FLAG for name in EVERYTHING["strategies"]},
    ("ignoredNamespaces",): LIST,
    ("ignoredNamespaces", 0): TEXT,
    ("finalizers",): LIST,
    ("finalizers", 0): TEXT,
    ("maxForcedNodes",): AMOUNT,
    ("sources",): LIST,
    ("sources", 0): TEXT,
    ("acceptedProofs",): LIST,
    ("acceptedProofs", 0): TEXT,
    ("compatibility",): TEXT,
}
GOOD_PATTERNS = ("*", "?", "-", "7", "kube-*", "**?*", "openshift-?", "x" * LONGEST_LABEL)
# Most of them are what somebody writes who thinks of regular expressions, or of several names at once.
BAD_PATTERNS = (
    *("", " ", "openshift-.*", "^kube-system$", "(", "[", "[a-z]", "a|b", "a+", "kube.system", "a\\*", "{a,b}"),
    *("Kube-*", "a_b", "a/b", "a b", "a\n", "é", "a\x00", WIDE_O, "x" * (LONGEST_LABEL + 1), "*" * 64),
)


def changed(path: FieldPath, value: Any) -> Spec:
    """The spec with every field, but for one."""
    spec = copy.deepcopy(EVERYTHING)
    place: Any = spec
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return spec


def _bad(paths: Iterable[FieldPath], values: Iterable[Any]) -> Iterator[Case]:
    known = list(paths)
    for value in values:
        for path in known:
            yield Case(shown(path, value), changed(path, value), leaf(path))


def wrong_types() -> Iterator[Case]:
    for path, kind in FIELDS.items():
        # An element of a list cannot be absent, so null is a wrong type there.
        more = (None,) if isinstance(path[-1], int) else ()
        yield from _bad([path], (*WRONG_TYPES[kind], *more))
    for wrong in (None, *WRONG_TYPES[OBJECT], *WRONG_TYPES[FLAG], [{}]):
        yield Case(f"spec is {wrong!r}", wrong, "spec")


def bad_values() -> Iterator[Case]:
    lengths = (*BAD_DURATIONS, "-5m", "-0s", "72h0m1s", "73h", "4321m", "259200001ms", "72h0.001s")
    yield from _bad([(name,) for name in DURATIONS], lengths)
    yield from _bad([("mode",)], ("", "automatic", "Off", "Automatic ", f"{WIDE_O}bserve"))
    yield from _bad([("ignoredNamespaces", 0), ("ignoredNamespaces", 2)], BAD_PATTERNS)
    yield from _bad([("finalizers", 0)], (*BAD_KEYS, "**", "*a", "a*", "example.com/*", "?"))
    yield from _bad([("maxForcedNodes",)], BAD_AMOUNTS)
    yield from _bad([("sources", 0)], ("", "kured", "Drain", "openshift", "Kured ", "*", "All"))
    yield from _bad([("acceptedProofs", 0)], ("", "b", "C", "D", "none", "null", "None ", "A,B"))
    yield from _bad([("compatibility",)], ("", "none", "Nodekeeper", "managedUpgradeOperator", "MUO"))


def bad_lists() -> Iterator[Case]:
    proofs: tuple[list[str], ...] = ([], ["A"], ["B"], ["A", "A"], ["None", "None"], ["A", "None"], ["None", "B"])
    yield from _bad([("acceptedProofs",)], (*proofs, ["A", "B", "None"], ["A", "B", "A"]))
    yield from _bad([("sources",)], ([], ["Kured", "Kured"], ["Kured", "Defib", "Kured"], [*Source, "Kured"]))
    yield from _bad([("ignoredNamespaces",)], ([f"a-{number}" for number in range(MOST_NAMESPACES + 1)], ["*"] * 5000))
    yield from _bad([("finalizers",)], ([f"a.b/c-{number}" for number in range(MOST_FINALIZERS + 1)],))


def bad_selectors() -> Iterator[Case]:
    yield from _bad([(*EXPRESSION, "key")], BAD_KEYS)
    yield from _bad([(*EXPRESSION, "operator")], ("", "in", "IN", "Gt", "Exists ", "=="))
    yield from _bad([(*EXPRESSION, "values", 0)], BAD_VALUES)
    yield from _bad([(*EXPRESSION, "values")], ([], None, [str(number) for number in range(MOST_VALUES + 1)]))
    yield from _bad([(*EXPRESSION, "key"), (*EXPRESSION, "operator")], (None,))
    labels = (SELECTOR, "matchLabels")
    yield from _bad([labels], ({}, {f"label-{number}": "x" for number in range(MOST_LABELS + 1)}))
    yield from _bad([labels], ({key: "x"} for key in BAD_KEYS))
    yield from _bad([labels], ({"app": value} for value in (*BAD_VALUES, None)))
    expressions = [wanted("Exists", key=f"label-{number}") for number in range(MOST_EXPRESSIONS + 1)]
    yield from _bad([(SELECTOR, "matchExpressions")], (expressions,))
    for operator in ("Exists", "DoesNotExist"):
        for case in _bad([EXPRESSION], (wanted(operator, "a"),)):
            yield case._replace(field="values")


def bad_combinations() -> Iterator[Case]:
    """What is said elsewhere already, and would be ignored without a word."""
    for name in ("timeout", "expectedDrainTime", "pdbForceDrainTimeout"):
        yield Case(f"Nodekeeper's times, and {name}", NODEKEEPERS | {name: "45m"}, name)
    for sources in (["Kured"], ["OpenShift"], list(Source)):
        yield Case(f"Nodekeeper, for {sources}", NODEKEEPERS | {"sources": sources}, "sources")
    yield Case("Nodekeeper, that removes no finalizer", NODEKEEPERS | {"finalizers": []}, "finalizers")


def largest() -> Spec:
    """As much of everything as there may be: a spec that an API server must not be too poor to judge."""
    keys = [f"{LONGEST_KEY[:-3]}{number:03}" for number in range(MOST_LABELS)]
    values = [f"{'y' * (LONGEST_LABEL - 3)}{number:03}" for number in range(MOST_VALUES)]
    return {
        "mode": "Automatic",
        SELECTOR: {
            "matchLabels": dict.fromkeys(keys, "y" * LONGEST_LABEL),
            "matchExpressions": [wanted("NotIn", *values, key=key) for key in keys[:MOST_EXPRESSIONS]],
        },
        "includeControlPlane": True,
        **dict.fromkeys(DURATIONS, "1h" + "0s" * 31),
        **NOTHING_IS_TOUCHED,
        "ignoredNamespaces": [f"{'*' * (LONGEST_LABEL - 3)}{number:03}" for number in range(MOST_NAMESPACES)],
        "finalizers": keys[:MOST_FINALIZERS],
        "maxForcedNodes": str(MOST_NODES),
        "sources": list(Source),
        "acceptedProofs": ["B", "A"],
        "compatibility": "None",
    }


def good() -> Iterator[Case]:
    specs: dict[str, Spec] = {
        "nothing at all: the defaults": {},
        "every field": EVERYTHING,
        "as much as there may be": largest(),
        "null everywhere": dict.fromkeys(EVERYTHING),
        "null in a selector": {SELECTOR: {"matchLabels": None, "matchExpressions": None}},
        "null for strategies": {"strategies": dict.fromkeys(EVERYTHING["strategies"])},
        "empty parts": {SELECTOR: {}, "strategies": {}, "ignoredNamespaces": [], "finalizers": []},
        "every strategy is off": NOTHING_IS_TOUCHED,
        "one name twice": {"ignoredNamespaces": ["a", "a"], "finalizers": ["a", "a", "*"]},
        "any finalizer": {"finalizers": ["*"]},
        "a proof is needed": {"acceptedProofs": ["A", "B"]},
        "no proof is needed": {"acceptedProofs": ["None"]},
        "in place of Nodekeeper": NODEKEEPERS,
        "in place of Nodekeeper, with what it does not know": NODEKEEPERS
        | {"mode": "Observe", "extraGrace": "5s", "flapWindow": "1h", "maxForcedNodes": 2, "ignoredNamespaces": ["a"]},
        "in place of Nodekeeper, for some finalizers": NODEKEEPERS
        | {"finalizers": ["example.com/x"]}
        | NOTHING_IS_TOUCHED,
        "in place of Nodekeeper, with null for what is not to be given": NODEKEEPERS
        | dict.fromkeys(("timeout", "expectedDrainTime", "pdbForceDrainTimeout", "sources", "finalizers")),
        "unknown fields": {SELECTOR: {"color": "red"}, "color": "red", "é": [None], "strategies": {"nuke": 5}},
    }
    for text, spec in specs.items():
        yield Case(text, spec, "")
    for length in ("0s", "0ms", "1ns", "0.5s", "30s", "1h0m0.5s", "1.5h", "72h", "4320m", "259200000ms"):
        yield Case(f"durations of {length}", dict.fromkeys(DURATIONS, length), "")
    for amount in (0, 1, "0", "7", "0%", "10%", "100%", MOST_NODES, str(MOST_NODES)):
        yield Case(f"{amount!r} nodes", {"maxForcedNodes": amount}, "")
    for source in Source:
        yield Case(f"drains of {source}", {"sources": [source.value]}, "")
    for pattern in GOOD_PATTERNS:
        yield Case(f"pattern {pattern[:20]}", {"ignoredNamespaces": [pattern]}, "")
    for name in ("a", "kubernetes", "batch.kubernetes.io/job-tracking", LONGEST_KEY):
        yield Case(f"finalizer {name[:40]}", {"finalizers": [name]}, "")
    for operator, values in (("In", ["", "a"]), ("NotIn", ["a"]), ("Exists", []), ("DoesNotExist", None)):
        expression = {"key": LONGEST_KEY, "operator": operator, "values": values}
        yield Case(f"operator {operator}", {SELECTOR: {"matchExpressions": [expression]}}, "")


GOOD: tuple[Case, ...] = tuple(good())
BAD: tuple[Case, ...] = (*wrong_types(), *bad_values(), *bad_lists(), *bad_selectors(), *bad_combinations())
