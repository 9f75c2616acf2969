"""The definitions of our kinds, from the checkout and from a wheel."""

import zipfile
from pathlib import Path

import yaml
from hatchling.builders.wheel import WheelBuilder

from defib.manifests import definitions

ROOT = Path(__file__).parents[2]
WRITTEN = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))


def test_every_definition_that_is_written_is_there() -> None:
    assert list(definitions()) == [yaml.safe_load(path.read_text()) for path in WRITTEN]
    assert {definition["kind"] for definition in definitions()} == {"CustomResourceDefinition"}


def test_they_travel_in_the_wheel(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
    found = sorted((tmp_path / "defib" / "crds").iterdir())
    assert [(path.name, path.read_text()) for path in found] == [(path.name, path.read_text()) for path in WRITTEN]
