"""What is left out of a dump, and what is not: names of Secrets are needed, and so is all that is decided by."""

from typing import Any

import pytest

from defib.console.redaction import clean, clean_text, without_secrets
from defib.model.cluster import CONFIG_MAPS, Cluster
from defib.model.config_map import ConfigMap
from defib.model.incident import Command, IncidentStatus, NodeIncident
from defib.model.meta import Meta, Unstructured
from defib.model.pod import Pod, PodSpec
from defib.model.power import PowerPath
from tests.builders import T0, a_node


def cleaned(spec: dict[str, Any], kind: str = "Foo") -> Any:
    return clean(Unstructured(kind=kind, spec=spec)).spec


def test_values_under_keys_that_sound_like_secrets_go() -> None:
    assert cleaned({"--password": "x", "token": 7, "a": {"apiKey": ["x", {"b": "y"}]}}) == {
        "--password": "redacted",
        "token": "redacted",
        "a": {"apiKey": ["redacted", {"b": "redacted"}]},
    }


def test_what_only_names_a_secret_stays() -> None:
    spec = {
        "power": {"credentials": {"name": "bmc-{node}"}},
        "secretName": "bmc",
        "tokenRef": {"name": "a", "namespace": "b"},
        "automountServiceAccountToken": False,
        "secret": {"secretName": "s", "defaultMode": 420, "optional": True},
    }
    assert cleaned(spec) == spec


def test_environments_are_cleaned_by_the_name_of_the_variable() -> None:
    env = [{"name": "DB_PASSWORD", "value": "x"}, {"name": "REGION", "value": "eu"}]
    assert cleaned({"env": env}) == {"env": [{"name": "DB_PASSWORD", "value": "redacted"}, env[1]]}


def test_texts_lose_only_the_secret_in_them() -> None:
    assert clean_text("https://root:calvin@10.0.0.1/redfish says no") == "https://redacted@10.0.0.1/redfish says no"
    assert clean_text("ipmitool -P x password=calvin failed") == "ipmitool -P x password=redacted failed"
    assert clean_text("secret bmc-7 not found") == "secret bmc-7 not found"


@pytest.mark.parametrize("levels", [480, 950])
def test_what_is_nested_without_end_is_cut_and_the_rest_is_there(levels: int) -> None:
    """Half of what can be read cannot be gone through, and what cannot be read never gets here. A dump goes on all the same."""
    deep: Any = "calvin"
    for _ in range(levels):
        deep = [deep]
    found = cleaned({"password": deep, "order": 1})
    assert found["order"] == 1
    assert "calvin" not in str(found)


def test_what_is_harmless_is_the_very_same_object() -> None:
    node = a_node("n1", labels={"zone": "asia-east1-a"}, annotations={"a": "b"})
    assert clean(node) is node


def test_labels_stay_because_selectors_are_made_of_them() -> None:
    node = a_node("n1", labels={"token-ring": "yes"})
    assert clean(node).labels == {"token-ring": "yes"}
    selector = {"selector": {"matchLabels": {"token-ring": "yes"}}}
    assert cleaned(selector) == selector


def test_of_an_incident_the_name_of_the_secret_and_who_gave_the_order_stay() -> None:
    path = PowerPath(driver="redfish", address="https://u:p@bmc", secret="ns/bmc", options={"password": "x"})
    command = Command(power="Off", at=T0, attempt=1, token="defib-0/17")
    cleaned = clean(NodeIncident(status=IncidentStatus(power=path, command=command)))
    assert cleaned.status.command == command
    assert cleaned.status.power == PowerPath(
        driver="redfish", address="https://redacted@bmc", secret="ns/bmc", options={"password": "redacted"}
    )


def test_of_pods_nothing_is_kept_that_nobody_decides_by() -> None:
    volumes: list[dict[str, Any]] = [
        {"name": "a", "csi": {"volumeAttributes": {"x": "y"}}},
        {"persistentVolumeClaim": {"claimName": "data"}},
    ]
    pod = clean(Pod(spec=PodSpec(volumes=volumes)))
    assert pod.spec.volumes == [{"name": "a", "csi": {}}, {"persistentVolumeClaim": {"claimName": "data"}}]
    assert cleaned({"containers": [{"env": []}], "initContainers": [], "nodeName": "n"}, "Pod") == {"nodeName": "n"}


def test_config_maps_that_nobody_reads_are_left_out() -> None:
    maps = {f"d/{name}": ConfigMap(metadata=Meta(name=name, namespace="d")) for name in ("defib-brake", "ca")}
    cluster = without_secrets(Cluster(now=T0, others={CONFIG_MAPS: maps}), frozenset({"d/defib-brake"}))
    assert list(cluster.others[CONFIG_MAPS]) == ["d/defib-brake"]
