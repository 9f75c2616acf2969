"""Programs that somebody put on the machine come before our own."""

from pathlib import Path

from testbed.programs import API_ONLY, Program, present


def programs_in(directory: Path, *names: Program) -> Path:
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


def test_kubebuilder_assets_come_before_the_path(tmp_path: Path) -> None:
    assets = programs_in(tmp_path / "assets", *Program)
    on_path = programs_in(tmp_path / "bin", *Program)
    found = present(Program, {"KUBEBUILDER_ASSETS": str(assets), "PATH": str(on_path)})
    assert found == {name: assets / name for name in Program}


def test_programs_on_the_path_are_used_when_there_are_no_assets(tmp_path: Path) -> None:
    on_path = programs_in(tmp_path / "bin", *Program)
    assert present(Program, {"PATH": str(on_path)}) == {name: on_path / name for name in Program}


def test_assets_without_controllers_serve_an_api_only_cluster_and_no_other(tmp_path: Path) -> None:
    assets = programs_in(tmp_path / "assets", *API_ONLY)
    environment = {"KUBEBUILDER_ASSETS": str(assets), "PATH": ""}
    assert present(API_ONLY, environment) == {name: assets / name for name in API_ONLY}
    assert present(Program, environment) is None


def test_programs_of_two_places_are_not_mixed(tmp_path: Path) -> None:
    assets = programs_in(tmp_path / "assets", *API_ONLY)
    on_path = programs_in(tmp_path / "bin", Program.CONTROLLER_MANAGER, Program.SCHEDULER)
    assert present(Program, {"KUBEBUILDER_ASSETS": str(assets), "PATH": str(on_path)}) is None


def test_a_file_that_cannot_be_run_is_no_program(tmp_path: Path) -> None:
    assets = programs_in(tmp_path / "assets", *Program)
    (assets / Program.ETCD).chmod(0o644)
    assert present(Program, {"KUBEBUILDER_ASSETS": str(assets), "PATH": ""}) is None
