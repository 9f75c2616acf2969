"""What a PodFailoverPolicy or PodFailoverRemediation asks for, and what is wrong with it: all rules of the CRDs again."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.decide.failover.reading import read_policy, read_wish
from defib.decide.rules import FailoverRules
from defib.model.failover_policy import Policy, say_proofs
from defib.model.incident import Grade
from defib.model.pod_failover import USUAL_PROOFS, Exclusions, Owner, Wish
from defib.model.selector import EVERYTHING, Requirement
from tests import failover_corpus as corpus
from tests.builders import HOUR, MINUTE, SECOND
from tests.check_corpus import Case
from tests.failover_corpus import BAD_POLICIES, BAD_REMEDIATIONS, EVERY_POD, GOOD_POLICIES, GOOD_REMEDIATIONS

USUAL = FailoverRules()
A, B, C, D = Grade.POWER, Grade.STORAGE, Grade.TIME, Grade.PERSON


def understood(spec: Any, rules: FailoverRules = USUAL) -> Policy:
    policy = read_policy(spec, rules)
    assert isinstance(policy, Policy), policy
    return policy


def wished(spec: Any) -> Wish:
    wish = read_wish(spec)
    assert isinstance(wish, Wish), wish
    return wish


def refused(spec: Any, rules: FailoverRules = USUAL) -> tuple[str, ...]:
    problems = read_policy(spec, rules)
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


@pytest.mark.parametrize("case", BAD_POLICIES, ids=[case.name for case in BAD_POLICIES])
def test_a_policy_that_makes_no_sense_is_refused_with_a_sentence_that_names_the_field(case: Case) -> None:
    assert any(case.field in problem for problem in refused(case.spec))


@pytest.mark.parametrize("case", BAD_REMEDIATIONS, ids=[case.name for case in BAD_REMEDIATIONS])
def test_a_remediation_that_makes_no_sense_is_refused_with_a_sentence_that_names_the_field(case: Case) -> None:
    problems = read_wish(case.spec)
    assert isinstance(problems, tuple)
    assert_fit_for_a_status(problems)
    assert any(case.field in problem for problem in problems)


@pytest.mark.parametrize("case", GOOD_POLICIES, ids=[case.name for case in GOOD_POLICIES])
def test_a_policy_that_makes_sense_is_understood(case: Case) -> None:
    policy = understood(case.spec)
    assert timedelta() <= policy.dwell <= 24 * HOUR
    assert policy.wish.is_chosen


@pytest.mark.parametrize("case", GOOD_REMEDIATIONS, ids=[case.name for case in GOOD_REMEDIATIONS])
def test_a_remediation_that_makes_sense_is_understood(case: Case) -> None:
    assert not wished(case.spec).is_chosen


def test_what_a_policy_says_is_what_is_understood() -> None:
    policy = understood(corpus.EVERYTHING)
    assert (policy.dwell, policy.taints) == (90 * SECOND, ("example.com/maintenance", "*"))
    worker = {"node-role.kubernetes.io/worker": "", "tier": "a", "zone": "b"}
    assert policy.nodes.selects(worker)
    assert not policy.nodes.selects(worker | {"gpu": ""})
    wish = policy.wish
    assert (wish.grace_seconds, wish.is_forced) == (30, False)
    assert wish.accepts == {A, B, D}
    assert wish.exclude.names == ("noobaa-db-pg-*", "web-?.example")
    assert wish.exclude.owners == (Owner("Cluster", "pg-*"), Owner("StatefulSet", "*"))
    assert wish.exclude.claims == ("data-*",)
    assert wish.selector.selects({"app": "noobaa", "app.kubernetes.io/part-of": "", "tier": "b-2_x.y", "canary": ""})
    assert not wish.selector.selects({"app": "noobaa"})


def test_the_behaviour_of_the_seed_is_one_line() -> None:
    """Pods with that label, from any node, on the first sight, by force; but never two that write to one disk."""
    policy = understood(corpus.SEED)
    wanted = Wish(
        selector=policy.wish.selector, exclude=Exclusions(), grace_seconds=0, accepts=USUAL_PROOFS, is_chosen=True
    )
    assert policy == Policy(wish=wanted, nodes=EVERYTHING, dwell=timedelta(), taints=())
    assert policy.wish.selector.requirements == (Requirement("app", "In", frozenset({"noobaa"})),)


@pytest.mark.parametrize("spec", [None, {}, {"selector": None}])
def test_a_remediation_that_says_nothing_is_for_all_pods_of_the_node_and_graceful(spec: Any) -> None:
    assert wished(spec) == Wish(selector=EVERYTHING, grace_seconds=None, accepts=USUAL_PROOFS)


def test_an_exclusion_without_a_selector_excludes_nothing_and_an_empty_one_everything() -> None:
    assert understood(EVERY_POD | {"exclude": {"names": ["a"]}}).wish.exclude.selector is None
    assert understood(EVERY_POD | {"exclude": {"selector": {}}}).wish.exclude.selector == EVERYTHING


@pytest.mark.parametrize(
    ("deletion", "of_a_policy", "of_a_remediation"),
    [
        (None, 0, None),
        ({}, 0, None),
        ({"mode": "Force"}, 0, 0),
        ({"mode": "Graceful"}, None, None),
        ({"mode": "Graceful", "gracePeriodSeconds": 5}, 5, 5),
    ],
)
def test_a_policy_forces_unless_it_says_otherwise_and_a_remediation_does_not(
    deletion: Any, of_a_policy: int | None, of_a_remediation: int | None
) -> None:
    spec = EVERY_POD | {"deletion": deletion}
    assert understood(spec).wish.grace_seconds == of_a_policy
    assert wished(spec).grace_seconds == of_a_remediation


# What the cluster operator says.


def test_where_a_policy_is_silent_the_cluster_operator_speaks() -> None:
    rules = FailoverRules(dwell=7 * SECOND, proofs=frozenset({D}))
    silent = understood(EVERY_POD, rules)
    assert (silent.dwell, silent.wish.accepts) == (7 * SECOND, frozenset({D}))
    spoken = understood(EVERY_POD | {"dwell": "1s", "acceptedProofs": ["C"]}, rules)
    assert (spoken.dwell, spoken.wish.accepts) == (SECOND, frozenset({C}))


@pytest.mark.parametrize(("asked", "given"), [("0s", MINUTE), ("59s", MINUTE), ("61s", 61 * SECOND), (None, MINUTE)])
def test_who_asks_for_a_shorter_dwell_than_is_allowed_gets_the_shortest(asked: str | None, given: timedelta) -> None:
    policy = understood(EVERY_POD | {"dwell": asked}, FailoverRules(shortest_dwell=MINUTE))
    assert policy.dwell == given


@pytest.mark.parametrize("proofs", [["None"], ["C"], ["A", "C"], ["C", "D"]])
def test_what_is_not_allowed_in_this_cluster_is_refused_and_the_setting_named(proofs: list[str]) -> None:
    rules = FailoverRules(allowed_proofs=frozenset({"A", "B"}))
    (problem,) = refused(EVERY_POD | {"acceptedProofs": proofs}, rules)
    assert problem.startswith("spec.acceptedProofs")
    assert "failover_allowed_proofs" in problem
    for proof in proofs:
        assert (f"{proof}" in problem.partition(" is not allowed")[0].partition("acceptedProofs")[2]) == (proof != "A")


def test_what_the_cluster_operator_does_not_allow_to_policies_a_node_health_check_may_still_ask_for() -> None:
    assert wished({"acceptedProofs": ["None"]}).accepts == frozenset()


def test_no_proof_at_all_is_only_what_somebody_spelled_out() -> None:
    assert understood(EVERY_POD | {"acceptedProofs": ["None"]}).wish.accepts == frozenset()
    for proofs in ([], None, ["None", "A"], "None", [None], ["none"]):
        policy = read_policy(EVERY_POD | {"acceptedProofs": proofs}, USUAL)
        assert not isinstance(policy, Policy) or policy.wish.accepts == USUAL_PROOFS


@pytest.mark.parametrize(
    ("accepts", "said"),
    [((), "None"), ((A,), "A"), ((B, A), "A or B"), ((D, A, B), "A, B or D"), (tuple(Grade), "A, B, C or D")],
)
def test_proofs_are_named_as_a_person_would(accepts: tuple[Grade, ...], said: str) -> None:
    assert say_proofs(frozenset(accepts)) == said


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(corpus.EVERYTHING)), NESTED)
def test_whatever_stands_in_a_field_it_is_understood_or_refused(field: str, value: Any) -> None:
    for outcome in (read_policy(corpus.EVERYTHING | {field: value}, USUAL), read_wish({field: value})):
        if isinstance(outcome, tuple):
            assert_fit_for_a_status(outcome)
