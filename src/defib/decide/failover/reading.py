"""Understands what is asked for in a PodFailoverPolicy or PodFailoverRemediation, or says all that is wrong with it.

The rules are those of the CRDs, applied again: an object that slipped through is reported and never acted on. What
the cluster operator does not allow is told in the same way.
"""

import re
from datetime import timedelta
from typing import Any

from defib.decide.field import Field, Problems, Word, refuse_repeats
from defib.decide.reading import LABEL_KEY, read_length, read_selector
from defib.decide.rules import FailoverRules
from defib.model.failover_policy import NO_PROOF, Policy
from defib.model.incident import Grade
from defib.model.pod_failover import USUAL_PROOFS, Exclusions, Owner, Wish
from defib.model.selector import Selector

MOST_PATTERNS = 64
MOST_OWNERS = 32
MOST_TAINTS = 16
GRACE_MAX = 3600
LONGEST_DWELL = timedelta(hours=24)
FORCE, GRACEFUL = "Force", "Graceful"
ANY_TAINT = "*"

PATTERN = Word("a pattern of lowercase letters, digits, dots, dashes, * and ?", re.compile(r"[-a-z0-9.*?]+"), 253)
KIND = Word("a kind of letters and digits", re.compile("[A-Za-z][A-Za-z0-9]*"), 63)
MODE = Word(f"one of {FORCE}, {GRACEFUL}", re.compile(f"{FORCE}|{GRACEFUL}"), 8)
PROOF = Word(f"one of {', '.join(Grade)}, {NO_PROOF}", re.compile(f"[{''.join(Grade)}]|{NO_PROOF}"), 4)


def read_policy(spec: Any, rules: FailoverRules) -> Policy | tuple[str, ...]:
    """What a policy asks for; or what is wrong with it, one sentence each."""
    problems = Problems()
    field = Field("spec", {} if spec is None else spec, problems)
    policy = _policy(field, rules) if field.is_a(dict) else None
    return policy if policy is not None and not problems.sentences else problems.sentences


def read_wish(spec: Any) -> Wish | tuple[str, ...]:
    """What a remediation of a whole node asks for; or what is wrong with it."""
    problems = Problems()
    field = Field("spec", {} if spec is None else spec, problems)
    wish = _wish(field, usual=None) if field.is_a(dict) else None
    return wish if wish is not None and not problems.sentences else problems.sentences


def _policy(spec: Field, rules: FailoverRules) -> Policy:
    if not spec["selector"].is_given:
        spec["selector"].wrong("must be given; {} selects all pods of the namespace")
    return Policy(
        wish=_wish(spec, usual=rules),
        nodes=_selector(spec["nodeSelector"]),
        dwell=max(read_length(spec["dwell"], rules.dwell, LONGEST_DWELL), rules.shortest_dwell),
        taints=_taints(spec["taints"]),
    )


def _wish(spec: Field, *, usual: FailoverRules | None) -> Wish:
    """With `usual`, somebody has chosen these very pods, within what the cluster operator allows."""
    return Wish(
        selector=_selector(spec["selector"]),
        exclude=_exclusions(spec["exclude"]),
        grace_seconds=_grace(spec["deletion"], usual=FORCE if usual is not None else GRACEFUL),
        accepts=_accepts(spec["acceptedProofs"], usual),
        is_chosen=usual is not None,
    )


def _exclusions(field: Field) -> Exclusions:
    if not field.is_given or not field.is_a(dict):
        return Exclusions()
    return Exclusions(
        names=_patterns(field["names"]),
        selector=_given_selector(field["selector"]),
        owners=tuple(_owner(entry) for entry in field["owners"].entries(MOST_OWNERS) if entry.is_a(dict)),
        claims=_patterns(field["claims"]),
    )


def _given_selector(field: Field) -> Selector | None:
    """One that is not given excludes nothing; an empty one excludes everything."""
    return _selector(field) if field.is_given else None


def _selector(field: Field) -> Selector:
    if field["matchLabels"].value == {}:
        field["matchLabels"].wrong("is empty: was a label without a value dropped? to select all, leave it out")
    return read_selector(field)


def _patterns(field: Field) -> tuple[str, ...]:
    return tuple(entry.text(PATTERN) for entry in field.entries(MOST_PATTERNS))


def _owner(field: Field) -> Owner:
    return Owner(field["kind"].text(KIND), field["name"].text(PATTERN) if field["name"].is_given else "*")


def _grace(field: Field, usual: str) -> int | None:
    """0 is by force, None is as each pod says."""
    if not field.is_given or not field.is_a(dict):
        return 0 if usual == FORCE else None
    mode = (field["mode"].text(MODE) if field["mode"].is_given else "") or usual
    seconds = field["gracePeriodSeconds"]
    length = seconds.whole(1, GRACE_MAX) if seconds.is_given else None
    if mode == FORCE and seconds.is_given:
        seconds.wrong(f"has no meaning with the mode {FORCE}")
    return 0 if mode == FORCE else length


def _accepts(field: Field, rules: FailoverRules | None) -> frozenset[Grade]:
    if not field.is_given:
        return rules.proofs if rules is not None else USUAL_PROOFS
    entries = field.entries(len(Grade) + 1)
    named = [entry.text(PROOF) for entry in entries]
    refuse_repeats(entries, [one or None for one in named])
    if field.value == []:
        field.wrong(f"must name at least one of {', '.join(Grade)}, or {NO_PROOF}")
    if NO_PROOF in named and len(named) > 1:
        field.wrong(f"{NO_PROOF} must stand alone")
    refused = [one for one in named if one and rules is not None and one not in rules.allowed_proofs]
    if refused:
        field.wrong(f"{', '.join(refused)} is not allowed in this cluster (setting failover_allowed_proofs)")
    return frozenset(Grade(one) for one in named if one in tuple(Grade))


def _taints(field: Field) -> tuple[str, ...]:
    entries = [entry for entry in field.entries(MOST_TAINTS) if entry.is_a(str)]
    return tuple(ANY_TAINT if entry.value == ANY_TAINT else entry.text(LABEL_KEY) for entry in entries)
