"""The kinds that Metal3's users expect in a cluster: BareMetalHost, and the Machines of OpenShift and of Cluster API."""

from pathlib import Path
from typing import Any

import yaml

_CRDS = Path(__file__).parents[1] / "crds"


def metal3_definitions() -> list[dict[str, Any]]:
    """CustomResourceDefinitions, ready to be created."""
    files = sorted(_CRDS.glob("metal3-*.yaml"))
    return [definition for file in files for definition in yaml.safe_load_all(file.read_text())]
