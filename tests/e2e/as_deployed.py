"""What a manifest would start: its arguments and its environment, so that tests run exactly that, only not in a pod."""

import os
from typing import Any

# Where several run on one machine, each finds a port of its own.
ON_LOOPBACK = ("--probes-address=127.0.0.1:0", "--dashboard-address=127.0.0.1:0")


def as_deployed(documents: list[dict[str, Any]], node: str = "a-node") -> tuple[list[str], dict[str, str]]:
    """Of the one Deployment among them. What a pod reads of itself is what the kubelet would put there."""
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    itself = {"spec.nodeName": node, "metadata.namespace": deployment["metadata"]["namespace"]}
    told = {
        one["name"]: one["value"] if "value" in one else itself[one["valueFrom"]["fieldRef"]["fieldPath"]]
        for one in container["env"]
    }
    machine = {name: value for name, value in os.environ.items() if not name.startswith("DEFIB_")}
    return container["args"], machine | told
