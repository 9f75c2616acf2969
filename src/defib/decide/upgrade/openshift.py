"""OpenShift: the Cluster Version Operator upgrades the whole cluster, the Machine Config Operator node by node."""

from collections.abc import Iterator

from defib.decide.upgrade.signal import (
    Mark,
    Signal,
    Watch,
    grouped,
    inside,
    moment,
    nodes_with,
    objects,
    true_condition,
    words,
)
from defib.model.cluster import Cluster
from defib.model.health_check import KindRef

CLUSTER_VERSIONS = Watch((KindRef("config.openshift.io/v1", "ClusterVersion"),))
DESIRED_CONFIG = Mark.DESIRED_CONFIG
CURRENT_CONFIG = "machineconfiguration.openshift.io/currentConfig"


def cluster_version(cluster: Cluster, _namespace: str) -> Iterator[Signal]:
    """Its own message counts percents, so it would never stay the same; the version does."""
    for version in objects(cluster, CLUSTER_VERSIONS):
        progressing = true_condition(inside(version.status, "conditions"), "Progressing")
        if progressing is not None:
            towards = words(inside(version.status, "desired", "version"))
            yield Signal(
                name="cluster-version",
                message=f"OpenShift is upgrading the cluster to {towards or 'another version'}",
                since=moment(progressing.get("lastTransitionTime")),
            )


def machine_config(cluster: Cluster, _namespace: str) -> Iterator[Signal]:
    """Only the node itself is held back. Its absent current configuration is one that differs, as upstream has it."""
    changing = (
        ((node.annotations.get(CURRENT_CONFIG, ""), desired), node.name)
        for node in nodes_with(cluster, DESIRED_CONFIG)
        if (desired := node.annotations.get(DESIRED_CONFIG)) and desired != node.annotations.get(CURRENT_CONFIG)
    )
    for (current, desired), nodes in grouped(changing).items():
        yield Signal(
            name="machine-config",
            message=f"the Machine Config Operator is moving the node from {words(current) or 'nothing'} to {words(desired)}",
            nodes=nodes,
        )
