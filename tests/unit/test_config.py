"""What an operator's settings are when several sources speak, and what is said when one of them is wrong."""

import pytest

from defib.config import SETTINGS, BadSettings, Settings, load
from defib.decide.rules import FailoverRules
from defib.forms import Address, duration, seconds
from defib.model.amount import Amount
from defib.model.incident import Grade
from defib.rules_of import rules_of

NO_FILES: dict[str, str] = {}


def loaded(
    *, flags: dict[str, str] | None = None, environ: dict[str, str] | None = None, files: dict[str, str] = NO_FILES
) -> Settings:
    def read_file(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path]

    return load(flags or {}, environ or {}, read_file)


def test_without_any_source_every_setting_has_its_default() -> None:
    assert loaded() == Settings()


@pytest.mark.parametrize(
    ("flags", "environ", "expected"),
    [
        ({}, {}, "debug"),
        ({}, {"DEFIB_LOG_LEVEL": "warning"}, "warning"),
        ({"log_level": "error"}, {"DEFIB_LOG_LEVEL": "warning"}, "error"),
    ],
)
def test_a_flag_beats_the_environment_which_beats_the_file(
    flags: dict[str, str], environ: dict[str, str], expected: str
) -> None:
    files = {"defib.yaml": "log_level: debug"}
    assert loaded(flags=flags, environ=environ | {"DEFIB_CONFIG": "defib.yaml"}, files=files).log_level == expected


def test_the_file_named_by_a_flag_beats_the_one_named_by_the_environment() -> None:
    files = {"a": "context: from-a", "b": "context: from-b"}
    assert loaded(flags={"config": "a"}, environ={"DEFIB_CONFIG": "b"}, files=files).context == "from-a"


EXAMPLES = {
    "leader_address": "127.0.0.1:16401",
    "tooz_url": "redis://localhost:6379",
    "traces_url": "http://collector:4318",
}


def test_every_setting_can_be_given_by_flag_environment_and_file() -> None:
    for setting in SETTINGS:
        text = setting.default_text or EXAMPLES.get(setting.key, "something")
        by_flag = loaded(flags={setting.key: text})
        by_environment = loaded(environ={setting.variable: text})
        by_file = loaded(flags={"config": "f"}, files={"f": f"{setting.key}: '{text}'"})
        assert by_flag == by_environment == by_file


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (90, 90),
        ("90", 90),
        (1.5, 1.5),
        ("10s", 10),
        ("5m", 300),
        ("1h30m", 5400),
        ("1d", 86400),
        ("1.5m", 90),
        ("250ms", 0.25),
    ],
)
def test_a_duration_is_seconds_or_numbers_with_units(given: object, expected: float) -> None:
    assert seconds(given) == expected


@pytest.mark.parametrize("written", ["1s", "45s", "90s", "5m", "1h", "2d", "0.5s"])
def test_a_duration_is_shown_as_a_person_would_write_it(written: str) -> None:
    shown = duration(seconds(written))
    assert shown in {written, "500ms"}


@pytest.mark.parametrize("given", ["", "soon", "5x", "m5", "1h 30m", "1h30", "nan", "inf", True, None, [5]])
def test_what_is_no_duration_is_refused(given: object) -> None:
    with pytest.raises(ValueError):
        seconds(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("127.0.0.1:9000", Address("127.0.0.1", 9000)),
        (":9000", Address("0.0.0.0", 9000)),
        ("[::1]:9000", Address("::1", 9000)),
        ("localhost:0", Address("localhost", 0)),
    ],
)
def test_an_address_is_a_host_and_a_port(given: str, expected: Address) -> None:
    address = loaded(flags={"probes_address": given}).probes_address
    assert address == expected
    assert loaded(flags={"probes_address": str(address)}).probes_address == expected


def test_a_watch_must_be_given_time_for_the_bookmark_that_comes_once_a_minute() -> None:
    assert loaded(flags={"watch_stall": "65s"}).watch_stall_seconds == 65


@pytest.mark.parametrize(
    ("flags", "environ", "file", "line"),
    [
        ({"log_format": "xml"}, {}, "", "--log-format: 'xml' is not auto, json or pretty"),
        (
            {"resync": "soon"},
            {},
            "",
            "--resync: 'soon' is not a duration from 1s to 1d, written like 90s, 5m, 1h30m or plain seconds, or 0 for never",
        ),
        (
            {},
            {"DEFIB_RESYNC": "2d"},
            "",
            "DEFIB_RESYNC: '2d' is not a duration from 1s to 1d, written like 90s, 5m, 1h30m or plain seconds, or 0 for never",
        ),
        (
            {"watch_stall": "64s"},
            {},
            "",
            "--watch-stall: '64s' is not a duration from 65s to 1h, written like 90s, 5m, 1h30m or plain seconds",
        ),
        (
            {},
            {"DEFIB_REQUESTS_IN_FLIGHT": "0"},
            "",
            "DEFIB_REQUESTS_IN_FLIGHT: '0' is not a whole number from 1 to 10000",
        ),
        (
            {"probes_address": "localhost:99999"},
            {},
            "",
            "--probes-address: 'localhost:99999' is not HOST:PORT such as 0.0.0.0:8081, [::1]:8081 or :8081 (all addresses)",
        ),
        ({}, {"DEFIB_LOG_LEVLE": "info"}, "", "DEFIB_LOG_LEVLE: no such setting; did you mean DEFIB_LOG_LEVEL?"),
        ({}, {}, "\nlog-level: info", "f.yaml line 2: log-level: no such setting; did you mean log_level?"),
        ({}, {}, "resynch: 5", "f.yaml line 1: resynch: no such setting; did you mean resync?"),
        ({}, {}, "context: 5", "f.yaml line 1: context: 5 is not the name of a context"),
        (
            {},
            {},
            "requests_per_second: true",
            "f.yaml line 1: requests_per_second: True is not a whole number from 1 to 100000",
        ),
        (
            {},
            {},
            "requests_per_second: 1.5",
            "f.yaml line 1: requests_per_second: 1.5 is not a whole number from 1 to 100000",
        ),
        ({}, {}, "log_level:", "f.yaml line 1: log_level: None is not debug, info, warning or error"),
        ({}, {}, "context: a\ncontext: b", "f.yaml line 2: context: given twice"),
        ({}, {}, "- context", "f.yaml: must be a mapping of settings to values, such as 'log_level: debug'"),
        ({"config": "gone.yaml"}, {}, "", "--config: cannot read gone.yaml: No such file or directory"),
    ],
)
def test_a_wrong_setting_is_told_in_one_line_with_its_source(
    flags: dict[str, str], environ: dict[str, str], file: str, line: str
) -> None:
    with pytest.raises(BadSettings) as raised:
        loaded(flags={"config": "f.yaml"} | flags, environ=environ, files={"f.yaml": file})
    assert raised.value.problems == (line,)


def test_a_file_that_is_not_yaml_is_told_in_one_line_with_its_place() -> None:
    with pytest.raises(BadSettings) as raised:
        loaded(flags={"config": "f.yaml"}, files={"f.yaml": "context: [a\nlog_level: info"})
    (line,) = raised.value.problems
    assert line.startswith("f.yaml: this is not YAML: ")
    assert "line 2" in line
    assert "\n" not in line


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(BadSettings) as raised:
        loaded(
            flags={"config": "f", "log_level": "loud"},
            environ={"DEFIB_RESYNC": "never", "DEFIB_COLOUR": "blue"},
            files={"f": "requests_in_flight: many\nzone: a"},
        )
    assert len(raised.value.problems) == 5


def test_a_wrong_value_is_told_even_when_a_stronger_source_hides_it() -> None:
    with pytest.raises(BadSettings):
        loaded(flags={"log_level": "info"}, environ={"DEFIB_LOG_LEVEL": "loud"})


def test_an_empty_variable_counts_as_not_set() -> None:
    assert loaded(environ={"DEFIB_CONTEXT": "", "DEFIB_CONFIG": "", "DEFIB_RESYNC": ""}) == Settings()


def test_the_variables_that_kubernetes_makes_for_services_are_not_taken_for_settings() -> None:
    environ = {
        "DEFIB_SERVICE_HOST": "10.0.0.1",
        "DEFIB_SERVICE_PORT": "8080",
        "DEFIB_SERVICE_PORT_METRICS": "8081",
        "DEFIB_PORT": "tcp://10.0.0.1:8080",
        "DEFIB_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "DEFIB_PORT_8080_TCP_ADDR": "10.0.0.1",
        "DEFIB_METRICS_SERVICE_HOST": "10.0.0.2",
    }
    assert loaded(environ=environ) == Settings()


def test_no_setting_has_a_name_that_kubernetes_gives_to_a_service() -> None:
    environ = {setting.variable: "nonsense\x00" for setting in SETTINGS if setting.default is not None}
    with pytest.raises(BadSettings) as raised:
        loaded(environ=environ)
    assert len(raised.value.problems) == len(environ)


def in_file(text: str) -> Settings:
    return loaded(flags={"config": "settings.yaml"}, files={"settings.yaml": text})


def test_on_and_off_in_a_file_are_what_they_look_like() -> None:
    assert in_file("brake: on\nwatch_only: off").brake == "on"
    assert in_file("brake: 'off'").brake == "off"


def test_a_list_of_names_may_be_written_with_commas_or_as_a_list() -> None:
    assert loaded(flags={"upgrade_signals": "kured,announced"}).upgrade_signals == ("kured", "announced")
    assert in_file("upgrade_signals: [kured, kured]").upgrade_signals == ("kured",)
    assert loaded(flags={"upgrade_signals": "none"}).upgrade_signals == ()
    with pytest.raises(BadSettings, match="'nonsense' is not none, or some of announced"):
        loaded(flags={"upgrade_signals": "nonsense"})


@pytest.mark.parametrize(
    ("given", "expected"), [("2", "2"), ("49%", "49%"), ("100%", "100%"), ("1%", "1%"), ("5000", "5000")]
)
def test_a_share_is_a_number_or_a_percentage(given: str, expected: str) -> None:
    assert loaded(flags={"failover_max_unhealthy": given}).failover_max_unhealthy == expected
    assert in_file(f"failover_max_unhealthy: {given}").failover_max_unhealthy == expected


@pytest.mark.parametrize("given", ["0", "0%", "101%", "-1", "half", "1.5", "49 %", "%"])
def test_a_share_of_nothing_or_of_more_than_all_is_refused(given: str) -> None:
    with pytest.raises(BadSettings, match="is not a number of nodes, or a share of all from 1% to 100%"):
        loaded(flags={"failover_max_unhealthy": given})


def test_no_proof_at_all_cannot_become_the_default_of_all_policies() -> None:
    """Each policy must spell that out itself. What they may spell out is the cluster operator's."""
    assert loaded(flags={"failover_proofs": "D,A"}).failover_proofs == ("D", "A")
    assert in_file("failover_allowed_proofs: [A, None]").failover_allowed_proofs == ("A", "None")
    for given in ("none", "None", "A,None", "", "E"):
        with pytest.raises(BadSettings, match="is not some of A, B, C, D, separated by commas"):
            loaded(flags={"failover_proofs": given})
    for given in ("none", "E"):
        with pytest.raises(BadSettings, match="is not some of A, B, C, D, None, separated by commas"):
            loaded(flags={"failover_allowed_proofs": given})
    with pytest.raises(BadSettings):
        in_file("failover_proofs: []")


@pytest.mark.parametrize("key", ["failover_dwell", "failover_shortest_dwell"])
def test_a_dwell_may_be_nothing_and_at_most_a_day(key: str) -> None:
    assert getattr(loaded(flags={key: "0s"}), f"{key}_seconds") == 0
    assert getattr(loaded(flags={key: "1d"}), f"{key}_seconds") == 86400
    with pytest.raises(BadSettings):
        loaded(flags={key: "25h"})


def test_policies_are_served_unless_somebody_says_otherwise() -> None:
    assert Settings().pod_failover_policies == "on"
    assert in_file("pod_failover_policies: off").pod_failover_policies == "off"
    rules = rules_of(loaded(flags={"failover_max_unhealthy": "2", "failover_proofs": "C"})).failover
    assert (rules.max_unhealthy, rules.proofs) == (Amount(2), frozenset({Grade.TIME}))
    assert rules_of(Settings()).failover == FailoverRules()
