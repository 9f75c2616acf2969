"""All that is made of one look: what a pass decides, counts and shows, what the page and the commands tell of it."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from rich.console import Console, RenderableType

from defib.cli import incidents as incidents_text
from defib.cli import plan as plan_text
from defib.cli import status as status_text
from defib.cli import timeline as timeline_text
from defib.cli import why as why_text
from defib.cli.output import encoded
from defib.clock import SystemClock
from defib.console.dump import config_maps_read
from defib.console.incidents import Incidents
from defib.console.plan import tell_plan
from defib.console.recording import decided_of, frame_between, shelves_of
from defib.console.redaction import without_secrets
from defib.console.status import Status
from defib.console.thorough import Seen, Thought
from defib.console.timeline import Timeline
from defib.decide.answers.attention import headline, look_at_first
from defib.decide.answers.node import answer_about
from defib.decide.answers.overview import incidents_of, overview
from defib.decide.answers.timeline import happenings
from defib.decide.changes import changes
from defib.decide.fencing.obstacles import waits_for_another
from defib.decide.plan import decide
from defib.decide.remediators import plan_own_work
from defib.decide.upgrade import problems
from defib.decide.wanted import wanted_kinds, widest
from defib.gauges import Gauges
from defib.model.action import Action, TellEvent
from defib.model.cluster import Cluster
from defib.model.incident import INCIDENTS, NodeIncident
from defib.model.standing import Standing
from defib.notifications import ONE_LINE, Notice, cloud_event, slack_by
from defib.picture import Picture
from defib.power.registry import Drivers
from defib.telemetry.metrics import Metrics
from defib.telemetry.printable import STEERING
from defib.web.board import BLANK, Site, next_board
from defib.web.board_parts import incident_whole
from defib.web.board_work import Seats
from defib.web.live import complete
from tests.hostile.town import DRAINED, RULES, VICTIM, texts_of

SITE = Site(replica="r1", version="0", can_act=False, rules=RULES)
SEATS = Seats(mode="off", leads=True)
WIDTH = 100
LONGEST_ACTION = 500_000  # as JSON: the API server takes no more than 1.5 MB, and a status repeats what it is about

encode = msgspec.json.Encoder(order="deterministic").encode


class Sights(msgspec.Struct, frozen=True):
    """A look that is right, and what was thought of it: the pass before the one in which something is wrong."""

    cluster: Cluster
    thought: Thought
    texts: dict[str, dict[str, dict[str, Any]]]


def sights(cluster: Cluster) -> Sights:
    plan = decide(cluster, RULES)
    return Sights(cluster, Thought(plan, plan_own_work(cluster, RULES, plan)), texts_of(cluster))


@cache
def _gauges() -> tuple[Gauges, Metrics]:
    metrics = Metrics()
    gauges = Gauges(metrics, Drivers(SystemClock()))
    gauges.stand(Standing(leads=True))
    return gauges, metrics


def one_pass(before: Sights, cluster: Cluster) -> Thought:
    """As the operator makes it, without doing what was decided."""
    list(changes(before.cluster, cluster))
    plan = decide(cluster, RULES, before.thought.plan)
    own = plan_own_work(cluster, RULES, plan, before.thought.own)
    problems(cluster, RULES.namespace)
    widest(wanted_kinds(plan, cluster, RULES), own.kinds)
    waits_for_another(cluster, RULES)
    thought = Thought(plan, own)
    for moment in filter(None, (plan.wake_at, *own.moments)):
        assert (moment - cluster.now).total_seconds() < float("inf")
    gauges, metrics = _gauges()
    gauges.show(cluster, plan, own)
    metrics.render()
    return thought


def expect_it_can_be_sent(thought: Thought) -> None:
    """Whatever is to be written can be written, and fits."""
    for action in thought.actions:
        assert len(encode(action)) < LONGEST_ACTION, action.key[:200]
        for event in events_of(action):
            notice = Notice(event=event, cluster="c")
            msgspec.json.decode(cloud_event(notice))
            msgspec.json.decode(slack_by(ONE_LINE)(notice))


def events_of(action: Action) -> tuple[TellEvent, ...]:
    if isinstance(action, TellEvent):
        return (action,)
    return getattr(action, "tells", ())


def expect_it_can_be_shown(cluster: Cluster, thought: Thought) -> None:
    """On the page, as JSON; and on a terminal, which nothing in it can steer."""
    board = next_board(BLANK, Picture(cluster, thought.plan, thought.own), SEATS, SITE)
    msgspec.json.decode(msgspec.json.encode(complete(board, cluster.now)))
    for incident in cluster.all_of(INCIDENTS, NodeIncident).values():
        msgspec.json.encode(incident_whole(incident))
    for told, page in pages(cluster, thought):
        forms = ("json", "yaml") if isinstance(told, Incidents) else ("json",)  # writing YAML takes long
        shown = "\n".join((drawn(page), *(encoded(told, form) for form in forms)))
        steered = [found[0] for found in STEERING.finditer(shown.replace("\n", ""))]
        assert not steered, (steered, shown)


def pages(cluster: Cluster, thought: Thought) -> Iterator[tuple[Any, RenderableType]]:
    plan = thought.plan
    told = overview(cluster, plan, RULES)
    first = look_at_first(told)
    unread = tuple(f"{one.kind} {one.key} cannot be read: {one.why}" for one in cluster.unread)
    status = Status(
        headline=headline(told, is_well=not first), first=first, cluster=told, operator=None, unknown=unread
    )
    yield status, status_text.page(status, WIDTH)
    listed = Incidents(now=cluster.now, incidents=incidents_of(cluster), closed=0)
    yield listed, incidents_text.page(listed, "", WIDTH)
    planned = tell_plan(Seen(cluster), RULES, source="")
    yield planned, plan_text.page(planned)
    for node in (VICTIM, DRAINED):
        answer = answer_about(node, cluster, plan, RULES.namespace)
        if answer is not None:
            yield answer, why_text.page(answer)
        timeline = Timeline(
            node=node,
            now=cluster.now,
            incident=None,
            happenings=happenings(node, cluster, plan, []),
            checks=answer.checks if answer else (),
            unknown=(),
        )
        yield timeline, timeline_text.page(timeline)


def drawn(page: RenderableType) -> str:
    console = Console(width=WIDTH, force_terminal=False, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(page)
    return captured.get()


def expect_it_can_be_dumped(cluster: Cluster, thought: Thought) -> None:
    clean = without_secrets(cluster, config_maps_read(RULES))
    encode(frame_between({}, shelves_of(clean), clean, decided_of(thought)))
