"""What a NodeHealthCheck asks for, and what is wrong with it: every rule of the CRD holds again when it is read."""

import copy
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defib.decide.reading import read_check
from defib.model.amount import Amount
from defib.model.evidence import Source
from defib.model.health_check import (
    Broken,
    Check,
    Domain,
    FastPath,
    KindRef,
    Mode,
    NodeHealthCheck,
    Rate,
    UnhealthyCondition,
)
from defib.model.meta import Meta
from defib.model.power_cycle import Policy
from defib.model.selector import EVERYTHING, Requirement
from tests import check_corpus as corpus
from tests.builders import MINUTE, SECOND, T0
from tests.check_corpus import BAD, GOOD, Case, a_condition, a_step, a_template, chosen, escalating, guarded, simple

TOTALS = range(51)


def outcome(spec: Any) -> Check | Broken:
    return read_check(NodeHealthCheck(metadata=Meta(name="c"), spec=spec))


def understood(spec: Any) -> Check:
    check = outcome(spec)
    assert isinstance(check, Check), check.problems
    return check


def refused(spec: Any) -> tuple[str, ...]:
    broken = outcome(spec)
    assert isinstance(broken, Broken)
    return broken.problems


@pytest.mark.parametrize("case", BAD, ids=[case.name for case in BAD])
def test_what_makes_no_sense_is_refused_with_a_sentence_that_names_the_field(case: Case) -> None:
    problems = refused(case.spec)
    assert any(case.field in problem for problem in problems)
    assert_fit_for_a_status(problems)


@pytest.mark.parametrize("case", GOOD, ids=[case.name for case in GOOD])
def test_what_makes_sense_is_understood(case: Case) -> None:
    assert_makes_sense(understood(case.spec))


def assert_fit_for_a_status(problems: tuple[str, ...]) -> None:
    assert 1 <= len(problems) <= 10
    for problem in problems:
        assert problem.startswith("spec")
        assert len(problem) <= 300
        assert problem.isprintable()
    msgspec.json.encode(problems)


def assert_makes_sense(check: Check) -> None:
    for total in TOTALS:
        fewest = check.fewest_healthy(total)
        assert fewest >= 0
        assert fewest <= total or (check.limit_is_min_healthy and not check.limit.is_percent)
        assert fewest < max(total, 1) or not check.guards.always_allow_one
    orders = [step.order for step in check.steps]
    assert check.steps
    assert orders == sorted(set(orders))
    for step in check.steps:
        assert step.template.makes.name
        assert step.template.name
        assert step.template.kind.group
        assert (step.timeout is not None and step.timeout >= MINUTE) if check.escalates else step.timeout is None
    for condition in check.conditions:
        assert condition.type
        assert condition.status
        assert T0 + condition.duration >= T0
    for rate in (check.guards.rate_limit, check.guards.flap_damping):
        assert rate is None or (rate.count >= 1 and rate.within >= SECOND)


# --- what is assumed where nothing is said


def test_a_template_alone_is_enough() -> None:
    check = understood(simple())
    assert check.selector == EVERYTHING
    assert check.conditions == (
        UnhealthyCondition("Ready", "False", 5 * MINUTE),
        UnhealthyCondition("Ready", "Unknown", 5 * MINUTE),
    )
    assert (check.limit, check.limit_is_min_healthy) == (Amount(49, is_percent=True), False)
    assert (check.storm_cooldown, check.healthy_delay, check.pause_requests) == (None, None, ())
    assert (check.mode, check.escalates, len(check.steps)) == (Mode.AUTOMATIC, False, 1)
    assert check.guards == understood(guarded()).guards


def test_a_fast_path_asks_kubelet_and_power_after_two_missed_heartbeats_unless_it_says_otherwise() -> None:
    power = {"remediationTemplate": a_template(kind=corpus.POWER_CYCLE)}
    assert understood(power).fast_path is None
    assert understood(power | {"fastPath": {}}).fast_path == FastPath()
    chosen_path = {"missedHeartbeats": 4, "evidence": ["Power"], "proof": ["A"]}
    chosen = FastPath(missed=4, evidence=(Source.POWER,), proof=("A",))
    assert understood(power | {"fastPath": chosen_path}).fast_path == chosen


def test_a_fast_path_is_content_by_itself_with_the_proofs_that_a_power_cycle_is_content_with() -> None:
    assert FastPath().proof == Policy().accepts


def test_null_is_as_good_as_absent() -> None:
    fields = corpus.EVERYTHING.keys() - {"escalatingRemediations"}
    assert understood(simple(**dict.fromkeys(fields))) == understood(simple())


def test_an_empty_list_of_conditions_means_that_nothing_is_unhealthy() -> None:
    assert understood(simple(unhealthyConditions=[])).conditions == ()


def test_a_field_that_we_do_not_know_changes_nothing() -> None:
    assert understood(simple(color="red", guards={"color": 1})) == understood(simple(guards={}))


# --- what is read


def test_every_field_is_understood() -> None:
    check = understood(corpus.EVERYTHING)
    assert check.selector.requirements == (
        Requirement("node-role.kubernetes.io/worker", "In", frozenset([""])),
        Requirement("tier", "In", frozenset(["b-2_x.y"])),
        Requirement("example.com/zone", "NotIn", frozenset(["a", ""])),
        Requirement("gpu", "Exists"),
    )
    assert check.conditions[1:] == (
        UnhealthyCondition("Ready", "False", timedelta(minutes=90)),
        UnhealthyCondition("Disk", "True", timedelta()),
    )
    assert (check.limit, check.limit_is_min_healthy) == (Amount(51, is_percent=True), True)
    assert (check.storm_cooldown, check.healthy_delay) == (10 * MINUTE, 30 * SECOND)
    assert (check.pause_requests, check.mode) == (("upgrade of the storage",), Mode.APPROVE)
    assert check.escalates
    assert [step.timeout for step in check.steps] == [MINUTE, timedelta(hours=1.5)]
    assert check.guards.max_in_flight == Amount(3)
    assert check.guards.domains == (Domain("topology.kubernetes.io/zone", Amount(34, is_percent=True)),)
    assert check.guards.always_allow_one
    assert check.guards.rate_limit == Rate(5, 10 * MINUTE)
    assert check.guards.flap_damping == Rate(3, timedelta(hours=24))


def test_a_check_and_a_broken_one_say_which_object_they_were_read_from() -> None:
    meta = Meta(name="workers", uid="u", resource_version="7", generation=3, annotations={"a": "b"})
    check = read_check(NodeHealthCheck(metadata=meta, spec=simple()))
    broken = read_check(NodeHealthCheck(metadata=meta))
    for read in (check, broken):
        assert (read.name, read.uid, read.version, read.generation) == ("workers", "u", "7", 3)
    assert isinstance(check, Check)
    assert check.annotations == {"a": "b"}


def test_steps_are_taken_in_their_order_whatever_the_order_of_the_list() -> None:
    check = understood(escalating(a_step(7, name="c"), a_step(-3, name="a"), a_step(0, name="b")))
    assert [(step.order, step.template.name) for step in check.steps] == [(-3, "a"), (0, "b"), (7, "c")]


def test_an_empty_list_of_steps_beside_a_template_is_none() -> None:
    assert not understood(simple(escalatingRemediations=[])).escalates


def test_a_template_makes_the_kind_without_the_suffix() -> None:
    (step,) = understood({"remediationTemplate": a_template(kind="SelfNodeRemediationTemplate")}).steps
    assert step.template.makes == KindRef("defib.dev/v1alpha1", "SelfNodeRemediation")


def test_a_template_without_a_namespace_is_left_to_the_api_server_to_judge() -> None:
    (step,) = understood({"remediationTemplate": a_template(namespace=None)}).steps
    assert step.template.namespace == ""


def test_a_healthy_delay_below_zero_means_never_by_itself() -> None:
    delay = understood(simple(healthyDelay="-1s")).healthy_delay
    assert delay is not None
    assert delay < timedelta()


# --- how many must be healthy: upstream's own table, for ten nodes


@pytest.mark.parametrize(
    ("field", "value", "fewest"),
    [
        ("minHealthy", 8, 8),
        ("minHealthy", "80%", 8),
        ("minHealthy", "75%", 8),
        ("minHealthy", "0%", 0),
        ("minHealthy", "100%", 10),
        ("maxUnhealthy", 8, 2),
        ("maxUnhealthy", "80%", 2),
        ("maxUnhealthy", "75%", 2),
        ("maxUnhealthy", "0%", 10),
        ("maxUnhealthy", "100%", 0),
    ],
)
def test_thresholds_round_up_as_upstream_does(field: str, value: object, fewest: int) -> None:
    assert understood(simple(**{field: value})).fewest_healthy(10) == fewest


@pytest.mark.parametrize(
    ("spec", "fewest"),
    [
        (simple(minHealthy="8"), 8),  # a number in quotes passes upstream's admission and fails at the first incident
        (simple(maxUnhealthy="8"), 2),
        (simple(maxUnhealthy=12), 0),  # more than there are: no limit
        (simple(minHealthy=12), 12),  # more than there are: nothing is remediated
        (simple(), 5),  # neither: at most 49 % unhealthy
    ],
)
def test_thresholds_that_upstream_fails_on_mean_what_a_person_expects(spec: Any, fewest: int) -> None:
    assert understood(spec).fewest_healthy(10) == fewest


@pytest.mark.parametrize(("total", "fewest"), [(0, 0), (1, 0), (2, 1), (3, 1), (100, 51)])
def test_the_default_threshold_lets_small_pools_be_mended(total: int, fewest: int) -> None:
    assert understood(simple()).fewest_healthy(total) == fewest


@pytest.mark.parametrize("limit", [{"minHealthy": "100%"}, {"minHealthy": 30}, {"maxUnhealthy": 0}])
def test_always_allowing_one_leaves_room_for_one(limit: dict[str, Any]) -> None:
    check = understood(guarded(alwaysAllowOne=True) | limit)
    assert [check.fewest_healthy(total) for total in (0, 1, 2, 3, 10)] == [0, 0, 1, 2, 9]


@pytest.mark.parametrize("field", ["minHealthy", "maxUnhealthy"])
def test_a_negative_threshold_is_refused_in_upstreams_words(field: str) -> None:
    assert refused(simple(**{field: -3})) == (f"spec.{field}: {field} must not be negative",)
    assert refused(simple(**{field: "-30%"}))[0].startswith(f"spec.{field}: {field} must be a number or a share")


def test_both_thresholds_are_refused_in_upstreams_words() -> None:
    (problem,) = refused(simple(minHealthy=1, maxUnhealthy=1))
    assert "minHealthy and maxUnhealthy cannot be specified at the same time" in problem


# --- the sentences


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            escalating(a_step(1), a_step(2, "30s")),
            "spec.escalatingRemediations[1].timeout: 30s is too short; at least 60s",
        ),
        (escalating(a_step(1), a_step(1)), "spec.escalatingRemediations[1].order: 1 is there already"),
        (
            simple(unhealthyConditions=[a_condition(), a_condition(duration="1s")]),
            "spec.unhealthyConditions[1]: Ready Unknown is there already",
        ),
        ([{}], "spec: must be a map, not a list"),
        (simple(stormCooldownDuration="-0s"), "spec.stormCooldownDuration: -0s is negative"),
        (simple(mode="Off"), "spec.mode: must be one of Automatic, Approve, Observe, not 'Off'"),
        (
            chosen({"key": "zone", "operator": "In"}),
            "spec.selector.matchExpressions[0].values: In needs at least one value",
        ),
        (chosen(zone=5), "spec.selector.matchLabels[zone]: must be a text, not a number"),
        (
            guarded(rateLimit={"remediations": 0, "per": "1m"}),
            "spec.guards.rateLimit.remediations: must be from 1 to 1000",
        ),
        (
            {"remediationTemplate": a_template(kind="machinedeletionremediationTemplate"), "maxUnhealthy": 1},
            "spec.maxUnhealthy: maxUnhealthy cannot be used with MachineDeletionRemediationTemplate; use minHealthy",
        ),
    ],
)
def test_a_problem_is_a_sentence_that_begins_with_the_path(spec: Any, problem: str) -> None:
    assert refused(spec) == (problem,)


def test_all_problems_are_told_at_once() -> None:
    problems = refused({"minHealthy": -1, "mode": 5, "healthyDelay": "soon", "unhealthyConditions": [{"type": ""}]})
    assert [problem.partition(":")[0] for problem in problems] == [
        "spec.remediationTemplate",
        "spec.unhealthyConditions[0].type",
        "spec.unhealthyConditions[0].status",
        "spec.unhealthyConditions[0].duration",
        "spec.minHealthy",
        "spec.healthyDelay",
        "spec.mode",
    ]


def test_of_many_problems_the_first_ten_are_told() -> None:
    assert len(refused(simple(unhealthyConditions=[5] * 32))) == 10


def test_what_is_told_can_be_printed_and_is_short() -> None:
    problems = refused(
        simple(mode="\x1b[31m\x00\u202e\n", selector={"matchLabels": {"\x07" * 500: "x", "\U000e0001" * 39: "y"}})
    )
    assert_fit_for_a_status(problems)
    assert "\\x1b[31m" in problems[-1]


def test_a_value_nested_deeper_than_we_could_follow_is_refused_like_any_other() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    for path in corpus.FIELDS:
        broken = corpus.changed(path, nested)
        assert_fit_for_a_status(refused(broken))
    assert_fit_for_a_status(refused(nested))


# --- whatever comes

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["5m", "-1s", "49%", "8", "In", "Exists", "Ready", "Observe", "PodTemplate", "defib.dev/v1", "a"])
)
NAMES = sorted({part for path in corpus.FIELDS for part in path if isinstance(part, str)} | {"maxUnhealthy"})
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=25,
)


def expect_sense_or_sentences(spec: Any) -> None:
    match outcome(spec):
        case Check() as check:
            assert_makes_sense(check)
        case Broken(problems=problems):
            assert_fit_for_a_status(problems)


@given(spec=JSON)
def test_any_value_is_understood_or_refused(spec: Any) -> None:
    expect_sense_or_sentences(spec)


@given(data=st.data())
def test_any_value_in_any_field_is_understood_or_refused(data: st.DataObject) -> None:
    spec = copy.deepcopy(corpus.EVERYTHING)
    for path in data.draw(st.lists(st.sampled_from(list(corpus.FIELDS)), min_size=1, max_size=4)):
        place: Any = spec
        for part in path[:-1]:
            place = place[part] if holds(place, part) else {}
        if holds(place, path[-1]):
            place[path[-1]] = data.draw(JSON)
    expect_sense_or_sentences(spec)


def holds(place: Any, part: str | int) -> bool:
    return (isinstance(place, dict) and part in place) or (isinstance(place, list) and part == 0 and place != [])
