"""The documentation, built as `make docs` builds it: what is not perfect fails."""

import subprocess
import sys
from pathlib import Path

from tests.tidy.repository import ROOT

PATIENCE_SECONDS = 120.0


def build_site(place: Path) -> Path:
    mkdocs = str(Path(sys.executable).parent / "mkdocs")
    command = [mkdocs, "build", "--strict", "--site-dir", str(place)]  # with --quiet it would let every warning pass
    environment = {"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1", "HOME": str(place.parent)}
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    said = [line for line in (ran.stdout + ran.stderr).splitlines() if line and not line.startswith("INFO ")]
    assert (ran.returncode, said) == (0, [])
    return place
