"""Whole objects of our kinds, good and bad, from the corpora of their specs: what `defib check` and the API server read."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests import check_corpus, drain_corpus, failover_corpus, power_cycle_corpus
from tests.check_corpus import Case

Body = dict[str, Any]

# In the names of good ones that have fields which nobody knows: taken and dropped, unless somebody asks to be strict.
IS_UNKNOWN = "unknown"


class Sample(NamedTuple):
    """`field` is what a refusal must name; it is empty where nothing is wrong."""

    name: str
    body: Body
    field: str


def _samples(make: Callable[[Any], Body], kind: str, cases: tuple[Case, ...]) -> Iterator[Sample]:
    for case in cases:
        yield Sample(f"{kind} {case.name}", make(case.spec), case.field)


def _all(*, good: bool) -> Iterator[Sample]:
    check, drain, failover, power = check_corpus, drain_corpus, failover_corpus, power_cycle_corpus
    yield from _samples(check.a_check, "check", check.GOOD if good else check.BAD)
    yield from _samples(drain.a_policy, "drain", drain.GOOD if good else drain.BAD)
    policies = failover.GOOD_POLICIES if good else failover.BAD_POLICIES
    remediations = failover.GOOD_REMEDIATIONS if good else failover.BAD_REMEDIATIONS
    yield from _samples(failover.a_policy, "policy", policies)
    yield from _samples(failover.a_remediation, "failover", remediations)
    yield from _samples(failover.a_template, "failover template", remediations)
    yield from _samples(power.a_remediation, "power cycle", power.GOOD if good else power.BAD)
    yield from _samples(power.a_template, "power cycle template", power.GOOD if good else power.BAD)


GOOD: tuple[Sample, ...] = tuple(_all(good=True))
BAD: tuple[Sample, ...] = tuple(_all(good=False))
