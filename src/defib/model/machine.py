"""Names by which people and tools tell MachineHealthChecks what to do. They stay as they are, letter for letter."""

PAUSED = "cluster.x-k8s.io/paused"  # on a check, or on a machine
SKIPPED = "cluster.x-k8s.io/skip-remediation"  # on a machine
STRATEGY = "machine.openshift.io/remediation-strategy"  # on a check
EXTERNAL_BAREMETAL = "external-baremetal"
