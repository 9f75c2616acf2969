"""RM-33: Metal3's reboot rules, row by row: given these facts about a host, this is the next step."""

import pytest

from defib.hollow.machine import Command
from defib.hollow.metal3_rules import (
    DETACHED,
    PAUSED,
    POWER_ERROR,
    RULES,
    SIMPLE,
    Attach,
    Await,
    Detach,
    DropAnnotations,
    Facts,
    Fail,
    Leave,
    Reboot,
    Register,
    Rest,
    ShowPower,
    Step,
    Switch,
    next_step,
    reboots,
)

A, B = f"{SIMPLE}/a", f"{SIMPLE}/b"
HARD = '{"mode": "hard"}'
SOFT = '{"mode": "soft"}'
FORCED = '{"mode": "hard", "force": true}'
NOT_FORCED = '{"mode": "hard", "force": false}'

SOFT_OFF, HARD_OFF = Switch(Command.SOFT_OFF), Switch(Command.OFF)

ROWS: list[tuple[str, Facts, Step]] = [
    ("no annotation", Facts(), Rest()),
    ("a stranger's annotation", Facts(annotations={"reboot.metal3.iox/a": ""}), Rest()),
    ("simple, empty", Facts(annotations={SIMPLE: ""}), SOFT_OFF),
    ("phased, empty", Facts(annotations={A: ""}), SOFT_OFF),
    ("two phased", Facts(annotations={A: "", B: ""}), SOFT_OFF),
    ("soft", Facts(annotations={A: SOFT}), SOFT_OFF),
    ("hard", Facts(annotations={A: HARD}), HARD_OFF),
    ("no JSON counts as soft", Facts(annotations={A: "{hard"}), SOFT_OFF),
    ("JSON of another shape counts as soft", Facts(annotations={A: '["hard"]'}), SOFT_OFF),
    ("an unknown mode is not hard", Facts(annotations={A: '{"mode": "gentle"}'}), SOFT_OFF),
    ("hard wins over soft", Facts(annotations={A: HARD, B: SOFT}), HARD_OFF),
    ("hard wins whichever comes first", Facts(annotations={SIMPLE: SOFT, B: HARD}), HARD_OFF),
    ("externally provisioned", Facts(annotations={A: HARD}, state="externally provisioned"), HARD_OFF),
    ("force counts where it is expected", Facts(annotations={A: FORCED}, state="available"), HARD_OFF),
    ("no force is ignored there", Facts(annotations={A: NOT_FORCED}, state="available"), Rest()),
    ("bad JSON has no force", Facts(annotations={A: "{"}, state="available"), Rest()),
    ("force in inspection", Facts(annotations={A: FORCED}, state="inspecting"), HARD_OFF),
    ("simple and off: taken away", Facts(annotations={SIMPLE: ""}, powered_on=False), DropAnnotations((SIMPLE,))),
    ("phased and off: kept", Facts(annotations={A: ""}, powered_on=False), Rest()),
    (
        "both and off: only the simple one",
        Facts(annotations={SIMPLE: "", A: HARD}, powered_on=False),
        DropAnnotations((SIMPLE,)),
    ),
    ("off and nothing asked", Facts(powered_on=False), Switch(Command.ON)),
    ("online false: goes off", Facts(online=False), SOFT_OFF),
    ("online false: stays off", Facts(online=False, powered_on=False), Rest()),
    ("online works in available", Facts(online=False, state="available"), SOFT_OFF),
    ("paused", Facts(annotations={PAUSED: "", A: HARD}), Leave()),
    ("paused also hides the power", Facts(annotations={PAUSED: ""}, seen_on=False), Leave()),
    ("detached", Facts(annotations={DETACHED: "", A: HARD}), Detach()),
    ("detached and shown", Facts(annotations={DETACHED: "", A: HARD}, is_detached=True, seen_on=False), Leave()),
    ("no longer detached", Facts(is_detached=True), Attach()),
    ("power went", Facts(seen_on=False), ShowPower(on=False)),
    ("power came", Facts(powered_on=False, seen_on=True, annotations={A: ""}), ShowPower(on=True)),
    ("power cannot be read", Facts(seen_on=None), Rest()),
    ("already on", Facts(seen_on=True), Rest()),
    ("already off", Facts(annotations={A: ""}, powered_on=False, seen_on=False), Rest()),
    ("waiting for the target, or locked", Facts(annotations={A: HARD}, busy=True), Await()),
    ("a failed try is recorded", Facts(annotations={A: ""}, last_error="timed out"), Fail("timed out")),
    ("after any error it goes hard", Facts(annotations={A: ""}, error_count=1), HARD_OFF),
    (
        "after a power error the last one is not asked about",
        Facts(annotations={A: ""}, last_error="timed out", error_type=POWER_ERROR, error_count=1),
        HARD_OFF,
    ),
    ("a failed power on is recorded", Facts(powered_on=False, last_error="no"), Fail("no")),
    (
        "and forced after a power error",
        Facts(powered_on=False, last_error="no", error_type=POWER_ERROR),
        Switch(Command.ON),
    ),
    (
        "disablePowerOff, simple: a reboot serves it",
        Facts(annotations={SIMPLE: HARD}, disable_power_off=True),
        Switch(Command.RESET, (SIMPLE,)),
    ),
    (
        "disablePowerOff, soft",
        Facts(annotations={SIMPLE: ""}, disable_power_off=True),
        Switch(Command.SOFT_RESET, (SIMPLE,)),
    ),
    (
        "disablePowerOff, phased: a reboot, and the annotation stays",
        Facts(annotations={A: HARD}, disable_power_off=True),
        Switch(Command.RESET),
    ),
    (
        "inspection clears the simple one",
        Facts(annotations={SIMPLE: "", A: ""}, state="inspecting"),
        DropAnnotations((SIMPLE,)),
    ),
    ("provisioning leaves phased ones", Facts(annotations={A: ""}, state="provisioning"), Rest()),
    (
        "the old bug: phased ones too",
        Facts(annotations={SIMPLE: "", A: HARD}, state="provisioning", clears_phased=True),
        DropAnnotations((SIMPLE, A)),
    ),
    ("the old bug only in steps of provisioning", Facts(annotations={A: HARD}, clears_phased=True), HARD_OFF),
    ("new, with an image", Facts(state="", seen_on=True), Register("provisioned", on=True)),
    ("new, without", Facts(state="", has_image=False, seen_on=False), Register("available", on=False)),
    ("new, external", Facts(state="", externally_provisioned=True), Register("externally provisioned", on=False)),
]


@pytest.mark.parametrize(("facts", "step"), [pytest.param(facts, step, id=name) for name, facts, step in ROWS])
def test_the_next_step(facts: Facts, step: Step) -> None:
    assert next_step(facts) == step


def test_every_rule_is_met_by_a_row() -> None:
    met = {next(rule.name for rule in RULES if rule.when(facts)) for _, facts, _ in ROWS}
    assert met == {rule.name for rule in RULES}


def test_a_value_that_cannot_be_read_is_marked() -> None:
    assert list(reboots({A: "{", B: HARD, "other": "{"})) == [Reboot(key=A, is_valid=False), Reboot(key=B, hard=True)]
