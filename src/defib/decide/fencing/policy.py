"""Understands the spec of a PowerCycleRemediation or its template: what is asked for, or all that is wrong with it.

The rules are those of the CRD, applied again: an object that slipped through is reported and never acted on.
"""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

from defib.decide.field import Field, Problems, Word
from defib.model.duration import read_duration, say
from defib.model.incident import Grade
from defib.model.power_cycle import HandOver, Policy, Way, Workloads

MOST_NODES = 5000
MOST_OPTIONS = 64
ATTEMPTS_MAX = 10
SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(hours=24)

DRIVER = Word("the name of a power driver", re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?"), 63)
ADDRESS = Word("an address", re.compile("[!-~]*"), 512)
LOGIN = re.compile("([^/?#]*//)?[^/?#]*@")  # how an address begins that holds one
SECRET = Word("the name of a Secret; it may hold {node}", re.compile(r"[-a-z0-9.{}:/_A-Z]+"), 512)
OPTION = Word("the value of an option", re.compile(r".*", re.DOTALL), 65536)

E = TypeVar("E", bound=StrEnum)


def read_policy(spec: Any, node: str | None = None) -> Policy | tuple[str, ...]:
    """Of the spec of a remediation; or what is wrong with it, one sentence each.

    With a node, what is said for others is left out: there may be thousands of them, in each of many remediations.
    """
    problems = Problems()
    field = Field("spec", {} if spec is None else spec, problems)
    policy = _policy(field, node) if field.is_a(dict) else Policy()
    return problems.sentences or policy


def _policy(spec: Field, node: str | None) -> Policy:
    power, within, usual = spec["power"], spec["timeouts"], Policy()
    if power.is_a(dict):
        power["driver"].is_a(str)
    _must_be_a_map(within)
    return Policy(
        way=_way(power),
        ways={name: _way(way) for name, way in _ways(power["nodes"], node) if way.is_given and way.is_a(dict)},
        workloads=_one_of(spec["workloads"], Workloads, usual.workloads),
        accepts=_grades(spec["acceptedProofs"]) or usual.accepts,
        attempts=_number(spec["attempts"], usual.attempts),
        backoff=_length(spec["backoff"], usual.backoff),
        off_within=_length(within["powerOff"], usual.off_within),
        free_within=_length(within["free"], usual.free_within),
        on_within=_length(within["powerOn"], usual.on_within),
        back_within=_length(within["nodeReady"], usual.back_within),
        needs_new_boot=_flag(spec["requireNewBoot"], usual=usual.needs_new_boot),
        restores_taints=_flag(spec["restoreTaints"], usual=usual.restores_taints),
        hand_over=_one_of(spec["handOver"], HandOver, usual.hand_over),
    )


def _ways(field: Field, node: str | None) -> list[tuple[str, Field]]:
    return field.members(MOST_NODES) if node is None else field.member(node, MOST_NODES)


def _way(field: Field) -> Way:
    return Way(
        driver=field["driver"].text(DRIVER) if field["driver"].is_given else "",
        address=_address(field["address"]),
        credentials=_secret(field["credentials"]),
        options={name: value.text(OPTION) for name, value in field["options"].members(MOST_OPTIONS) if value.is_given},
    )


def _address(field: Field) -> str:
    address = field.text(ADDRESS) if field.is_given else ""
    if LOGIN.match(address):  # not repeated to whoever wrote it: everybody may read a status
        field.wrong("must not hold a user name or a password: they belong into the Secret")
    return address


def _secret(field: Field) -> str:
    return field["name"].text(SECRET) if field.is_given and field.is_a(dict) else ""


def _must_be_a_map(field: Field) -> None:
    if field.is_given:
        field.is_a(dict)


def _one_of(field: Field, choice: type[E], usual: E) -> E:
    if not field.is_given or not field.is_a(str):
        return usual
    if field.value not in tuple(choice):
        field.wrong(f"must be one of {', '.join(choice)}, not {field.value[:40]!r}")
        return usual
    return choice(field.value)


def _grades(field: Field) -> tuple[Grade, ...]:
    found = [_one_of(entry, Grade, Grade.POWER) for entry in field.entries(len(Grade)) if entry.is_a(str)]
    if field.value == []:
        field.wrong(f"must name at least one of {', '.join(Grade)}")
    return tuple(found)


def _number(field: Field, usual: int) -> int:
    return (field.whole(1, ATTEMPTS_MAX) or usual) if field.is_given else usual


def _length(field: Field, usual: timedelta) -> timedelta:
    if not field.is_given:
        return usual
    try:
        length = read_duration(field.value)
    except ValueError as error:
        field.wrong(str(error))
        return usual
    if not SHORTEST <= length <= LONGEST:
        field.wrong(f"must be from {say(SHORTEST)} to {say(LONGEST)}")
    return length


def _flag(field: Field, *, usual: bool) -> bool:
    return bool(field.value) if field.is_given and field.is_a(bool) else usual
