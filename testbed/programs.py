"""Where the programs of the control plane come from: the caller's own, or ours, built once and cached.

from testbed.programs import NoControlPlane, control_plane_programs

programs = control_plane_programs()      # may build, which takes minutes: never call it inside an event loop
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from testbed.build import HELM, NoControlPlane, Recipe, cache_directory, ensure_built

__all__ = ["NoControlPlane", "Program", "Programs", "control_plane_programs", "helm_program", "present", "tell"]


class Program(StrEnum):
    """Each by the name of its file."""

    ETCD = "etcd"
    APISERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    KUBECTL = "kubectl"


Programs = Mapping[Program, Path]

API_ONLY = (Program.ETCD, Program.APISERVER, Program.KUBECTL)


def tell(line: str) -> None:
    """Progress for a person: at once, and apart from what a command answers on its standard output."""
    print(line, file=sys.stderr, flush=True)


def control_plane_programs(*, api_only: bool = False, say: Callable[[str], None] = tell) -> Programs:
    """KUBEBUILDER_ASSETS first, then PATH, then the cache, then a build. Raises NoControlPlane when none of them has it."""
    needed = API_ONLY if api_only else tuple(Program)
    found = present(needed, os.environ)
    if found is not None:
        return found
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        lacking = ", ".join(name for name in needed if not _is_program(Path(assets) / name))
        say(f"control plane: KUBEBUILDER_ASSETS has no {lacking}; using our own")
    home = ensure_built(Recipe(), cache_directory(os.environ), tuple(Program), say)
    return {name: home / name for name in needed}


def helm_program(*, say: Callable[[str], None] = tell) -> Path:
    """Ours, from the cache or built: what is rendered from the chart must not depend on whose Helm is on PATH."""
    home = ensure_built(HELM, cache_directory(os.environ).parent / HELM.program, (), say)
    return home / HELM.program


def present(needed: Iterable[Program], environment: Mapping[str, str]) -> Programs | None:
    """The programs somebody put here for us; None unless one place has all that are needed, so that versions never mix."""
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        in_assets = {name: Path(assets) / name for name in needed}
        if all(_is_program(path) for path in in_assets.values()):
            return in_assets
    search = environment.get("PATH", "")
    on_path = {name: Path(found) for name in needed if (found := shutil.which(name, path=search))}
    return on_path if set(on_path) == set(needed) else None


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
