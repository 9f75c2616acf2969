"""Specs of pod failover that make sense, and specs that do not: of policies, and of remediations and their templates.

The API server must refuse every bad one, and whoever reads one must find it bad again, each with a sentence that names
the field. Null counts as absent wherever a field of an object is null, as it does on the API server.
"""

import copy
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from tests.check_corpus import (
    BAD_DURATIONS,
    BAD_KEYS,
    BAD_VALUES,
    FLAG,
    LIST,
    LONGEST_KIND,
    LONGEST_LABEL,
    LONGEST_NAME,
    MOST_EXPRESSIONS,
    MOST_LABELS,
    MOST_VALUES,
    NUMBER,
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
MOST_PATTERNS = 64
MOST_OWNERS = 32
MOST_TAINTS = 16
GRACE_MAX = 3600

# What only a policy has; a remediation has the rest of it.
ONLY_OF_A_POLICY = ("nodeSelector", "dwell", "taints")
EVERY_POD: Spec = {"selector": {}}
LONGEST_KEY = f"{'a.' * 126}b/{'x' * LONGEST_LABEL}"


class _Missing(Enum):
    """What is not there at all. Its name is the same in every process, and so are those of the tests."""

    FIELD = "missing"

    def __repr__(self) -> str:
        return self.value


MISSING = _Missing.FIELD

# What the controller of seed 000 does, and what it learned to leave alone (EV-12).
SEED: Spec = {"selector": {"matchLabels": {"app": "noobaa"}}}
EV_12: Spec = SEED | {"exclude": {"names": ["noobaa-db-pg-*"]}}


def a_policy(spec: Any, name: str = "p1") -> dict[str, Any]:
    return {"apiVersion": "defib.dev/v1alpha1", "kind": "PodFailoverPolicy", "metadata": {"name": name}, "spec": spec}


def a_remediation(spec: Any, name: str = "n1") -> dict[str, Any]:
    head = {"apiVersion": "defib.dev/v1alpha1", "kind": "PodFailoverRemediation", "metadata": {"name": name}}
    return head | {"spec": spec}


def a_template(spec: Any, name: str = "t1") -> dict[str, Any]:
    head = {"apiVersion": "defib.dev/v1alpha1", "kind": "PodFailoverRemediationTemplate", "metadata": {"name": name}}
    return head | {"spec": {"template": {"spec": spec}}}


def excluding(**fields: Any) -> Spec:
    return EVERY_POD | {"exclude": fields}


def deleted(**fields: Any) -> Spec:
    return EVERY_POD | {"deletion": fields}


def proven(*proofs: Any) -> Spec:
    return EVERY_POD | {"acceptedProofs": list(proofs)}


def tainted(*keys: Any) -> Spec:
    return EVERY_POD | {"taints": list(keys)}


# One spec with every field set; the generated cases break one field of it at a time.
EVERYTHING: Spec = {
    "selector": {
        "matchLabels": {"app": "noobaa", "app.kubernetes.io/part-of": "", "tier": "b-2_x.y"},
        "matchExpressions": [wanted("NotIn", "a", "", key="example.com/zone"), {"key": "canary", "operator": "Exists"}],
    },
    "nodeSelector": {
        "matchLabels": {"node-role.kubernetes.io/worker": "", "tier": "a"},
        "matchExpressions": [wanted("In", "a", "b"), {"key": "gpu", "operator": "DoesNotExist"}],
    },
    "dwell": "1m30s",
    "deletion": {"mode": "Graceful", "gracePeriodSeconds": 30},
    "exclude": {
        "names": ["noobaa-db-pg-*", "web-?.example"],
        "selector": {"matchLabels": {"tier": "db"}, "matchExpressions": [wanted("In", "x")]},
        "owners": [{"kind": "Cluster", "name": "pg-*"}, {"kind": "StatefulSet"}],
        "claims": ["data-*"],
    },
    "acceptedProofs": ["B", "A", "D"],
    "taints": ["example.com/maintenance", "*"],
}
EVERYTHING_OF_A_REMEDIATION: Spec = {key: value for key, value in EVERYTHING.items() if key not in ONLY_OF_A_POLICY}

SELECTORS: tuple[FieldPath, ...] = (("selector",), ("nodeSelector",), ("exclude", "selector"))


def _parts(selector: FieldPath) -> dict[FieldPath, str]:
    expression = (*selector, "matchExpressions", 0)
    return {
        selector: OBJECT,
        (*selector, "matchLabels"): OBJECT,
        (*selector, "matchLabels", "tier"): TEXT,
        (*selector, "matchExpressions"): LIST,
        expression: OBJECT,
        (*expression, "key"): TEXT,
        (*expression, "operator"): TEXT,
        (*expression, "values"): LIST,
        (*expression, "values", 0): TEXT,
    }


FIELDS: dict[FieldPath, str] = {
    **{path: kind for selector in SELECTORS for path, kind in _parts(selector).items()},
    ("dwell",): TEXT,
    ("deletion",): OBJECT,
    ("deletion", "mode"): TEXT,
    ("deletion", "gracePeriodSeconds"): NUMBER,
    ("exclude",): OBJECT,
    ("exclude", "names"): LIST,
    ("exclude", "names", 0): TEXT,
    ("exclude", "owners"): LIST,
    ("exclude", "owners", 0): OBJECT,
    ("exclude", "owners", 0, "kind"): TEXT,
    ("exclude", "owners", 0, "name"): TEXT,
    ("exclude", "claims"): LIST,
    ("exclude", "claims", 0): TEXT,
    ("acceptedProofs",): LIST,
    ("acceptedProofs", 0): TEXT,
    ("taints",): LIST,
    ("taints", 0): TEXT,
}
PATTERNS: tuple[FieldPath, ...] = (
    ("exclude", "names", 0),
    ("exclude", "names", 1),
    ("exclude", "owners", 0, "name"),
    ("exclude", "claims", 0),
)
GOOD_PATTERNS = ("*", "?", "-", ".", "7", "a.b-*", "**?*", "noobaa-db-pg-?", "x" * LONGEST_NAME)
BAD_PATTERNS = (
    *("", " ", "a b", "Web-*", "a_b", "[ab]", "a/b", "a\n", "\n", "a\\*", "{a,b}", "^a$", "a|b", "é", "%", "a\x00"),
    *(WIDE_O, "x" * (LONGEST_NAME + 1), "*" * (LONGEST_NAME + 1)),
)
BAD_KINDS = ("", "Stateful Set", "apps/StatefulSet", "*", "Stateful*", "7Set", "a-b", "é", "Set\n")


def _in(spec: Spec, path: FieldPath) -> Any:
    place: Any = spec
    for part in path[:-1]:
        place = place[part]
    return place


def changed(whole: Spec, path: FieldPath, value: Any) -> Spec:
    """The spec with every field, but for one."""
    spec = copy.deepcopy(whole)
    place = _in(spec, path)
    place[path[-1]] = value
    if value is MISSING:
        del place[path[-1]]
    return spec


def _bad(whole: Spec, paths: Iterable[FieldPath], values: Iterable[Any]) -> Iterator[Case]:
    known = [path for path in paths if path[0] in whole]
    for value in values:
        for path in known:
            yield Case(shown(path, value), changed(whole, path, value), leaf(path))


def wrong_types(whole: Spec) -> Iterator[Case]:
    for path, kind in FIELDS.items():
        # An element of a list cannot be absent, so null is a wrong type there.
        more = (None,) if isinstance(path[-1], int) else ()
        yield from _bad(whole, [path], (*WRONG_TYPES[kind], *more))
    for wrong in (*WRONG_TYPES[OBJECT], *WRONG_TYPES[FLAG], [{}]):
        yield Case(f"spec is {wrong!r}", wrong, "spec")


def bad_values(whole: Spec) -> Iterator[Case]:
    durations = (*BAD_DURATIONS, "-5m", "-0s", "24h0m1s", "25h", "1441m", "86400001ms", "24h0.001s")
    yield from _bad(whole, [("dwell",)], durations)
    yield from _bad(whole, [("deletion", "mode")], ("", "force", "Force ", "Evict", "0", f"F{WIDE_O}rce"))
    yield from _bad(whole, [("deletion", "gracePeriodSeconds")], (0, -1, GRACE_MAX + 1, 2**31, 2**63, 10**30))
    yield from _bad(whole, PATTERNS, BAD_PATTERNS)
    yield from _bad(whole, [("exclude", "owners", 0, "kind")], (*BAD_KINDS, "x" * (LONGEST_KIND + 1)))
    yield from _bad(whole, [("acceptedProofs", 0)], ("", "b", "E", "none", "NONE", "null", "None ", "A,B", "Power"))
    yield from _bad(whole, [("taints", 0), ("taints", 1)], (*BAD_KEYS, "**", "*a", "a*", "example.com/*", "?", "a=b"))


def bad_selectors(whole: Spec) -> Iterator[Case]:
    for selector in SELECTORS:
        expression = (*selector, "matchExpressions", 0)
        yield from _bad(whole, [(*expression, "key")], BAD_KEYS)
        yield from _bad(whole, [(*expression, "operator")], ("", "in", "IN", "Gt", "Exists ", "=="))
        yield from _bad(whole, [(*expression, "values", 0)], BAD_VALUES)
        yield from _bad(whole, [(*expression, "values")], ([], None, MISSING))
        yield from _bad(whole, [(*expression, "key"), (*expression, "operator")], (None, MISSING))
        labels = (*selector, "matchLabels")
        yield from _bad(whole, [labels], ({},))
        yield from _bad(whole, [labels], ({key: "x"} for key in BAD_KEYS))
        yield from _bad(whole, [labels], ({"app": value} for value in (*BAD_VALUES, None)))
        for operator in ("Exists", "DoesNotExist"):
            for case in _bad(whole, [expression], (wanted(operator, "a"),)):
                yield case._replace(field="values")


def bad_combinations(whole: Spec) -> Iterator[Case]:
    yield from _bad(whole, [("exclude", "owners", 0, "kind")], (None, MISSING))
    yield from _bad(whole, [("exclude", "owners", 0)], ({}, {"name": "pg-*"}))
    forced = changed(whole, ("deletion", "mode"), "Force")
    yield Case("seconds with Force", forced, "gracePeriodSeconds")
    repeated: tuple[list[str], ...] = (["A", "A"], ["A", "B", "A"], ["D", "C", "D", "C"], list("ABCDA"))
    yield from _bad(whole, [("acceptedProofs",)], (*repeated, [], ["None", "None"]))
    yield from _bad(whole, [("acceptedProofs",)], (["A", "None"], ["None", "A"], [*"ABCD", "None"]))


def too_many(whole: Spec) -> Iterator[Case]:
    names = [f"pod-{number}" for number in range(MOST_PATTERNS + 1)]
    yield from _bad(whole, [("exclude", "names"), ("exclude", "claims")], (names, ["*"] * 5000))
    owners = [{"kind": "Cluster", "name": f"pg-{number}"} for number in range(MOST_OWNERS + 1)]
    yield from _bad(whole, [("exclude", "owners")], (owners,))
    yield from _bad(whole, [("taints",)], ([f"taint-{number}" for number in range(MOST_TAINTS + 1)],))
    labels = {f"label-{number}": "x" for number in range(MOST_LABELS + 1)}
    expressions = [wanted("Exists", key=f"label-{number}") for number in range(MOST_EXPRESSIONS + 1)]
    for selector in SELECTORS:
        yield from _bad(whole, [(*selector, "matchLabels")], (labels,))
        yield from _bad(whole, [(*selector, "matchExpressions")], (expressions,))
        values = (*selector, "matchExpressions", 0, "values")
        yield from _bad(whole, [values], ([str(number) for number in range(MOST_VALUES + 1)],))


def bad(whole: Spec) -> Iterator[Case]:
    for cases in (wrong_types, bad_values, bad_selectors, bad_combinations, too_many):
        yield from cases(whole)


def bad_policies() -> Iterator[Case]:
    """What would be right for a remediation."""
    yield Case("no spec", None, "spec")
    yield Case("nothing at all", {}, "selector")
    yield from _bad(EVERYTHING, [("selector",)], (None, MISSING))
    yield Case("all but a selector", {"dwell": "5s", "nodeSelector": {}}, "selector")
    yield Case("seconds alone: the mode is Force", deleted(gracePeriodSeconds=5), "gracePeriodSeconds")
    yield Case("seconds and null for the mode", deleted(gracePeriodSeconds=5, mode=None), "gracePeriodSeconds")


def largest_selector() -> Spec:
    # Keys differ at their end, and none is longer than a key may be.
    keys = [f"{LONGEST_KEY[:-3]}{number:03}" for number in range(MOST_LABELS)]
    values = [f"{'y' * (LONGEST_LABEL - 3)}{number:03}" for number in range(MOST_VALUES)]
    return {
        "matchLabels": dict.fromkeys(keys, "y" * LONGEST_LABEL),
        "matchExpressions": [wanted("NotIn", *values, key=key) for key in keys[:MOST_EXPRESSIONS]],
    }


def largest() -> Spec:
    """As much of everything as there may be: a spec that an API server must not be too poor to judge."""
    names = [f"{'x' * (LONGEST_NAME - 3)}{number:03}" for number in range(MOST_PATTERNS)]
    return {
        "selector": largest_selector(),
        "nodeSelector": largest_selector(),
        "dwell": "1h" + "0s" * 31,
        "deletion": {"mode": "Graceful", "gracePeriodSeconds": GRACE_MAX},
        "exclude": {
            "names": names,
            "selector": largest_selector(),
            "owners": [{"kind": "K" * LONGEST_KIND, "name": name} for name in names[:MOST_OWNERS]],
            "claims": names,
        },
        "acceptedProofs": list("ABCD"),
        "taints": [f"{LONGEST_KEY[:-3]}{number:03}" for number in range(MOST_TAINTS)],
    }


def good() -> Iterator[Case]:
    """Good for a policy, and without what only a policy has for a remediation, too."""
    specs: dict[str, Any] = {
        "the seed in one line": SEED,
        "EV-12, the database stays": EV_12,
        "all pods": EVERY_POD,
        "every field": EVERYTHING,
        "as much as there may be": largest(),
        "null everywhere": EVERY_POD | dict.fromkeys(EVERYTHING.keys() - {"selector"}),
        "null in a selector": {"selector": {"matchLabels": None, "matchExpressions": None}},
        "null in an exclusion": excluding(names=None, selector=None, owners=None, claims=None),
        "null for an owner's name": excluding(owners=[{"kind": "Cluster", "name": None}]),
        "null in a deletion": deleted(mode=None, gracePeriodSeconds=None),
        "empty parts": {name: {} for name in ("selector", "nodeSelector", "deletion", "exclude")} | {"taints": []},
        "empty lists": excluding(names=[], owners=[], claims=[], selector={"matchExpressions": []}),
        "an empty value of a label": excluding(selector={"matchLabels": {"keep": ""}}),
        "all is excluded": excluding(selector={}),
        "one name twice": excluding(names=["a", "a"], owners=[{"kind": "Job"}] * 2),
        "one taint twice": tainted("a", "a"),
        "forced": deleted(mode="Force"),
        "graceful, as the pod says": deleted(mode="Graceful"),
        "the shortest grace": deleted(mode="Graceful", gracePeriodSeconds=1),
        "the longest grace": deleted(mode="Graceful", gracePeriodSeconds=GRACE_MAX),
        "forced, with null for seconds": deleted(mode="Force", gracePeriodSeconds=None),
        "no proof is needed": proven("None"),
        "any proof": proven(*"DCBA"),
        "unknown fields": {"selector": {"color": "red"}, "color": "red", "é": [None], "exclude": {"images": ["x"]}},
    }
    for text, spec in specs.items():
        yield Case(text, spec, "")
    for proof in "ABCD":
        yield Case(f"proof {proof}", proven(proof), "")
    for pattern in GOOD_PATTERNS:
        owners = [{"kind": "Cluster", "name": pattern}]
        yield Case(f"pattern {pattern[:20]}", excluding(names=[pattern], owners=owners, claims=[pattern]), "")
    for kind in ("Job", "x", "Cluster2", "K" * LONGEST_KIND):
        yield Case(f"kind {kind[:20]}", excluding(owners=[{"kind": kind}]), "")
    for operator, values in (("In", ["", "a"]), ("NotIn", ["a"]), ("Exists", []), ("DoesNotExist", None)):
        selector = {"matchExpressions": [{"key": LONGEST_KEY, "operator": operator, "values": values}]}
        spec = {"selector": selector, "nodeSelector": selector, "exclude": {"selector": selector}}
        yield Case(f"operator {operator}", spec, "")


def good_policies() -> Iterator[Case]:
    for length in ("0s", "0ms", "1ns", "0.5s", "30s", "1h0m0.5s", "1.5h", "24h", "1440m", "86400000ms"):
        yield Case(f"a dwell of {length}", EVERY_POD | {"dwell": length}, "")
    for key in ("*", "a", "node.kubernetes.io/unschedulable", LONGEST_KEY):
        yield Case(f"taint {key[:40]}", tainted(key), "")


def good_remediations() -> Iterator[Case]:
    """What would be wrong for a policy."""
    yield Case("nothing at all, as it always was", {}, "")
    yield Case("null for the selector", {"selector": None}, "")
    yield Case("only an exclusion", {"exclude": {"names": ["web-*"]}}, "")
    yield Case("only proofs", {"acceptedProofs": ["D"]}, "")
    yield Case("seconds alone: the mode is Graceful", {"deletion": {"gracePeriodSeconds": 5}}, "")
    yield Case("seconds and null for the mode", {"deletion": {"gracePeriodSeconds": 5, "mode": None}}, "")
    for case in good():
        yield case._replace(spec={key: value for key, value in case.spec.items() if key not in ONLY_OF_A_POLICY})
    odd = {"dwell": "soon", "taints": 5, "nodeSelector": []}
    yield Case("fields of a policy, which are unknown here", odd, "")


GOOD_POLICIES: tuple[Case, ...] = (*good(), *good_policies())
BAD_POLICIES: tuple[Case, ...] = (*bad(EVERYTHING), *bad_policies())
GOOD_REMEDIATIONS: tuple[Case, ...] = tuple(good_remediations())
BAD_REMEDIATIONS: tuple[Case, ...] = tuple(bad(EVERYTHING_OF_A_REMEDIATION))
