"""Requests that are wrong in themselves, and how the server says so."""

import pytest

from defib.kube.client import Client
from defib.kube.errors import Invalid, NotFound
from defib.kube.transport import MERGE_PATCH, Request
from tests.contract.api_server.objects import CONFIG_MAPS, PODS, a_config_map, a_pod
from tests.contract.api_server.steps import raw


@pytest.mark.parametrize("path", ["/nowhere", "/apis/no.such.group/v1/things", "/api/v1/things", "/api/v9/pods"])
async def test_an_unknown_path_is_not_found(client: Client, path: str) -> None:
    with pytest.raises(NotFound):
        await raw(client, "GET", path)


async def test_an_unknown_subresource_is_not_found(client: Client, namespace: str) -> None:
    await client.create(PODS, a_pod("p"), namespace=namespace)
    with pytest.raises(NotFound):
        await raw(client, "GET", PODS.at("p", namespace).path("nonsense"))


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_verb_that_a_path_does_not_know_is_refused(client: Client, namespace: str, method: str) -> None:
    on_one = method == "POST"
    path = CONFIG_MAPS.at("a", namespace).path() if on_one else CONFIG_MAPS.collection(namespace)
    with pytest.raises(Invalid) as refused:
        await raw(client, method, path, a_config_map("a"))
    assert refused.value.status.code == 405


async def test_malformed_json_is_refused(client: Client, namespace: str) -> None:
    path = CONFIG_MAPS.collection(namespace)
    for body in (b'{"metadata": {', b"[]", b"nonsense"):
        with pytest.raises(Invalid) as refused:
            await raw(client, "POST", path, body)
        assert refused.value.status.code == 400


async def test_a_malformed_patch_is_refused(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    path = CONFIG_MAPS.at("a", namespace).path()
    for content_type in (MERGE_PATCH, "application/json-patch+json"):
        with pytest.raises(Invalid) as refused:
            await raw(client, "PATCH", path, b"{", content_type=content_type)
        assert refused.value.status.code == 400


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_body_of_an_unknown_type_is_refused(client: Client, namespace: str, method: str) -> None:
    await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    path = CONFIG_MAPS.collection(namespace) if method == "POST" else CONFIG_MAPS.at("a", namespace).path()
    with pytest.raises(Invalid) as refused:
        await raw(client, method, path, b"x", content_type="text/plain")
    assert refused.value.status.code == 415


async def test_an_answer_of_an_unknown_type_is_refused(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as refused:
        await raw(client, "GET", CONFIG_MAPS.collection(namespace), accept="text/html")
    assert refused.value.status.code == 406


async def test_a_type_wrong_for_its_field_is_refused(client: Client, namespace: str) -> None:
    body = {"metadata": {"name": "a"}, "data": ["not", "a", "map"]}
    with pytest.raises(Invalid) as refused:
        await raw(client, "POST", CONFIG_MAPS.collection(namespace), body)
    assert refused.value.status.code == 400


async def test_unknown_fields_of_a_built_in_kind_are_dropped(client: Client, namespace: str) -> None:
    body = a_config_map("a", k="v") | {"unknown": 1}
    answer = await raw(client, "POST", CONFIG_MAPS.collection(namespace), body)
    assert "unknown" not in answer


async def test_a_strict_write_refuses_unknown_fields(client: Client, namespace: str) -> None:
    body = a_config_map("a") | {"unknown": 1}
    with pytest.raises(Invalid, match='unknown field "unknown"'):
        await raw(client, "POST", CONFIG_MAPS.collection(namespace), body, fieldValidation="Strict")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_the_server_says_that_it_is_well(client: Client, path: str) -> None:
    assert await client.ask(Request(method="GET", path=path, accept="*/*")) == b"ok"


@pytest.mark.parametrize("version", ["x", "-1"])
async def test_a_version_that_is_none_is_refused(client: Client, namespace: str, version: str) -> None:
    with pytest.raises(Invalid):
        await raw(client, "GET", CONFIG_MAPS.collection(namespace), resourceVersion=version)
