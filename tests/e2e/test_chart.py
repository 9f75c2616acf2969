"""The chart, rendered: what is written from it is up to date, mistakes are told in words, and each value does what it says."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import defib
from defib.config import REMEDIES, Settings, load
from defib.decide.drains.compatibility import NAMESPACE
from testbed.chart import CHART, ROOT, SCHEMA, WITH_AGENTS, NotRendered, files, objects, render, rights
from tests.e2e.as_deployed import as_deployed

pytestmark = pytest.mark.timeout(60)

ALL_ON = {"features.metal3": True, "features.nodekeeper": True, **WITH_AGENTS}
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())


def settings(helm: Path, **values: object) -> Settings:
    """As the operator would read them in its pod."""
    arguments, environment = as_deployed(objects(render(helm, values)))
    assert arguments == ["run", "--log-format=json"]
    said = {name: value for name, value in environment.items() if name.startswith("DEFIB_")}
    return load({}, said, lambda path: Path(path).read_text())


def named(documents: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in documents if one["kind"] == kind}


def allowed(documents: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Verb and resource, of everything that the roles give which are bound to the account."""
    bound = {one["roleRef"]["name"] for one in documents if one["kind"].endswith("Binding") and "roleRef" in one}
    roles = [one for one in documents if one["kind"] in {"ClusterRole", "Role"} and one["metadata"]["name"] in bound]
    return {
        (verb, what)
        for role in roles
        for rule in role.get("rules", ())
        for what in rule["resources"]
        for verb in rule["verbs"]
    }


def test_what_is_written_from_the_chart_is_up_to_date(helm: Path) -> None:
    stale = [str(path.relative_to(ROOT)) for path, text in files(helm).items() if path.read_text() != text]
    assert stale == [], "make render puts this right"


def test_helm_finds_nothing_to_complain_about(helm: Path) -> None:
    ran = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "WARNING" not in ran.stdout


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == defib.__version__


def test_every_value_has_a_default_and_a_rule(helm: Path) -> None:
    rules = json.loads(SCHEMA.read_text())["properties"]
    assert set(rules) - {"global"} == set(VALUES)
    for name, value in VALUES.items():
        if "properties" in rules[name] and name != "settings":
            assert set(rules[name]["properties"]) == set(value), name
    assert render(helm)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mode": "observe"}, "at '/mode': value must be one of 'act', 'watch'"),
        ({"replica": 3}, "additional properties 'replica' not allowed"),
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"features.fencing": True}, "at '/features': additional properties 'fencing' not allowed"),
        ({"settings.lock_nmespace": "x"}, "at '/settings': additional properties 'lock_nmespace' not allowed"),
        ({"settings.watch_only": True}, "at '/settings': additional properties 'watch_only' not allowed"),
        ({"serves": ["machines"]}, "at '/serves/0': value must be one of 'machine-annotation'"),
        ({"features.podFailover": False}, "features.defaultCheck needs features.podFailover"),
        ({"serves": ["machine-annotation"]}, "serves needs features.metal3=true"),
        (
            {"serves": ["machine-annotation"], "features.metal3": True, "features.powerCycle": False},
            "features.powerCycle",
        ),
        ({"election": "off"}, "Set replicas=1, or choose an election"),
        ({"notifications.secret": "s", "settings.notify_url_file": "f"}, "leave one of them out"),
    ],
)
def test_a_mistake_is_told_in_words(helm: Path, values: dict[str, object], said: str) -> None:
    with pytest.raises(NotRendered, match=re.escape(said)):
        render(helm, values)


def test_every_right_says_what_it_is_for(helm: Path) -> None:
    everything = render(helm, {**ALL_ON, "election": "endpoints"})
    assert [right for right in rights(everything) if not right.why.endswith(".")] == []


def test_without_a_value_the_operator_has_its_own_defaults_but_for_what_few_clusters_have(helm: Path) -> None:
    said = {"DEFIB_NODE_NAME": "a-node", "DEFIB_REMEDIES": "pod-failover,power-cycle,drains"}
    assert settings(helm) == load({}, said, str)
    by_agents = {"DEFIB_NODE_NAME": "a-node", "DEFIB_DEFAULT_CHECK": "self-fence"}
    assert settings(helm, **ALL_ON) == load({}, by_agents, str)


@pytest.mark.parametrize(
    ("feature", "remedy"),
    [
        ("podFailover", "pod-failover"),
        ("powerCycle", "power-cycle"),
        ("drains", "drains"),
        ("metal3", "metal3"),
        ("nodekeeper", "nodekeeper"),
    ],
)
def test_without_a_feature_the_operator_does_not_try_what_it_has_no_right_for(
    helm: Path, feature: str, remedy: str
) -> None:
    values = {**ALL_ON, "features.defaultCheck": False, f"features.{feature}": False}
    assert set(REMEDIES) - set(settings(helm, **values).remedies) == {remedy}


def test_without_any_feature_nothing_is_done_about_nodes(helm: Path) -> None:
    off = dict.fromkeys((f"features.{name}" for name in VALUES["features"]), False)
    said = settings(helm, **off)
    assert (said.remedies, said.pod_failover_policies, said.health_checks) == ((), "off", "off")


def test_roles_for_people_are_bound_to_nobody(helm: Path) -> None:
    documents = objects(render(helm))
    people = ("defib-look", "defib-act", "defib-power-cycle", "defib-confirm-down")
    assert set(people) <= set(named(documents, "ClusterRole"))
    assert "defib-act" in named(documents, "Role")
    bound = {one["roleRef"]["name"] for one in documents if "roleRef" in one}
    assert not set(people) & bound


@pytest.mark.parametrize(("service", "there"), [(False, False), (True, True)])
def test_with_only_watching_there_is_a_role_to_look_where_the_page_asks_for_a_token(
    helm: Path, service: bool, there: bool
) -> None:
    roles = named(objects(render(helm, {"mode": "watch", "dashboard.service": service})), "ClusterRole")
    assert ("defib-look" in roles, "defib-act" in roles) == (there, False)


def test_settings_are_said_as_they_stand_in_a_file(helm: Path) -> None:
    said = settings(
        helm, **{"settings.brake": True, "settings.requests_per_second": 100000, "settings.upgrade_limit": "1h30m"}
    )
    assert (said.brake, said.requests_per_second, said.upgrade_limit_seconds) == ("on", 100000, 5400)


def test_with_only_watching_every_right_is_to_read(helm: Path) -> None:
    documents = objects(render(helm, {"mode": "watch"}))
    assert {verb for verb, _ in allowed(documents)} == {"get", "list", "watch"}
    assert not {"secrets", "endpoints"} & {what for _, what in allowed(documents)}
    assert settings(helm, mode="watch").watch_only == "on"
    assert "ValidatingAdmissionPolicy" not in {one["kind"] for one in documents}


@pytest.mark.parametrize(
    ("feature", "gone"),
    [
        ("checks", {("patch", "nodehealthchecks/status"), ("create", "nodehealthchecks")}),
        ("defaultCheck", {("create", "nodehealthchecks"), ("create", "podfailoverremediationtemplates")}),
        ("powerCycle", {("get", "secrets"), ("delete", "nodes"), ("patch", "pods/status"), ("create", "powercycleremediations"), ("delete", "powercycleremediations")}),
        ("drains", {("create", "pods/eviction"), ("patch", "pods"), ("create", "nodedrains")}),
    ],
)  # fmt: skip
def test_without_a_feature_its_rights_are_not_there(helm: Path, feature: str, gone: set[tuple[str, str]]) -> None:
    before = allowed(objects(render(helm))) | {("create", "powercycleremediations")}
    assert gone <= before
    after = objects(render(helm, {f"features.{feature}": False}))
    assert not gone & allowed(after)
    labelled = named(after, "ClusterRole")["defib-ext-remediation"]["rules"]
    assert feature != "powerCycle" or not any("powercycleremediations" in one["resources"] for one in labelled)


def test_where_medik8s_runs_the_checks_defib_only_serves_remediations(helm: Path) -> None:
    said = settings(helm, **{"features.checks": False})
    assert (said.health_checks, said.default_check) == ("off", "off")
    without = objects(render(helm, {"features.checks": False}))
    assert "defib-aggregation" not in named(without, "ClusterRole")


def test_without_pod_failover_nothing_of_it_is_left(helm: Path) -> None:
    values = {"features.podFailover": False, "features.defaultCheck": False, "features.drains": False}
    documents = objects(render(helm, values))
    gone = {("get", "persistentvolumeclaims"), ("delete", "podfailoverremediations")}
    assert not gone & allowed(documents)
    assert settings(helm, **values).pod_failover_policies == "off"


def test_metal3_serves_what_it_is_told_to(helm: Path) -> None:
    values: dict[str, object] = {
        "features.metal3": True,
        "serves": ["machine-annotation", "machine-health-check"],
    }
    assert settings(helm, **values).serves == ("machine-annotation", "machine-health-check")
    documents = objects(render(helm, values))
    assert ("patch", "baremetalhosts") in allowed(documents)
    assert "machines-to-be-remediated.defib.dev" in named(documents, "ValidatingAdmissionPolicy")
    bare = objects(render(helm, {**values, "admissionPolicies": False}))
    assert named(bare, "ValidatingAdmissionPolicy") == {}


def test_an_election_by_endpoints_may_write_its_own_lock(helm: Path) -> None:
    values: dict[str, object] = {"election": "endpoints", "settings.leader_lock": "first"}
    assert settings(helm, **values).election == "endpoints"
    role = named(objects(render(helm, values)), "Role")["defib-election"]
    rules = [one for one in role["rules"] if one["resources"] == ["endpoints"]]
    assert [(one["verbs"], one.get("resourceNames")) for one in rules] == [(["create"], None), (["get", "patch"], ["first"])]  # fmt: skip


def test_nodekeepers_configuration_is_read_where_it_is(helm: Path) -> None:
    role = named(objects(render(helm, {"features.nodekeeper": True})), "Role")["defib-nodekeeper"]
    assert role["metadata"]["namespace"] == NAMESPACE
    assert [one["verbs"] for one in role["rules"]] == [["get", "list", "watch"]]


def test_in_another_namespace_everything_is_about_that_one(helm: Path) -> None:
    text = render(helm, {"settings.lock_namespace": "locks", "features.metal3": True}, "--namespace=elsewhere")
    assert "defib-system" not in re.sub(r"^ *#.*$|description: .*|^ {6,}.*$", "", text, flags=re.MULTILINE)
    documents = objects(text)
    policy = named(documents, "ValidatingAdmissionPolicy")["pods-in-drains.defib.dev"]
    assert "system:serviceaccount:elsewhere:defib" in json.dumps(policy)
    assert named(documents, "Role")["defib-node-locks"]["metadata"]["namespace"] == "locks"
    (schema,) = named(documents, "FlowSchema").values()
    assert "elsewhere" in json.dumps(schema)
    assert as_deployed(documents)[1]["DEFIB_NAMESPACE"] == "elsewhere"


def test_the_page_is_reached_from_the_cluster_only_when_it_has_a_service(helm: Path) -> None:
    said = settings(helm, **{"dashboard.service": True, "dashboard.mode": "act"})
    assert (str(said.dashboard_address), said.dashboard) == ("0.0.0.0:8080", "act")
    documents = objects(render(helm, {"dashboard.service": True}))
    (port,) = named(documents, "Service")["defib-dashboard"]["spec"]["ports"]
    assert port["targetPort"] == "dashboard"
    ports = [one["ports"][0]["port"] for one in named(documents, "NetworkPolicy")["defib"]["spec"]["ingress"]]
    assert ports == ["probes", "dashboard"]
    (container,) = named(documents, "Deployment")["defib"]["spec"]["template"]["spec"]["containers"]
    served = {"probes": said.probes_address.port, "dashboard": said.dashboard_address.port}
    assert {one["name"]: one["containerPort"] for one in container["ports"]} == served
    proxy = [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]
    guarded = objects(render(helm, {"dashboard.service": True, "networkPolicy.dashboardFrom": proxy}))
    assert named(guarded, "NetworkPolicy")["defib"]["spec"]["ingress"][1]["from"] == proxy
    assert named(objects(render(helm)), "Service") == {}


def test_prometheus_finds_every_replica_and_the_alerts_as_they_are_written(helm: Path) -> None:
    labels = {"release": "kube-prometheus-stack"}
    values = {"metrics.serviceMonitor": True, "metrics.rules": True, "metrics.labels": labels}
    documents = objects(render(helm, values))
    monitor, service = named(documents, "ServiceMonitor")["defib"], named(documents, "Service")["defib-metrics"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert monitor["metadata"]["labels"].items() >= labels.items()
    rules = named(documents, "PrometheusRule")["defib"]
    assert rules["spec"] == yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["spec"]


def test_alerts_name_the_pages_where_they_are(helm: Path) -> None:
    values = {"metrics.rules": True, "metrics.runbookBase": "https://wiki.example.com/defib/"}
    rules = named(objects(render(helm, values)), "PrometheusRule")["defib"]["spec"]["groups"]
    pages = {rule["annotations"]["runbook_url"] for group in rules for rule in group["rules"] if "alert" in rule}
    assert pages
    assert all(page.startswith("https://wiki.example.com/defib/Defib") for page in pages)


def test_a_secret_with_an_address_for_news_is_a_file(helm: Path) -> None:
    documents = objects(render(helm, {"notifications.secret": "slack"}))
    pod = named(documents, "Deployment")["defib"]["spec"]["template"]["spec"]
    (mount,) = pod["containers"][0]["volumeMounts"]
    (volume,) = pod["volumes"]
    assert volume["secret"]["secretName"] == "slack"
    assert as_deployed(documents)[1]["DEFIB_NOTIFY_URL_FILE"] == f"{mount['mountPath']}/url"


def test_what_a_message_looks_like_is_another_key_of_the_same_secret(helm: Path) -> None:
    documents = objects(render(helm, {"notifications.secret": "slack", "notifications.templateKey": "text"}))
    pod = named(documents, "Deployment")["defib"]["spec"]["template"]["spec"]
    (mount,) = pod["containers"][0]["volumeMounts"]
    (volume,) = pod["volumes"]
    assert volume["secret"]["items"] == [{"key": "url", "path": "url"}, {"key": "text", "path": "template"}]
    assert as_deployed(documents)[1]["DEFIB_NOTIFY_TEMPLATE_FILE"] == f"{mount['mountPath']}/template"


def test_where_it_runs_can_be_chosen(helm: Path) -> None:
    values = {
        "image.repository": "registry.example.com/defib",
        "image.tag": "2",
        "image.pullSecrets": ["here"],
        "nodeSelector": {"role": "infra"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "networkPolicy.egress": [{"ports": [{"port": 6443}]}],
        "networkPolicy.metricsFrom": [{"namespaceSelector": {}}],
    }
    documents = objects(render(helm, values))
    pod = named(documents, "Deployment")["defib"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example.com/defib:2"
    assert pod["imagePullSecrets"] == [{"name": "here"}]
    assert pod["nodeSelector"] == {"role": "infra"}
    assert pod["tolerations"][-1] == {"key": "infra", "operator": "Exists"}
    policy = named(documents, "NetworkPolicy")["defib"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == [{"ports": [{"port": 6443}]}]
    assert policy["ingress"][0]["from"] == [{"namespaceSelector": {}}]
