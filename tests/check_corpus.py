"""NodeHealthChecks that make sense, and NodeHealthChecks that do not: everything that can be wrong with one.

The API server must refuse every bad one, and whoever reads a check must find it bad again, each with a sentence that
names the field. Null counts as absent wherever a field of an object is null, as it does on the API server.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Spec = dict[str, Any]
FieldPath = tuple[str | int, ...]


class Case(NamedTuple):
    """`field` is the name that a refusal must contain; it is empty where nothing is wrong."""

    name: str
    spec: Any
    field: str


# The limits that the corpus steps over by one.
MOST_CONDITIONS = 32
MOST_STEPS = 32
MOST_PAUSE_REQUESTS = 64
MOST_DOMAINS = 8
MOST_LABELS = 64
MOST_EXPRESSIONS = 32
MOST_VALUES = 64
MOST_NODES = 10**9
LONGEST_PAUSE_REQUEST = 1024
LONGEST_DURATION = 64
LONGEST_CONDITION_TYPE = 316
LONGEST_CONDITION_STATUS = 64
LONGEST_KIND = 63
LONGEST_API_VERSION = 317
LONGEST_NAME = 253
LONGEST_LABEL = 63  # of a label's name without its prefix, and of its value
RATE_LIMIT_MAX = 1000
FLAP_DAMPING_MAX = 100
INT32_MAX = 2**31 - 1

WIDE_FIVE, WIDE_O = "\uff15", "\uff2f"  # a digit and a letter to many programs, and to no cluster


POWER_CYCLE = "PowerCycleRemediationTemplate"


def a_check(spec: Any, name: str = "c") -> dict[str, Any]:
    return {
        "apiVersion": "remediation.medik8s.io/v1alpha1",
        "kind": "NodeHealthCheck",
        "metadata": {"name": name},
        "spec": spec,
    }


def a_template(kind: str = "PodFailoverRemediationTemplate", **fields: Any) -> Spec:
    return {
        "apiVersion": "defib.dev/v1alpha1",
        "kind": kind,
        "namespace": "defib-system",
        "name": "defib-pod-failover",
        **fields,
    }


def a_step(order: Any = 1, timeout: Any = "5m", **template: Any) -> Spec:
    return {"remediationTemplate": a_template(**template), "order": order, "timeout": timeout}


def a_condition(kind: Any = "Ready", status: Any = "Unknown", duration: Any = "300s") -> Spec:
    return {"type": kind, "status": status, "duration": duration}


def escalating(*steps: Any, **fields: Any) -> Spec:
    return {"escalatingRemediations": list(steps), **fields}


def simple(**fields: Any) -> Spec:
    return {"remediationTemplate": a_template(), **fields}


def guarded(**guards: Any) -> Spec:
    return simple(guards=guards)


def chosen(*expressions: Any, **labels: Any) -> Spec:
    return simple(selector={"matchLabels": labels, "matchExpressions": list(expressions)})


def wanted(operator: Any, *values: Any, key: Any = "zone") -> Spec:
    return {"key": key, "operator": operator, "values": list(values)}


# One check with every field set; the generated cases break one field of it at a time.
EVERYTHING: Spec = {
    "selector": {
        "matchLabels": {"node-role.kubernetes.io/worker": "", "tier": "b-2_x.y"},
        "matchExpressions": [wanted("NotIn", "a", "", key="example.com/zone"), {"key": "gpu", "operator": "Exists"}],
    },
    "unhealthyConditions": [a_condition(), a_condition("Ready", "False", "1h30m"), a_condition("Disk", "True", "0s")],
    "minHealthy": "51%",
    "stormCooldownDuration": "10m",
    "escalatingRemediations": [
        a_step(1, "60s", kind=POWER_CYCLE),
        a_step(2, "1.5h", kind="SelfNodeRemediationTemplate"),
    ],
    "pauseRequests": ["upgrade of the storage"],
    "healthyDelay": "30s",
    "mode": "Approve",
    "guards": {
        "maxInFlight": 3,
        "failureDomains": [{"label": "topology.kubernetes.io/zone", "maxInFlight": "34%"}],
        "alwaysAllowOne": True,
        "rateLimit": {"remediations": 5, "per": "10m"},
        "flapDamping": {"remediations": 3, "within": "24h"},
    },
    "fastPath": {"missedHeartbeats": 3, "evidence": ["Kubelet", "Power"], "proof": ["A", "C"]},
}

TEXT, NUMBER, FLAG, AMOUNT, LIST, OBJECT = "text", "number", "flag", "amount", "list", "object"
FIELDS: dict[FieldPath, str] = {
    ("selector",): OBJECT,
    ("selector", "matchLabels"): OBJECT,
    ("selector", "matchLabels", "tier"): TEXT,
    ("selector", "matchExpressions"): LIST,
    ("selector", "matchExpressions", 0): OBJECT,
    ("selector", "matchExpressions", 0, "key"): TEXT,
    ("selector", "matchExpressions", 0, "operator"): TEXT,
    ("selector", "matchExpressions", 0, "values"): LIST,
    ("selector", "matchExpressions", 0, "values", 0): TEXT,
    ("unhealthyConditions",): LIST,
    ("unhealthyConditions", 0): OBJECT,
    ("unhealthyConditions", 0, "type"): TEXT,
    ("unhealthyConditions", 0, "status"): TEXT,
    ("unhealthyConditions", 0, "duration"): TEXT,
    ("minHealthy",): AMOUNT,
    ("stormCooldownDuration",): TEXT,
    ("escalatingRemediations",): LIST,
    ("escalatingRemediations", 0): OBJECT,
    ("escalatingRemediations", 0, "remediationTemplate"): OBJECT,
    ("escalatingRemediations", 0, "remediationTemplate", "apiVersion"): TEXT,
    ("escalatingRemediations", 0, "remediationTemplate", "kind"): TEXT,
    ("escalatingRemediations", 0, "remediationTemplate", "namespace"): TEXT,
    ("escalatingRemediations", 0, "remediationTemplate", "name"): TEXT,
    ("escalatingRemediations", 0, "order"): NUMBER,
    ("escalatingRemediations", 0, "timeout"): TEXT,
    ("pauseRequests",): LIST,
    ("pauseRequests", 0): TEXT,
    ("healthyDelay",): TEXT,
    ("mode",): TEXT,
    ("fastPath",): OBJECT,
    ("fastPath", "missedHeartbeats"): NUMBER,
    ("fastPath", "evidence"): LIST,
    ("fastPath", "evidence", 0): TEXT,
    ("fastPath", "proof"): LIST,
    ("fastPath", "proof", 0): TEXT,
    ("guards",): OBJECT,
    ("guards", "maxInFlight"): AMOUNT,
    ("guards", "failureDomains"): LIST,
    ("guards", "failureDomains", 0): OBJECT,
    ("guards", "failureDomains", 0, "label"): TEXT,
    ("guards", "failureDomains", 0, "maxInFlight"): AMOUNT,
    ("guards", "alwaysAllowOne"): FLAG,
    ("guards", "rateLimit"): OBJECT,
    ("guards", "rateLimit", "remediations"): NUMBER,
    ("guards", "rateLimit", "per"): TEXT,
    ("guards", "flapDamping"): OBJECT,
    ("guards", "flapDamping", "remediations"): NUMBER,
    ("guards", "flapDamping", "within"): TEXT,
}
WRONG_TYPES: dict[str, tuple[Any, ...]] = {
    TEXT: (5, True, [], {}),
    NUMBER: ("1", 1.5, True, [], {}),
    FLAG: ("true", 1, []),
    AMOUNT: (1.5, True, [], {}),
    LIST: ("x", 5, True, {}),
    OBJECT: ("x", 5, True, []),
}
REQUIRED = {
    *("key", "operator", "type", "status", "duration", "remediationTemplate", "apiVersion", "kind", "name", "order"),
    *("timeout", "label", "remediations", "per", "within"),
}
DURATIONS: tuple[FieldPath, ...] = (
    ("unhealthyConditions", 0, "duration"),
    ("escalatingRemediations", 0, "timeout"),
    ("stormCooldownDuration",),
    ("healthyDelay",),
    ("guards", "rateLimit", "per"),
    ("guards", "flapDamping", "within"),
)
BAD_DURATIONS = (
    *("", "5", "m", "5 m", " 5m", "5m\n", "5d", "5m5", ".5s", "5.s", "--5m", "1h-5m", "+5m", "1e3s", f"{WIDE_FIVE}m"),
    *("P1D", "never", "876001h", "9999999999999999h", "1s" * (LONGEST_DURATION // 2 + 1)),
)
AMOUNTS: tuple[FieldPath, ...] = (
    ("minHealthy",),
    ("guards", "maxInFlight"),
    ("guards", "failureDomains", 0, "maxInFlight"),
)
BAD_AMOUNTS = (
    *(-1, -(2**31), MOST_NODES + 1, 2**63, 10**30, "1000000001", "9" * 40),
    *("", "%", "-1", "-30%", "101%", "1000%", "5 %", " 5", "5\n", "5.5%", "1e3", "0x8", "+5", WIDE_FIVE, "half", "5%%"),
)
BAD_KEYS = (
    *("", "a b", "/a", "a/", "a/b/c", "-a", "a_", "é", "Example.com/a", "a..b/c"),
    *("x" * (LONGEST_LABEL + 1), "y" * (LONGEST_NAME + 1) + "/z"),
)
BAD_VALUES = ("a b", "-a", "a.", "é", "x" * (LONGEST_LABEL + 1))


def leaf(path: FieldPath) -> str:
    """The last name on the way; a number is the place in a list."""
    return next(str(part) for part in reversed(path) if isinstance(part, str))


def changed(path: FieldPath, value: Any) -> Spec:
    """The check with every field, but for one."""
    spec = copy.deepcopy(EVERYTHING)
    place: Any = spec
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return spec


def without(path: FieldPath) -> Spec:
    spec = copy.deepcopy(EVERYTHING)
    place: Any = spec
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    return spec


def shown(path: FieldPath, value: Any) -> str:
    text = repr(value)
    return f"{'.'.join(map(str, path))} is {text if len(text) <= 40 else text[:37] + '...'}"


def wrong_types() -> Iterator[Case]:
    for path, kind in FIELDS.items():
        # An element of a list cannot be absent, so null is a wrong type there.
        more = (None,) if isinstance(path[-1], int) else ()
        for value in (*WRONG_TYPES[kind], *more):
            yield Case(shown(path, value), changed(path, value), leaf(path))


def missing_fields() -> Iterator[Case]:
    for path in FIELDS:
        name = path[-1]
        if len(path) > 1 and (name in REQUIRED or path[-3:-1] == ("failureDomains", 0)):
            yield Case(f"{'.'.join(map(str, path))} is missing", without(path), leaf(path))
            yield Case(shown(path, None), changed(path, None), leaf(path))


def bad_values(paths: Iterable[FieldPath], values: Iterable[Any]) -> Iterator[Case]:
    for path in paths:
        for value in values:
            yield Case(shown(path, value), changed(path, value), leaf(path))


def bad_numbers() -> Iterator[Case]:
    yield from bad_values(DURATIONS, BAD_DURATIONS)
    yield from bad_values((path for path in DURATIONS if path != ("healthyDelay",)), ("-5m",))
    yield from bad_values([DURATIONS[1]], ("0s", "59s", "59999ms", "0.99m"))
    yield from bad_values(DURATIONS[4:], ("0s", "999ms"))
    yield from bad_values(AMOUNTS, BAD_AMOUNTS)
    for value in BAD_AMOUNTS:
        yield Case(shown(("maxUnhealthy",), value), simple(maxUnhealthy=value), "maxUnhealthy")
    yield from bad_values([("escalatingRemediations", 0, "order")], (INT32_MAX + 1, -INT32_MAX - 2, 2**63, 10**30))
    yield from bad_values([("fastPath", "missedHeartbeats")], (0, 1, 11, 10**30))
    yield from bad_values([("guards", "rateLimit", "remediations")], (0, -1, RATE_LIMIT_MAX + 1, 10**30))
    yield from bad_values([("guards", "flapDamping", "remediations")], (0, -1, FLAP_DAMPING_MAX + 1, 10**30))


def bad_words() -> Iterator[Case]:
    template = ("escalatingRemediations", 0, "remediationTemplate")
    kinds = (
        "",
        "Template",
        "PodFailoverRemediation",
        "podtemplate",
        "Pod-Template",
        "Über Template",
        "x" * LONGEST_KIND + "Template",
    )
    yield from bad_values([(*template, "kind")], kinds)
    yield from bad_values([(*template, "name")], ("", "Upper", "a/b", "..", "a b", "ñ", "-a", "x" * (LONGEST_NAME + 1)))
    versions = ("", "v1", "defib.dev", "/v1", "defib.dev/", "a/b/c", "defib.dev/V1", "é.dev/v1", "a..b/v1")
    yield from bad_values([(*template, "apiVersion")], (*versions, "x" * LONGEST_API_VERSION + "/v1"))
    yield from bad_values([(*template, "namespace")], ("Upper", "a.b", "a/b", "é", "x" * (LONGEST_LABEL + 1)))
    yield from bad_values([("mode",)], ("", "automatic", "Off", "Automatic ", f"{WIDE_O}bserve"))
    yield from bad_values([("fastPath", "evidence", 0)], ("", "kubelet", "Heartbeat", "Peers"))
    yield from bad_values([("fastPath", "proof", 0)], ("", "a", "E", "None", "AA"))
    yield from bad_values([("fastPath", "proof")], ([], ["A", "B", "C", "D", "A"]))
    condition = ("unhealthyConditions", 0)
    yield from bad_values([(*condition, "type")], ("", "x" * (LONGEST_CONDITION_TYPE + 1), "y" * 100_000))
    yield from bad_values([(*condition, "status")], ("", "x" * (LONGEST_CONDITION_STATUS + 1)))
    yield from bad_values([("pauseRequests", 0)], ("x" * (LONGEST_PAUSE_REQUEST + 1),))
    yield from bad_values([("guards", "failureDomains", 0, "label")], BAD_KEYS)


def bad_selectors() -> Iterator[Case]:
    expression = ("selector", "matchExpressions", 0)
    yield from bad_values([(*expression, "key")], BAD_KEYS)
    yield from bad_values([(*expression, "operator")], ("", "in", "IN", "Gt", "=="))
    yield from bad_values([(*expression, "values", 0)], BAD_VALUES)
    for key in BAD_KEYS:
        yield Case(f"a label {key[:20]!r}", chosen(**{key: "x"}), "matchLabels")
    for value in BAD_VALUES:
        yield Case(f"a label's value {value[:20]!r}", chosen(zone=value), "matchLabels")
    yield Case("a label whose value was forgotten", chosen(zone=None), "matchLabels")
    yield Case("In without values", chosen(wanted("In")), "values")
    yield Case("In with null for values", chosen({"key": "zone", "operator": "In", "values": None}), "values")
    yield Case("NotIn without values", chosen({"key": "zone", "operator": "NotIn"}), "values")
    yield Case("Exists with values", chosen(wanted("Exists", "a")), "values")
    yield Case("DoesNotExist with values", chosen(wanted("DoesNotExist", "a")), "values")


def bad_combinations() -> Iterator[Case]:
    machine = "MachineDeletionRemediationTemplate"
    yield Case("no spec", None, "spec")
    for wrong in (*WRONG_TYPES[OBJECT], [{}]):
        yield Case(f"spec is {wrong!r}", wrong, "spec")
    yield Case("neither template nor escalation", {}, "remediationTemplate")
    yield Case("neither, with other fields", {"minHealthy": 1, "mode": "Observe"}, "remediationTemplate")
    yield Case("both are null", {"remediationTemplate": None, "escalatingRemediations": None}, "remediationTemplate")
    yield Case("no step", escalating(), "remediationTemplate")
    yield Case("template and escalation", simple(**escalating(a_step())), "escalatingRemediations")
    yield Case("an empty template", {"remediationTemplate": {}}, "remediationTemplate")
    yield Case("minHealthy and maxUnhealthy", simple(minHealthy=1, maxUnhealthy=1), "minHealthy")
    yield Case("shares of both", simple(minHealthy="51%", maxUnhealthy="49%"), "maxUnhealthy")
    yield Case("both zero", simple(minHealthy=0, maxUnhealthy=0), "maxUnhealthy")
    power, pods = {"kind": POWER_CYCLE}, {"kind": "PodFailoverRemediationTemplate"}
    yield Case("a fast path without a proof", simple(fastPath={}), "fastPath")
    late = escalating(a_step(2, **power), a_step(1, **pods), fastPath={})
    yield Case("a fast path whose proof comes second", late, "fastPath")
    twice = {"evidence": ["Power", "Power"]}
    yield Case("evidence asked for twice", {"remediationTemplate": a_template(**power), "fastPath": twice}, "evidence")
    proofs = {"proof": ["A", "A"]}
    yield Case("a proof asked for twice", {"remediationTemplate": a_template(**power), "fastPath": proofs}, "proof")
    yield Case("an order twice", escalating(a_step(1), a_step(2), a_step(1, name="other")), "order")
    yield Case("a condition twice", simple(unhealthyConditions=[a_condition(), a_condition()]), "unhealthyConditions")
    later = a_condition(duration="1s")
    yield Case("twice, not as long", simple(unhealthyConditions=[a_condition(), later]), "unhealthyConditions")
    for kind in (
        machine,
        machine.lower().removesuffix("template") + "Template",
        machine.replace("Deletion", "DELETION"),
    ):
        alone = {"remediationTemplate": a_template(kind=kind), "maxUnhealthy": "49%"}
        yield Case(f"maxUnhealthy with {kind}", alone, "maxUnhealthy")
        yield Case(
            f"... as last step {kind}", escalating(a_step(1), a_step(2, kind=kind), maxUnhealthy=1), "maxUnhealthy"
        )
    domains = [{"label": "rack", "maxInFlight": 1}, {"label": "rack", "maxInFlight": 2}]
    yield Case("a failure domain twice", guarded(failureDomains=domains), "failureDomains")


def too_many() -> Iterator[Case]:
    for count in (MOST_CONDITIONS + 1, 5000):
        conditions = [a_condition(f"Type{number}") for number in range(count)]
        yield Case(f"{count} conditions", simple(unhealthyConditions=conditions), "unhealthyConditions")
    for count in (MOST_STEPS + 1, 1000):
        yield Case(f"{count} steps", escalating(*map(a_step, range(count))), "escalatingRemediations")
    for count in (MOST_PAUSE_REQUESTS + 1, 10_000):
        yield Case(f"{count} pause requests", simple(pauseRequests=["why"] * count), "pauseRequests")
    domains = [{"label": f"level-{number}", "maxInFlight": 1} for number in range(MOST_DOMAINS + 1)]
    yield Case("nine failure domains", guarded(failureDomains=domains), "failureDomains")
    labels = {f"label-{number}": "x" for number in range(MOST_LABELS + 1)}
    yield Case("too many labels", chosen(**labels), "matchLabels")
    expressions = [wanted("Exists", key=f"label-{number}") for number in range(MOST_EXPRESSIONS + 1)]
    yield Case("too many expressions", chosen(*expressions), "matchExpressions")
    yield Case("too many values", chosen(wanted("In", *map(str, range(MOST_VALUES + 1)))), "values")


def good() -> Iterator[Case]:
    minimal = simple()
    specs: dict[str, Any] = {
        "only a template": minimal,
        "only steps": escalating(a_step()),
        "every field": EVERYTHING,
        "a fast path as it is by itself": {"remediationTemplate": a_template(kind=POWER_CYCLE), "fastPath": {}},
        "a fast path that asks nobody else": {
            "remediationTemplate": a_template(kind=POWER_CYCLE),
            "fastPath": {"evidence": [], "missedHeartbeats": 2},
        },
        "a fast path for every proof there is": {
            "remediationTemplate": a_template(kind=POWER_CYCLE),
            "fastPath": {"proof": ["D", "C", "B", "A"]},
        },
        "a fast path before other steps": escalating(
            a_step(2), a_step(1, kind=POWER_CYCLE), fastPath={"missedHeartbeats": 4}
        ),
        "steps out of order, with gaps": escalating(a_step(7), a_step(-3), a_step(0)),
        "a kind twice": escalating(a_step(1), a_step(2, name="other")),
        "no steps beside a template": simple(escalatingRemediations=[]),
        "null for the other": {"remediationTemplate": a_template(), "escalatingRemediations": None},
        "null everywhere": minimal | dict.fromkeys(EVERYTHING.keys() - {"escalatingRemediations"}),
        "a template without a namespace": {
            "remediationTemplate": {key: value for key, value in a_template().items() if key != "namespace"}
        },
        "a template with an empty namespace": {"remediationTemplate": a_template(namespace="")},
        "a reference with everything": {
            "remediationTemplate": a_template(uid="1", resourceVersion="2", fieldPath="spec.template")
        },
        "an empty selector": simple(selector={}),
        "empty parts of a selector": chosen(),
        "labels and expressions": chosen(wanted("In", "a", "b"), wanted("DoesNotExist"), zone="", tier="a"),
        "a long label": chosen(**{f"{'a.' * 126}b/{'x' * LONGEST_LABEL}": "y" * LONGEST_LABEL}),
        "no conditions": simple(unhealthyConditions=[]),
        "one type in three states": simple(
            unhealthyConditions=[a_condition(status=status) for status in ("True", "False", "Unknown")]
        ),
        "a condition in another tongue": simple(unhealthyConditions=[a_condition("Größe", "ваша", "1µs")]),
        "as many conditions as there may be": simple(
            unhealthyConditions=[a_condition(f"Type{number}") for number in range(MOST_CONDITIONS)]
        ),
        "as many steps as there may be": escalating(*map(a_step, range(MOST_STEPS))),
        "a reason in another tongue": simple(pauseRequests=["Wartung — 🛠 до утра", ""]),
        "the longest reason": simple(pauseRequests=["x" * LONGEST_PAUSE_REQUEST] * MOST_PAUSE_REQUESTS),
        "minHealthy with machine deletion": {
            "remediationTemplate": a_template(kind="MachineDeletionRemediationTemplate"),
            "minHealthy": "51%",
        },
        "never healthy by itself": simple(healthyDelay="-1s"),
        "no cooldown": simple(stormCooldownDuration="0s"),
        "empty guards": guarded(),
        "guards of nothing": guarded(maxInFlight=0, failureDomains=[], alwaysAllowOne=False),
        "the strictest limits": guarded(
            rateLimit={"remediations": 1, "per": "1s"}, flapDamping={"remediations": 1, "within": "876000h"}
        ),
        "the loosest limits": guarded(
            rateLimit={"remediations": RATE_LIMIT_MAX, "per": "1s"},
            flapDamping={"remediations": FLAP_DAMPING_MAX, "within": "1s"},
        ),
        "unknown fields": minimal | {"unknown": 1, "guards": {"unknown": {}}, "é": [None]},
        "unknown fields of a reference": {"remediationTemplate": a_template(color="red")},
    }
    for text, spec in specs.items():
        yield Case(text, spec, "")
    for amount in (0, 1, 8, MOST_NODES, "0", "8", "007", "0%", "07%", "49%", "100%", str(MOST_NODES)):
        yield Case(f"minHealthy {amount!r}", simple(minHealthy=amount), "")
        yield Case(f"maxUnhealthy {amount!r}", simple(maxUnhealthy=amount), "")
        yield Case(f"maxInFlight {amount!r}", guarded(maxInFlight=amount), "")
    for length in ("60s", "1m", "0.02h", "60000ms", "1h0m0.5s", "60000000000ns", "876000h"):
        yield Case(f"a step of {length}", escalating(a_step(timeout=length)), "")
    for mode in ("Automatic", "Approve", "Observe"):
        yield Case(f"mode {mode}", simple(mode=mode), "")


GOOD: tuple[Case, ...] = tuple(good())
BAD: tuple[Case, ...] = (
    *wrong_types(),
    *missing_fields(),
    *bad_numbers(),
    *bad_words(),
    *bad_selectors(),
    *bad_combinations(),
    *too_many(),
)

# What the API server lets pass, because its rules cannot say it: only whoever reads a check finds these bad.
ONLY_WHEN_READ: frozenset[str] = frozenset()
