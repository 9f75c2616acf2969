"""Every reason that Defib gives in an Event. They stay as they are: people filter by them, and alerts are made of them.

The code takes its reasons from here, and docs/reference/reasons.md is made from the table below.
"""

from enum import StrEnum

import msgspec


class EventReason(StrEnum):
    # About a NodeHealthCheck. Those that medik8s has are called as they are there.
    DISABLED = "Disabled"
    ENABLED = "Enabled"
    REMEDIATION_SKIPPED = "RemediationSkipped"
    UPGRADE_STUCK = "UpgradeStuck"
    STORM_STARTED = "StormRecoveryStarted"
    STORM_COOLDOWN = "StormRecoveryCooldownStarted"
    STORM_ENDED = "StormRecoveryEnded"
    DETECTED_UNHEALTHY = "DetectedUnhealthy"
    INVALID_NODE_LABEL = "InvalidNodeLabel"
    REMEDIATION_CREATED = "RemediationCreated"
    REMEDIATION_REMOVED = "RemediationRemoved"
    REMEDIATION_FAILED = "RemediationFailed"
    REMEDIATION_TIMED_OUT = "RemediationTimedOut"
    NO_TEMPLATE_LEFT = "NoTemplateLeft"
    DELETION_STUCK = "DeletionStuck"
    REPLACEMENT_STUCK = "ReplacementStuck"
    DEFAULT_CHECK_CREATED = "DefaultCheckCreated"
    # About a Node, and about the NodeIncident of a power cycle.
    INCIDENT_OPENED = "IncidentOpened"
    INCIDENT_CLOSED = "IncidentClosed"
    NEEDS_PERSON = "NeedsPerson"
    POWERING_OFF = "PoweringOff"
    MACHINE_IS_DOWN = "MachineIsDown"
    POWERING_ON = "PoweringOn"
    ATTEMPT_FAILED = "AttemptFailed"
    CANCELLED = "Cancelled"
    REPLACING_MACHINE = "ReplacingMachine"
    BARE_PODS_LOST = "BarePodsLost"
    # About a PodFailoverRemediation or a PodFailoverPolicy.
    REMEDIATION_STARTED = "RemediationStarted"
    REMEDIATION_FINISHED = "RemediationFinished"
    NODE_NOT_FOUND = "NodeNotFound"
    NODE_READY = "NodeReady"
    DELETION_FAILED = "DeletionFailed"
    INVALID_SPEC = "InvalidSpec"
    PROOF_NEEDED = "ProofNeeded"
    WAITING_FOR_PROOF = "WaitingForProof"
    BRAKE = "Brake"
    SELF_DOUBT = "SelfDoubt"
    FAILOVER_HELD = "FailoverHeld"
    PODS_MOVING = "PodsMoving"
    PODS_MOVED = "PodsMoved"
    # About a NodeDrain or a DrainPolicy.
    DRAIN_STARTED = "DrainStarted"
    DRAIN_FORCING = "DrainForcing"
    DRAIN_HELD = "DrainHeld"
    DRAIN_OBSERVED = "DrainObserved"
    DRAIN_WAITS_FOR_APPROVAL = "DrainWaitsForApproval"
    DRAIN_ENDED = "DrainEnded"
    DRAIN_PAUSED = "DrainPaused"
    DRAIN_FAILED = "DrainFailed"
    UPGRADE_DELAYED = "UpgradeDelayed"


class Sort(StrEnum):
    """The type that the Event has."""

    NORMAL = "Normal"
    WARNING = "Warning"
    EITHER = "Normal or Warning"  # a warning unless a person or a plan wants it so


class Told(msgspec.Struct, frozen=True):
    """`about` is the kind of the object that the Event is on."""

    reason: EventReason
    about: str
    sort: Sort
    meaning: str


_CHECK, _NODE, _INCIDENT = "NodeHealthCheck", "Node", "NodeIncident"
_FAILOVER, _POLICY, _DRAIN, _DRAIN_POLICY = "PodFailoverRemediation", "PodFailoverPolicy", "NodeDrain", "DrainPolicy"
_R, _N, _W = EventReason, Sort.NORMAL, Sort.WARNING

EVENTS: tuple[Told, ...] = (
    Told(_R.DISABLED, _CHECK, _W, "The check makes no sense, or what it names is missing. Nothing is begun for it."),
    Told(_R.ENABLED, _CHECK, _N, "What was wrong with the check is mended."),
    Told(
        _R.REMEDIATION_SKIPPED, _CHECK, Sort.EITHER, "A gate holds back the check, or one node. The message says which."
    ),
    Told(_R.UPGRADE_STUCK, _CHECK, _W, "An upgrade takes too long, and holds nothing back any more."),
    Told(_R.STORM_STARTED, _CHECK, _W, "Too many nodes failed at once. Nothing new is begun until it is calm again."),
    Told(_R.STORM_COOLDOWN, _CHECK, _W, "Enough nodes are healthy again. That must stay so for a while."),
    Told(_R.STORM_ENDED, _CHECK, _N, "The storm is over."),
    Told(_R.DETECTED_UNHEALTHY, _CHECK, _N, "A node has had an unhealthy condition for long enough."),
    Told(_R.INVALID_NODE_LABEL, _CHECK, _W, "A node has the label that excludes it, without a value. It is ignored."),
    Told(_R.REMEDIATION_CREATED, _CHECK, _N, "A remediation was created for a node."),
    Told(_R.REMEDIATION_REMOVED, _CHECK, _N, "A remediation of a node is gone."),
    Told(_R.REMEDIATION_FAILED, _CHECK, _W, "A remediation could not be created. It is tried again."),
    Told(_R.REMEDIATION_TIMED_OUT, _CHECK, _W, "A remediation has failed, or not brought the node back in time."),
    Told(
        _R.NO_TEMPLATE_LEFT,
        _CHECK,
        _W,
        "Every template was tried, and the node is still unhealthy. A person is needed.",
    ),
    Told(_R.DELETION_STUCK, _CHECK, _W, "A remediation that should be gone is held by a finalizer of its remediator."),
    Told(_R.REPLACEMENT_STUCK, _CHECK, _W, "A machine that is being replaced takes too long."),
    Told(_R.DEFAULT_CHECK_CREATED, _CHECK, _N, "The cluster had no check, so Defib made one."),
    Told(_R.INCIDENT_OPENED, _NODE, _N, "A remediation of this node has begun, and is written down in a NodeIncident."),
    Told(_R.INCIDENT_CLOSED, _NODE, _N, "It is over. The message says how it ended and how long it took."),
    Told(_R.NEEDS_PERSON, _NODE, _W, "Nothing more happens by itself. The message says why."),
    Told(_R.POWERING_OFF, _INCIDENT, _N, "The machine is about to be switched off."),
    Told(_R.MACHINE_IS_DOWN, _INCIDENT, _N, "It is proved that the machine is down. Its workloads are freed."),
    Told(_R.POWERING_ON, _INCIDENT, _N, "The machine is about to be switched on."),
    Told(_R.ATTEMPT_FAILED, _INCIDENT, _W, "An attempt has failed, and another one is left."),
    Told(_R.CANCELLED, _INCIDENT, _N, "The power cycle is not wanted any more. What was begun is undone."),
    Told(
        _R.REPLACING_MACHINE, _INCIDENT, _W, "Every attempt has failed. The machine is handed to whoever replaces it."
    ),
    Told(_R.BARE_PODS_LOST, _INCIDENT, _W, "Pods without a controller were on the machine. Nobody makes them anew."),
    Told(_R.NEEDS_PERSON, _INCIDENT, _W, "Nothing more happens by itself. The message says why."),
    Told(_R.INCIDENT_CLOSED, _INCIDENT, _N, "The power cycle is over."),
    Told(_R.REMEDIATION_STARTED, _FAILOVER, _N, "Pods leave the failed node."),
    Told(_R.REMEDIATION_FINISHED, _FAILOVER, _N, "All pods that could leave have left."),
    Told(_R.REMEDIATION_TIMED_OUT, _FAILOVER, _W, "The check that made it has given it up."),
    Told(_R.NODE_NOT_FOUND, _FAILOVER, _W, "There is no such node."),
    Told(_R.NODE_READY, _FAILOVER, _N, "The node is ready, so nothing is to be moved."),
    Told(_R.DELETION_FAILED, _FAILOVER, _W, "A pod could not be deleted. It is tried again."),
    Told(_R.INVALID_SPEC, _FAILOVER, _W, "What it asks for makes no sense."),
    Told(
        _R.PROOF_NEEDED,
        _FAILOVER,
        _W,
        "Pods are left that must not run twice, and nobody proves that the node is down.",
    ),
    Told(_R.WAITING_FOR_PROOF, _FAILOVER, _W, "Such pods wait for a person's word: defib confirm-down NODE."),
    Told(_R.BRAKE, _FAILOVER, _W, "The brake is on, so no pod is moved."),
    Told(_R.SELF_DOUBT, _FAILOVER, _W, "Defib does not trust its own sight at the moment, so no pod is moved."),
    Told(_R.FAILOVER_HELD, _POLICY, _W, "A limit holds pods back. The message says which."),
    Told(_R.PODS_MOVING, _POLICY, _N, "Pods leave the failed node."),
    Told(_R.PODS_MOVED, _POLICY, _N, "All pods that could leave have left."),
    Told(_R.DELETION_FAILED, _POLICY, _W, "A pod could not be deleted. It is tried again."),
    Told(_R.WAITING_FOR_PROOF, _POLICY, _W, "Pods that must not run twice wait for a proof that the node is down."),
    Told(_R.DRAIN_STARTED, _DRAIN, _N, "Somebody drains the node, and the drain is looked after."),
    Told(_R.DRAIN_FORCING, _DRAIN, _N, "The drain does not end by itself, and the policy allows to help."),
    Told(_R.DRAIN_HELD, _DRAIN, _W, "The drain is not helped now. The message says why."),
    Told(_R.DRAIN_OBSERVED, _DRAIN, _N, "The drain would be helped, if its policy did more than observe."),
    Told(_R.DRAIN_WAITS_FOR_APPROVAL, _DRAIN, _W, "The drain is helped once a person approves: defib approve NODE."),
    Told(_R.DRAIN_PAUSED, _DRAIN, _N, "Nobody drains the node any more. If somebody soon does again, it goes on."),
    Told(_R.DRAIN_ENDED, _DRAIN, _N, "The node is drained."),
    Told(_R.DRAIN_FAILED, _DRAIN, _W, "The drain has not ended in its time."),
    Told(
        _R.UPGRADE_DELAYED,
        _DRAIN_POLICY,
        _W,
        "Disruption budgets delay an upgrade. Pods are deleted past them from now on.",
    ),
)
