"""What other settings of the checks would have done so far, by what their statuses remember. Nothing is changed."""

import difflib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from defib.clock import SystemClock
from defib.config import Settings
from defib.console.kinds import LIST_SECONDS
from defib.console.recording import read_recording
from defib.console.session import NotDone, Session, connected, forbidden
from defib.decide.answers.report import CheckReport, report_on
from defib.decide.answers.told import Told
from defib.decide.reading import read_check, read_status
from defib.kube.errors import Forbidden, NotFound
from defib.kube.kinds import NODE_HEALTH_CHECKS, NODES, Kind, R
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.health_check import Broken, NodeHealthCheck

NEAR_MAX = 3


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Of one check, or of all; and by which label of their nodes they are told apart, if by any."""

    check: str = ""
    by: str = ""


class Report(Told, frozen=True, kw_only=True):
    now: datetime
    source: str  # empty: a live cluster
    by: str
    checks: tuple[CheckReport, ...]
    unknown: tuple[str, ...]


async def report_now(question: Question, settings: Settings) -> Report:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await reported(question, session)


async def reported(question: Question, session: Session) -> Report:
    checks, unread = await _all(NODE_HEALTH_CHECKS, session)
    nodes, unread_nodes = await _all(NODES, session) if question.by else ({}, ())
    cluster = Cluster(now=session.clock.now(), nodes=nodes, others={medik8s.CHECKS: checks})
    return tell_report(question, cluster, source="", unknown=(*unread, *unread_nodes))


def report_of_dump(question: Question, path: Path) -> Report:
    """By what the statuses said in its last frame. Raises NotDone."""
    recording = read_recording(path)
    return tell_report(question, recording.last, source=str(path), unknown=recording.header.unknown)


def tell_report(question: Question, cluster: Cluster, source: str, unknown: tuple[str, ...]) -> Report:
    items = cluster.all_of(medik8s.CHECKS, NodeHealthCheck)
    if question.check and question.check not in items:
        raise _no_such_check(question.check, items)
    pool_of = _pools(question.by, cluster) if question.by else None
    told, notes = [], []
    for name in [question.check] if question.check else sorted(items):
        check = read_check(items[name])
        if isinstance(check, Broken):
            notes.append(f"check {name} makes no sense, so nobody can say what it would do: {check.problems[0]}")
        else:
            told.append(report_on(check, read_status(items[name]), cluster.now, pool_of))
    return Report(now=cluster.now, source=source, by=question.by, checks=tuple(told), unknown=(*unknown, *notes))


def _pools(label: str, cluster: Cluster) -> dict[str, str]:
    """As the nodes are labelled now."""
    return {name: node.labels[label] for name, node in cluster.nodes.items() if label in node.labels}


async def _all(kind: Kind[R], session: Session) -> tuple[dict[str, R], tuple[str, ...]]:
    try:
        page = await session.client.list_all(kind, deadline=LIST_SECONDS)
    except Forbidden as error:
        raise forbidden(error, "list", str(kind)) from error
    except NotFound as error:
        raise NotDone(
            f"the cluster has no {kind.name}s: their CRD is not installed (kubectl apply -f deploy/crds)"
        ) from error
    unread = tuple(f"the {kind.name} {item.key} cannot be read: {item.why}" for item in page.set_aside)
    return {item.name: item for item in page.items}, unread


def _no_such_check(name: str, items: Mapping[str, object]) -> NotDone:
    if near := difflib.get_close_matches(name, items, n=NEAR_MAX):
        return NotDone(f"there is no NodeHealthCheck {name}; did you mean {' or '.join(near)}?")
    return NotDone(f"there is no NodeHealthCheck {name} among the {len(items)} of the cluster (kubectl get nhc)")
