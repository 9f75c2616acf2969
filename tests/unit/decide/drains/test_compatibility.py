"""In place of Nodekeeper: what the managed-upgrade-operator was told is taken as it is, and what makes no sense is told."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from defib.decide.drains.compatibility import CONFIG_MAP, CONFIG_NAME, KINDS, UPGRADE_CONFIG, nodekeeper
from defib.decide.drains.reading import read_policy
from defib.model.cluster import Cluster, Missing, Served, Unread
from defib.model.drain_policy import ALL_STRATEGIES, Ignored, Policy, Source, Strategy, Times
from defib.model.health_check import Mode
from defib.model.meta import Unstructured
from tests.builders import MINUTE, SECOND, T0

NAMESPACE = "openshift-managed-upgrade-operator"
CONFIGS, UPGRADES = "configmaps.v1", "upgradeconfigs.v1alpha1.upgrade.managed.openshift.io"
SERVED = {CONFIG_MAP: Served(CONFIGS, namespaced=True), UPGRADE_CONFIG: Served(UPGRADES, namespaced=True)}
OURS = Policy(is_nodekeepers=True)
UPGRADE: dict[str, Any] = {"type": "OSD", "PDBForceDrainTimeout": 60, "desired": {"version": "4.18.12"}}

# As it is shipped, with what else stands there: none of that is ours.
SHIPPED = """
configManager:
  source: LOCAL
  localConfigName: managed-upgrade-config
  watchInterval: 1
maintenance:
  controlPlaneTime: 90
  ignoredAlerts:
    controlPlaneCriticals: [ClusterOperatorDown, ClusterOperatorDegraded]
scale:
  timeOut: 30
nodeDrain:
  timeOut: 45
  expectedNodeDrainTime: 8
  disableDrainStrategies: false
  ignoredNamespacePatterns:
  - ^openshift-.*
  - kube-system
healthCheck:
  ignoredCriticals: [DNSErrors05MinSRE]
extDependencyAvailabilityChecks:
  http: {timeout: 10, urls: ["http://example.com"]}
"""


def decoded(kind: str, name: str, **fields: Any) -> Unstructured:
    """As it comes from the API server."""
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **fields}
    return msgspec.json.decode(json.dumps(body), type=Unstructured)


def a_cluster(config: Any = SHIPPED, upgrade: Any = UPGRADE, **fields: Any) -> Cluster:
    configs = decoded("ConfigMap", "managed-upgrade-operator-config", data={"config.yaml": config})
    upgrades = decoded("UpgradeConfig", "managed-upgrade-config", spec=upgrade)
    others = {CONFIGS: {configs.key: configs}, UPGRADES: {upgrades.key: upgrades}}
    return Cluster(**{"now": T0, "kinds": SERVED, "others": others, **fields})


def drained(**fields: Any) -> str:
    return yaml.safe_dump({"nodeDrain": {"timeOut": 45, **fields}})


def understood(cluster: Cluster, policy: Policy = OURS) -> Policy:
    answer = nodekeeper(policy, cluster)
    assert isinstance(answer, Policy), answer
    return answer


def refused(cluster: Cluster) -> tuple[str, ...]:
    answer = nodekeeper(OURS, cluster)
    assert isinstance(answer, tuple), answer
    assert_fit_for_a_status(answer)
    return answer


def assert_fit_for_a_status(problems: tuple[str, ...]) -> None:
    assert 1 <= len(problems) <= 20
    for problem in problems:
        assert problem.startswith((f"ConfigMap {NAMESPACE}/", f"UpgradeConfig {NAMESPACE}/"))
        assert len(problem) <= 300
        assert problem.isprintable()
    msgspec.json.encode(problems)


def about_config(problem: str) -> str:
    return problem.removeprefix(f"ConfigMap {CONFIG_NAME}, config.yaml: ")


def test_dk_21_what_is_shipped_is_taken_as_it_is() -> None:
    policy = understood(a_cluster())
    assert policy == Policy(
        times=Times(timeout=45 * MINUTE, expected=8 * MINUTE, pdb_timeout=60 * MINUTE),
        strategies=ALL_STRATEGIES,
        ignored=Ignored(expressions=("^openshift-.*", "kube-system")),
        finalizers=frozenset({"*"}),
        sources=frozenset({Source.OPENSHIFT}),
        is_nodekeepers=True,
    )


def test_what_nodekeeper_does_not_know_is_as_the_policy_says() -> None:
    policy = Policy(
        mode=Mode.OBSERVE,
        times=Times(timeout=MINUTE, extra_grace=5 * SECOND, flap_window=MINUTE),
        strategies=frozenset({Strategy.STUCK}),
        ignored=Ignored(patterns=("shop-*",)),
        finalizers=frozenset({"example.com/x"}),
        is_nodekeepers=True,
    )
    taken = understood(a_cluster(), policy)
    assert (taken.mode, taken.strategies, taken.finalizers) == (policy.mode, policy.strategies, policy.finalizers)
    assert (taken.times.timeout, taken.times.extra_grace, taken.times.flap_window) == (45 * MINUTE, 5 * SECOND, MINUTE)
    assert [name for name in ("shop-a", "openshift-etcd", "default") if taken.ignored.has(name)] == [
        "shop-a",
        "openshift-etcd",
    ]


def test_a_policy_that_takes_nobodys_place_is_as_it_was_whatever_is_configured_elsewhere() -> None:
    policy = Policy(sources=frozenset({Source.KURED}))
    for cluster in (Cluster(now=T0), a_cluster(), a_cluster(config="{")):
        assert nodekeeper(policy, cluster) == policy


@pytest.mark.parametrize("said", [{}, {"expectedNodeDrainTime": None}])
def test_dk_21_a_drain_is_expected_to_take_eight_minutes_where_nothing_is_said(said: dict[str, Any]) -> None:
    assert understood(a_cluster(drained(**said))).times.expected == 8 * MINUTE


@pytest.mark.parametrize("name", ["timeOut", "expectedNodeDrainTime"])
@pytest.mark.parametrize(("said", "length"), [(0, timedelta()), (1, MINUTE), (10080, timedelta(days=7))])
def test_dk_21_minutes_are_whole_and_none_is_at_once(name: str, said: int, length: timedelta) -> None:
    times = understood(a_cluster(drained(**{name: said}))).times
    assert {"timeOut": times.timeout, "expectedNodeDrainTime": times.expected}[name] == length


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"timeOut": -1}, "nodeDrain.timeOut: must be from 0 to 2147483647"),
        ({"timeOut": 2**31}, "nodeDrain.timeOut: must be from 0 to 2147483647"),
        ({"timeOut": 10**40}, "nodeDrain.timeOut: must be from 0 to 2147483647"),
        ({"timeOut": "45"}, "nodeDrain.timeOut: must be a number, not a text"),
        ({"timeOut": "45m"}, "nodeDrain.timeOut: must be a number, not a text"),
        ({"timeOut": 4.5}, "nodeDrain.timeOut: must be a number, not a number with a fraction"),
        ({"timeOut": True}, "nodeDrain.timeOut: must be a number, not true or false"),
        ({"timeOut": [45]}, "nodeDrain.timeOut: must be a number, not a list"),
        ({"timeOut": None}, "nodeDrain.timeOut: must be given: whole minutes, such as 45; 0 is at once"),
        ({"timeOut": T0}, "nodeDrain.timeOut: must be a number, not something else"),
        ({"expectedNodeDrainTime": -8}, "nodeDrain.expectedNodeDrainTime: must be from 0 to 2147483647"),
        ({"disableDrainStrategies": "true"}, "nodeDrain.disableDrainStrategies: must be true or false, not a text"),
        ({"disableDrainStrategies": 1}, "nodeDrain.disableDrainStrategies: must be true or false, not a number"),
        ({"ignoredNamespacePatterns": "kube-*"}, "nodeDrain.ignoredNamespacePatterns: must be a list, not a text"),
        ({"ignoredNamespacePatterns": [None]}, "nodeDrain.ignoredNamespacePatterns[0]: must be given"),
        ({"ignoredNamespacePatterns": ["a"] * 129}, "nodeDrain.ignoredNamespacePatterns: has 129 entries; at most 128"),
    ],
)
def test_dk_21_what_makes_no_sense_is_refused_with_what_to_write(said: dict[str, Any], complaint: str) -> None:
    (problem,) = refused(a_cluster(drained(**said)))
    assert about_config(problem) == complaint


@pytest.mark.parametrize(
    "text", ["", "# nothing", "{}", "nodeDrain:", "nodeDrain: {}", "[nodeDrain]", "5", "scale: {}"]
)
def test_a_timeout_that_was_forgotten_is_a_mistake_and_not_at_once(text: str) -> None:
    """To Nodekeeper it would be 0."""
    (problem,) = refused(a_cluster(text))
    assert about_config(problem) == "nodeDrain.timeOut: must be given: whole minutes, such as 45; 0 is at once"


@pytest.mark.parametrize("said", [True, "yes"])
def test_dk_13_with_its_strategies_disabled_nothing_is_touched_and_the_times_are_still_known(said: Any) -> None:
    text = f"nodeDrain: {{timeOut: 30, disableDrainStrategies: {'true' if said is True else said}}}"
    policy = understood(a_cluster(text))
    assert policy.strategies == frozenset()
    assert policy.times == Times(timeout=30 * MINUTE)


@pytest.mark.parametrize("switch", ["true", "false"])
def test_where_the_policy_names_strategies_the_switch_is_for_nodekeeper_alone(switch: str) -> None:
    cluster = a_cluster(f"nodeDrain: {{timeOut: 30, disableDrainStrategies: {switch}}}")
    written = read_policy({"compatibility": "ManagedUpgradeOperator", "strategies": {"pdbFinalizers": False}})
    assert isinstance(written, Policy)
    policy = nodekeeper(written, cluster)
    assert isinstance(policy, Policy)
    assert policy.strategies == ALL_STRATEGIES - {Strategy.PDB_FINALIZERS}
    assert policy.times == Times(timeout=30 * MINUTE)


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("kube", ["kube-system", "my-kube", "kube"], ["default"]),
        ("^openshift-.*", ["openshift-etcd", "openshift-"], ["my-openshift-etcd"]),
        ("^kube-system$", ["kube-system"], ["kube-systems"]),
        ("(?i)KUBE-(system|public)", ["kube-system", "kube-public"], ["kube-node-lease"]),
        ("", ["default", "a"], []),
        ("(a+)+$", ["a" * 63], ["a" * 62 + "-"]),
    ],
)
def test_dk_09_a_pattern_of_nodekeeper_may_match_anywhere_in_a_name_unless_it_is_anchored(
    pattern: str, matches: list[str], others: list[str]
) -> None:
    ignored = understood(a_cluster(drained(ignoredNamespacePatterns=[pattern]))).ignored
    assert [name for name in (*matches, *others) if ignored.has(name)] == matches


@pytest.mark.parametrize(
    "pattern",
    ["(", "[", "*", "a{2,1}", "(?=x)", "(?P<n", "\\8", "(?!kube)", "x{1001}", "((a{100}){100}){100}", "\ud800"],
)
def test_dk_09_a_bad_pattern_is_told_and_crashes_nobody(pattern: str) -> None:
    text = json.dumps({"nodeDrain": {"timeOut": 45, "ignoredNamespacePatterns": ["kube-system", pattern]}})
    (problem,) = refused(a_cluster(text))
    assert about_config(problem).startswith("nodeDrain.ignoredNamespacePatterns[1]: ")
    assert "is no regular expression (RE2); write one such as ^openshift-.*" in problem


def test_a_pattern_that_is_longer_than_any_should_be_is_refused() -> None:
    (problem,) = refused(a_cluster(drained(ignoredNamespacePatterns=["a" * 1025])))
    assert about_config(problem) == "nodeDrain.ignoredNamespacePatterns[0]: is too long; at most 1024 characters"


def test_dk_22_budgets_are_respected_for_no_longer_than_a_drain_takes_where_the_timeout_is_nothing() -> None:
    times = understood(a_cluster(upgrade=UPGRADE | {"PDBForceDrainTimeout": 0})).times
    assert times.pdb_timeout == timedelta()
    assert times.expected + times.pdb_timeout == 8 * MINUTE


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"PDBForceDrainTimeout": -1}, "must be from 0 to 2147483647"),
        ({"PDBForceDrainTimeout": "60"}, "must be a number, not a text"),
        ({"PDBForceDrainTimeout": None}, "must be given: whole minutes, such as 45; 0 is at once"),
        ({"pdbForceDrainTimeout": 60}, "must be given: whole minutes, such as 45; 0 is at once"),
        (None, "must be given: whole minutes, such as 45; 0 is at once"),
    ],
)
def test_dk_22_a_timeout_for_budgets_that_makes_no_sense_is_told(said: Any, complaint: str) -> None:
    (problem,) = refused(a_cluster(upgrade=said))
    assert problem == f"UpgradeConfig {NAMESPACE}/managed-upgrade-config: spec.PDBForceDrainTimeout: {complaint}"


def test_the_longest_times_that_can_be_said_stay_in_the_calendar() -> None:
    most = 2**31 - 1
    cluster = a_cluster(drained(timeOut=most, expectedNodeDrainTime=most), {"PDBForceDrainTimeout": most})
    times = understood(cluster).times
    assert T0 + times.timeout + times.expected + times.pdb_timeout == T0 + timedelta(days=300 * 365)


def test_all_that_is_wrong_is_told_at_once() -> None:
    problems = refused(a_cluster(drained(timeOut=-1, expectedNodeDrainTime="8"), {"PDBForceDrainTimeout": -1}))
    assert [re.sub(r".*: (\S+): .*", r"\1", problem) for problem in problems] == [
        *("nodeDrain.timeOut", "nodeDrain.expectedNodeDrainTime", "spec.PDBForceDrainTimeout")
    ]


# What is not there, or cannot be seen.


def test_without_the_config_map_or_the_upgrade_config_there_is_no_policy_and_a_person_hears_why() -> None:
    empty: dict[str, Any] = {CONFIGS: {}, UPGRADES: {}}
    assert refused(a_cluster(others=empty)) == (
        f"ConfigMap {CONFIG_NAME}: is not there, so nothing is forced",
        f"UpgradeConfig {NAMESPACE}/managed-upgrade-config: is not there, so nothing is forced",
    )
    assert len(refused(a_cluster(others={}))) == 2


def test_a_cluster_without_the_kind_and_a_cluster_that_was_not_looked_at_yet() -> None:
    missing = SERVED | {UPGRADE_CONFIG: Missing("the API server has no kind UpgradeConfig")}
    (problem,) = refused(a_cluster(kinds=missing))
    assert problem == f"UpgradeConfig {NAMESPACE}/managed-upgrade-config: the API server has no kind UpgradeConfig"
    for problem in refused(a_cluster(kinds={})):
        assert problem.endswith(": has not been looked for yet")


def test_who_may_not_look_hears_where_the_rights_are() -> None:
    """Also when it was seen before: what it says now is not known."""
    why = 'configmaps is forbidden: User "system:serviceaccount:defib-system:defib" cannot list resource "configmaps"'
    (problem,) = refused(a_cluster(absent={CONFIGS: f"{why} {'in the namespace ' * 20}"}))
    assert why in problem
    path = re.search(r"deploy/\S+\.yaml", problem)
    assert path
    assert (Path(__file__).parents[4] / path[0]).is_file()


def test_what_is_there_and_cannot_be_read_is_not_taken_for_absent() -> None:
    broken = (Unread(CONFIGS, CONFIG_NAME, "Expected `object`"), Unread(CONFIGS, "other/name", "no matter"))
    (problem,) = refused(a_cluster(unread=broken))
    assert problem.endswith(": is there, and cannot be read: Expected `object`")


@pytest.mark.parametrize("data", [None, {}, {"config": SHIPPED}, {"config.yaml": None}, {"config.yaml": 5}, [], "x"])
def test_a_config_map_without_the_key_says_what_to_write(data: Any) -> None:
    cluster = a_cluster()
    item = decoded("ConfigMap", "managed-upgrade-operator-config", data=data)
    others = {**cluster.others, CONFIGS: {item.key: item}}
    (problem,) = refused(a_cluster(others=others))
    assert problem == (f"ConfigMap {CONFIG_NAME}: has no config.yaml; write there, under nodeDrain, at least timeOut")


def test_the_kinds_are_wanted_where_they_are() -> None:
    assert {kind: wanted.namespace for kind, wanted in KINDS.items()} == dict.fromkeys(SERVED, NAMESPACE)


# What no person would write.

LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
MERGES = "m0: &m0 {k: v}\n" + "".join(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}\n" for n in range(1, 9))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{LAUGHS}nodeDrain: {{timeOut: 45}}", "line 2 cannot be read as YAML: aliases are not read"),
        (f"{MERGES}nodeDrain: {{timeOut: 45}}", "line 2 cannot be read as YAML: aliases are not read"),
        ("nodeDrain: &n {timeOut: 45, x: *n}", "line 1 cannot be read as YAML: aliases are not read"),
        ("nodeDrain: {timeOut: !!int ''}", "line 1 cannot be read as YAML: tags are not read"),
        ("x: !!python/object/apply:os.system [ls]", "line 1 cannot be read as YAML: tags are not read"),
        ("nodeDrain:\n  timeOut: !minutes 45", "line 2 cannot be read as YAML: tags are not read"),
        ("x: " + "[" * 16000, "line 1 cannot be read as YAML: more than 32 levels are not read"),
        ("x: " + "{a: " * 4000, "line 1 cannot be read as YAML: more than 32 levels are not read"),
        ("- " * 8000, "line 1 cannot be read as YAML: more than 32 levels are not read"),
        ("nodeDrain: {timeOut: 45", "line 1 cannot be read as YAML: expected ',' or '}', but got '<stream end>'"),
        ("a: b: c", "line 1 cannot be read as YAML: mapping values are not allowed here"),
        ("a: 1\n---\nb: 2", "line 2 cannot be read as YAML: but found another document"),
        ("? [a]\n: b", "line 1 cannot be read as YAML: found unhashable key"),
        ("a: 2001-99-99", "cannot be read as YAML: month must be in 1..12"),
        ("nodeDrain: {timeOut: 0b_}", "cannot be read as YAML: invalid literal for int() with base 2: ''"),
    ],
)
def test_what_could_cost_much_or_end_in_anything_is_not_read(text: str, complaint: str) -> None:
    (problem,) = refused(a_cluster(text))
    assert about_config(problem) == complaint


def test_a_number_of_thousands_of_digits_and_a_character_that_yaml_has_not_are_told() -> None:
    for text in ("nodeDrain: {timeOut: " + "9" * 5000 + "}", "a: \x07"):
        (problem,) = refused(a_cluster(text))
        assert about_config(problem).startswith("cannot be read as YAML: ")


def test_a_text_that_is_much_too_long_is_not_read_at_all() -> None:
    (problem,) = refused(a_cluster(SHIPPED + "#" * 16384))
    assert "at most 16384 are read" in problem


def test_nothing_is_read_again_while_nothing_changes() -> None:
    first = understood(a_cluster(drained(ignoredNamespacePatterns=["once"])))
    again = understood(a_cluster(drained(ignoredNamespacePatterns=["once"])))
    assert again.ignored.expressions is first.ignored.expressions
    assert understood(a_cluster(drained(ignoredNamespacePatterns=["twice"]))).ignored.expressions == ("twice",)


@settings(deadline=None)  # the machine may be busy with other tests
@given(st.text(max_size=200))
def test_whatever_text_it_is_it_is_understood_or_refused(text: str) -> None:
    answer = nodekeeper(OURS, a_cluster(text))
    if isinstance(answer, tuple):
        assert_fit_for_a_status(answer)


YAML_TEXT = st.text(alphabet="nodeDrain: timeOut\n-[]{}&*!|>'\"%@`#,?0123456789.~<=\t\\x", max_size=80)


@settings(deadline=None)  # the machine may be busy with other tests
@given(YAML_TEXT)
def test_whatever_yaml_it_is_it_is_understood_or_refused(text: str) -> None:
    for whole in (
        text,
        f"nodeDrain:\n  timeOut: {text}",
        f"nodeDrain: {{timeOut: 4, ignoredNamespacePatterns: [{text}]}}",
    ):
        answer = nodekeeper(OURS, a_cluster(whole))
        if isinstance(answer, tuple):
            assert_fit_for_a_status(answer)


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("timeOut", "expectedNodeDrainTime", "disableDrainStrategies", "ignoredNamespacePatterns")


@settings(deadline=None)  # the machine may be busy with other tests
@given(st.sampled_from(NAMES), NESTED)
def test_whatever_stands_in_a_field_it_is_understood_or_refused(name: str, value: Any) -> None:
    answer = nodekeeper(OURS, a_cluster(drained(**{name: value})))
    if isinstance(answer, tuple):
        assert_fit_for_a_status(answer)
