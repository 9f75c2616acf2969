"""What is written from the chart, deploy/helm/defib: `python -m testbed.chart`, or `make render`. A test fails on drift.

The manifests for those without Helm, the names of settings in the chart's schema, and the page of all rights with what each is
for, which is read from the comments above the rules: so they cannot say different things.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from defib.config import SETTINGS
from testbed.programs import helm_program

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "defib"
SCHEMA = CHART / "values.schema.json"
RIGHTS = ROOT / "docs" / "reference" / "rights.md"
NAMESPACE = "defib-system"

_RENDER_WITHIN = 60.0
# Settings that other values of the chart stand for, or that a pod has no use for.
_NOT_BY_NAME = {
    *("namespace", "node_name", "replica_name", "kubeconfig", "context", "probes_address", "log_format"),
    *("watch_only", "health_checks", "default_check", "pod_failover_policies", "remedies", "serves"),
    *("election", "dashboard", "dashboard_address"),
}
_INSTALL_HEAD = """\
# Defib in a cluster, acting: its kinds, its rights, what the API server refuses on its behalf, and two replicas.
# Rendered from deploy/helm/defib with its defaults (`make render`): change that, not this. docs/install.md has the rest.
#
#   docker build -t YOUR-REGISTRY/defib:0.1.0 -f deploy/Dockerfile .    then put that name below
#   kubectl apply -f deploy/install.yaml
#   kubectl -n defib-system logs deploy/defib -f
"""
_OBSERVE_HEAD = """\
# Defib in a cluster, watching only: it may read what it would decide from, and nothing else. It may change nothing, and does
# not try to. Secrets it cannot see. Rendered from deploy/helm/defib with mode=watch (`make render`): change that, not this.
#
#   docker build -t YOUR-REGISTRY/defib:0.1.0 -f deploy/Dockerfile .    then put that name below
#   kubectl apply -f deploy/observe.yaml
#   kubectl -n defib-system logs deploy/defib -f
"""
_RIGHTS_HEAD = """\
# Rights

Every right that the chart gives, and what it is for. Written from the rendered roles (`make render`). A role without a value
behind it is always there; the others come and go with the value. `defib-sight` is all that Defib has with `mode=watch`.

"""
_OPTIONAL = {
    "checks": "features.checks",
    "default-check": "features.defaultCheck",
    "aggregation": "features.checks",
    "ext-remediation": "features.podFailover, features.powerCycle, agent.enabled",
    "pod-failover": "features.podFailover",
    "power": "features.powerCycle",
    "fence-orders": "agent.enabled",
    "agent": "agent.enabled",
    "self-fence": "agent.enabled",
    "drains": "features.drains",
    "metal3": "features.metal3",
    "remediate-machines": "features.metal3",
    "nodekeeper": "features.nodekeeper",
}
_FOR_PEOPLE = (
    *("-pod-failover-view", "-pod-failover-edit", "-power-cycle", "-self-fence", "-confirm-down"),
    *("-remediate-machines", "-look", "-act"),
)
_OF_AGENTS = "defib-agent"
WITH_AGENTS = {"agent.enabled": True, "agent.certificates.secret": "defib-agent"}
_EVERYTHING = {"features.metal3": True, "features.nodekeeper": True, "election": "endpoints", **WITH_AGENTS}


class NotRendered(Exception):
    """Helm refused. `str()` is what it said."""


class Right(msgspec.Struct, frozen=True):
    """One rule of one role, and the comment above it."""

    role: str
    namespace: str
    what: str
    verbs: str
    why: str


def render(helm: Path, values: Mapping[str, object] | None = None, *options: str) -> str:
    """The chart as manifests, without what only `helm test` needs."""
    given = [f"--set-json={name}={json.dumps(value)}" for name, value in (values or {}).items()]
    command = [str(helm), "template", "defib", str(CHART), f"--namespace={NAMESPACE}", "--skip-tests", *given, *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_RENDER_WITHIN, check=False)
    if ran.returncode != 0:
        raise NotRendered("\n".join(line for line in ran.stderr.splitlines() if "symbolic link" not in line))
    return ran.stdout


def objects(rendered: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(rendered) if one]


def files(helm: Path) -> dict[Path, str]:
    """Everything that is written from the chart, by where it belongs."""
    created = {"namespace.create": True}
    return {
        SCHEMA: schema(json.loads(SCHEMA.read_text())),
        DEPLOY / "install.yaml": _INSTALL_HEAD + _tidy(render(helm, created)),
        DEPLOY / "observe.yaml": _OBSERVE_HEAD
        + _tidy(render(helm, {**created, "mode": "watch", "replicas": 1, "crds.install": False})),
        RIGHTS: _RIGHTS_HEAD + "".join(_sections(list(rights(render(helm, _EVERYTHING))))),
    }


def schema(known: dict[str, Any]) -> str:
    """With every setting of the operator that is said by its name."""
    known["properties"]["settings"]["properties"] = {
        one.key: {"type": ["string", "integer", "boolean"], "description": one.about.description}
        for one in SETTINGS
        if one.key not in _NOT_BY_NAME
    }
    return json.dumps(known, indent=2, ensure_ascii=False) + "\n"


def _tidy(rendered: str) -> str:
    """Without the lines that say which template something came from, and without spaces at the ends of lines."""
    lines = (line.rstrip() for line in rendered.splitlines() if not line.startswith("# Source: "))
    return re.sub(r"\n(?:\n|---\n)*---\n", "\n---\n", "\n".join(lines)).rstrip("\n") + "\n"


def rights(rendered: str) -> Iterator[Right]:
    """Each rule of each role, in the order in which they are rendered."""
    for document in re.split(r"^---$", rendered, flags=re.MULTILINE):
        body = yaml.safe_load(document)
        if not body or body["kind"] not in {"ClusterRole", "Role"}:
            continue
        for rule, why in zip(body.get("rules", ()), _reasons(document), strict=True):
            meta = body["metadata"]
            what = _resources(rule)
            yield Right(meta["name"], meta.get("namespace", ""), what, ", ".join(rule["verbs"]), why)


def _resources(rule: Mapping[str, Sequence[str]]) -> str:
    names = [f"{one}.{group}" if group else one for group in rule["apiGroups"] for one in rule["resources"]]
    only = f" ({', '.join(rule['resourceNames'])})" if "resourceNames" in rule else ""
    return "<br>".join(f"`{name}`" for name in names) + only


def _reasons(document: str) -> list[str]:
    """The comments above the rules, one for each; empty where there is none."""
    reasons: list[str] = []
    comment: list[str] = []
    for line in document.partition("\nrules:")[2].splitlines():
        if line.startswith("  # "):
            comment.append(line.removeprefix("  # "))
        elif line.startswith("  - apiGroups:"):
            reasons.append(" ".join(comment))
            comment = []
    return reasons


def _sections(known: Sequence[Right]) -> Iterator[str]:
    is_for_people = {one.role for one in known if one.role.endswith(_FOR_PEOPLE)}
    yield "## Of Defib's own account\n"
    yield from _tables([one for one in known if one.role not in {*is_for_people, _OF_AGENTS}])
    yield "\n## Of the agents' account\n"
    yield from _tables([one for one in known if one.role == _OF_AGENTS])
    yield "\n## For people\n\nBound to nobody, but for `view`, `edit` and `admin` of Kubernetes, to which the first two add.\n"
    yield from _tables([one for one in known if one.role in is_for_people])


def _tables(known: Sequence[Right]) -> Iterator[str]:
    for role in dict.fromkeys(one.role for one in known):
        value = _OPTIONAL.get(role.removeprefix("defib-"))
        yield f"\n### {role}\n\n" + (f"With `{value}`.\n\n" if value else "")
        yield "| where | what | verbs | for |\n|---|---|---|---|\n"
        for one in (one for one in known if one.role == role):
            where = f"`{one.namespace}`" if one.namespace else "everywhere"
            yield f"| {where} | {one.what} | {one.verbs} | {one.why} |\n"


def main() -> int:
    for path, text in files(helm_program()).items():
        path.write_text(text)
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
