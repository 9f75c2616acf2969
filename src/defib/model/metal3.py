"""Names and rules of Metal3: which annotations ask for what, and what a BareMetalHost says about its power."""

import re
from typing import Any

import msgspec

from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.model.power import PowerState

HOST = KindRef("metal3.io/v1alpha1", "BareMetalHost")
TRIGGER = "host.metal3.io/external-remediation"  # on a Machine: power-cycle it
HOST_LINK = "metal3.io/BareMetalHost"  # on a Machine: its host, as namespace/name
MACHINE_KEY = "reboot.metal3.io/machine-remediation"
KEPT_OFF_BY = "defib.dev/kept-off-by"  # on a host: which of the annotations that keep it off is ours
KEPT_OFF_FOR = "defib.dev/kept-off-for"  # and the incident for which it was set
REBOOT_HARD = '{"mode":"hard","force":false}'
PAUSED = "baremetalhost.metal3.io/paused"
DETACHED = "baremetalhost.metal3.io/detached"
POWER_ERROR = "power management error"

_HOST_KEY = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_REBOOT_KEY = re.compile(r"reboot\.metal3\.io/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_HOST_NAMES = (
    re.compile(r"metal3://(?P<namespace>[^/]+)/(?P<name>[^/]+)(?:/[^/]+)?"),
    re.compile(r"baremetalhost:///(?P<namespace>[^/]+)/(?P<name>[^/]+)(?:/(?P<uid>[^/]+))?"),
    re.compile(r"metal3://(?P<uid>[^/]+)"),  # as Cluster API's provider wrote it before it had names in it
)


class HostName(msgspec.Struct, frozen=True):
    """What somebody calls a host: by its name, by its UID, or both."""

    namespace: str = ""
    name: str = ""
    uid: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.name else ""


def host_in(provider_id: str) -> HostName | None:
    """The host that the provider ID of a Machine or a Node names, if it names one."""
    for pattern in _HOST_NAMES:
        if found := pattern.fullmatch(provider_id):
            return HostName(**{part: text for part, text in found.groupdict().items() if text})
    return None


def host_linked(link: str) -> HostName | None:
    """The host of an annotation `namespace/name`."""
    namespace, slash, name = link.partition("/")
    return HostName(namespace, name) if slash and namespace and name and "/" not in name else None


def why_no_way(address: str, key: str) -> str:
    """Why this cannot be the namespace/name of a host, or no annotation that keeps one off; empty when both can be.

    Whatever the annotation is called, it is set on the host and removed again: any other would do something else to it.
    """
    if not _HOST_KEY.fullmatch(address):
        return f"{address[:80]!r} is not the namespace/name of a BareMetalHost"
    return "" if _REBOOT_KEY.fullmatch(key) else f"{key[:80]!r} is no annotation of the form reboot.metal3.io/KEY"


def why_untouchable(host: Unstructured) -> str:
    """Why the baremetal operator would not switch this host off, or not leave it on; empty when it would."""
    spec: dict[str, Any] = host.spec or {}
    if host.metadata.deletion_timestamp is not None:
        return f"BareMetalHost {host.key} is being deleted"
    if PAUSED in host.annotations:
        return f"BareMetalHost {host.key} is paused (annotation {PAUSED})"
    if DETACHED in host.annotations:
        return f"BareMetalHost {host.key} is detached (annotation {DETACHED})"
    if spec.get("disablePowerOff") is True:
        return f"BareMetalHost {host.key} must not be powered off (spec.disablePowerOff)"
    if spec.get("online") is not True:
        return f"BareMetalHost {host.key} is to stay off (spec.online is not true)"
    return ""


def power_of(host: Unstructured, key: str) -> tuple[PowerState, str]:
    """What its status is worth. Off counts only while our own annotation keeps it off, and nothing is wrong with it."""
    status: dict[str, Any] = host.status or {}
    powered_on = status.get("poweredOn")
    if why := why_untouchable(host):
        return PowerState.UNKNOWN, why
    if powered_on is True:
        return PowerState.ON, ""
    if powered_on is not False:
        return PowerState.UNKNOWN, f"BareMetalHost {host.key} does not say whether it is on"
    if status.get("errorType") == POWER_ERROR:
        said = str(status.get("errorMessage") or "")[:200]
        return PowerState.UNKNOWN, f"BareMetalHost {host.key} has a {POWER_ERROR}: {said}"
    if key not in host.annotations:
        return PowerState.UNKNOWN, f"BareMetalHost {host.key} is off, but nothing of ours keeps it off"
    return PowerState.OFF, ""
