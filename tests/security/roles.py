"""The rights of Defib's own account as data: read from the rendered chart, and judged as the API server judges them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from defib.simulate.routing import Call

Body = Mapping[str, Any]

ACCOUNT = "defib"


class Asked(msgspec.Struct, frozen=True, order=True):
    """One request of the account, as far as its rights are concerned. `resource` has its group: `jobs.batch`."""

    verb: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{where}" + (f" ({self.name})" if self.name else "")


class Right(msgspec.Struct, frozen=True, order=True):
    """One verb for one resource. Without a namespace it holds everywhere, without a name for every object."""

    verb: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def allows(self, asked: Asked) -> bool:
        return (
            (self.verb, self.resource, self.subresource) == (asked.verb, asked.resource, asked.subresource)
            and self.namespace in ("", asked.namespace)
            and self.name in ("", asked.name)
        )

    def __str__(self) -> str:
        return str(Asked(self.verb, self.resource, self.subresource, self.namespace, self.name))


def asked_by(call: Call) -> Asked:
    """When something is created, the API server does not know its name yet; not so of a part of it."""
    is_nameless = call.verb == "create" and not call.subresource
    name = "" if is_nameless else call.name
    return Asked(call.verb, call.served.resource, call.subresource, call.namespace, name)


def rights_of(rendered: Sequence[Body]) -> frozenset[Right]:
    """What all roles together allow the account that the chart makes."""
    roles = {_key(one): one for one in rendered if one["kind"] in ("ClusterRole", "Role")}
    found: set[Right] = set()
    for binding in rendered:
        if binding["kind"] in ("ClusterRoleBinding", "RoleBinding") and _is_ours(binding):
            place = binding["metadata"].get("namespace", "")
            ref = binding["roleRef"]
            role = roles[ref["kind"], place if ref["kind"] == "Role" else "", ref["name"]]
            found |= {right for rule in _rules(role, roles.values()) for right in rights_in(rule, place)}
    return frozenset(found)


def rights_in(rule: Body, namespace: str = "") -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for what in rule["resources"]:
            plural, _, part = what.partition("/")
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames") or ("",):
                    yield Right(verb, f"{plural}.{group}" if group else plural, part, namespace, name)


def allowed(rights: Iterable[Right], asked: Asked) -> bool:
    return any(right.allows(asked) for right in rights)


def _key(role: Body) -> tuple[str, str, str]:
    return role["kind"], role["metadata"].get("namespace", ""), role["metadata"]["name"]


def _is_ours(binding: Body) -> bool:
    return any(one["kind"] == "ServiceAccount" and one["name"] == ACCOUNT for one in binding.get("subjects", ()))


def _rules(role: Body, roles: Iterable[Body]) -> Iterator[Body]:
    """Of a role that is added up from others, theirs."""
    if "aggregationRule" not in role:
        yield from role["rules"]
        return
    for chosen in role["aggregationRule"]["clusterRoleSelectors"]:
        for one in roles:
            if chosen["matchLabels"].items() <= one["metadata"].get("labels", {}).items():
                yield from one["rules"]
