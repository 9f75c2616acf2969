"""The control plane that tests stand on: it is a real one, it can be disturbed, and it leaves nothing behind."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from testbed.build import Recipe
from testbed.cluster import ControlPlane, ControlPlaneFailed
from testbed.programs import Program, Programs, present
from testbed.settings import Settings
from tests.testbed.processes import group_exists

pytestmark = [pytest.mark.real, pytest.mark.timeout(90)]

API_ONLY = Settings(api_only=True)
NO_SUCH_FLAG = ("--no-such-flag",)
PINNED = Recipe().version


async def kubectl(cluster: ControlPlane, *arguments: str, login: Path | None = None, given: Any = None) -> str:
    """What it answered. Raises AssertionError with what it complained about."""
    process = await asyncio.create_subprocess_exec(
        cluster.kubectl,
        f"--kubeconfig={login or cluster.kubeconfig}",
        f"--cache-dir={cluster.directory / 'kubectl'}",
        *arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    answered, complained = await process.communicate(json.dumps(given).encode() if given else None)
    assert process.returncode == 0, complained.decode()
    return answered.decode()


async def who_am_i(cluster: ControlPlane, login: Path) -> tuple[str, set[str]]:
    answer = json.loads(await kubectl(cluster, "auth", "whoami", "--output=json", login=login))
    user = answer["status"]["userInfo"]
    return user["username"], set(user["groups"]) - {"system:authenticated"}


@pytest.mark.skipif(present(Program, os.environ) is not None, reason="the machine's own programs, of whatever version")
async def test_it_answers_with_the_version_that_go_mod_pins(cluster: ControlPlane) -> None:
    assert await cluster.version() == PINNED


async def test_a_user_without_roles_is_refused(cluster: ControlPlane) -> None:
    assert await who_am_i(cluster, cluster.restricted_kubeconfig) == ("restricted", set())
    with pytest.raises(AssertionError, match=r'nodes is forbidden: User "restricted" cannot list'):
        await kubectl(cluster, "get", "nodes", login=cluster.restricted_kubeconfig)


async def test_the_admin_may_do_everything(cluster: ControlPlane) -> None:
    assert await who_am_i(cluster, cluster.kubeconfig) == ("admin", {"system:masters"})
    assert await kubectl(cluster, "auth", "can-i", "*", "*", "--all-namespaces") == "yes\n"


async def test_a_token_user_is_known_with_its_groups(cluster: ControlPlane) -> None:
    assert await who_am_i(cluster, cluster.token_kubeconfig("token-admin")) == ("token-admin", {"system:masters"})
    assert await who_am_i(cluster, cluster.token_kubeconfig("token-restricted")) == ("token-restricted", set())


async def test_anybody_can_be_given_a_certificate(cluster: ControlPlane) -> None:
    login = await cluster.kubeconfig_for("system:node:worker-1", ("system:nodes", "racks"))
    assert ":" not in login.name
    assert await who_am_i(cluster, login) == ("system:node:worker-1", {"system:nodes", "racks"})


async def test_a_new_namespace_is_waited_for_until_pods_can_be_made_in_it(cluster: ControlPlane) -> None:
    await kubectl(cluster, "create", "namespace", "shop")
    await cluster.wait_for_namespace("shop")
    await kubectl(cluster, "get", "serviceaccount", "default", "--namespace=shop")


async def test_a_namespace_that_never_comes_ends_the_wait(cluster: ControlPlane) -> None:
    with pytest.raises(ControlPlaneFailed, match=r"namespaces/never/.* was not there within 0.3 s"):
        await cluster.wait_for_namespace("never", within=0.3)


async def test_the_scheduler_places_pods(cluster: ControlPlane) -> None:
    await cluster.wait_for_namespace("default")
    ready = {"type": "Ready", "status": "True"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    room = {"pods": "10", "cpu": "1", "memory": "1Gi"}
    status = {"conditions": [ready], "capacity": room, "allocatable": room}
    spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    await kubectl(cluster, "create", "--filename=-", given=node | {"status": status})
    await kubectl(cluster, "create", "--filename=-", given=pod)
    await kubectl(cluster, "wait", "pod/p", "--for=jsonpath={.spec.nodeName}=n1", "--timeout=20s")


async def test_a_killed_api_server_comes_back_on_its_port_with_its_data(cluster: ControlPlane) -> None:
    url = cluster.url
    await kubectl(cluster, "create", "configmap", "kept", "--namespace=kube-system", "--from-literal=a=b")
    await cluster.kill_apiserver()
    with pytest.raises(AssertionError, match="refused"):
        await kubectl(cluster, "get", "--raw=/readyz")
    await cluster.start_apiserver()
    assert cluster.url == url
    assert await kubectl(cluster, "get", "--raw=/readyz") == "ok"
    assert "kept" in await kubectl(cluster, "get", "configmap", "kept", "--namespace=kube-system")


async def test_a_stopped_api_server_is_started_again(cluster: ControlPlane) -> None:
    await cluster.stop_apiserver()
    with pytest.raises(AssertionError, match="refused"):
        await kubectl(cluster, "get", "--raw=/readyz")
    await cluster.start_apiserver()
    assert await kubectl(cluster, "get", "--raw=/readyz") == "ok"


async def test_a_paused_api_server_keeps_silent_until_it_goes_on(cluster: ControlPlane) -> None:
    cluster.pause(Program.APISERVER)
    with pytest.raises(AssertionError, match=r"(?i)timeout|deadline"):
        await kubectl(cluster, "get", "--raw=/readyz", "--request-timeout=500ms")
    cluster.resume(Program.APISERVER)
    assert await kubectl(cluster, "get", "--raw=/readyz") == "ok"


async def live(cluster: ControlPlane, *, then: BaseException | None = None) -> None:
    """A whole life of a cluster, which ends by itself or by an error."""
    async with cluster:
        assert group_exists(cluster.process_group)
        cluster.pause(Program.ETCD)  # a paused component must end too
        if then is not None:
            raise then


def test_a_clean_end_leaves_no_process_and_no_file(programs: Programs, tmp_path: Path) -> None:
    cluster = ControlPlane(programs, API_ONLY, directory=tmp_path / "cluster")
    asyncio.run(live(cluster))
    assert not group_exists(cluster.process_group)
    assert not (tmp_path / "cluster").exists()


def test_a_failure_leaves_no_process_but_the_logs(
    programs: Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ControlPlane(programs, API_ONLY, directory=tmp_path / "cluster")
    with pytest.raises(ZeroDivisionError):
        asyncio.run(live(cluster, then=ZeroDivisionError()))
    assert not group_exists(cluster.process_group)
    assert (tmp_path / "cluster" / "kube-apiserver.log").stat().st_size > 0
    assert f"logs are kept in {tmp_path / 'cluster'}" in capsys.readouterr().err


def test_a_component_that_dies_at_the_start_is_named_with_its_last_words(programs: Programs, tmp_path: Path) -> None:
    settings = Settings(api_only=True, apiserver=NO_SUCH_FLAG)
    cluster = ControlPlane(programs, settings, directory=tmp_path / "cluster")
    with pytest.raises(ControlPlaneFailed, match=r"(?s)^kube-apiserver died.*unknown flag: --no-such-flag"):
        asyncio.run(live(cluster))
    assert not group_exists(cluster.process_group)
    assert (tmp_path / "cluster" / "kube-apiserver.log").exists()


async def test_a_controller_that_dies_is_named_to_whoever_waits_for_its_work(
    programs: Programs, tmp_path: Path
) -> None:
    settings = Settings(controller_manager=NO_SUCH_FLAG)
    with pytest.raises(ControlPlaneFailed, match=r"^kube-controller-manager died"):
        async with ControlPlane(programs, settings, directory=tmp_path / "cluster") as cluster:
            await cluster.wait_for_namespace("default")


def test_a_directory_in_use_is_refused_and_left_alone(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ControlPlaneFailed, match="is not empty"):
        asyncio.run(live(ControlPlane(programs, directory=tmp_path)))
    assert (tmp_path / "mine").read_text() == "precious"
