"""What a DrainPolicy asks for, and what is wrong with it: all rules of the CRD again."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.drains.reading import read_policy
from defib.model.amount import Amount
from defib.model.drain_policy import ALL_STRATEGIES, Ignored, Policy, Source, Strategy, Times
from defib.model.health_check import Mode
from tests import drain_corpus as corpus
from tests.builders import HOUR, MINUTE, SECOND
from tests.check_corpus import Case
from tests.drain_corpus import BAD, EVERYTHING, GOOD, NODEKEEPERS


def understood(spec: Any) -> Policy:
    policy = read_policy(spec)
    assert isinstance(policy, Policy), policy
    return policy


def refused(spec: Any) -> tuple[str, ...]:
    problems = read_policy(spec)
    assert isinstance(problems, tuple)
    assert_fit_for_a_status(problems)
    return problems


def assert_fit_for_a_status(problems: tuple[str, ...]) -> None:
    assert 1 <= len(problems) <= 10
    for problem in problems:
        assert problem.startswith("spec")
        assert len(problem) <= 300
        assert problem.isprintable()
    msgspec.json.encode(problems)


@pytest.mark.parametrize("case", BAD, ids=[case.name for case in BAD])
def test_a_policy_that_makes_no_sense_is_refused_with_a_sentence_that_names_the_field(case: Case) -> None:
    assert any(case.field in problem for problem in refused(case.spec))


@pytest.mark.parametrize("case", GOOD, ids=[case.name for case in GOOD])
def test_a_policy_that_makes_sense_is_understood(case: Case) -> None:
    times = understood(case.spec).times
    for length in msgspec.structs.astuple(times):
        assert timedelta() <= length <= 72 * HOUR


def test_a_policy_that_says_nothing_is_all_defaults() -> None:
    policy = understood({})
    assert policy == Policy()
    assert policy.times == Times(
        timeout=45 * MINUTE,
        expected=8 * MINUTE,
        pdb_timeout=60 * MINUTE,
        extra_grace=30 * SECOND,
        flap_window=10 * MINUTE,
    )
    assert (policy.mode, policy.most_at_once, policy.strategies) == (Mode.AUTOMATIC, Amount(1), ALL_STRATEGIES)
    assert policy.sources == frozenset(Source)
    assert policy.needs_proof
    assert not policy.with_control_plane
    assert not policy.finalizers


def test_what_a_policy_says_is_what_is_understood() -> None:
    policy = understood(EVERYTHING)
    worker = {"node-role.kubernetes.io/worker": "", "tier": "a", "zone": "b"}
    assert policy.nodes.selects(worker)
    assert not policy.nodes.selects(worker | {"gpu": ""})
    assert msgspec.structs.replace(policy, nodes=Policy().nodes) == Policy(
        with_control_plane=True,
        mode=Mode.APPROVE,
        times=Times(
            timeout=30 * MINUTE,
            expected=5 * MINUTE,
            pdb_timeout=90 * MINUTE,
            extra_grace=MINUTE,
            flap_window=timedelta(),
        ),
        strategies=frozenset({Strategy.DELETE, Strategy.STUCK, Strategy.PDB_FINALIZERS}),
        ignored=Ignored(patterns=("kube-system", "openshift-*", "team-?")),
        finalizers=frozenset({"example.com/cleanup", "foregroundDeletion"}),
        most_at_once=Amount(10, is_percent=True),
        sources=frozenset({Source.KURED, Source.DEFIB}),
        needs_proof=False,
    )


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("kube-system", ["kube-system"], ["kube-systems", "my-kube-system", "kube"]),
        ("openshift-*", ["openshift-", "openshift-etcd"], ["openshift", "my-openshift-etcd"]),
        ("*-system", ["kube-system", "-system"], ["kube-system2"]),
        ("team-?", ["team-a", "team-7"], ["team-", "team-ab"]),
        ("*", ["default", "a"], []),
    ],
)
def test_dk_09_a_pattern_is_for_the_whole_name_of_a_namespace(
    pattern: str, matches: list[str], others: list[str]
) -> None:
    ignored = understood({"ignoredNamespaces": [pattern]}).ignored
    assert [name for name in (*matches, *others) if ignored.has(name)] == matches


@pytest.mark.parametrize("pattern", ["openshift-.*", "^kube-system$", "(", "[", "a|b", "kube.system"])
def test_dk_09_what_looks_like_a_regular_expression_is_a_mistake_that_is_told_and_not_a_pattern_that_matches_nothing(
    pattern: str,
) -> None:
    (problem,) = refused({"ignoredNamespaces": ["default", pattern]})
    assert problem.startswith("spec.ignoredNamespaces[1]: ")
    assert "no regular expression" in problem
    assert repr(pattern) in problem


def test_dk_13_with_every_strategy_switched_off_the_policy_is_as_good_as_any_other() -> None:
    """Its times are still there: by them a drain is found to have failed."""
    policy = understood(corpus.NOTHING_IS_TOUCHED)
    assert policy == Policy(strategies=frozenset())


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("delete", Strategy.DELETE),
        ("finalizers", Strategy.FINALIZERS),
        ("stuck", Strategy.STUCK),
        ("pdbDelete", Strategy.PDB_DELETE),
        ("pdbFinalizers", Strategy.PDB_FINALIZERS),
    ],
)
def test_each_strategy_is_on_unless_it_is_switched_off(name: str, strategy: Strategy) -> None:
    for value in (True, None):
        assert understood({"strategies": {name: value}}).strategies == ALL_STRATEGIES
    assert understood({"strategies": {name: False}}).strategies == ALL_STRATEGIES - {strategy}


@pytest.mark.parametrize("name", corpus.DURATIONS)
def test_dk_21_a_time_of_nothing_is_at_once_and_a_negative_one_is_refused(name: str) -> None:
    times = understood({name: "0s"}).times
    assert msgspec.structs.astuple(times).count(timedelta()) == 1
    for length in ("-1m", "-0s"):
        assert refused({name: length}) == (f"spec.{name}: must be from 0s to 72h",)


def test_no_proof_at_all_is_only_what_somebody_spelled_out() -> None:
    assert not understood({"acceptedProofs": ["None"]}).needs_proof
    for proofs in ([], None, ["None", "A"], ["None", "None"], "None", [None], ["none"], ["B", "A"]):
        policy = read_policy({"acceptedProofs": proofs})
        assert not isinstance(policy, Policy) or policy.needs_proof


@pytest.mark.parametrize(("finalizers", "removed"), [([], ""), (["a/x"], "x"), (["*"], "xy"), (["a/y", "*"], "xy")])
def test_only_finalizers_that_are_listed_may_be_removed(finalizers: list[str], removed: str) -> None:
    policy = understood({"finalizers": finalizers})
    assert "".join(one for one in "xy" if policy.may_remove(f"a/{one}")) == removed


def test_whoever_takes_nodekeepers_place_says_so_and_nothing_that_is_said_elsewhere() -> None:
    assert understood(NODEKEEPERS) == Policy(is_nodekeepers=True)
    problems = refused(NODEKEEPERS | {"timeout": "1h", "pdbForceDrainTimeout": "1h", "sources": ["Kured"]})
    with_it = "with compatibility ManagedUpgradeOperator"
    config, upgrade = "managed-upgrade-operator-config (nodeDrain.timeOut)", "the UpgradeConfig (PDBForceDrainTimeout)"
    assert problems == (
        f"spec.timeout: {with_it} it comes from {config}; leave it out",
        f"spec.pdbForceDrainTimeout: {with_it} it comes from {upgrade}; leave it out",
        f"spec.sources: {with_it} only drains of OpenShift are watched; leave it out",
    )


def test_everything_that_is_wrong_is_told_at_once() -> None:
    problems = refused({"mode": "Off", "timeout": "soon", "finalizers": ["a b"], "maxForcedNodes": -1, "sources": []})
    assert [problem.partition(":")[0] for problem in problems] == [
        *("spec.mode", "spec.timeout", "spec.finalizers[0]", "spec.maxForcedNodes", "spec.sources")
    ]


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)  # the machine may be busy with other tests
@given(st.sampled_from(sorted(EVERYTHING)), NESTED)
def test_whatever_stands_in_a_field_it_is_understood_or_refused(field: str, value: Any) -> None:
    for spec in (EVERYTHING | {field: value}, NODEKEEPERS | {field: value}, value):
        outcome = read_policy(spec)
        if isinstance(outcome, tuple):
            assert_fit_for_a_status(outcome)
