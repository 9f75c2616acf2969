"""Gives a cluster without any NodeHealthCheck its first one. What it refuses is told once, and not tried again."""

import structlog

from defib.act.means import REQUEST_SECONDS, Means
from defib.act.outcome import Done, Outcome, Stale
from defib.kube.errors import AlreadyExists, Forbidden, Invalid, NotFound, UnknownKind
from defib.kube.kinds import NODE_HEALTH_CHECKS
from defib.model.action import AddDefaultCheck
from defib.model.meta import Resource

log = structlog.get_logger("act")

ADVICE = (
    "apply deploy/install.yaml and start Defib again, write a NodeHealthCheck, "
    "or switch this off with --default-check off"
)


async def add_default_check(means: Means, action: AddDefaultCheck) -> Outcome:
    known = await means.client.list_all(NODE_HEALTH_CHECKS, deadline=REQUEST_SECONDS)
    if known.items or known.set_aside:
        return Stale("the cluster has a NodeHealthCheck now")
    try:
        await _add_template(means, action)
        check = await _add_check(means, action)
    except (Forbidden, NotFound, Invalid, UnknownKind) as error:
        log.warning("default check not created", check=action.check, why=str(error), advice=ADVICE)
        return Stale(str(error))
    if check is not None:
        log.info("default check created", check=action.check, template=str(action.template))
    return Done(check)


async def _add_template(means: Means, action: AddDefaultCheck) -> None:
    ref = action.template
    kind = await means.discovery.find(ref.kind.group, ref.kind.name, ref.kind.version)
    try:
        made = await means.client.create(kind, action.template_body, namespace=ref.namespace, deadline=REQUEST_SECONDS)
    except AlreadyExists:  # somebody may have changed it, and that is how it stays
        return
    means.note(kind, made)


async def _add_check(means: Means, action: AddDefaultCheck) -> Resource | None:
    try:
        check = await means.client.create(NODE_HEALTH_CHECKS, action.check_body, deadline=REQUEST_SECONDS)
    except AlreadyExists:
        return None
    means.note(NODE_HEALTH_CHECKS, check)
    return check
