"""What had a name once and is gone is forgotten, however many names there were."""

from defib.act.status_pace import StatusPace
from defib.model.action import WriteStatus
from defib.telemetry.metrics import Metrics
from tests.limits.weighing import weigh

NAMES = 2000


def test_a_check_that_is_gone_has_no_series_any_more() -> None:
    metrics = Metrics()
    metrics.checked({"workers": (3, 3, 0, 0, ())})
    metrics.started("workers")
    for number in range(NAMES):
        check = f"canary-{number}"
        metrics.checked({"workers": (3, 3, 0, 0, ()), check: (3, 2, 1, 1, ("Brake",))})
        metrics.started(check)
        metrics.ended("n1", "x", "Foo", 1.0, check)
    metrics.checked({"workers": (3, 3, 0, 0, ())})
    text = metrics.render().decode()
    assert "canary" not in text
    assert 'defib_remediations_started_total{check="workers"} 1.0' in text


def test_a_start_that_ends_after_its_check_was_deleted_is_forgotten_with_the_next_look() -> None:
    metrics = Metrics()
    metrics.checked({})
    metrics.started("gone")
    metrics.checked({})
    assert 'check="gone"' not in metrics.render().decode()


def test_the_pace_of_a_status_is_known_only_while_it_matters() -> None:
    pace = StatusPace()
    for number in range(NAMES):
        pace.writes(WriteStatus(check=f"canary-{number}", uid="u", version="1", status={}), now=float(number))
    assert weigh(pace).count < 50
