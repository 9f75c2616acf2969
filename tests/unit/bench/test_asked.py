"""What the bench of the command line promises, and when that counts as broken."""

from tests.bench.asked import BARE, WHY, Asked, answered, verdicts


def asked(*walls: float, cpu: float = 0.3) -> list[Asked]:
    return [Asked(wall_seconds=wall, cpu_seconds=cpu) for wall in walls]


def test_the_middle_is_judged_and_the_slowest_is_told() -> None:
    one = answered(asked(0.7, 0.8, 3.0))
    assert (one.wall_p50, one.wall_max, one.times) == (0.8, 3.0, 3)


def test_an_answer_that_takes_a_second_or_too_much_cpu_breaks_the_promise() -> None:
    bare = answered(asked(0.4))
    for walls, cpu, good in ((0.9, 0.6, (True, True)), (1.2, 0.6, (False, True)), (0.9, 1.2, (True, False))):
        found = verdicts({BARE: bare, WHY: answered(asked(walls, cpu=cpu))})
        assert tuple(one.ok for one in found) == good
