"""The agents in the chart, rendered: their pods, their rights, their certificates, and what the operator is told of them."""

import re
from pathlib import Path
from typing import Any

import pytest

from defib.agent.settings import AgentSettings, problems_of
from defib.cli.commands.agent import agent
from defib.config import load
from defib.model.self_fence import Pace
from testbed.chart import WITH_AGENTS, NotRendered, objects, render
from tests.e2e.test_chart import allowed, named, settings

pytestmark = pytest.mark.timeout(60)

BARE = {"agent.enabled": True}
ISSUER = {"name": "defib-agents", "kind": "Issuer"}


def agents(helm: Path, **values: object) -> dict[str, Any]:
    """The pods of the DaemonSet."""
    found = named(objects(render(helm, {**WITH_AGENTS, **values})), "DaemonSet")
    template: dict[str, Any] = found["defib-agent"]["spec"]["template"]
    return template


def test_without_being_asked_for_there_are_no_agents(helm: Path) -> None:
    documents = objects(render(helm))
    assert [one["metadata"]["name"] for one in documents if "agent" in one["metadata"]["name"]] == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (BARE, "agent.enabled needs certificates: name a Secret"),
        ({**WITH_AGENTS, "agent.certificates.certManager.issuerRef": ISSUER}, "and not both"),
        ({**WITH_AGENTS, "mode": "watch"}, "agent.enabled needs mode=act"),
        ({**WITH_AGENTS, "admissionPolicies": False}, "agent.enabled needs admissionPolicies=true"),
        ({**WITH_AGENTS, "agent.deviceResource": "a.b/c", "agent.watchdog": "software"}, "leave it out"),
        ({**WITH_AGENTS, "agent.watchdog": "watchdog"}, "at '/agent/watchdog'"),
        ({**WITH_AGENTS, "agent.failures": 1}, "at '/agent/failures'"),
        ({**WITH_AGENTS, "agent.interval": "5"}, "at '/agent/interval'"),
    ],
)
def test_a_mistake_is_told_in_words(helm: Path, values: dict[str, object], said: str) -> None:
    with pytest.raises(NotRendered, match=re.escape(said)):
        render(helm, values)


def chosen(pod: dict[str, Any], node: str, host: str) -> AgentSettings:
    """What the program reads from the arguments, when the kubelet has put its own words into them."""
    (container,) = pod["spec"]["containers"]
    itself = {"spec.nodeName": node, "metadata.namespace": "defib-system", "status.hostIP": host}
    said = {one["name"]: itself[one["valueFrom"]["fieldRef"]["fieldPath"]] for one in container["env"]}
    program, *arguments = (re.sub(r"\$\((\w+)\)", lambda name: said[name[1]], one) for one in container["args"])
    assert program == "agent"
    read = agent.make_context(program, arguments).params
    environment = {name: value for name, value in said.items() if name.startswith("DEFIB_")}
    return AgentSettings(
        node=read["node"],
        namespace=load({}, environment, str).namespace,
        address=read["address"],
        tls=read["tls"],
        watchdog=read["watchdog"],
        watchdog_seconds=read["watchdog_timeout"],
        pace=Pace(
            interval_seconds=read["interval"],
            request_seconds=read["request_timeout"],
            failures=read["failures"],
            peer_seconds=read["peer_time"],
        ),
    )


@pytest.mark.parametrize("host", ["10.0.0.7", "fd00::7"])
def test_an_agent_takes_what_its_pod_is_told(helm: Path, host: str) -> None:
    pod = agents(helm, **{"agent.port": 9700, "agent.watchdog": "/dev/watchdog1", "agent.peerTime": "30s"})
    said = chosen(pod, "worker-7", host)
    assert (said.node, said.namespace) == ("worker-7", "defib-system")
    assert (said.address.host, said.address.port) == (host, 9700)
    assert (said.watchdog, said.pace.peer_seconds) == ("/dev/watchdog1", 30.0)
    assert problems_of(said) == []
    (container,) = pod["spec"]["containers"]
    assert {"name": "peers", "containerPort": 9700} in container["ports"]
    assert {"name": "certificates", "mountPath": str(said.tls), "readOnly": True} in container["volumeMounts"]


def test_an_agent_is_on_every_node_and_stays_there(helm: Path) -> None:
    spec = agents(helm)["spec"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == "system-node-critical"
    assert (spec["hostNetwork"], spec["serviceAccountName"]) == (True, "defib-agent")
    (container,) = spec["containers"]
    assert "limits" not in container["resources"], "one that is killed for its memory is a node that is reset"
    assert not [name for name in container if name.endswith("Probe")]


def test_a_device_is_opened_by_privileges_or_by_a_device_plugin(helm: Path) -> None:
    host = agents(helm)["spec"]
    assert host["containers"][0]["securityContext"]["privileged"]
    assert {"name": "watchdog", "hostPath": {"path": "/dev/watchdog", "type": "CharDevice"}} in host["volumes"]
    plugged = agents(helm, **{"agent.deviceResource": "example.com/watchdog"})["spec"]
    container = plugged["containers"][0]
    assert "privileged" not in container["securityContext"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"] == {"example.com/watchdog": 1}
    assert [one["name"] for one in plugged["volumes"]] == ["certificates"]


def test_a_software_watchdog_mounts_no_device(helm: Path) -> None:
    spec = agents(helm, **{"agent.watchdog": "software"})["spec"]
    assert spec["containers"][0]["securityContext"]["privileged"]
    assert [one["name"] for one in spec["volumes"]] == ["certificates"]


def test_certificates_are_a_secret_of_yours_or_one_that_cert_manager_renews(helm: Path) -> None:
    theirs = agents(helm, **{"agent.certificates.secret": "mine"})["spec"]["volumes"][0]["secret"]
    assert theirs["secretName"] == "mine"
    documents = objects(render(helm, {**BARE, "agent.certificates.certManager.issuerRef": ISSUER}))
    certificate = named(documents, "Certificate")["defib-agent"]["spec"]
    assert (certificate["issuerRef"], certificate["dnsNames"]) == (ISSUER, ["defib-agent"])
    assert {"server auth", "client auth"} <= set(certificate["usages"])
    volume = named(documents, "DaemonSet")["defib-agent"]["spec"]["template"]["spec"]["volumes"][0]
    assert volume["secret"]["secretName"] == certificate["secretName"]


def test_nothing_that_chooses_replicas_chooses_agents(helm: Path) -> None:
    documents = objects(render(helm, WITH_AGENTS))
    labels = agents(helm)["metadata"]["labels"]
    replicas = named(documents, "Deployment")["defib"]["spec"]["selector"]["matchLabels"]
    assert not replicas.items() <= labels.items()
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        spec = named(documents, kind)["defib"]["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        assert not selector["matchLabels"].items() <= labels.items()


def test_where_there_are_agents_the_default_check_remediates_by_them(helm: Path) -> None:
    said = settings(helm, **WITH_AGENTS)
    assert said.default_check == "self-fence"
    assert "self-fence" in said.remedies
    assert settings(helm, **WITH_AGENTS, **{"features.defaultCheck": False}).default_check == "off"
    rights = allowed(objects(render(helm, WITH_AGENTS)))
    assert ("create", "selffenceremediationtemplates") in rights
    assert ("create", "podfailoverremediationtemplates") not in rights
    assert render(helm, {**WITH_AGENTS, "features.podFailover": False}), "which the default check does not need then"


def test_without_agents_no_node_is_told_to_take_itself_down(helm: Path) -> None:
    assert "self-fence" not in settings(helm).remedies
    gone = {
        ("patch", "selffenceremediations"),
        ("create", "selffenceremediations"),
        ("delete", "selffenceremediations"),
    }
    assert not gone & allowed(objects(render(helm)))
    assert ("patch", "selffenceremediations") in allowed(objects(render(helm, WITH_AGENTS)))


def test_the_namespace_takes_agents(helm: Path) -> None:
    def enforced(**values: object) -> object:
        namespaces = named(objects(render(helm, {"namespace.create": True, **values})), "Namespace")
        return namespaces["defib-system"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]

    assert (enforced(), enforced(**WITH_AGENTS)) == ("restricted", "privileged")


def test_the_agents_account_is_not_that_of_the_operator(helm: Path) -> None:
    documents = objects(render(helm, WITH_AGENTS))
    roles = {
        one["roleRef"]["name"]
        for one in documents
        if one["kind"].endswith("RoleBinding") and [who["name"] for who in one["subjects"]] == ["defib-agent"]
    }
    assert roles == {"defib-agent"}
    assert "defib-self-fence" not in {one["roleRef"]["name"] for one in documents if "roleRef" in one}, "for people"


def test_by_what_an_agent_tells_that_it_ends_outlives_the_release(helm: Path) -> None:
    kept = {
        one["kind"]
        for one in objects(render(helm, {**WITH_AGENTS, "crds.install": False}))
        if one["metadata"]["name"] == "defib-agent"
        and one["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
    }
    assert kept == {"ServiceAccount", "Role", "RoleBinding"}
