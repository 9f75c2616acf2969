"""Where those in another terminal find the cluster."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.people.orders import Order, Verb, give
from testbed.people.place import SOCKET, NoCluster, announced, find, link_path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(tmp_path / "run")}


def a_cluster(directory: Path) -> Path:
    directory.mkdir()
    (directory / SOCKET).touch()
    return directory


def test_a_cluster_is_found_while_it_runs_and_leaves_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    directory = a_cluster(tmp_path / "cluster")
    with announced(directory, environment):
        assert find(None, environment).resolve() == directory / SOCKET
    assert list((tmp_path / "run").iterdir()) == []
    with pytest.raises(NoCluster, match="no cluster with nodes runs here"):
        find(None, environment)


def test_the_one_that_was_started_last_is_found_and_ending_the_first_does_not_hide_it(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    first, second = a_cluster(tmp_path / "first"), a_cluster(tmp_path / "second")
    with ExitStack() as clusters:
        with announced(first, environment):
            clusters.enter_context(announced(second, environment))
        assert find(None, environment).resolve() == second / SOCKET
        assert find(first, environment) == first / SOCKET


def test_without_a_runtime_directory_the_cache_has_the_link() -> None:
    assert link_path({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/defib/cluster")


def test_a_socket_that_nobody_listens_at_is_a_cluster_that_has_ended(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match="it has ended"):
        give(Order(verb=Verb.STATUS), a_cluster(tmp_path / "cluster") / SOCKET)
