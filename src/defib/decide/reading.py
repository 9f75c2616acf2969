"""Understands a NodeHealthCheck: what it asks for, or all that is wrong with it; and what its status remembers.

The rules are those of the CRD, applied again: an object that slipped through is reported and never acted on. A field
that we do not know is ignored.
"""

import re
from datetime import timedelta

import msgspec

from defib.decide.field import Field, Problems, Word, refuse_repeats
from defib.decide.salvage import salvage
from defib.model import medik8s, power_cycle
from defib.model.amount import Amount, read_amount
from defib.model.duration import read_duration, say
from defib.model.evidence import Source
from defib.model.health_check import (
    DEFAULT_MAX_UNHEALTHY,
    Broken,
    Check,
    CheckStatus,
    Domain,
    FastPath,
    Guards,
    KindRef,
    Mode,
    NodeHealthCheck,
    Rate,
    Step,
    TemplateRef,
    UnhealthyCondition,
)
from defib.model.incident import Grade
from defib.model.selector import EVERYTHING, OPERATORS, Requirement, Selector

MOST_CONDITIONS = 32
MOST_STEPS = 32
MOST_PAUSE_REQUESTS = 64
MOST_DOMAINS = 8
MOST_LABELS = 64
MOST_EXPRESSIONS = 32
MOST_VALUES = 64
SHORTEST_TIMEOUT = timedelta(seconds=60)
SHORTEST_PERIOD = timedelta(seconds=1)
RATE_LIMIT_MAX = 1000
FLAP_DAMPING_MAX = 100
MISSED_LEAST, MISSED_MOST = 2, 10
INT32_MAX = 2**31 - 1

_DEFAULT_CONDITIONS = tuple(
    UnhealthyCondition("Ready", status, timedelta(seconds=300)) for status in ("False", "Unknown")
)

ASKED = (Source.KUBELET.value, Source.POWER.value)  # who can be asked for; the heartbeat is read in any case
_LOWER = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DOMAIN = rf"{_LOWER}(?:\.{_LOWER})*"
_LABEL = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SHORT_PREFIX = "(?![^/]{254})"  # what stands before the slash has at most 253 characters

KIND = Word("a kind of letters and digits that ends in Template", re.compile("[A-Za-z][A-Za-z0-9]*Template"), 63)
API_VERSION = Word(
    "a group and a version like defib.dev/v1alpha1", re.compile(f"{_SHORT_PREFIX}{_DOMAIN}/[a-z][a-z0-9]{{0,62}}"), 317
)
NAME = Word("a name of lowercase letters, digits, dots and dashes", re.compile(_DOMAIN), 253)
NAMESPACE = Word("a namespace of lowercase letters, digits and dashes", re.compile(f"(?:{_LOWER})?"), 63)
LABEL_KEY = Word(
    "the name of a label like topology.kubernetes.io/zone",
    re.compile(f"{_SHORT_PREFIX}(?:{_DOMAIN}/)?{_LABEL}"),
    317,
)
LABEL_VALUE = Word("the value of a label: letters, digits, dots, dashes", re.compile(f"(?:{_LABEL})?"), 63)
OPERATOR = Word(f"one of {', '.join(OPERATORS)}", re.compile("|".join(OPERATORS)), 12)
MODE = Word(f"one of {', '.join(Mode)}", re.compile("|".join(Mode)), 9)
CONDITION_TYPE = Word("the type of a node's condition", re.compile(".+", re.DOTALL), 316)
CONDITION_STATUS = Word("the status of a node's condition", re.compile(".+", re.DOTALL), 64)
PROOF = Word(f"one of {', '.join(Grade)}", re.compile("|".join(Grade)), 1)
EVIDENCE = Word(f"one of {', '.join(ASKED)}", re.compile("|".join(ASKED)), 9)
PAUSE_REQUEST = Word("a reason", re.compile(".*", re.DOTALL), 1024)


def read_check(item: NodeHealthCheck) -> Check | Broken:
    problems = Problems()
    spec = Field("spec", {} if item.spec is None else item.spec, problems)
    check = _check(item, spec) if spec.is_a(dict) else None
    if check is not None and not problems.sentences:
        return check
    return Broken(
        name=item.name,
        uid=item.uid,
        version=item.metadata.resource_version,
        generation=item.metadata.generation,
        problems=problems.sentences,
    )


def read_check_again(item: NodeHealthCheck, was: NodeHealthCheck, check: Check | Broken) -> Check | Broken:
    """As `read_check`, with what it made of the same check before: mostly nothing but its status has changed since."""
    is_same_wish = (item.uid, item.metadata.generation, item.spec) == (was.uid, was.metadata.generation, was.spec)
    if not is_same_wish or item.name != was.name:
        return read_check(item)
    if isinstance(check, Broken):
        return msgspec.structs.replace(check, version=item.metadata.resource_version)
    return msgspec.structs.replace(
        check,
        version=item.metadata.resource_version,
        is_being_deleted=item.metadata.deletion_timestamp is not None,
        annotations=item.annotations,
    )


def read_status(item: NodeHealthCheck) -> CheckStatus:
    """Ours, or what the Go operator wrote. What cannot be read counts as not said."""
    return salvage(item.status, CheckStatus) or CheckStatus()


def _check(item: NodeHealthCheck, spec: Field) -> Check:
    """Means something only if no problem was noted."""
    steps = _steps(spec["remediationTemplate"], spec["escalatingRemediations"])
    return Check(
        name=item.name,
        uid=item.uid,
        version=item.metadata.resource_version,
        generation=item.metadata.generation,
        is_being_deleted=item.metadata.deletion_timestamp is not None,
        annotations=item.annotations,
        selector=read_selector(spec["selector"]),
        conditions=_conditions(spec["unhealthyConditions"]),
        limit=_limit(spec["minHealthy"], spec["maxUnhealthy"], steps),
        limit_is_min_healthy=spec["minHealthy"].is_given,
        storm_cooldown=_optional_length(spec["stormCooldownDuration"]) or None,  # calm for no time at all is no wish
        steps=steps,
        escalates=_is_ladder(spec["escalatingRemediations"]),
        pause_requests=tuple(
            request.text(PAUSE_REQUEST) for request in spec["pauseRequests"].entries(MOST_PAUSE_REQUESTS)
        ),
        healthy_delay=_optional_length(spec["healthyDelay"], least=None),
        mode=_mode(spec["mode"]),
        guards=_guards(spec["guards"]),
        fast_path=_fast_path(spec["fastPath"], steps),
    )


def _amount(field: Field) -> Amount:
    try:
        return read_amount(field.value)
    except ValueError as error:
        # The name once more: tools that know the Go operator look for `minHealthy must not be negative`.
        field.wrong(f"{field.name} {error}")
        return Amount(0)


def _optional_amount(field: Field) -> Amount | None:
    return _amount(field) if field.is_given else None


def _length(field: Field, least: timedelta | None = timedelta()) -> timedelta:
    """Not negative, unless `least` is None."""
    if not field.is_given:
        field.wrong("must be given")
        return timedelta()
    try:
        length = read_duration(field.value)
    except ValueError as error:
        field.wrong(str(error))
        return timedelta()
    if least is not None and field.value.startswith("-"):
        field.wrong(f"{field.value} is negative")
    elif least is not None and length < least:
        field.wrong(f"{field.value} is too short; at least {least.total_seconds():.0f}s")
    return length


def read_length(field: Field, usual: timedelta, longest: timedelta) -> timedelta:
    """From 0s to `longest`; `usual` where none is given."""
    if not field.is_given:
        return usual
    try:
        length = read_duration(field.value)
    except ValueError as error:
        field.wrong(str(error))
        return usual
    if field.value.startswith("-") or length > longest:
        field.wrong(f"must be from 0s to {say(longest)}")
    return length


def _optional_length(field: Field, least: timedelta | None = timedelta()) -> timedelta | None:
    return _length(field, least) if field.is_given else None


def _mode(field: Field) -> Mode:
    return Mode(field.text(MODE) or Mode.AUTOMATIC) if field.is_given else Mode.AUTOMATIC


def _limit(fewest: Field, most: Field, steps: tuple[Step, ...]) -> Amount:
    if fewest.is_given and most.is_given:
        most.wrong("minHealthy and maxUnhealthy cannot be specified at the same time")
    kinds = {step.template.kind.name.lower() for step in steps}
    if most.is_given and medik8s.MACHINE_DELETION_TEMPLATE.lower() in kinds:
        most.wrong(f"maxUnhealthy cannot be used with {medik8s.MACHINE_DELETION_TEMPLATE}; use minHealthy")
    given = [_amount(field) for field in (fewest, most) if field.is_given]
    return given[0] if given else DEFAULT_MAX_UNHEALTHY


def _conditions(field: Field) -> tuple[UnhealthyCondition, ...]:
    """An empty list is a wish too: nothing is unhealthy."""
    if not field.is_given:
        return _DEFAULT_CONDITIONS
    entries = [entry for entry in field.entries(MOST_CONDITIONS) if entry.is_a(dict)]
    conditions = tuple(
        UnhealthyCondition(
            entry["type"].text(CONDITION_TYPE), entry["status"].text(CONDITION_STATUS), _length(entry["duration"])
        )
        for entry in entries
    )
    keys = [f"{one.type} {one.status}" if one.type and one.status else None for one in conditions]
    refuse_repeats(entries, keys)
    return conditions


def read_selector(field: Field) -> Selector:
    if not field.is_given or not field.is_a(dict):
        return EVERYTHING
    labels = field["matchLabels"].members(MOST_LABELS)
    expressions = field["matchExpressions"].entries(MOST_EXPRESSIONS)
    return Selector(
        (
            *(_label(key, value) for key, value in labels),
            *(_expression(entry) for entry in expressions if entry.is_a(dict)),
        )
    )


def _label(key: str, value: Field) -> Requirement:
    if complaint := LABEL_KEY.complaint(key):
        value.wrong(f"the key {complaint}")
    return Requirement(key, "In", frozenset([value.text(LABEL_VALUE)]))


def _expression(field: Field) -> Requirement:
    key, operator = field["key"].text(LABEL_KEY), field["operator"].text(OPERATOR)
    listed = field["values"]
    values = frozenset(value.text(LABEL_VALUE) for value in listed.entries(MOST_VALUES))
    if operator in ("In", "NotIn") and listed.value in (None, []):
        listed.wrong(f"{operator} needs at least one value")
    if operator in ("Exists", "DoesNotExist") and values:
        listed.wrong(f"{operator} takes no values")
    return Requirement(key, operator, values)


def _is_ladder(field: Field) -> bool:
    """An empty list of steps is none."""
    return field.is_given and field.value != []


def _steps(single: Field, ladder: Field) -> tuple[Step, ...]:
    if single.is_given and _is_ladder(ladder):
        ladder.wrong("remediationTemplate and escalatingRemediations cannot be specified at the same time")
    if not single.is_given and not _is_ladder(ladder):
        single.wrong("one of remediationTemplate and escalatingRemediations must be specified")
    alone = (Step(_template(single)),) if single.is_given else ()
    entries = [entry for entry in ladder.entries(MOST_STEPS) if entry.is_a(dict)]
    orders = [entry["order"].whole(-INT32_MAX - 1, INT32_MAX) for entry in entries]
    refuse_repeats([entry["order"] for entry in entries], orders)
    steps = [
        Step(_template(entry["remediationTemplate"]), order or 0, _length(entry["timeout"], SHORTEST_TIMEOUT))
        for entry, order in zip(entries, orders, strict=True)
    ]
    return (*alone, *sorted(steps, key=lambda step: step.order))


def _template(field: Field) -> TemplateRef:
    if not field.is_a(dict):
        return TemplateRef(KindRef("", ""), "", "")
    kind = KindRef(field["apiVersion"].text(API_VERSION), field["kind"].text(KIND))
    # Whether its kind needs a namespace is known to the API server only.
    namespace = field["namespace"].text(NAMESPACE) if field["namespace"].is_given else ""
    return TemplateRef(kind, namespace, field["name"].text(NAME))


def _guards(field: Field) -> Guards:
    if not field.is_given or not field.is_a(dict):
        return Guards()
    return Guards(
        max_in_flight=_optional_amount(field["maxInFlight"]),
        domains=_domains(field["failureDomains"]),
        always_allow_one=field["alwaysAllowOne"].flag(),
        rate_limit=_rate(field["rateLimit"], RATE_LIMIT_MAX, "per"),
        flap_damping=_rate(field["flapDamping"], FLAP_DAMPING_MAX, "within"),
    )


def _fast_path(field: Field, steps: tuple[Step, ...]) -> FastPath | None:
    if not field.is_given or not field.is_a(dict):
        return None
    if steps and steps[0].template.kind.name != power_cycle.TEMPLATE.name:
        field.wrong(
            f"needs a {power_cycle.TEMPLATE.name} as the first remediation: nothing else proves that a machine is off"
        )
    usual, missed = FastPath(), field["missedHeartbeats"]
    named = _chosen(field["evidence"], EVIDENCE, len(ASKED))
    if field["proof"].value == []:
        field["proof"].wrong(f"must name at least one of {', '.join(Grade)}")
    return FastPath(
        missed=(missed.whole(MISSED_LEAST, MISSED_MOST) or usual.missed) if missed.is_given else usual.missed,
        evidence=tuple(Source(name) for name in named) if field["evidence"].is_given else usual.evidence,
        proof=_chosen(field["proof"], PROOF, len(Grade)) if field["proof"].is_given else usual.proof,
    )


def _chosen(field: Field, word: Word, most: int) -> tuple[str, ...]:
    """Each once."""
    entries = field.entries(most)
    named = [entry.text(word) for entry in entries]
    refuse_repeats(entries, [name or None for name in named])
    return tuple(name for name in named if name)


def _domains(field: Field) -> tuple[Domain, ...]:
    entries = [entry for entry in field.entries(MOST_DOMAINS) if entry.is_a(dict)]
    domains = tuple(Domain(entry["label"].text(LABEL_KEY), _amount(entry["maxInFlight"])) for entry in entries)
    refuse_repeats(entries, [domain.label or None for domain in domains])
    return domains


def _rate(field: Field, most: int, period: str) -> Rate | None:
    if not field.is_given or not field.is_a(dict):
        return None
    count = field["remediations"].whole(1, most)
    return Rate(count or 1, _length(field[period], SHORTEST_PERIOD))
