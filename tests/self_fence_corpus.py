"""Specs of SelfFenceRemediations that make sense, and specs that do not: everything that can be wrong with one.

The API server must refuse every bad one, and whoever reads one must find it bad again, each with a sentence that names
the field. Null counts as absent wherever a field of an object is null, as it does on the API server.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from tests.check_corpus import BAD_DURATIONS, WIDE_O, WRONG_TYPES, Case, FieldPath, leaf, shown
from tests.power_cycle_corpus import FLAG, LIST, MOST_ATTEMPTS, NUMBER, OBJECT, TEXT

Spec = dict[str, Any]


def a_remediation(spec: Any, name: str = "n1") -> dict[str, Any]:
    head = {"apiVersion": "defib.dev/v1alpha1", "kind": "SelfFenceRemediation", "metadata": {"name": name}}
    return head | {"spec": spec}


def a_template(spec: Any, name: str = "t1") -> dict[str, Any]:
    head = {"apiVersion": "defib.dev/v1alpha1", "kind": "SelfFenceRemediationTemplate", "metadata": {"name": name}}
    return head | {"spec": {"template": {"spec": spec}}}


# One spec with every field set; the generated cases break one field of it at a time.
EVERYTHING: Spec = {
    "workloads": "OutOfServiceTaint",
    "acceptedProofs": ["C", "D"],
    "attempts": 5,
    "backoff": "1m30s",
    "timeouts": {"order": "90s", "free": "3m", "nodeReady": "0.5h"},
    "restoreTaints": False,
    "handOver": "DeleteMachine",
    "allowSoftwareWatchdog": True,
}
FIELDS: dict[FieldPath, str] = {
    ("workloads",): TEXT,
    ("acceptedProofs",): LIST,
    ("acceptedProofs", 0): TEXT,
    ("attempts",): NUMBER,
    ("backoff",): TEXT,
    ("timeouts",): OBJECT,
    ("timeouts", "order"): TEXT,
    ("timeouts", "free"): TEXT,
    ("timeouts", "nodeReady"): TEXT,
    ("restoreTaints",): FLAG,
    ("handOver",): TEXT,
    ("allowSoftwareWatchdog",): FLAG,
}
DURATIONS: tuple[FieldPath, ...] = (("backoff",), *(("timeouts", name) for name in EVERYTHING["timeouts"]))


def changed(path: FieldPath, value: Any) -> Spec:
    """The spec with every field, but for one."""
    spec = copy.deepcopy(EVERYTHING)
    place: Any = spec
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return spec


def wrong_types() -> Iterator[Case]:
    for path, kind in FIELDS.items():
        # An element of a list cannot be absent, so null is a wrong type there.
        more = (None,) if isinstance(path[-1], int) else ()
        for value in (*WRONG_TYPES[kind], *more):
            yield Case(shown(path, value), changed(path, value), leaf(path))
    for wrong in WRONG_TYPES[OBJECT]:
        yield Case(f"spec is {wrong!r}", wrong, "spec")


def bad_values() -> Iterator[Case]:
    yield from _bad(DURATIONS, (*BAD_DURATIONS, "-5m", "0s", "999ms", "24h0m1s", "25h", "1441m"))
    yield from _bad([("attempts",)], (0, -1, MOST_ATTEMPTS + 1, 2**31, 2**63, 10**30))
    yield from _bad([("workloads",)], ("", "auto", "Taint", "Auto ", f"{WIDE_O}utOfServiceTaint"))
    yield from _bad([("handOver",)], ("", "person", "Reprovision"))
    yield from _bad([("acceptedProofs", 0)], ("", "c", "E", "CD", "Time"))
    yield from _bad([("acceptedProofs",)], ([], list("ABCDA")))


def _bad(paths: Iterable[FieldPath], values: Iterable[Any]) -> Iterator[Case]:
    for path in paths:
        for value in values:
            yield Case(shown(path, value), changed(path, value), leaf(path))


def good() -> Iterator[Case]:
    specs: dict[str, Any] = {
        "nothing at all": {},
        "every field": EVERYTHING,
        "null everywhere": dict.fromkeys(EVERYTHING),
        "no time is given": {"timeouts": {}},
        "unknown fields": {"unknown": 1, "é": [None], "timeouts": {"powerOff": "never"}},
        "one proof twice": {"acceptedProofs": ["C", "C"]},
        "any proof": {"acceptedProofs": list("DCBA")},
    }
    for text, spec in specs.items():
        yield Case(text, spec, "")
    for length in ("1s", "1000ms", "24h", "1440m", "1h0m0.5s", "1.5h"):
        yield Case(f"a step of {length}", {"backoff": length, "timeouts": {"order": length}}, "")
    for number in (1, MOST_ATTEMPTS):
        yield Case(f"{number} attempts", {"attempts": number}, "")


GOOD: tuple[Case, ...] = tuple(good())
BAD: tuple[Case, ...] = (*wrong_types(), *bad_values())
