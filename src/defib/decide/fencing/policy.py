"""Understands the spec of our remediations that fence, or of their templates: what is asked for, or all that is wrong.

The rules are those of the CRD, applied again: an object that slipped through is reported and never acted on.
"""

import re
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from defib.decide.field import Field, Problems, Word
from defib.model.duration import read_duration, say
from defib.model.incident import Grade
from defib.model.power import AGENT
from defib.model.power_cycle import HandOver, Policy, Way, Workloads
from defib.model.same import Same
from defib.model.self_fencing import ALLOWS_SOFTWARE
from defib.model.self_fencing import TEMPLATE as SELF_FENCE

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
    return _read(Same(spec), node)


# Each remediation is read several times in every pass, and its spec hardly ever changes. One may be large, and is kept alive by
# this for a while after it is gone: so they are few.
@lru_cache(maxsize=32)
def _read(same: Same[Any], node: str | None) -> Policy | tuple[str, ...]:
    spec, problems = same.value, Problems()
    field = Field("spec", {} if spec is None else spec, problems)
    policy = _policy(field, node) if field.is_a(dict) else Policy()
    return problems.sentences or policy


def read_self_fence(spec: Any, _: str | None = None) -> Policy | tuple[str, ...]:
    """The same of a SelfFenceRemediation, which says the same for all nodes. Only a new boot shows that it worked."""
    problems = Problems()
    field = Field("spec", {} if spec is None else spec, problems)
    policy = Policy()
    if field.is_a(dict):
        is_weak = _flag(field[ALLOWS_SOFTWARE], usual=False)
        way = Way(driver=AGENT, options={ALLOWS_SOFTWARE: "true"} if is_weak else None)
        policy = msgspec.structs.replace(_common(field, "order"), way=way)
    return problems.sentences or policy


def _policy(spec: Field, node: str | None) -> Policy:
    power, usual = spec["power"], Policy()
    if power.is_a(dict):
        power["driver"].is_a(str)
    return msgspec.structs.replace(
        _common(spec, "powerOff"),
        way=_way(power),
        ways={name: _way(way) for name, way in _ways(power["nodes"], node) if way.is_given and way.is_a(dict)},
        on_within=_length(spec["timeouts"]["powerOn"], usual.on_within),
        needs_new_boot=_flag(spec["requireNewBoot"], usual=usual.needs_new_boot),
    )


def _common(spec: Field, off: str) -> Policy:
    within, usual = spec["timeouts"], Policy()
    _must_be_a_map(within)
    return Policy(
        workloads=_one_of(spec["workloads"], Workloads, usual.workloads),
        accepts=_grades(spec["acceptedProofs"]) or usual.accepts,
        attempts=_number(spec["attempts"], usual.attempts),
        backoff=_length(spec["backoff"], usual.backoff),
        off_within=_length(within[off], usual.off_within),
        free_within=_length(within["free"], usual.free_within),
        back_within=_length(within["nodeReady"], usual.back_within),
        restores_taints=_flag(spec["restoreTaints"], usual=usual.restores_taints),
        hand_over=_one_of(spec["handOver"], HandOver, usual.hand_over),
    )


def _ways(field: Field, node: str | None) -> list[tuple[str, Field]]:
    return field.members(MOST_NODES) if node is None else field.member(node, MOST_NODES)


def _way(field: Field) -> Way:
    driver = field["driver"].text(DRIVER) if field["driver"].is_given else ""
    if driver == AGENT:
        field["driver"].wrong(
            f"must name a power driver; for nodes that take themselves down there is {SELF_FENCE.name}"
        )
    return Way(
        driver=driver,
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
