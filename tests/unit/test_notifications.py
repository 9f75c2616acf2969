"""What people and programs outside the cluster are told, in which words, and about what."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from defib.act.outcome import Done, Failed
from defib.announcements import Announcements, announcements_of
from defib.clock import SystemClock
from defib.config import BadSettings, Settings
from defib.model.action import CHECK, TellEvent
from defib.model.event import NODE
from defib.model.health_check import KindRef
from defib.model.incident import INCIDENT
from defib.model.node_drain import DRAIN
from defib.notifications import (
    ONE_LINE,
    PLACES,
    UNSEEN,
    BadTemplate,
    Notice,
    UrlFile,
    cloud_event,
    is_wanted,
    slack_by,
)
from defib.outbox import NoAddress
from defib.telemetry.metrics import Metrics
from tests.unit.receiver import receiving

AT = datetime(2030, 1, 1, 10, 0, 3, 250_000, UTC)


def an_event(reason: str = "RemediationCreated", *, warning: bool = False, **more: Any) -> TellEvent:
    facts: dict[str, Any] = {
        "check": "workers",
        "uid": "u1",
        "message": "FooRemediation default/n1 was created for node n1",
        "at": AT,
        "node": "n1",
    }
    return TellEvent(reason=reason, is_warning=warning, **{**facts, **more})


def written(event: TellEvent, template: str = ONE_LINE) -> Any:
    return msgspec.json.decode(slack_by(template)(Notice(event=event, cluster="east")))


def test_by_itself_a_message_is_one_line_that_says_what_where_and_why() -> None:
    assert written(an_event("RemediationTimedOut", warning=True, message="node n1: no end")) == {
        "text": ":warning: *RemediationTimedOut* in east, NodeHealthCheck workers: node n1: no end"
    }


def test_a_template_puts_every_word_in_its_place() -> None:
    text = "|".join(f"${place}" for place in PLACES)
    event = an_event("DrainFailed", kind=DRAIN, check="n7", node="n7", message="late", warning=True)
    assert written(event, text)["text"].split("|") == [
        *("NodeDrain n7", "", "east", "NodeDrain", ":warning:", "late", "n7", "", "n7", "DrainFailed", "warning"),
        "2030-01-01T10:00:03Z",
    ]
    assert set(Notice(event=event, cluster="").words) == set(PLACES)


def test_a_template_that_is_json_is_the_whole_message() -> None:
    template = '{"channel": "#ops", "blocks": [{"type": "section", "text": {"text": "$node: $message"}}], "n": 1}'
    assert written(an_event(message='say "hi"\n, "}'), template) == {
        "channel": "#ops",
        "blocks": [{"type": "section", "text": {"text": 'n1: say "hi"\\n, "}'}}],
        "n": 1,
    }


@pytest.mark.parametrize("words", ["<!channel> wake up", "<https://evil|click>", "a & b", "$node ${check}"])
def test_words_of_others_are_text_and_nothing_more(words: str) -> None:
    """A node's own kubelet chooses them."""
    text = written(an_event(message=words), "$message")["text"]
    assert not set("<>") & set(text)
    assert text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == words


@pytest.mark.parametrize(
    "words", ["@all", "see @channel and (@here)", "![x](http://evil.example/x.png)", "[sign in](http://evil.example)"]
)
def test_words_of_others_neither_call_anybody_nor_hide_where_a_link_leads(words: str) -> None:
    """Mattermost and Rocket.Chat read more out of a text than Slack does."""
    text = written(an_event(message=words), "$message")["text"]
    assert not any(sign in text for sign in ("@all", "@channel", "@here", "]("))
    assert text.replace(UNSEEN, "") == words


def test_the_address_of_a_person_stays_as_it_is() -> None:
    assert written(an_event(message="approved by ada@example.org"), "$message")["text"] == "approved by ada@example.org"


def test_words_are_bounded_and_cannot_steer_a_terminal() -> None:
    text = written(an_event(message="\x1b[2J" + "x" * 5000), "$message")["text"]
    assert "\x1b" not in text
    assert len(text) == 1024


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("$nod", "there is no $nod; there are $about, $check"),
        ("costs 5 $", "a single $ means nothing"),
        ('{"text": "$message"', "it begins with { and is no JSON"),
        ('{"text": ["$why"]}', "there is no $why"),
        ('{"text": ' + "[" * 300 + "]" * 300 + "}", "it has more than 50 objects and lists within each other"),
    ],
)
def test_a_template_that_cannot_be_used_says_why(template: str, why: str) -> None:
    with pytest.raises(BadTemplate, match=_quoted(why)):
        slack_by(template)


def _quoted(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "${}()[]" else sign for sign in text)


def test_a_cloud_event_has_what_the_standard_asks_for() -> None:
    event = an_event("NeedsPerson", warning=True, kind=INCIDENT, check="n1", message="n1: no answer")
    told = msgspec.json.decode(cloud_event(Notice(event=event, cluster="east")))
    assert told["specversion"] == "1.0"
    assert (told["type"], told["source"], told["subject"]) == (
        "dev.defib.NeedsPerson",
        "/defib/east",
        "NodeIncident/n1",
    )
    assert datetime.fromisoformat(told["time"]) == AT.replace(microsecond=0)
    assert told["datacontenttype"] == "application/json"
    assert all(name.isalnum() and name.islower() for name in told), "the names of attributes"
    assert told["data"] == {
        "reason": "NeedsPerson",
        "message": "n1: no answer",
        "severity": "warning",
        "node": "n1",
        "check": "",
        "cluster": "east",
        "about": {
            "apiVersion": "defib.dev/v1alpha1",
            "kind": "NodeIncident",
            "namespace": "",
            "name": "n1",
            "uid": "u1",
        },
    }


def test_the_same_event_is_the_same_cloud_event_and_another_is_another() -> None:
    def number(event: TellEvent) -> str:
        return str(msgspec.json.decode(cloud_event(Notice(event=event, cluster="east")))["id"])

    assert number(an_event()) == number(an_event())
    others = [an_event("Other"), an_event(message="other"), an_event(uid="u2"), an_event(at=AT.replace(second=4))]
    assert len({number(event) for event in (an_event(), *others)}) == 5


POLICY = KindRef("defib.dev/v1alpha1", "PodFailoverPolicy")
WANTED = [
    (an_event("IncidentOpened", kind=NODE, check="n1"), {"incidents"}),
    (an_event("RemediationCreated"), set()),
    (an_event("NeedsPerson", warning=True, kind=INCIDENT), {"incidents", "warnings"}),
    (an_event("RemediationSkipped", warning=True), {"gates", "warnings"}),
    (an_event("StormRecoveryEnded"), {"gates"}),
    (an_event("PodsMoved", kind=POLICY), {"incidents"}),
    (an_event("FailoverHeld", kind=POLICY, warning=True), {"gates", "warnings"}),
    (an_event("DrainStarted", kind=DRAIN), {"drains"}),
    (an_event("DrainFailed", kind=DRAIN, warning=True), {"drains", "warnings"}),
    (an_event("DefaultCheckCreated", kind=CHECK), set()),
]


@pytest.mark.parametrize(("event", "topics"), WANTED, ids=lambda it: it.reason if isinstance(it, TellEvent) else "")
def test_what_is_told_can_be_chosen_by_what_it_is_about(event: TellEvent, topics: set[str]) -> None:
    found = {topic for topic in ("warnings", "incidents", "gates", "drains") if is_wanted(event, (topic,))}
    assert found == topics
    assert is_wanted(event, ("all",))


def test_by_itself_it_tells_of_incidents_and_whatever_is_a_warning() -> None:
    about = Settings().notify_about
    assert [event.reason for event, _ in WANTED if not is_wanted(event, about)] == [
        *("RemediationCreated", "StormRecoveryEnded", "DrainStarted", "DefaultCheckCreated"),
    ]


async def test_the_file_with_the_url_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "url"
    address = UrlFile(file)
    for text in ("https://one/\n", "  https://two/x  \n\n"):
        await asyncio.to_thread(file.write_text, text)
        assert await address() == text.strip()


@pytest.mark.parametrize(
    "content", [None, b"", b"\n", b"https://very-secret/ and more", b"\xff\xfevery-secret", b"x" * 5000]
)
async def test_a_file_without_one_url_is_told_without_what_it_holds(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "url"
    if content is not None:
        await asyncio.to_thread(file.write_bytes, content)
    with pytest.raises(NoAddress, match="notify_url_file") as caught:
        await UrlFile(file)()
    assert "very-secret" not in str(caught.value)


def settings(tmp_path: Path, url: str, **more: Any) -> Settings:
    file = tmp_path / "url"
    file.write_text(url)
    return Settings(notify_url_file=file, cluster_name="east", **more)


async def tell(announcements: Announcements, *events: TellEvent) -> None:
    for event in events:
        announcements.ended(event, Done())


@pytest.mark.parametrize(
    ("chosen", "content"),
    [("slack", "application/json; charset=UTF-8"), ("cloudevents", "application/cloudevents+json; charset=UTF-8")],
)
async def test_what_was_told_as_an_event_is_sent_as_chosen(tmp_path: Path, chosen: Any, content: str) -> None:
    async with receiving(503, 200) as receiver:
        wanted = await asyncio.to_thread(settings, tmp_path, receiver.url, notify_format=chosen)
        announcements = await asyncio.to_thread(announcements_of, wanted, SystemClock(), Metrics())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(announcements.run())
            announcements.ended(an_event("Lost"), Failed("not written"))
            await tell(
                announcements, an_event("DrainStarted", kind=DRAIN), an_event("IncidentOpened"), an_event("Second")
            )
            await receiver.until(lambda: len(receiver.received) == 3)
            running.cancel()
    assert [one.headers["content-type"] for one in receiver.received] == [content] * 3
    first, again, second = (msgspec.json.decode(one.body) for one in receiver.received)
    assert first == again != second, "one that was refused is sent again as it was"
    assert "IncidentOpened" in str(first)


async def test_what_is_told_of_an_incident_and_of_its_node_is_one_notification(tmp_path: Path) -> None:
    """But not what is told of another node, or at another time, or of nothing but the incident."""
    async with receiving() as receiver:
        wanted = await asyncio.to_thread(settings, tmp_path, receiver.url, notify_template_file=None)
        announcements = await asyncio.to_thread(announcements_of, wanted, SystemClock(), Metrics())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(announcements.run())
            for node in ("n1", "n2"):
                for kind in (INCIDENT, NODE):
                    await tell(announcements, an_event("NeedsPerson", kind=kind, check=node, node=node, warning=True))
            later = AT.replace(second=9)
            await tell(announcements, an_event("NeedsPerson", kind=NODE, check="n1", warning=True, at=later))
            await tell(announcements, an_event("Last"))
            await receiver.until(lambda: len(receiver.received) == 4)
            running.cancel()
    texts = [msgspec.json.decode(one.body)["text"] for one in receiver.received]
    assert [text.split(":")[2].strip().split(", ")[1] for text in texts] == [
        *("NodeIncident n1", "NodeIncident n2", "Node n1", "NodeHealthCheck workers"),
    ]


async def test_without_a_place_nothing_is_told_and_nothing_runs() -> None:
    metrics = Metrics()
    announcements = announcements_of(Settings(), SystemClock(), metrics)
    await tell(announcements, an_event())
    async with asyncio.timeout(1):
        await announcements.run()
    assert "defib_deliveries_total{" not in metrics.render().decode()


def test_a_file_without_a_url_is_told_at_the_start_and_no_reason_to_end(tmp_path: Path) -> None:
    with capture_logs() as logs:
        announcements_of(settings(tmp_path, ""), SystemClock(), Metrics())
        announcements_of(settings(tmp_path, "https://very-secret/"), SystemClock(), Metrics())
    assert [(line["event"], line["why"]) for line in logs] == [
        ("notifications cannot be sent yet", "the file of notify_url_file is empty")
    ]


def bad(tmp_path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    template = tmp_path / "template"
    template.write_text("$nonsense")
    big = tmp_path / "big"
    big.write_text("x" * 70000)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    yield {"notify_template_file": template}, "there is no $nonsense"
    yield {"notify_template_file": tmp_path / "none"}, "No such file or directory"
    yield {"notify_template_file": big}, "has more than 65536 bytes"
    yield {"notify_template_file": binary}, "is not text"
    yield {"notify_template_file": template, "notify_format": "cloudevents"}, "a CloudEvent has a form of its own"


def test_a_template_is_looked_at_before_anything_starts(tmp_path: Path) -> None:
    for chosen, why in bad(tmp_path):
        with pytest.raises(BadSettings) as caught:
            announcements_of(settings(tmp_path, "https://x/", **chosen), SystemClock(), Metrics())
        (problem,) = caught.value.problems
        assert problem.startswith("--notify-template-file: ")
        assert why in problem


def test_the_examples_of_the_guide_are_templates() -> None:
    page = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
    blocks = [block.partition("\n")[2] for block in page.split("```")[1::2] if "$message" in block]
    assert len(blocks) == 2
    for block in blocks:
        assert Template(block).get_identifiers()
        assert written(an_event(), block)
