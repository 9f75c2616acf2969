"""Specs of PowerCycleRemediations that make sense, and specs that do not: everything that can be wrong with one.

The API server must refuse every bad one, and whoever reads one must find it bad again, each with a sentence that names
the field. Null counts as absent wherever a field of an object is null, as it does on the API server.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from tests.check_corpus import BAD_DURATIONS, WIDE_O, WRONG_TYPES, Case, FieldPath, leaf, shown

Spec = dict[str, Any]

# The limits that the corpus steps over by one.
MOST_NODES = 5000
MOST_OPTIONS = 64
MOST_GRADES = 4
MOST_ATTEMPTS = 10
LONGEST_DRIVER = 63
LONGEST_ADDRESS = 512
LONGEST_SECRET = 512
LONGEST_OPTION = 65536

TEXT, NUMBER, FLAG, LIST, OBJECT = "text", "number", "flag", "list", "object"
OTHER = ("power", "nodes", "n7")  # of one node
MISSING = object()


def a_remediation(spec: Any, name: str = "n1") -> dict[str, Any]:
    head = {"apiVersion": "defib.dev/v1alpha1", "kind": "PowerCycleRemediation", "metadata": {"name": name}}
    return head | {"spec": spec}


def a_template(spec: Any, name: str = "t1") -> dict[str, Any]:
    head = {"apiVersion": "defib.dev/v1alpha1", "kind": "PowerCycleRemediationTemplate", "metadata": {"name": name}}
    return head | {"spec": {"template": {"spec": spec}}}


def minimal(**fields: Any) -> Spec:
    return {"power": {"driver": "redfish"}} | fields


def powered(**fields: Any) -> Spec:
    return {"power": {"driver": "redfish"} | fields}


# One spec with every field set; the generated cases break one field of it at a time.
EVERYTHING: Spec = {
    "power": {
        "driver": "redfish",
        "address": "https://{node}.bmc.example.com/{label:node-restriction.kubernetes.io/rack}",
        "credentials": {"name": "bmc-{node}"},
        "options": {"system": "{label:node-restriction.kubernetes.io/system}", "ca": "-----BEGIN\nwith lines\n"},
        "nodes": {
            "n7": {
                "driver": "fence-agent",
                "address": "10.0.0.7",
                "credentials": {"name": "ups"},
                "options": {"agent": "fence_apc", "plug": "7"},
            },
            "n8": {"address": "10.0.0.8"},
        },
    },
    "workloads": "OutOfServiceTaint",
    "acceptedProofs": ["A", "C", "D"],
    "attempts": 5,
    "backoff": "1m30s",
    "timeouts": {"powerOff": "90s", "free": "3m", "powerOn": "2m", "nodeReady": "0.5h"},
    "requireNewBoot": False,
    "restoreTaints": False,
    "handOver": "DeleteMachine",
}


def _way(*place: str) -> dict[FieldPath, str]:
    option = "system" if len(place) == 1 else "plug"
    return {
        (*place, "driver"): TEXT,
        (*place, "address"): TEXT,
        (*place, "credentials"): OBJECT,
        (*place, "credentials", "name"): TEXT,
        (*place, "options"): OBJECT,
        (*place, "options", option): TEXT,
    }


FIELDS: dict[FieldPath, str] = {
    ("power",): OBJECT,
    **_way("power"),
    ("power", "nodes"): OBJECT,
    OTHER: OBJECT,
    **_way(*OTHER),
    ("workloads",): TEXT,
    ("acceptedProofs",): LIST,
    ("acceptedProofs", 0): TEXT,
    ("attempts",): NUMBER,
    ("backoff",): TEXT,
    ("timeouts",): OBJECT,
    ("timeouts", "powerOff"): TEXT,
    ("timeouts", "free"): TEXT,
    ("timeouts", "powerOn"): TEXT,
    ("timeouts", "nodeReady"): TEXT,
    ("requireNewBoot",): FLAG,
    ("restoreTaints",): FLAG,
    ("handOver",): TEXT,
}
DURATIONS: tuple[FieldPath, ...] = (
    ("backoff",),
    *(("timeouts", name) for name in ("powerOff", "free", "powerOn", "nodeReady")),
)
DRIVERS: tuple[FieldPath, ...] = (("power", "driver"), (*OTHER, "driver"))
ADDRESSES: tuple[FieldPath, ...] = (("power", "address"), (*OTHER, "address"))
SECRETS: tuple[FieldPath, ...] = (("power", "credentials", "name"), (*OTHER, "credentials", "name"))

BAD_DRIVERS = (
    "",
    "agent",
    "Redfish",
    "fence_agent",
    "-ipmi",
    "ipmi-",
    "a b",
    "a/b",
    "é",
    f"{WIDE_O}pmi",
    "x" * (LONGEST_DRIVER + 1),
)
LOGINS = (
    *("https://root:calvin@10.0.0.7", "root@10.0.0.7", "https://root@bmc.example.com/redfish", "//root:calvin@bmc"),
    *("root:calvin@{node}", "https://{node}:calvin@bmc", "ipmi:root@bmc", "@bmc"),
)
BAD_ADDRESSES = (
    *LOGINS,
    "a b",
    "a\nb",
    " a",
    "a\t",
    "a\x00b",
    "a\x7f",
    "https://bücher.example",
    "x" * (LONGEST_ADDRESS + 1),
)
BAD_SECRETS = ("", "a b", "a\n", "b&c", "ñ", "${node}", "x" * (LONGEST_SECRET + 1))


def changed(path: FieldPath, value: Any) -> Spec:
    """The spec with every field, but for one."""
    spec = copy.deepcopy(EVERYTHING)
    place: Any = spec
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    if value is MISSING:
        del place[path[-1]]
    return spec


def wrong_types() -> Iterator[Case]:
    for path, kind in FIELDS.items():
        # An element of a list cannot be absent, so null is a wrong type there.
        more = (None,) if isinstance(path[-1], int) else ()
        for value in (*WRONG_TYPES[kind], *more):
            yield Case(shown(path, value), changed(path, value), leaf(path))


def _bad(paths: Iterable[FieldPath], values: Iterable[Any]) -> Iterator[Case]:
    for path in paths:
        for value in values:
            yield Case(shown(path, value), changed(path, value), leaf(path))


def bad_values() -> Iterator[Case]:
    yield from _bad(DURATIONS, (*BAD_DURATIONS, "-5m", "0s", "999ms", "24h0m1s", "25h", "1441m"))
    yield from _bad(DRIVERS, BAD_DRIVERS)
    yield from _bad(ADDRESSES, BAD_ADDRESSES)
    yield from _bad(SECRETS, BAD_SECRETS)
    yield from _bad([("attempts",)], (0, -1, MOST_ATTEMPTS + 1, 2**31, 2**63, 10**30))
    yield from _bad([("workloads",)], ("", "auto", "Taint", "Auto ", f"{WIDE_O}utOfServiceTaint"))
    yield from _bad([("handOver",)], ("", "person", "Reprovision"))
    yield from _bad([("acceptedProofs", 0)], ("", "a", "E", "AB", "Power"))
    yield from _bad([("acceptedProofs",)], ([],))
    yield from _bad([("power", "options", "system"), (*OTHER, "options", "plug")], ("x" * (LONGEST_OPTION + 1),))


def missing_fields() -> Iterator[Case]:
    yield Case("no spec", None, "spec")
    for wrong in (*WRONG_TYPES[OBJECT], [{}]):
        yield Case(f"spec is {wrong!r}", wrong, "spec")
    for path in (("power",), ("power", "driver"), ("power", "credentials", "name"), SECRETS[1]):
        yield Case(shown(path, None), changed(path, None), leaf(path))
        yield Case(f"{'.'.join(map(str, path))} is missing", changed(path, MISSING), leaf(path))
    yield Case("nothing at all", {}, "power")
    yield Case("a driver only for one node", {"power": {"nodes": {"n7": {"driver": "ipmi"}}}}, "driver")


def too_many() -> Iterator[Case]:
    yield Case("five proofs", minimal(acceptedProofs=list("ABCDA")), "acceptedProofs")
    options = {f"option-{number}": "x" for number in range(MOST_OPTIONS + 1)}
    yield Case("too many options", powered(options=options), "options")
    yield Case("too many options of a node", powered(nodes={"n7": {"options": options}}), "options")
    nodes = {f"n{number}": {"address": "x"} for number in range(MOST_NODES + 1)}
    yield Case("too many nodes", powered(nodes=nodes), "nodes")


def good() -> Iterator[Case]:
    specs: dict[str, Any] = {
        "only a driver": minimal(),
        "every field": EVERYTHING,
        "null everywhere": minimal(**dict.fromkeys(EVERYTHING.keys() - {"power"})),
        "null in a way": powered(address=None, credentials=None, options=None, nodes=None),
        "null in the way of a node": powered(
            nodes={"n7": dict.fromkeys(("driver", "address", "credentials", "options"))}
        ),
        "null in a map, which is dropped": powered(options={"system": None}, nodes={"n7": None}),
        "empty maps": powered(options={}, nodes={}) | {"timeouts": {}},
        "nothing different for a node": powered(nodes={"n7": {}}),
        "unknown fields": powered(color="red", nodes={"n7": {"color": "red"}}) | {"unknown": 1, "é": [None]},
        "one proof twice": minimal(acceptedProofs=["D", "D"]),
        "any proof": minimal(acceptedProofs=list("DCBA")),
        "the longest driver": {"power": {"driver": "x" * LONGEST_DRIVER}},
        "the longest address": powered(address="x" * LONGEST_ADDRESS),
        "the longest secret": powered(credentials={"name": "x" * LONGEST_SECRET}),
        "as many nodes as there may be": powered(
            nodes={f"node-{number}.example.com": {"address": f"10.0.{number // 250}.1"} for number in range(MOST_NODES)}
        ),
        "as many options as there may be": powered(options={f"o{number}": "" for number in range(MOST_OPTIONS)}),
        "options in another tongue": powered(options={"größe": "ваша 🛠\n"}),
    }
    for text, spec in specs.items():
        yield Case(text, spec, "")
    for driver in ("ipmi", "fence-agent", "webhook", "manual", "metal3", "7", "a--b"):
        yield Case(f"driver {driver}", {"power": {"driver": driver}}, "")
    for address in (
        "",
        "10.0.0.7",
        "[fd00::7]:623",
        "metal3/host-7",
        "https://hook/x?mail=a@b",
        "https://bmc/a@b",
        "bmc#a@b",
    ):
        yield Case(f"address {address!r}", powered(address=address), "")
    for address in (
        "{label:node-restriction.kubernetes.io/bmc}",
        "https://{label:node-restriction.kubernetes.io/rack}-{node}:8443",
    ):
        yield Case(f"address {address}", powered(address=address), "")
    for length in ("1s", "1000ms", "24h", "1440m", "1h0m0.5s", "1000000000ns", "1.5h"):
        yield Case(f"a step of {length}", minimal(backoff=length, timeouts={"nodeReady": length}), "")
    for number in (1, MOST_ATTEMPTS):
        yield Case(f"{number} attempts", minimal(attempts=number), "")


GOOD: tuple[Case, ...] = tuple(good())
BAD: tuple[Case, ...] = (*wrong_types(), *bad_values(), *missing_fields(), *too_many())
