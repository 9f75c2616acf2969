"""The cluster that is measured: nodes as a cloud's kubelet reports them, their heartbeats and pods, and what changes.

Pure, and the same for every run: what a number names is always the same node. The time is an argument where others judge
by it.
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any

BORN = datetime(2026, 1, 1, tzinfo=UTC)
KUBELET = "kubelet"
DETECTOR = "node-problem-detector"
LIFECYCLE = "kube-controller-manager"
HEARTBEAT_NAMESPACE = "kube-node-lease"
POD_NAMESPACE = "default"
RENEW_SECONDS = 10.0  # between two heartbeats of a node, if nobody told its kubelet otherwise
POD_LABELS = {"app": "noobaa"}

Json = dict[str, Any]

NO_TAINT: Json = {"spec": {"taints": None}}

_ZONES = ("europe-a", "europe-b", "europe-c")
_SIZES = ("m7.large", "m7.xlarge", "m7.2xlarge", "c7.4xlarge", "r7.xlarge")
_CONDITIONS = {
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "NetworkUnavailable": ("False", "RouteCreated", "the network of this node is set up"),
    "KernelDeadlock": ("False", "KernelHasNoDeadlock", "kernel has no deadlock"),
    "ReadonlyFilesystem": ("False", "FilesystemIsNotReadOnly", "Filesystem is not read-only"),
}
_KUBELETS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_IMAGES = (
    "registry.example.com/platform/pause",
    "registry.example.com/platform/kube-proxy",
    "registry.example.com/platform/cni-node",
    "registry.example.com/platform/csi-node-driver-registrar",
    "registry.example.com/observability/node-exporter",
    "registry.example.com/observability/log-shipper",
    "registry.example.com/shop/checkout",
    "registry.example.com/shop/catalogue",
    "registry.example.com/shop/recommendations",
    "registry.example.com/payments/ledger",
    "registry.example.com/payments/gateway",
    "registry.example.com/data/stream-processor",
    "registry.example.com/data/feature-store",
    "registry.example.com/ml/inference-server",
    "registry.example.com/ml/model-loader",
    "registry.example.com/edge/proxy",
)


def name_of(number: int) -> str:
    return f"ip-10-{number >> 16 & 255}-{number >> 8 & 255}-{number & 255}.europe.compute.internal"


def a_node(number: int) -> Json:
    """About 8 KB as the API server serves it, with what its two writers own."""
    chance = Random(number)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name_of(number),
            "labels": _labels(number, chance),
            "annotations": _annotations(number),
        },
        "spec": {
            "podCIDR": f"172.{number >> 8 & 255}.{number & 255}.0/24",
            "podCIDRs": [f"172.{number >> 8 & 255}.{number & 255}.0/24"],
            "providerID": f"cloud:///{_zone(number)}/i-{_digest(number, 'instance')[:17]}",
        },
        "status": _status(number, chance),
    }


def spread(nodes: int, count: int) -> list[int]:
    """So many of the nodes, from all over the fleet."""
    return [place * nodes // count for place in range(count)]


def pod_name(number: int, place: int) -> str:
    return f"endpoint-{_digest(number, 'template')[:10]}-{number}-{place}"


def a_pod(number: int, place: int) -> Json:
    """One of the copies of a Deployment, bound to its node: about 5 KB as the API server serves it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(number, place),
            "namespace": POD_NAMESPACE,
            "labels": POD_LABELS | {"pod-template-hash": _digest(number, "template")[:10], "tier": "endpoint"},
            "annotations": {
                "cni.example.com/address": f"10.{number >> 8 & 255}.{number & 255}.{place}/32",
                "checksum/config": _digest(number, "config"),
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"endpoint-{_digest(number, 'template')[:10]}",
                    "uid": _uuid(number, "replica set"),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeName": name_of(number),
            "containers": [_container(name, place) for name in ("endpoint", "log-shipper")],
            "volumes": [
                {"name": "config", "configMap": {"name": "endpoint"}},
                {"name": "scratch", "emptyDir": {}},
            ],
        },
    }


def a_running_pod(since: datetime) -> Json:
    """What a kubelet writes once all containers of a pod run."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": stamp(since)} for kind in kinds]
    containers = [
        {
            "name": name,
            "image": f"{_IMAGES[6]}:1.0",
            "imageID": f"{_IMAGES[6]}@sha256:{_digest(0, name)}",
            "containerID": f"containerd://{_digest(1, name)}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": stamp(since)}},
        }
        for name in ("endpoint", "log-shipper")
    ]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": containers, "hostIP": "10.0.0.1"}
    return {"status": status | {"startTime": stamp(since)}}


def a_heartbeat(number: int, at: datetime) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name_of(number), "namespace": HEARTBEAT_NAMESPACE},
        "spec": {"holderIdentity": name_of(number), **_renewed(at, RENEW_SECONDS)},
    }


def a_renewal(at: datetime, every: float = RENEW_SECONDS) -> Json:
    """What a kubelet writes into its Lease so often, in seconds; it renews four times as often as it would have to."""
    return {"spec": _renewed(at, every)}


def a_kubelet_report(at: datetime) -> Json:
    """What a kubelet writes every five minutes while nothing changes: that it has looked."""
    return {"status": {"conditions": [{"type": kind, "lastHeartbeatTime": stamp(at)} for kind in _KUBELETS]}}


def a_failure(since: datetime) -> Json:
    """What the node lifecycle controller writes about a node whose kubelet has gone silent."""
    silent = {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": stamp(since),
    }
    return {"status": {"conditions": [{"type": kind, **silent} for kind in _KUBELETS]}}


def a_taint(since: datetime) -> Json:
    """What it writes right after that, and by which the scheduler knows."""
    kept_away = {"key": "node.kubernetes.io/unreachable", "timeAdded": stamp(since)}
    return {"spec": {"taints": [kept_away | {"effect": effect} for effect in ("NoSchedule", "NoExecute")]}}


def a_recovery(since: datetime) -> Json:
    """What a kubelet writes first when it is back."""
    times = {"lastHeartbeatTime": stamp(since), "lastTransitionTime": stamp(since)}
    return {"status": {"conditions": [_state(kind) | times for kind in _KUBELETS]}}


def a_status_report(beat: int) -> Json:
    """What the problem detector writes: a condition that was looked at again."""
    times = {"lastHeartbeatTime": _seconds(beat), "lastTransitionTime": _seconds(0)}
    return {"status": {"conditions": [_state("KernelDeadlock") | times]}}


def an_annotation(beat: int) -> Json:
    """What an add-on writes: something small that is new each time."""
    return {"metadata": {"annotations": {"addon.example.com/seen": str(beat)}}}


def _labels(number: int, chance: Random) -> dict[str, str]:
    size, zone = chance.choice(_SIZES), _zone(number)
    pool = f"pool-{number % 12}"
    teams = {f"team.example.com/{topic}": f"{topic}-{number % 7}" for topic in ("cost", "owner", "tier", "stage")}
    return teams | {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": size,
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": "europe",
        "failure-domain.beta.kubernetes.io/zone": zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name_of(number),
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/worker": "",
        "node.kubernetes.io/instance-type": size,
        "topology.kubernetes.io/region": "europe",
        "topology.kubernetes.io/zone": zone,
        "topology.csi.example.com/zone": zone,
        "node.example.com/pool": pool,
        "node.example.com/image": "os-2026.01.2",
        "node.example.com/capacity-type": chance.choice(("on-demand", "spot")),
        "node.example.com/generation": str(number % 3),
        "node.example.com/kernel": "6.12.9",
        "node.example.com/network": "overlay",
        "node.example.com/rack": f"rack-{number % 160}",
        "node.example.com/template": f"{pool}-{_digest(number % 12, 'template')[:8]}",
    }


def _annotations(number: int) -> dict[str, str]:
    return {
        "cni.example.com/address": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}/16",
        "cni.example.com/mac": ":".join(_digest(number, "mac")[at : at + 2] for at in range(0, 12, 2)),
        "csi.volume.kubernetes.io/nodeid": f'{{"csi.example.com":"i-{_digest(number, "instance")[:17]}"}}',
        "node.alpha.kubernetes.io/ttl": "300",
        "node.example.com/launch-template": f"lt-{_digest(number % 12, 'template')[:17]}",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }


def _status(number: int, chance: Random) -> Json:
    cores = chance.choice((4, 8, 16, 32))
    room = {
        "cpu": str(cores),
        "ephemeral-storage": "209702892Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": f"{cores * 4 * 1024 * 1024 - number}Ki",
        "pods": "110",
    }
    return {
        "addresses": [
            {"type": "InternalIP", "address": _loopback(number)},
            {"type": "InternalDNS", "address": name_of(number)},
            {"type": "Hostname", "address": name_of(number)},
        ],
        "allocatable": room | {"cpu": f"{cores * 1000 - 90}m", "ephemeral-storage": "192188443124"},
        "capacity": room,
        "conditions": [_condition(kind, number) for kind in _CONDITIONS],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "images": [_image(place, number) for place in chance.sample(range(len(_IMAGES)), chance.randint(10, 16))],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": _uuid(number, "boot"),
            "containerRuntimeVersion": "containerd://2.2.1",
            "kernelVersion": "6.12.9-cloud-amd64",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.37.1",
            "machineID": _digest(number, "machine")[:32],
            "operatingSystem": "linux",
            "osImage": "Example Linux 13 (server)",
            "systemUUID": _uuid(number, "system"),
        },
    }


def _container(name: str, place: int) -> Json:
    return {
        "name": name,
        "image": f"{_IMAGES[6]}:1.0",
        "args": ["--listen=:8443", f"--shard={place}", "--log-level=info"],
        "env": [{"name": f"SETTING_{number}", "value": _digest(number, name)[:24]} for number in range(8)],
        "ports": [{"name": "https", "containerPort": 8443}] if name == "endpoint" else [],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8443, "scheme": "HTTPS"}, "periodSeconds": 10},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/endpoint", "readOnly": True},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
    }


def _condition(kind: str, number: int) -> Json:
    return _state(kind) | {"lastHeartbeatTime": _seconds(number), "lastTransitionTime": _seconds(number % 600)}


def _state(kind: str) -> Json:
    """A condition of a node that is well."""
    status, reason, message = _CONDITIONS[kind]
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _image(place: int, number: int) -> Json:
    version = f"{1 + number % 3}.{place}.{number % 5}"
    repository = _IMAGES[place]
    return {
        "names": [f"{repository}@sha256:{_digest(place, version)}", f"{repository}:{version}"],
        "sizeBytes": 20_000_000 + 1_000_003 * place,
    }


def _loopback(number: int) -> str:
    """Where its kubelet would answer: on this machine, so that whoever asks after a silent node asks nobody else's."""
    return f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _zone(number: int) -> str:
    return _ZONES[number % len(_ZONES)]


def _digest(number: int, salt: str) -> str:
    return sha256(f"{salt} {number}".encode()).hexdigest()


def _uuid(number: int, salt: str) -> str:
    text = _digest(number, salt)
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))


def _seconds(beat: int) -> str:
    return stamp(BORN + timedelta(seconds=beat))


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _renewed(at: datetime, every: float) -> Json:
    return {"leaseDurationSeconds": round(4 * every), "renewTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
