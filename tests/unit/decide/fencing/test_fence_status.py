"""What the status of a template says, and when that is worth a write."""

from defib.decide.fencing.readiness import NOTHING, TOLD_PAUSE
from defib.decide.plan import NOTHING as NO_PLAN
from defib.model.action import ReportRemediation
from tests.builders import HOUR, MINUTE, SECOND, a_node
from tests.unit.decide.fencing.hall import PAUSE, POWER, Hall, change, many, refuses


def test_while_nobody_has_tried_it_nobody_knows() -> None:
    hall = Hall("n1", "n2")
    hall.bmcs = {"n1": None, "n2": None}
    hall.wait(5 * SECOND)
    assert hall.condition() == ("Unknown", "NotTriedYet")
    assert (hall.status()["covered"], hall.status()["ready"]) == (2, 0)


def test_the_status_names_whoever_could_not_be_fenced_since_when() -> None:
    hall = Hall("n1", "n2")
    hall.bmcs["n2"] = refuses
    hall.wait(HOUR)
    (entry,) = hall.status()["notReady"]
    assert entry == {"node": "n2", "why": "it does not accept our credentials", "since": "2030-01-01T00:00:00Z"}
    assert (hall.status()["covered"], hall.status()["ready"]) == (2, 1)
    (said,) = hall.status()["conditions"]
    assert said["observedGeneration"] == 1
    assert said["message"] == "1 of 2 nodes could not be fenced: n2: it does not accept our credentials"


def test_no_more_than_a_hundred_are_named_and_all_are_counted() -> None:
    hall = many(150)
    hall.bmcs = dict.fromkeys(hall.nodes, refuses)
    hall.wait(5 * MINUTE)
    assert len(hall.status()["notReady"]) == 100
    assert (hall.status()["covered"], hall.status()["ready"]) == (150, 0)
    message = hall.status()["conditions"][0]["message"]
    assert message.startswith("150 of 150 nodes could not be fenced: n0000: ")
    assert message.endswith("; and 147 more")


def test_good_tries_are_no_news() -> None:
    hall = many(100)
    hall.wait(MINUTE)
    assert hall.reports == 2
    hall.wait(6 * HOUR)
    assert hall.reports == 2


def test_many_failures_one_after_the_other_are_told_together() -> None:
    hall = many(400)
    hall.bmcs = dict.fromkeys(hall.nodes, refuses)
    hall.wait(10 * SECOND)
    assert hall.status()["ready"] == 0
    assert hall.reports <= 2 + 10 * SECOND / TOLD_PAUSE + 1


def test_another_answer_is_told_at_once() -> None:
    hall = Hall("n1", "n2")
    hall.wait(PAUSE * 2)
    hall.bmcs["n1"] = refuses
    hall.put_node(a_node("n3"))
    hall.bmcs["n3"] = refuses
    hall.wait(SECOND)
    assert hall.condition() == ("False", "NotReady")


def test_another_template_is_not_known_to_work_until_it_is_tried() -> None:
    hall = Hall("n1")
    hall.wait(MINUTE)
    hall.bmcs["n1"] = None
    hall.put_template("pcr", power=POWER | {"address": "https://{node}.new"})
    hall.wait(MINUTE)
    assert hall.condition() == ("Unknown", "NotTriedYet")
    assert hall.last.ready == {}


def test_that_all_is_well_needs_no_saying_after_a_restart() -> None:
    hall = Hall("n1")
    hall.wait(MINUTE)
    known, reports = hall.status(), hall.reports
    hall.last, hall.plan, hall.fences = NOTHING, NO_PLAN, {}
    hall.bmcs["n1"] = None
    hall.wait(MINUTE)
    assert (hall.status(), hall.reports) == (known, reports)


def test_what_was_said_before_a_restart_stands_until_it_is_tried_again() -> None:
    hall = Hall("n1", "n2")
    hall.bmcs["n2"] = refuses
    hall.wait(MINUTE)
    known, reports = hall.status(), hall.reports
    hall.last, hall.plan, hall.fences = NOTHING, NO_PLAN, {}
    hall.now += HOUR
    hall.bmcs = {"n1": None, "n2": None}
    hall.wait(MINUTE)
    assert (hall.status(), hall.reports) == (known, reports)
    assert hall.last.ready == {"n2": False}
    hall.bmcs = {"n2": None, "n3": refuses}
    hall.wait(MINUTE)
    assert (hall.status(), hall.reports) == (known, reports)
    assert hall.last.ready == {"n1": True, "n2": False}
    hall.put_node(a_node("n3"))
    hall.wait(MINUTE)
    assert (hall.status()["covered"], hall.status()["ready"], len(hall.not_ready())) == (3, 1, 2)
    hall.bmcs["n2"] = hall.bmcs["n4"] = refuses
    hall.wait(MINUTE)
    hall.put_node(a_node("n4"))
    hall.wait(MINUTE)
    assert known["notReady"][0] in hall.status()["notReady"]


def test_a_report_that_was_lost_is_made_again() -> None:
    hall = Hall("n1")
    hall.step()
    (lost,) = (action for action in hall.last.actions if isinstance(action, ReportRemediation))
    hall.last = change(hall.last, actions=())
    hall.wait(TOLD_PAUSE * 2)
    assert lost.status["covered"] == 1
    assert hall.condition()[0] in ("Unknown", "True")


def test_a_status_that_somebody_spoilt_is_written_again() -> None:
    hall = Hall("n1")
    hall.wait(MINUTE)
    good = hall.status()
    spoilt = change(hall.templates["ns/pcr"], status={"covered": "many"})
    hall.templates = {"ns/pcr": spoilt}
    hall.wait(MINUTE)
    assert {name: hall.status()[name] for name in ("covered", "ready")} == {"covered": 1, "ready": 1}
    assert hall.status()["conditions"][0]["reason"] == good["conditions"][0]["reason"]
