"""The definitions of the kinds that Defib looks after, as objects that an API server takes. They travel in the wheel."""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

_OF_THE_CHECKOUT = Path(__file__).parents[2] / "deploy" / "crds"


def definitions() -> tuple[dict[str, Any], ...]:
    """Every CustomResourceDefinition of deploy/crds, in the order of the files' names."""
    files = sorted((file for file in _folder().iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    return tuple(yaml.safe_load(file.read_text(encoding="utf-8")) for file in files)


def _folder() -> Traversable:
    """A package that is installed in place leaves them where they are written."""
    packed = resources.files("defib") / "crds"
    return packed if packed.is_dir() else _OF_THE_CHECKOUT
