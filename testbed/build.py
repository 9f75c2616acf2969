"""Builds the one program that holds the whole control plane, and Helm, once per version, into the user's cache.

The cache is keyed by what the program is built from, so a new go.mod never meets an old binary. Several test runs may
ask at once: one builds, the others wait for it. Nothing half built is ever visible under the final name.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from defib.clock import SystemClock
from testbed.leash import Leash
from testbed.toolchain import NoControlPlane, Version, go_program, version_of

__all__ = ["HELM", "NoControlPlane", "Recipe", "cache_directory", "ensure_built"]

BUILD_WITHIN = 3600.0
PROGRESS_EVERY = 15.0

_TOOLCHAIN = Path(__file__).parent / "controlplane" / "go-toolchain.lock"

Say = Callable[[str], None]


class Recipe(msgspec.Struct, frozen=True):
    """What a program is built from, and how it is spoken of. Without anything said, it is the control plane."""

    source: Path = Path(__file__).parent / "controlplane"
    name: str = "control plane"
    program: str = "controlplane"
    package: str = "."
    module: str = "k8s.io/kubernetes"
    lasts: str = "6 to 15 minutes on two cores"
    # Without these the components call themselves v0.0.0-master, and clients judge them by that.
    stamps: tuple[str, ...] = (
        "k8s.io/component-base/version.gitVersion={version}",
        "k8s.io/component-base/version.gitMajor={major}",
        "k8s.io/component-base/version.gitMinor={minor}",
    )

    @property
    def version(self) -> str:
        return self._named_in_go_mod(rf"^\s*{re.escape(self.module)} (v\S+)")

    @property
    def go_version(self) -> Version:
        return version_of(self._named_in_go_mod(r"^go (\S+)$"))

    @property
    def key(self) -> str:
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum", "main.go"):
            if (self.source / name).exists():  # Helm is built as its own module has it, without a line of ours
                digest.update((self.source / name).read_bytes())
        return f"{self.version}-{digest.hexdigest()[:12]}"

    @property
    def linker_flags(self) -> str:
        major, minor, _ = version_of(self.version)
        stamps = (stamp.format(version=self.version, major=major, minor=minor) for stamp in self.stamps)
        return " ".join(("-s -w", *(f"-X {stamp}" for stamp in stamps)))

    def _named_in_go_mod(self, pattern: str) -> str:
        match = re.search(pattern, (self.source / "go.mod").read_text(), re.MULTILINE)
        assert match is not None, f"{self.source / 'go.mod'} has no line like {pattern}"
        return match[1]


HELM = Recipe(
    source=Path(__file__).parent / "helm",
    name="helm",
    program="helm",
    package="helm.sh/helm/v4/cmd/helm",
    module="helm.sh/helm/v4",
    lasts="2 to 5 minutes on two cores",
    stamps=("helm.sh/helm/v4/internal/version.version={version}",),
)


def cache_directory(environment: Mapping[str, str]) -> Path:
    root = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "defib" / "controlplane"


def ensure_built(recipe: Recipe, cache: Path, names: Sequence[str], say: Say) -> Path:
    """The directory that holds each of `names` as a program. Raises NoControlPlane when it cannot be built."""
    home = cache / recipe.key
    if not (home / recipe.program).exists():
        home.mkdir(parents=True, exist_ok=True)
        with _only_one_builder(recipe, home / "lock", say):
            if not (home / recipe.program).exists():
                _build(recipe, home, say)
    _link(home, recipe.program, names)
    return home


def _link(home: Path, program: str, names: Sequence[str]) -> None:
    for name in names:
        if not (home / name).is_symlink():
            with tempfile.TemporaryDirectory(dir=home) as place:  # another run may be linking at the same moment
                link = Path(place) / name
                link.symlink_to(program)
                link.rename(home / name)


@contextmanager
def _only_one_builder(recipe: Recipe, lock: Path, say: Say) -> Iterator[None]:
    """The kernel drops the lock of a builder that dies, so nobody waits for the dead."""
    clock = SystemClock()
    give_up_at = clock.monotonic() + BUILD_WITHIN
    told = False
    with lock.open("ab") as held:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if clock.monotonic() > give_up_at:
                    raise NoControlPlane(
                        f"Another process has been building the {recipe.name} for an hour: end it, or remove {lock}"
                    ) from None
                if not told:
                    say(f"{recipe.name}: another process is building it; waiting for that one")
                    told = True
                time.sleep(1)
        yield


def _build(recipe: Recipe, home: Path, say: Say) -> None:
    say(f"{recipe.name}: building {recipe.module} {recipe.version} (once, then cached): {recipe.lasts}")
    go = go_program(recipe.go_version, _TOOLCHAIN, cache_directory(os.environ), say)
    compiling = _Compiling(recipe, go, home, say)
    try:
        compiling.fetch()
        compiling.compile()
    finally:
        compiling.end()
    compiling.log.unlink()
    say(f"{recipe.name}: built in {compiling.minutes():.1f} min, kept in {home}")


class _Compiling:
    """One build under way: two runs of Go under one deadline, told about while they last."""

    def __init__(self, recipe: Recipe, go: Path, home: Path, say: Say) -> None:
        self._recipe, self._go, self._home, self._say = recipe, go, home, say
        self._clock = SystemClock()
        self._began = self._clock.monotonic()
        self._leash = Leash()
        self._packages = home / "packages.txt"
        self.log = home / "build.log"
        self.log.write_bytes(b"")
        self._packages.write_bytes(b"")

    def fetch(self) -> None:
        """Downloads the sources, which is also how the number of packages becomes known."""
        self._run(
            ("list", "-deps", self._recipe.package),
            output=self._packages,
            progress=lambda: f"fetching sources, {_lines(self.log, b'downloading')} modules",
        )

    def compile(self) -> None:
        total = _lines(self._packages)
        self.log.write_bytes(b"")
        arriving = self._home / f"{self._recipe.program}.part"
        flags = ("-trimpath", "-buildvcs=false", "-ldflags", self._recipe.linker_flags)
        self._run(
            ("build", "-v", *flags, "-o", str(arriving), self._recipe.package),
            output=self.log,
            progress=lambda: f"{_lines(self.log)} of {total} packages",
        )
        arriving.rename(self._home / self._recipe.program)

    def minutes(self) -> float:
        return (self._clock.monotonic() - self._began) / 60

    def end(self) -> None:
        self._leash.close()
        self._packages.unlink(missing_ok=True)

    def _run(self, arguments: Sequence[str], *, output: Path, progress: Callable[[], str]) -> None:
        environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        process = self._leash.start(
            [str(self._go), *arguments],
            directory=self._recipe.source,
            log=self.log,
            output=output,
            environment=environment,
        )
        try:
            while process.poll() is None:
                self._wait(process, progress)
        finally:
            process.kill()
            process.wait(timeout=10)
        if process.returncode != 0:
            raise NoControlPlane(
                f"The {self._recipe.name} could not be built ({_last_line(self.log)}): {self.log} has the rest"
            )

    def _wait(self, process: "subprocess.Popen[bytes]", progress: Callable[[], str]) -> None:
        if self.minutes() * 60 > BUILD_WITHIN:
            raise NoControlPlane(
                f"The {self._recipe.name} was not built within {BUILD_WITHIN / 60:.0f} min: {self.log} shows how far it came"
            )
        try:
            process.wait(timeout=PROGRESS_EVERY)
        except subprocess.TimeoutExpired:
            self._say(f"{self._recipe.name}: {progress()}, {self.minutes():.1f} min")


def _lines(path: Path, holding: bytes = b"") -> int:
    return sum(holding in line for line in path.read_bytes().splitlines())


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "Go said nothing"
