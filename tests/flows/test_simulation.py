"""Seeds of the simulation: each is a whole cluster's bad day, after which no invariant was broken. `make soak` has more."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from defib.kube.transport import Request
from defib.model.incident import INCIDENTS
from defib.simulate.store import ADDED, Change, Version
from tests.simulation.checkers import State, led, proved
from tests.simulation.history import Asked, Switched, Written
from tests.simulation.runs import drawn_for, live, shrink

ROOT = Path(__file__).parents[2]
SEEDS = range(1, 31)
MUST_BE_REACHED = (
    "begun podfailoverremediations",
    "begun powercycleremediations",
    "phase PoweringOff -> FreeingWorkloads",
    "phase FreeingWorkloads -> PoweringOn",
    "phase Restoring -> Closed",
    "switched off",
    "switched on",
)


@pytest.mark.timeout(120)
def test_on_bad_days_no_invariant_breaks_and_what_is_rare_is_really_reached() -> None:
    reached = Counter[str]()
    for seed in SEEDS:
        day = live(seed)
        reached += day.reached
        assert [str(finding) for finding in day.findings] == [], f"python -m tests.simulation --seed {seed}"
    assert [what for what in MUST_BE_REACHED if not reached[what]] == []


def test_a_seed_gives_the_same_history_byte_for_byte_however_strings_are_hashed() -> None:
    def told(hashed_by: str) -> bytes:
        command = (sys.executable, "-m", "tests.simulation", "--seed", "3")
        env = {"PYTHONHASHSEED": hashed_by, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
        return subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=env, timeout=20).stdout

    history = told("1")
    assert history.splitlines()[-1].startswith(b"history ")
    assert history == told("2")


def test_what_a_day_shows_is_shown_by_as_few_troubles_as_are_needed() -> None:
    seed = next(seed for seed in SEEDS if live(seed).reached["switched off"])
    left = shrink(seed, lambda day: bool(day.reached["switched off"]))
    assert len(left) == 1
    assert drawn_for(seed)[1][left[0]].layer == "node"


def test_whoever_switches_a_machine_without_the_lock_is_found() -> None:
    assert [finding.invariant for finding in led(Switched(1.0, "r0-0", "n1", "off", holder="r1-1"), State())] == ["I13"]
    assert list(led(Switched(1.0, "r0-0", "n1", "off", holder="r0-0"), State())) == []


def test_a_pod_with_a_disk_that_is_taken_by_force_without_a_proof_is_found() -> None:
    state = State()
    owner = {"kind": "StatefulSet", "name": "db"}
    pod = {"metadata": {"name": "db-0", "namespace": "shop", "ownerReferences": [owner]}, "spec": {"nodeName": "n1"}}
    state.take(Written(0.0, Change("pods", ADDED, None, Version(pod, 1))))
    path = "/api/v1/namespaces/shop/pods/db-0"
    request = Request(method="DELETE", path=path, body=b'{"gracePeriodSeconds":0}')
    asked = Asked(at=1.0, replica="r0-0", request=request, holder="r0-0")
    assert [finding.invariant for finding in proved(asked, state)] == ["I1"]
    incident = {"metadata": {"name": "n1"}, "status": {"proof": {"grade": "A"}}}
    state.take(Written(0.5, Change(INCIDENTS, ADDED, None, Version(incident, 2))))
    assert list(proved(asked, state)) == []
    running = Asked(at=1.0, replica="r0-0", request=request, holder="r0-0", runs_there=True)
    assert [finding.invariant for finding in proved(running, state)] == ["I1"]
