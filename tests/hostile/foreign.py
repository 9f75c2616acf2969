"""One object of each foreign kind that our code reads, as its own controller would write it. Data, to be spoilt."""

from typing import Any

Object = dict[str, Any]

_READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z", "reason": "Fine"}]
_MACHINE: Object = {
    "metadata": {
        "annotations": {"metal3.io/BareMetalHost": "defib-system/one", "host.metal3.io/external-remediation": ""},
        "labels": {"pool": "a", "cluster.x-k8s.io/cluster-name": "c"},
        "ownerReferences": [
            {"apiVersion": "x/v1", "kind": "MachineSet", "name": "one", "uid": "u", "controller": True}
        ],
        "deletionTimestamp": "2030-01-01T00:00:10Z",
        "finalizers": ["machine.cluster.x-k8s.io"],
    },
    "spec": {"providerID": "metal3://defib-system/one/uid", "nodeDrainTimeout": "5m", "deletion": {"order": 1}},
    "status": {"nodeRef": {"kind": "Node", "name": "n4"}, "phase": "Running", "conditions": _READY},
}

FOREIGN: dict[str, Object] = {
    "Machine": _MACHINE,
    "Metal3Machine": _MACHINE,
    "MachineSet": {"spec": {"replicas": 3, "selector": {"matchLabels": {"pool": "a"}}}, "status": {"readyReplicas": 3}},
    "MachineDeployment": {
        "spec": {"replicas": 3, "selector": {"matchLabels": {"pool": "a"}}, "strategy": {"type": "RollingUpdate"}},
        "status": {"replicas": 3, "updatedReplicas": 1, "phase": "ScalingUp", "conditions": _READY},
    },
    "KubeadmControlPlane": {
        "spec": {"replicas": 3, "version": "v1.33.0"},
        "status": {"replicas": 3, "updatedReplicas": 1, "version": "v1.32.0", "conditions": _READY},
    },
    "MachineHealthCheck": {
        "spec": {
            "selector": {"matchLabels": {"pool": "a"}},
            "clusterName": "c",
            "maxUnhealthy": "40%",
            "nodeStartupTimeout": "10m",
            "unhealthyRange": "[0-2]",
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "300s"}],
            "remediationTemplate": {"apiVersion": "x/v1", "kind": "XTemplate", "name": "one"},
        },
        "status": {"currentHealthy": 1, "expectedMachines": 1, "conditions": _READY},
    },
    "BareMetalHost": {
        "metadata": {"annotations": {"reboot.metal3.io/machine-remediation": "", "defib.dev/kept-off": "x"}},
        "spec": {
            "online": True,
            "consumerRef": {"kind": "Metal3Machine", "name": "one", "namespace": "defib-system"},
            "bmc": {"address": "redfish://10.0.0.1/redfish/v1/Systems/1", "credentialsName": "bmc"},
        },
        "status": {"poweredOn": True, "operationalStatus": "OK", "provisioning": {"state": "provisioned"}},
    },
    "Metal3Remediation": {
        "metadata": {"ownerReferences": [{"apiVersion": "x", "kind": "Machine", "name": "one", "uid": "u"}]},
        "spec": {"strategy": {"type": "Reboot", "retryLimit": 1, "timeout": "5m"}},
        "status": {"phase": "Running", "retryCount": 1, "lastRemediated": "2030-01-01T00:00:00Z"},
    },
    "Metal3RemediationTemplate": {
        "spec": {"template": {"spec": {"strategy": {"type": "Reboot", "retryLimit": 1, "timeout": "5m"}}}}
    },
    "MachineConfigPool": {
        "spec": {"maxUnavailable": 1, "paused": False, "nodeSelector": {"matchLabels": {"pool": "a"}}},
        "status": {"machineCount": 3, "updatedMachineCount": 1, "conditions": [{"type": "Updating", "status": "True"}]},
    },
    "ClusterVersion": {
        "spec": {"channel": "stable"},
        "status": {
            "conditions": [{"type": "Progressing", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}],
            "history": [{"state": "Partial", "version": "4.1", "startedTime": "2030-01-01T00:00:00Z"}],
        },
    },
    "Infrastructure": {"status": {"controlPlaneTopology": "HighlyAvailable", "infrastructureTopology": "x"}},
    "UpgradeConfig": {
        "spec": {"PDBForceDrainTimeout": 60, "upgradeAt": "2030-01-01T00:00:00Z"},
        "status": {"history": [{"phase": "Upgrading", "startTime": "2030-01-01T00:00:00Z", "version": "4.1"}]},
    },
    "NodeClaim": {
        "spec": {"terminationGracePeriod": "1h"},
        "status": {"nodeName": "n5", "conditions": [{"type": "Drifted", "status": "True"}]},
    },
    "Plan": {
        "spec": {"concurrency": 1, "nodeSelector": {"matchLabels": {"pool": "a"}}, "drain": {"timeout": 1000}},
        "status": {"applying": ["n5"], "latestHash": "abc", "latestVersion": "v1"},
    },
    "Job": {
        "metadata": {"labels": {"upgrade.cattle.io/node": "n5", "upgrade.cattle.io/plan": "one"}},
        "spec": {"template": {"spec": {"nodeName": "n5"}}},
        "status": {"active": 1, "startTime": "2030-01-01T00:00:00Z"},
    },
    "DaemonSet": {
        "metadata": {
            "annotations": {"weave.works/kured-node-lock": '{"nodeID":"n5","created":"2030-01-01T00:00:00Z"}'}
        },
        "spec": {"selector": {"matchLabels": {"name": "kured"}}},
    },
    "PodDisruptionBudget": {
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2},
    },
    "Pod": {
        "metadata": {"labels": {"app": "etcd"}},
        "spec": {"nodeName": "n6"},
        "status": {"phase": "Running", "conditions": _READY},
    },
}
