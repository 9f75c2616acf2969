"""How the manifests lay replicas out: there is always one to lead, each ends in time, and no role gives what it should not."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from defib.app import FINISH_SECONDS, FIRST_CONTACT_SECONDS
from defib.config import Settings
from defib.coordinate.elector import TOLERANCE_SECONDS
from defib.decide.drains.intents import kinds_for
from defib.model.drain_policy import ALL_SOURCES
from defib.web.door import SHUTDOWN_SECONDS

DEPLOY = Path(__file__).parents[2] / "deploy"
ACTING = list(yaml.safe_load_all((DEPLOY / "install.yaml").read_text()))
WATCHING = list(yaml.safe_load_all((DEPLOY / "observe.yaml").read_text()))
DEFAULTS = Settings()


def only(documents: list[dict[str, Any]], kind: str, namespace: str = "defib-system") -> dict[str, Any]:
    (found,) = (one for one in documents if one["kind"] == kind and one["metadata"].get("namespace") == namespace)
    return found


DEPLOYMENT: dict[str, Any] = only(ACTING, "Deployment")["spec"]
POD: dict[str, Any] = DEPLOYMENT["template"]["spec"]
CONTAINER: dict[str, Any] = POD["containers"][0]


def seconds_of(probe: str) -> int:
    """After so long of failing it is given up."""
    said = CONTAINER[probe]
    failing: int = said["periodSeconds"] * said["failureThreshold"]
    return failing


def test_there_is_a_standby() -> None:
    assert DEPLOYMENT["replicas"] >= 2
    assert DEFAULTS.election == "lease"
    assert CONTAINER["args"] == ["run", "--log-format=json"]


def test_a_new_version_is_there_for_a_lease_before_an_old_replica_goes() -> None:
    assert DEPLOYMENT["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert DEPLOYMENT["minReadySeconds"] >= DEFAULTS.lease_duration_seconds


def test_the_disruption_budget_is_about_these_pods_and_can_always_be_met() -> None:
    budget = only(ACTING, "PodDisruptionBudget")["spec"]
    labels = DEPLOYMENT["template"]["metadata"]["labels"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    assert budget["maxUnavailable"] < DEPLOYMENT["replicas"]
    assert "minAvailable" not in budget, "with one replica, its node could never be drained"


def test_replicas_are_spread_over_nodes_by_force_and_over_zones_where_possible() -> None:
    rules = {one["topologyKey"]: one for one in POD["topologySpreadConstraints"]}
    assert {key: rule["whenUnsatisfiable"] for key, rule in rules.items()} == {
        "kubernetes.io/hostname": "DoNotSchedule",
        "topology.kubernetes.io/zone": "ScheduleAnyway",
    }
    labels = DEPLOYMENT["template"]["metadata"]["labels"]
    for rule in rules.values():
        assert rule["labelSelector"]["matchLabels"].items() <= labels.items()
        assert rule["nodeTaintsPolicy"] == "Honor", "a node that has failed would keep its replacement waiting"
        assert rule["matchLabelKeys"] == ["pod-template-hash"], "a new version would be spread around the old one"


def test_a_failed_node_is_left_within_seconds_and_no_other_taint_of_a_failure_is_tolerated() -> None:
    patience = {one["key"]: one.get("tolerationSeconds") for one in POD["tolerations"]}
    assert patience == {
        "node.kubernetes.io/not-ready": 10,
        "node.kubernetes.io/unreachable": 10,
        "node-role.kubernetes.io/control-plane": None,
        "node-role.kubernetes.io/master": None,
    }


def test_le_07_there_is_time_to_end_what_was_begun_and_to_give_the_lock_back() -> None:
    release = DEFAULTS.renew_deadline_seconds / 2
    needed = FINISH_SECONDS + release + 2 * SHUTDOWN_SECONDS
    assert POD["terminationGracePeriodSeconds"] >= needed + 10


def test_it_is_not_given_up_while_it_still_asks_its_first_questions() -> None:
    assert seconds_of("startupProbe") > 3 * FIRST_CONTACT_SECONDS


def test_le_17_who_hangs_is_started_again_within_two_minutes_and_never_before_its_lease_is_over() -> None:
    assert CONTAINER["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "probes"}
    hangs = DEFAULTS.lease_duration_seconds + TOLERANCE_SECONDS
    assert seconds_of("livenessProbe") >= DEFAULTS.lease_duration_seconds
    assert hangs + seconds_of("livenessProbe") <= 120


@pytest.mark.parametrize("documents", [ACTING, WATCHING], ids=["acting", "watching"])
def test_it_comes_before_others_when_room_is_short(documents: list[dict[str, Any]]) -> None:
    pod = only(documents, "Deployment")["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"


def test_a_replica_is_named_after_its_pod_and_tells_who_leads_only_when_asked_to() -> None:
    names = {one["name"] for one in CONTAINER["env"]}
    assert names == {"DEFIB_NODE_NAME", "DEFIB_NAMESPACE", "DEFIB_REMEDIES"}
    assert [one["name"] for one in CONTAINER["ports"]] == ["probes"]
    assert DEFAULTS.leader_address is None
    assert POD["enableServiceLinks"] is False, "a service called defib-metrics would look like a setting"


@pytest.mark.parametrize("documents", [ACTING, WATCHING], ids=["acting", "watching"])
def test_the_pod_can_change_nothing_of_its_own_image_and_is_not_root(documents: list[dict[str, Any]]) -> None:
    pod = only(documents, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "hostNetwork" not in pod
    assert "volumes" not in pod


@pytest.mark.parametrize("documents", [ACTING, WATCHING], ids=["acting", "watching"])
def test_only_the_probes_can_be_reached_over_the_network(documents: list[dict[str, Any]]) -> None:
    policy = only(documents, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= DEPLOYMENT["template"]["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"port": "probes", "protocol": "TCP"}]}]


def roles(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in documents if one["kind"] in {"ClusterRole", "Role"}]


@pytest.mark.parametrize("documents", [ACTING, WATCHING], ids=["acting", "watching"])
def test_no_role_has_a_wildcard_or_the_kubelets_door_or_secrets_of_others(documents: list[dict[str, Any]]) -> None:
    for role in roles(documents):
        for rule in role.get("rules", ()):
            words = {word for part in ("apiGroups", "resources", "verbs") for word in rule[part]}
            assert not words & {"*", "nodes/proxy", "pods/exec", "escalate", "bind", "impersonate"}, role["metadata"]
            if "secrets" in words:
                assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "defib-system")
                assert rule["verbs"] == ["get"]


def test_every_role_that_is_bound_is_there_and_is_bound_to_the_account_alone() -> None:
    there = {(one["kind"], one["metadata"]["name"]) for one in roles(ACTING)}
    bound = [one for one in ACTING if one["kind"] in {"ClusterRoleBinding", "RoleBinding"}]
    account = {"kind": "ServiceAccount", "name": "defib", "namespace": "defib-system"}
    for binding in bound:
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in there
        assert binding["subjects"] == [account]
    features = {"checks", "default-check", "pod-failover", "power", "drains", "incidents", "events", "leftovers"}
    assert {f"defib-{name}" for name in features} <= {one["roleRef"]["name"] for one in bound}


def test_who_only_watches_takes_no_part_in_an_election_and_may_change_nothing() -> None:
    pod = only(WATCHING, "Deployment")["spec"]["template"]["spec"]
    assert {"name": "DEFIB_WATCH_ONLY", "value": "on"} in pod["containers"][0]["env"]
    verbs = {verb for role in roles(WATCHING) for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    resources = {name for role in roles(WATCHING) for rule in role["rules"] for name in rule["resources"]}
    assert "secrets" not in resources


def test_all_but_kinds_and_namespaces_can_be_taken_away_by_its_label() -> None:
    """`kubectl delete -f install.yaml -l …` must leave what people wrote."""
    stays = {one["kind"] for one in ACTING if "app.kubernetes.io/name" not in one["metadata"].get("labels", {})}
    assert stays == {"Namespace", "CustomResourceDefinition"}
    labelled = [one["kind"] for one in ACTING if "app.kubernetes.io/name" in one["metadata"].get("labels", {})]
    assert not stays & set(labelled)


def test_kinds_stay_when_a_release_goes() -> None:
    kinds = [one for one in ACTING if one["kind"] == "CustomResourceDefinition"]
    assert len(kinds) == len(list((DEPLOY / "crds").glob("*.yaml")))
    assert {one["metadata"]["annotations"]["helm.sh/resource-policy"] for one in kinds} == {"keep"}


def test_what_is_only_in_some_clusters_is_not_in_the_manifest_for_all() -> None:
    """A role in a namespace that is not there would keep all of it from being applied."""
    made = {one["metadata"]["name"] for one in ACTING if one["kind"] == "Namespace"} | {"kube-node-lease"}
    assert {one["metadata"].get("namespace") for one in ACTING} <= made | {None}
    resources = [name for one in roles(ACTING) for rule in one.get("rules", ()) for name in rule["resources"]]
    assert not {"endpoints", "baremetalhosts", "metal3remediations"} & set(resources)


def test_every_kind_by_which_drains_are_known_may_be_read() -> None:
    watched = {
        (group, resource)
        for role in roles(WATCHING)
        for rule in role["rules"]
        if {"get", "list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    wanted = {(kind.group, f"{kind.name.lower()}s") for kind in kinds_for(ALL_SOURCES)}
    assert wanted - watched == set()
