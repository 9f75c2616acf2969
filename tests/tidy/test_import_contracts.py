"""The layers hold, and each contract of pyproject.toml was seen to fail: it is broken here on purpose in a copy."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.repository import ROOT, SOURCE, pyproject

LAYERS = "Data flows one way"
PURE = "The core is pure"
HTTP = "Only kube and the probes speak HTTP"
APART = "Observing, deciding and acting meet only in app.py"
CLIENT = "Only these may hold the API client"
TOOZ = "Only one module knows Tooz"
DRIVERS = "Power drivers do not know each other"

# Which contract, by which line in which module. A module that does not exist is made.
OFFENCES = [
    (LAYERS, "observe/__init__.py", "import defib.web"),
    (LAYERS, "kube/__init__.py", "import defib.telemetry"),
    (LAYERS, "act/__init__.py", "import defib.hollow"),
    (LAYERS, "kube/__init__.py", "import defib.act.outcome"),
    (LAYERS, "console/__init__.py", "import defib.app"),
    (LAYERS, "web/__init__.py", "import defib.console.look"),
    (LAYERS, "clock.py", "import defib.model"),
    (LAYERS, "heal/__init__.py", '"""A layer that nobody has placed."""'),
    (PURE, "model/__init__.py", "import asyncio"),
    (PURE, "model/node.py", "import logging"),
    (PURE, "model/meta.py", "import os"),
    (PURE, "decide/__init__.py", "import time"),
    (APART, "observe/__init__.py", "import defib.decide"),
    (APART, "act/__init__.py", "import defib.decide"),
    (HTTP, "observe/__init__.py", "import aiohttp"),
    (HTTP, "act/__init__.py", "import aiohttp"),
    (HTTP, "console/__init__.py", "import aiohttp"),
    (HTTP, "telemetry/__init__.py", "import socket"),
    (HTTP, "outbox.py", "import aiohttp"),
    (LAYERS, "outbox.py", "import defib.traces"),
    (LAYERS, "traces.py", "import defib.notifications"),
    (CLIENT, "web/__init__.py", "import defib.kube.client"),
    (CLIENT, "cli/__init__.py", "import defib.kube.client"),
    (CLIENT, "act/ledger.py", "import defib.kube.client"),
    (LAYERS, "power/calls.py", "import defib.telemetry"),
    (LAYERS, "model/__init__.py", "import defib.power.base"),
    (DRIVERS, "power/redfish.py", "import defib.power.webhook"),
    (DRIVERS, "power/ipmi.py", "import defib.power.manual"),
    (TOOZ, "coordinate/outside.py", "import tooz"),
]


def broken_contracts(source: Path) -> list[str]:
    """Names of the contracts that the package in this folder breaks, as the tool reports them."""
    ran = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=source,
        env=os.environ | {"PYTHONPATH": str(source), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    verdicts: list[tuple[str, str]] = re.findall(r"^(.+) (KEPT|BROKEN)\b", ran.stdout, re.MULTILINE)
    assert sorted(contract for contract, _ in verdicts) == sorted(contracts()), ran.stdout + ran.stderr
    broken = [contract for contract, verdict in verdicts if verdict == "BROKEN"]
    assert (ran.returncode == 0) == (not broken)
    return broken


def contracts() -> list[str]:
    return [contract["name"] for contract in pyproject()["tool"]["importlinter"]["contracts"]]


def test_the_contracts_hold() -> None:
    assert broken_contracts(SOURCE.parent) == []


@pytest.mark.parametrize(("contract", "module", "line"), OFFENCES)
def test_a_contract_fails_when_it_is_broken(contract: str, module: str, line: str, tmp_path: Path) -> None:
    copy = tmp_path / "defib"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    offender = copy / module
    offender.parent.mkdir(exist_ok=True)
    with offender.open("a") as file:
        file.write(f"\n{line}\n")
    assert broken_contracts(tmp_path) == [contract]


def test_power_cannot_reach_the_api_server(tmp_path: Path) -> None:
    copy = tmp_path / "defib"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "power/registry.py").open("a") as file:
        file.write("\nimport defib.kube.client\n")
    assert broken_contracts(tmp_path) == [LAYERS, CLIENT]


def test_every_contract_is_broken_here_once() -> None:
    assert {contract for contract, _, _ in OFFENCES} == set(contracts())
