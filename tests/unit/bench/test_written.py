"""What the bench reads from the API server's own count of requests."""

import pytest

from tests.bench.written import REQUESTS, count_writes


def a_line(verb: str, resource: str, group: str = "", value: int = 1, code: str = "200") -> str:
    return f'{REQUESTS}{{code="{code}",group="{group}",resource="{resource}",verb="{verb}"}} {value}\n'


def test_writes_of_all_kinds_and_answers_are_added_up() -> None:
    lines = [
        "# HELP something else\n",
        a_line("PATCH", "nodehealthchecks", "remediation.medik8s.io", 3),
        a_line("PATCH", "nodehealthchecks", "remediation.medik8s.io", 1, code="409"),
        a_line("POST", "events", value=2),
        a_line("DELETE", "pods"),
        "apiserver_other_total 7\n",
    ]
    assert count_writes("".join(lines)) == 7


@pytest.mark.parametrize(
    "line",
    [
        a_line("LIST", "nodehealthchecks", "remediation.medik8s.io"),
        a_line("PATCH", "leases", "coordination.k8s.io"),
        a_line("PATCH", "nodes"),
        a_line("PATCH", "flowschemas", "flowcontrol.apiserver.k8s.io"),
    ],
)
def test_reading_renewals_and_what_others_write_are_left_out(line: str) -> None:
    assert count_writes(line) == 0
