"""What we ship of others: are there known holes in it, and a list of it for whoever has to know.

    python -m tests.security.dependencies audit            # make audit
    python -m tests.security.dependencies sbom build/sbom.json   # make sbom

Both read the lock, so they speak of exactly what is installed. Where the data about holes cannot be had, that is told
loudly and is no failure: nothing is wrong with the product then, only with the sight of it.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
WITHIN_SECONDS = 300.0
SPEC_VERSION = "1.6"
AUDIT, SBOM = "pip_audit", "cyclonedx_py"

Run = Callable[[Sequence[str]], str]


class Verdict(msgspec.Struct, frozen=True):
    """`holes` are sentences; `unseen` are packages of which nothing could be found out."""

    holes: tuple[str, ...]
    unseen: tuple[str, ...]
    seen: int

    @property
    def exit_code(self) -> int:
        return 1 if self.holes else 0

    def told(self) -> str:
        lines = [*self.holes, f"{self.seen} packages were looked at, {len(self.holes)} known holes"]
        if self.unseen:
            lines.append(f"!!! NOT AUDITED, no data could be had: {', '.join(self.unseen)}")
        return "\n".join(lines)


def locked(text: str) -> dict[str, str]:
    """Names and versions, as a lock says them."""
    lines = (line.split(";")[0].split("\\")[0].strip() for line in text.splitlines() if not line.startswith((" ", "#")))
    return dict(line.split("==") for line in lines if "==" in line)


def read_audit(answer: str) -> Verdict:
    """What pip-audit found, as it says it in JSON."""
    packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    holes = [
        f"{one['name']} {one['version']}: {hole['id']}, mended in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for one in packages
        for hole in one.get("vulns", ())
    ]
    unseen = [one["name"] for one in packages if "skip_reason" in one]
    return Verdict(tuple(holes), tuple(unseen), len(packages) - len(unseen))


def audit(run: Run, lock: Path = LOCK) -> Verdict:
    """`run` gives what a command said, whatever its exit code: with holes it is not 0."""
    command = ("-m", AUDIT, "--require-hashes", "--disable-pip", f"--requirement={lock}", "--format=json")
    try:
        return read_audit(run((*command, "--progress-spinner=off")))
    except (json.JSONDecodeError, KeyError):  # it ended before it began: there is nobody to ask
        return Verdict((), tuple(locked(lock.read_text())), 0)


def write_sbom(run: Run, path: Path, lock: Path = LOCK) -> int:
    """As CycloneDX in JSON, the same for the same lock; how many packages are in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = (
        "--mc-type=application",
        "--of=JSON",
        f"--sv={SPEC_VERSION}",
        "--output-reproducible",
    )
    run(
        (
            "-m",
            SBOM,
            "requirements",
            str(lock),
            f"--pyproject={ROOT / 'pyproject.toml'}",
            *options,
            f"--output-file={path}",
        )
    )
    return len(json.loads(path.read_text())["components"])


def by_python(arguments: Sequence[str]) -> str:
    command = (sys.executable, *arguments)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_SECONDS, check=False)
    return ran.stdout


def main(arguments: Sequence[str]) -> int:
    what = arguments[0] if arguments else ""
    module = {"audit": AUDIT, "sbom": SBOM}.get(what)
    if module is None:
        sys.stderr.write("choose one: audit, or sbom FILE\n")
        return 2
    if importlib.util.find_spec(module) is None:
        sys.stderr.write(f"!!! NOT DONE: {module} is not installed (make setup)\n")
        return 0 if what == "audit" else 1
    if what == "sbom":
        path = Path(arguments[1]) if len(arguments) > 1 else ROOT / "build" / "sbom.json"
        sys.stdout.write(f"{path}: {write_sbom(by_python, path)} packages\n")
        return 0
    verdict = audit(by_python)
    sys.stdout.write(verdict.told() + "\n")
    return verdict.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
