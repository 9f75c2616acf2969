"""Understands what is asked for in a DrainPolicy, or says all that is wrong with it.

The rules are those of the CRD, applied again: a policy that slipped through is reported and never acted on.
"""

import re
from datetime import timedelta
from typing import Any

from defib.decide.field import Field, Problems, Word, refuse_repeats
from defib.decide.reading import LABEL_KEY, MODE, read_length, read_selector
from defib.model.amount import Amount, read_amount
from defib.model.drain_policy import ALL_SOURCES, ANY_FINALIZER, Ignored, Policy, Source, Strategy, Times
from defib.model.failover_policy import NO_PROOF
from defib.model.health_check import Mode
from defib.model.incident import Grade
from defib.model.selector import Selector

MOST_NAMESPACES = 64
MOST_FINALIZERS = 64
LONGEST = timedelta(hours=72)
NODEKEEPERS = "ManagedUpgradeOperator"

NAMESPACES = Word(
    "a namespace, or a pattern with * and ?, of lowercase letters, digits and dashes, and is no regular expression",
    re.compile(r"[-a-z0-9*?]+"),
    63,
)
SOURCE = Word(f"one of {', '.join(Source)}", re.compile("|".join(Source)), 63)
PROOFS = (Grade.POWER, Grade.STORAGE)
PROOF = Word(f"one of {', '.join(PROOFS)}, {NO_PROOF}", re.compile(f"{'|'.join(PROOFS)}|{NO_PROOF}"), 4)
COMPATIBILITY = Word(f"one of None, {NODEKEEPERS}", re.compile(f"None|{NODEKEEPERS}"), 63)

_STRATEGIES = {
    "delete": Strategy.DELETE,
    "finalizers": Strategy.FINALIZERS,
    "stuck": Strategy.STUCK,
    "pdbDelete": Strategy.PDB_DELETE,
    "pdbFinalizers": Strategy.PDB_FINALIZERS,
}
_ELSEWHERE = {
    "timeout": "it comes from managed-upgrade-operator-config (nodeDrain.timeOut)",
    "expectedDrainTime": "it comes from managed-upgrade-operator-config (nodeDrain.expectedNodeDrainTime)",
    "pdbForceDrainTimeout": "it comes from the UpgradeConfig (PDBForceDrainTimeout)",
    "sources": "only drains of OpenShift are watched",
}


def read_policy(spec: Any) -> Policy | tuple[str, ...]:
    """What a policy asks for; or what is wrong with it, one sentence each."""
    problems = Problems()
    field = Field("spec", spec, problems)
    policy = _policy(field) if field.is_a(dict) else None
    return policy if policy is not None and not problems.sentences else problems.sentences


def _policy(spec: Field) -> Policy:
    """Means something only if no problem was noted."""
    is_nodekeepers = _is_nodekeepers(spec)
    return Policy(
        nodes=_selector(spec["nodeSelector"]),
        with_control_plane=spec["includeControlPlane"].flag(),
        mode=_mode(spec["mode"]),
        times=_times(spec),
        strategies=_strategies(spec["strategies"]),
        ignored=Ignored(patterns=_ignored(spec["ignoredNamespaces"])),
        finalizers=_finalizers(spec["finalizers"]),
        most_at_once=_most_at_once(spec["maxForcedNodes"]),
        sources=_sources(spec["sources"]),
        needs_proof=_needs_proof(spec["acceptedProofs"]),
        is_nodekeepers=is_nodekeepers,
        is_switched_here=is_nodekeepers and spec["strategies"].is_given,
    )


def _selector(field: Field) -> Selector:
    if field["matchLabels"].value == {}:
        field["matchLabels"].wrong("is empty: was a label without a value dropped? to select all, leave it out")
    return read_selector(field)


def _mode(field: Field) -> Mode:
    return Mode(field.text(MODE) or Mode.AUTOMATIC) if field.is_given else Mode.AUTOMATIC


def _times(spec: Field) -> Times:
    usual = Times()
    return Times(
        timeout=_length(spec["timeout"], usual.timeout),
        expected=_length(spec["expectedDrainTime"], usual.expected),
        pdb_timeout=_length(spec["pdbForceDrainTimeout"], usual.pdb_timeout),
        extra_grace=_length(spec["extraGrace"], usual.extra_grace),
        flap_window=_length(spec["flapWindow"], usual.flap_window),
    )


def _length(field: Field, usual: timedelta) -> timedelta:
    return read_length(field, usual, LONGEST)


def _strategies(field: Field) -> frozenset[Strategy]:
    """Each is on unless it is switched off."""
    if field.is_given and not field.is_a(dict):
        return frozenset()
    switches = ((field[name], strategy) for name, strategy in _STRATEGIES.items())
    return frozenset(strategy for switch, strategy in switches if not switch.is_given or switch.flag())


def _ignored(field: Field) -> tuple[str, ...]:
    return tuple(entry.text(NAMESPACES) for entry in field.entries(MOST_NAMESPACES))


def _finalizers(field: Field) -> frozenset[str]:
    entries = field.entries(MOST_FINALIZERS)
    return frozenset(ANY_FINALIZER if entry.value == ANY_FINALIZER else entry.text(LABEL_KEY) for entry in entries)


def _most_at_once(field: Field) -> Amount:
    if not field.is_given:
        return Policy().most_at_once
    try:
        return read_amount(field.value)
    except ValueError as error:
        field.wrong(str(error))
        return Amount(0)


def _sources(field: Field) -> frozenset[Source]:
    if not field.is_given:
        return ALL_SOURCES
    entries = field.entries(len(Source))
    named = [entry.text(SOURCE) for entry in entries]
    refuse_repeats(entries, [one or None for one in named])
    if field.value == []:
        field.wrong(f"must name at least one of {', '.join(Source)}")
    return frozenset(Source(one) for one in named if one)


def _needs_proof(field: Field) -> bool:
    """A drain makes no proofs of its own, so there is nothing to choose among them: one is needed, or none is."""
    if not field.is_given:
        return True
    named = sorted(entry.text(PROOF) for entry in field.entries(len(PROOFS)))
    if named not in (sorted(PROOFS), [NO_PROOF]):
        field.wrong(f"must be [{', '.join(PROOFS)}] or [{NO_PROOF}], which means that no proof is needed")
    return named != [NO_PROOF]


def _is_nodekeepers(spec: Field) -> bool:
    field = spec["compatibility"]
    if not field.is_given or field.text(COMPATIBILITY) != NODEKEEPERS:
        return False
    for name, why in _ELSEWHERE.items():
        if spec[name].is_given:
            spec[name].wrong(f"with compatibility {NODEKEEPERS} {why}; leave it out")
    if spec["finalizers"].value == []:
        spec["finalizers"].wrong(
            f"with compatibility {NODEKEEPERS} it must name some, or be left out, which means any;"
            " to remove none, switch off the strategies finalizers and pdbFinalizers"
        )
    return True
