"""Names that NodeHealthChecks, remediators and dashboards of medik8s know. They stay as they are, letter for letter."""

GROUP = "remediation.medik8s.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CHECK_KIND = "NodeHealthCheck"
CHECKS = f"nodehealthchecks.{GROUP}"

NODE_NAME = f"{GROUP}/node-name"
TEMPLATE_NAME = f"{GROUP}/template-name"
MULTIPLE_TEMPLATES = f"{GROUP}/multiple-templates-support"
TIMED_OUT = f"{GROUP}/nhc-timed-out"
HEALTHY_DELAY = f"{GROUP}/healthy-delay"
CONFIRMED_HEALTHY = f"{GROUP}/manually-confirmed-healthy"
OLD_REMEDIATION = "nodehealthcheck.medik8s.io/old-remediation-cr-flag"
OLD_REMEDIATION_ON = "flagon"

EXCLUDED = f"{GROUP}/exclude-from-remediation"
IS_CONTROL_PLANE = f"{GROUP}/isControlPlaneNode"
PART_OF = "app.kubernetes.io/part-of"
PART_OF_US = "node-healthcheck-controller"

PERMANENT_DELETION = "PermanentNodeDeletionExpected"
SUCCEEDED = "Succeeded"

LOCK_NAMESPACE = "medik8s-leases"
EVENT_PREFIX = "[remediation] "
EVENT_SOURCE = "NodeHealthCheck"

METAL3_TEMPLATE = "Metal3RemediationTemplate"
METAL3_NAMESPACE = "openshift-machine-api"
MACHINE_DELETION_TEMPLATE = "MachineDeletionRemediationTemplate"
MACHINE = "machine.openshift.io/machine"


def holder_of(check: str) -> str:
    return f"{CHECK_KIND}-{check}"


def lock_of(node: str) -> str:
    return f"node-{node.lower()}"
