"""Settings: read once, from flags, environment and file, checked, then frozen.

One precedence: a flag beats the environment, the environment beats the file, the file beats the default.
Each field carries its own description and form, and that is the only table: the command line's help, the reference
page and the checks are made from it. All problems are told at once, each with where it came from.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from defib.forms import (
    ANY_HOST,
    NAMESPACE,
    About,
    Address,
    Choice,
    Duration,
    DurationOrNever,
    File,
    HostAndPort,
    Listed,
    Name,
    Number,
    Share,
    duration,
)
from defib.people_settings import PeopleSettings

PREFIX = "DEFIB_"
FILE_VARIABLE = "DEFIB_CONFIG"
UPGRADE_SIGNALS = (
    "announced",
    "cluster-version",
    "machine-config",
    "kubeadm",
    "system-upgrade-controller",
    "kured",
    "cluster-api",
)

PROOFS = ("A", "B", "C", "D", "None")
REMEDIES = ("pod-failover", "power-cycle", "self-fence", "drains", "metal3", "nodekeeper")
SERVABLE = ("machine-annotation", "metal3-remediation", "machine-health-check")


class Settings(PeopleSettings, frozen=True, kw_only=True):
    """Everything that can be chosen about a running operator."""

    kubeconfig: Annotated[
        Path | None,
        About(
            "The kubeconfig file. When not set: $KUBECONFIG, else ~/.kube/config, else the pod's own service account.",
            File(),
        ),
    ] = None
    context: Annotated[
        str | None,
        About("The context in the kubeconfig. When not set: its current context.", Name("the name of a context")),
    ] = None
    probes_address: Annotated[Address, About("Where /healthz, /readyz and /metrics are served.", HostAndPort())] = (
        Address(ANY_HOST, 8081)
    )
    resync_seconds: Annotated[
        float,
        About(
            "How often everything is looked at again, even if nothing changed. With 0 that is never done: then only what "
            "changes, and what is due, starts a look; and /healthz cannot tell a replica that hangs by its last look.",
            DurationOrNever("1s", "1d"),
        ),
    ] = 300.0
    watch_stall_seconds: Annotated[
        float,
        About(
            "How long a watch may be silent before it is held to be dead and opened again. "
            "On a quiet watch the API server sends nothing but a bookmark about once a minute, "
            "so with less than 65s a watch that works would be taken for dead.",
            Duration("65s", "1h"),
        ),
    ] = 90.0
    blind_limit_seconds: Annotated[
        float,
        About(
            "How long nodes or their heartbeats may be out of sight before /healthz fails, so that the kubelet starts "
            "this replica anew. 0 is for ever.",
            Duration("0s", "1d"),
        ),
    ] = 600.0
    requests_per_second: Annotated[
        int, About("The most requests to the API server that are started per second, over time.", Number(1, 100000))
    ] = 500
    requests_in_flight: Annotated[
        int, About("The most requests to the API server that run at the same time.", Number(1, 10000))
    ] = 16
    namespace: Annotated[str, About("Where Defib itself lives: its brake, its templates.", NAMESPACE)] = "defib-system"
    lock_namespace: Annotated[
        str,
        About(
            "Where the locks on nodes are: Leases that remediators and maintenance tools of medik8s honour too.",
            NAMESPACE,
        ),
    ] = "medik8s-leases"
    brake: Annotated[
        Literal["off", "on"],
        About(
            "With on, nothing destructive is done to any node, whatever the checks say. Cleaning up goes on. "
            "While it runs, the ConfigMap defib-brake does the same (defib pause).",
            Choice(("off", "on")),
        ),
    ] = "off"
    watch_only: Annotated[
        Literal["off", "on"],
        About(
            "With on, nothing at all is written to the cluster, not even a status: it only watches, and tells.",
            Choice(("off", "on")),
        ),
    ] = "off"
    health_checks: Annotated[
        Literal["on", "off"],
        About(
            "With off, NodeHealthChecks are left to the operator of medik8s, and none is made by default. Defib then only "
            "serves the remediations that are made from its templates, and tries whether their nodes could be fenced.",
            Choice(("on", "off")),
        ),
    ] = "on"
    default_check: Annotated[
        Literal["on", "off", "self-fence"],
        About(
            "With on, a cluster that has no NodeHealthCheck when Defib starts gets one for its workers, "
            "nhc-worker-default, which moves pods that can run twice. With self-fence, one by which nodes with an agent take "
            "themselves down, and all of their pods and volumes are freed.",
            Choice(("on", "off", "self-fence")),
        ),
    ] = "on"
    upgrade_signals: Annotated[
        tuple[str, ...],
        About("What counts as an upgrade, during which nodes go down on purpose.", Listed(UPGRADE_SIGNALS)),
    ] = UPGRADE_SIGNALS
    upgrade_limit_seconds: Annotated[
        float,
        About(
            "How long an upgrade may hold remediation back. After that it counts as stuck: "
            "the checks say so, and remediate again.",
            Duration("1m", "30d"),
        ),
    ] = 10800.0
    node_name: Annotated[
        str | None,
        About(
            "The node on which this replica runs. It never switches off the machine under itself.",
            Name("the name of a node"),
        ),
    ] = None
    remedies: Annotated[
        tuple[str, ...],
        About(
            "What Defib does about nodes: PodFailoverRemediations, PowerCycleRemediations, SelfFenceRemediations, DrainPolicies, power by way of "
            "Metal3's BareMetalHosts, and DrainPolicies that are configured as Nodekeeper was. One that is left out is as if "
            "its kinds were not installed: nothing of it is looked at or touched. Let what it has begun end before.",
            Listed(REMEDIES),
        ),
    ] = REMEDIES
    serves: Annotated[
        tuple[str, ...],
        About(
            "Triggers of other projects that are served too, for clusters in which nobody else does: "
            "the annotation host.metal3.io/external-remediation on Machines, Metal3Remediations, "
            "and MachineHealthChecks.",
            Listed(SERVABLE),
        ),
    ] = ()
    fence_check_seconds: Annotated[
        float,
        About(
            "How often the way to the power of each node that a PowerCycleRemediationTemplate covers is tried.",
            Duration("10s", "1d"),
        ),
    ] = 600.0
    leftover_age_seconds: Annotated[
        float,
        About(
            "How long nobody may have wanted what a dead remediation or a dead replica left behind (taints, annotations, "
            "Leases), before it is taken away. Only what carries Defib's mark is.",
            Duration("1m", "30d"),
        ),
    ] = 600.0
    pod_failover_policies: Annotated[
        Literal["on", "off"],
        About(
            "With on, PodFailoverPolicies are served: pods that they select leave a failed node at once. "
            "With off, each of them says that it is not.",
            Choice(("on", "off")),
        ),
    ] = "on"
    failover_max_unhealthy: Annotated[
        str,
        About(
            "Of how many failed nodes the pods are moved at a time for PodFailoverPolicies. The others wait, and it is told.",
            Share(),
        ),
    ] = "49%"
    failover_dwell_seconds: Annotated[
        float,
        About(
            "How long a node must have been not ready before a PodFailoverPolicy counts it as failed, where it does not say.",
            Duration("0s", "1d"),
        ),
    ] = 0.0
    failover_shortest_dwell_seconds: Annotated[
        float,
        About(
            "The same, as a limit: a PodFailoverPolicy that asks for less gets this.",
            Duration("0s", "1d"),
        ),
    ] = 0.0
    failover_proofs: Annotated[
        tuple[str, ...],
        About(
            "Which proofs that a node is down are good enough for pods that must not run twice, where a PodFailoverPolicy "
            "does not say: A (power read as off), B (storage fenced), C (time), D (a person).",
            Listed(PROOFS[:-1], may_be_none=False),
        ),
    ] = ("A", "B")
    failover_allowed_proofs: Annotated[
        tuple[str, ...],
        About(
            "What a PodFailoverPolicy may accept as such a proof. None is that no proof is needed.",
            Listed(PROOFS, may_be_none=False),
        ),
    ] = PROOFS
    log_format: Annotated[
        Literal["auto", "json", "pretty"],
        About(
            "One JSON object per line, or lines for people; auto is pretty on a terminal and JSON elsewhere.",
            Choice(("auto", "json", "pretty")),
        ),
    ] = "auto"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        About(
            "The least important lines that are still written. With debug, errors come with their traceback.",
            Choice(("debug", "info", "warning", "error")),
        ),
    ] = "info"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. `key` is its name in a file; the unit is not part of it, since a duration carries its own."""

    field: str
    about: About
    default: Any

    @property
    def key(self) -> str:
        return self.field.removesuffix("_seconds") if isinstance(self.about.form, Duration) else self.field

    @property
    def flag(self) -> str:
        return "--" + self.key.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.key.upper()

    @property
    def default_text(self) -> str:
        if self.default is None:
            return ""
        if isinstance(self.default, tuple):
            return ",".join(self.default) or "none"
        return duration(self.default) if isinstance(self.about.form, Duration) else str(self.default)


def _table() -> Iterator[Setting]:
    hints = get_type_hints(Settings, include_extras=True)
    for field in msgspec.structs.fields(Settings):
        (about,) = hints[field.name].__metadata__
        yield Setting(field=field.name, about=about, default=field.default)


SETTINGS: tuple[Setting, ...] = tuple(_table())
BY_KEY = {setting.key: setting for setting in SETTINGS}


class BadSettings(Exception):
    """Some settings cannot be used. Each problem is one line that says where, what and what is allowed instead."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Given(msgspec.Struct, frozen=True):
    """A value as somebody gave it, and where."""

    source: str
    key: str
    value: object


def load(flags: Mapping[str, str], environ: Mapping[str, str], read_file: Callable[[str], str]) -> Settings:
    """The settings in force. `flags` has the keys of the table, and `config` for the file. Raises BadSettings."""
    problems: list[str] = []
    path = flags.get("config") or environ.get(FILE_VARIABLE, "")
    named_by = "--config" if flags.get("config") else FILE_VARIABLE
    given = [*_in_file(path, named_by, read_file, problems)] if path else []
    given += _in_environment(environ, problems)
    given += [Given(BY_KEY[key].flag, key, value) for key, value in flags.items() if key != "config"]
    values: dict[str, Any] = {}
    for one in given:  # the weakest source first, so that a stronger one overwrites it
        setting = BY_KEY[one.key]
        try:
            values[setting.field] = setting.about.form.read(one.value)
        except ValueError:
            problems.append(f"{one.source}: {one.value!r} is not {setting.about.form.allowed}")
    if problems:
        raise BadSettings(problems)
    return Settings(**values)


def _in_environment(environ: Mapping[str, str], problems: list[str]) -> Iterator[Given]:
    """An empty variable counts as not set: that is how manifests leave one out."""
    known = {setting.variable: setting for setting in SETTINGS}
    for name in sorted(environ):
        if name in known:
            if environ[name]:
                yield Given(name, known[name].key, environ[name])
        elif name.startswith(PREFIX) and name != FILE_VARIABLE and not SERVICE_LINK.search(name):
            problems.append(f"{name}: no such setting{_nearest(name, [*known, FILE_VARIABLE], PREFIX)}")


# Kubernetes tells every pod where the services of its namespace are. For a service called defib or defib-…,
# those variables start like ours, and are none of our business.
SERVICE_LINK = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$")


def _in_file(path: str, named_by: str, read_file: Callable[[str], str], problems: list[str]) -> Iterator[Given]:
    import yaml

    try:
        text = read_file(path)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text"
        problems.append(f"{named_by}: cannot read {path}: {why}")
        return
    except yaml.YAMLError as error:
        problems.append(f"{path}: this is not YAML: {' '.join(str(error).split())}")
        return
    if root is None:
        return
    if not isinstance(values, dict):
        problems.append(f"{path}: must be a mapping of settings to values, such as 'log_level: debug'")
        return
    seen: set[str] = set()
    for node, _ in root.value:
        key, source = node.value, f"{path} line {node.start_mark.line + 1}: {node.value}"
        if key in seen:
            problems.append(f"{source}: given twice")
        elif key not in BY_KEY:
            problems.append(f"{source}: no such setting{_nearest(key, list(BY_KEY))}")
        else:
            yield Given(source, key, values[key])
        seen.add(key)


def _nearest(name: str, names: list[str], prefix: str = "") -> str:
    """The prefix that all names share says nothing about which was meant."""
    near = difflib.get_close_matches(name.removeprefix(prefix), [n.removeprefix(prefix) for n in names], n=1)
    return f"; did you mean {prefix}{near[0]}?" if near else f"; there are {', '.join(names)}"
