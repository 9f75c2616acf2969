"""A policy in place of Nodekeeper: what the managed-upgrade-operator of OpenShift was told about drains is read as it is.

Its ConfigMap and its UpgradeConfig are written by people and pipelines for another program. Whatever stands in them,
this answers with a policy or with sentences, and with sentences nothing is forced. It differs from Nodekeeper where that
would crash or force by accident: `timeOut` must be given, because to Nodekeeper a forgotten one is 0, which is at once;
and a forgotten `expectedNodeDrainTime` really is 8, as its documentation says. Where Nodekeeper runs, its switch must be
off, and where the managed-upgrade-operator runs, Nodekeeper does: a policy that says itself which strategies are on does not
ask for that switch.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec
import yaml

from defib.decide.field import Field, Problems
from defib.model.cluster import Cluster, Missing, Served, Wanted
from defib.model.drain_policy import ANY_FINALIZER, Ignored, Policy, Source, is_expression
from defib.model.duration import LONGEST
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured

NAMESPACE = "openshift-managed-upgrade-operator"
CONFIG_MAP = KindRef("v1", "ConfigMap")
UPGRADE_CONFIG = KindRef("upgrade.managed.openshift.io/v1alpha1", "UpgradeConfig")
CONFIG_NAME = f"{NAMESPACE}/managed-upgrade-operator-config"
CONFIG_KEY = "config.yaml"
UPGRADE_CONFIG_NAME = f"{NAMESPACE}/managed-upgrade-config"

# What must be in sight while there is such a policy.
KINDS: Mapping[KindRef, Wanted] = MappingProxyType(
    {CONFIG_MAP: Wanted(NAMESPACE), UPGRADE_CONFIG: Wanted(NAMESPACE, can_wait=True)}
)

_CONFIG = f"ConfigMap {CONFIG_NAME}"
_UPGRADE = f"UpgradeConfig {UPGRADE_CONFIG_NAME}"
_LEGIBLE = 40  # of a text that makes no sense, so many characters are repeated to whoever wrote it

LONGEST_TEXT = 16384  # many times what it has ever been, and read in a fraction of a second whatever it says
DEEPEST = 32
MOST_PATTERNS = 128
LONGEST_PATTERN = 1024
MOST_MINUTES = 2**31 - 1  # what fits in the fields of Nodekeeper
USUAL_EXPECTED_MINUTES = 8


class _Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the ConfigMap says about drains."""

    timeout: timedelta
    expected: timedelta
    is_off: bool
    ignored: tuple[str, ...]


def nodekeeper(policy: Policy, cluster: Cluster) -> Policy | tuple[str, ...]:
    """The policy with what is configured elsewhere; or why there is none. A policy that is not Nodekeeper's is as it was."""
    if not policy.is_nodekeepers:
        return policy
    settings, pdb_timeout = _settings(cluster), _pdb_timeout(cluster)
    if isinstance(settings, tuple) or isinstance(pdb_timeout, tuple):
        return tuple(sentence for one in (settings, pdb_timeout) if isinstance(one, tuple) for sentence in one)
    times = msgspec.structs.replace(
        policy.times, timeout=settings.timeout, expected=settings.expected, pdb_timeout=pdb_timeout
    )
    return msgspec.structs.replace(
        policy,
        times=times,
        strategies=policy.strategies if policy.is_switched_here or not settings.is_off else frozenset(),
        ignored=Ignored(patterns=policy.ignored.patterns, expressions=settings.ignored),
        finalizers=policy.finalizers or frozenset({ANY_FINALIZER}),
        sources=frozenset({Source.OPENSHIFT}),
    )


def _settings(cluster: Cluster) -> _Settings | tuple[str, ...]:
    found = _find(cluster, CONFIG_MAP, CONFIG_NAME)
    if isinstance(found, tuple):
        return found
    text = found.data.get(CONFIG_KEY) if isinstance(found.data, dict) else None
    if not isinstance(text, str):
        return _told(_CONFIG, f"has no {CONFIG_KEY}; write there, under nodeDrain, at least timeOut")
    if len(text) > LONGEST_TEXT:
        return _told(_CONFIG, f"{CONFIG_KEY} has {len(text)} characters; at most {LONGEST_TEXT} are read")
    return _read_config(text)


def _pdb_timeout(cluster: Cluster) -> timedelta | tuple[str, ...]:
    found = _find(cluster, UPGRADE_CONFIG, UPGRADE_CONFIG_NAME)
    if isinstance(found, tuple):
        return found
    problems = Problems()
    length = _minutes(Field(f"{_UPGRADE}: spec", found.spec or {}, problems)["PDBForceDrainTimeout"])
    return problems.sentences or length


def _find(cluster: Cluster, kind: KindRef, key: str) -> Unstructured | tuple[str, ...]:
    what, served = f"{kind.name} {key}", cluster.kinds.get(kind)
    if not isinstance(served, Served):
        return _told(what, served.why if isinstance(served, Missing) else "has not been looked for yet")
    if served.collection in cluster.absent:
        rights = "the rights: features.nodekeeper in deploy/helm/defib/values.yaml"
        return _told(what, f"is out of sight; {rights}: {cluster.absent[served.collection]}")
    for unread in cluster.unread:
        if (unread.kind, unread.key) == (served.collection, key):
            return _told(what, f"is there, and cannot be read: {unread.why}")
    found = cluster.all_of(served.collection, Unstructured).get(key)
    return _told(what, "is not there, so nothing is forced") if found is None else found


def _told(what: str, why: str) -> tuple[str, ...]:
    problems = Problems()
    problems.note(what, why)
    return problems.sentences


# By its text, so that nothing is parsed again while nothing changes.
@lru_cache(maxsize=4)
def _read_config(text: str) -> _Settings | tuple[str, ...]:
    try:
        whole = yaml.load(text, _PlainLoader)  # noqa: S506  it is a safe loader, and takes less than that
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        return _told(f"{_CONFIG}, {CONFIG_KEY}", f"line {line} cannot be read as YAML: {error.problem}")
    except (yaml.YAMLError, ValueError) as error:  # the second of a number or a date that there is not
        return _told(f"{_CONFIG}, {CONFIG_KEY}", f"cannot be read as YAML: {error}")
    problems = Problems()
    said = whole.get("nodeDrain") if isinstance(whole, dict) else None
    drain = Field(f"{_CONFIG}, {CONFIG_KEY}: nodeDrain", {} if said is None else said, problems)
    settings = _node_drain(drain) if drain.is_a(dict) else None
    return settings if settings is not None and not problems.sentences else problems.sentences


def _node_drain(field: Field) -> _Settings:
    return _Settings(
        timeout=_minutes(field["timeOut"]),
        expected=_minutes(field["expectedNodeDrainTime"], USUAL_EXPECTED_MINUTES),
        is_off=field["disableDrainStrategies"].flag(),
        ignored=tuple(_expression(entry) for entry in field["ignoredNamespacePatterns"].entries(MOST_PATTERNS)),
    )


def _minutes(field: Field, usual: int | None = None) -> timedelta:
    if not field.is_given and usual is None:
        field.wrong("must be given: whole minutes, such as 45; 0 is at once")
    minutes = field.whole(0, MOST_MINUTES) if field.is_given else usual
    return min(timedelta(minutes=minutes or 0), LONGEST)


def _expression(field: Field) -> str:
    """As Nodekeeper has it: one for Go's regexp, and it may match anywhere in the name of a namespace."""
    if not field.is_a(str):
        return ""
    if len(field.value) > LONGEST_PATTERN:
        field.wrong(f"is too long; at most {LONGEST_PATTERN} characters")
    elif not is_expression(field.value):
        field.wrong(f"{field.value[:_LEGIBLE]!r} is no regular expression (RE2); write one such as ^openshift-.*")
    return str(field.value)


class _PlainLoader(yaml.SafeLoader):
    """Takes no aliases, no tags and no depths: a few lines of those can cost any amount of memory, or end in anything."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # of the loader, which nobody has typed
        strange = (
            ("aliases", isinstance(event, yaml.AliasEvent)),
            ("tags", getattr(event, "tag", None) is not None),
            (f"more than {DEEPEST} levels", self._depth == DEEPEST),
        )
        for what, is_there in strange:
            if is_there:
                raise yaml.MarkedYAMLError(problem=f"{what} are not read", problem_mark=event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node
