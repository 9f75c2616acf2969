"""For each alert a history of series in which it must fire, when it must not fire yet, and what it says then.

The series are written as promtool has them: `1x60` is a value that stays for sixty more steps, `0+1x60` one that grows.
Time begins at 0, so a moment in Unix time is seconds from the beginning.
"""

import msgspec

Labels = dict[str, str]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    alert: str
    series: dict[str, str]
    quiet_at: tuple[str, ...]
    fires_at: str
    labels: Labels = {}
    summary: str = ""
    step: str = "1m"


CASES = (
    Case(
        alert="DefibNodeCannotBeFenced",
        series={'defib_fence_ready{node="n1",pod="a"}': "1x5 0x60", 'defib_fence_ready{node="n2",pod="a"}': "1x65"},
        quiet_at=("5m", "20m"),
        fires_at="22m",
        labels={"node": "n1"},
        summary="Node n1 could not be fenced if it failed now.",
    ),
    Case(
        alert="DefibFencesNotTried",
        series={'defib_fence_checked_seconds{pod="a"}': "600x400", 'defib_fence_checked_seconds{pod="b"}': "0x400"},
        quiet_at=("1h", "25h"),
        fires_at="26h",
        step="5m",
    ),
    Case(
        alert="DefibIncidentNeedsPerson",
        series={f'defib_incidents{{phase="NeedsPerson",pod="{pod}"}}': "0x2 2x30" for pod in ("a", "b")},
        quiet_at=("2m",),
        fires_at="5m",
        summary="2 node(s) could not be recovered; a person has to decide what is done.",
    ),
    Case(
        alert="DefibIncidentOpenForLong",
        series={'defib_incident_open_since_seconds{pod="a"}': "0x5 300x100"},
        quiet_at=("6m", "1h"),
        fires_at="1h7m",
    ),
    Case(
        alert="DefibPowerCallsHang",
        series={'defib_power_calls_left_behind{pod="a"}': "16x10 17x60"},
        quiet_at=("10m", "24m"),
        fires_at="27m",
        summary="17 calls to BMCs hang, and nobody waits for them any more.",
    ),
    Case(
        alert="DefibPodsWaitForProof",
        series={f'defib_pods_waiting_for_proof{{pod="{pod}"}}': "0x2 3x30" for pod in ("a", "b")},
        quiet_at=("2m", "7m"),
        fires_at="8m",
        summary="3 pod(s) of failed nodes wait for a proof that their node is down.",
    ),
    Case(
        alert="DefibFailoverHeldByBudget",
        series={
            'defib_failover_held_nodes{reason="Budget",pod="a"}': "4x30",
            'defib_failover_held_nodes{reason="Other",pod="a"}': "9x30",
        },
        quiet_at=("4m",),
        fires_at="6m",
        summary="4 failed node(s) have pods that could run elsewhere, and it is not their turn.",
    ),
    Case(
        alert="DefibDrainFailed",
        series={'defib_drain_failed{node="n1",pod="a"}': "_x5 1x30"},
        quiet_at=("5m",),
        fires_at="8m",
        labels={"node": "n1"},
        summary="The drain of node n1 has taken longer than it may, and pods are still there.",
    ),
    Case(
        alert="DefibDrainHeld",
        series={'defib_drains{phase="Held",pod="a"}': "2x60", 'defib_drains{phase="Draining",pod="a"}': "7x60"},
        quiet_at=("14m",),
        fires_at="16m",
        summary="2 drain(s) have pods that should be made to leave, and something holds Defib back.",
    ),
    Case(
        alert="DefibDrainWaitsForApproval",
        series={'defib_drains{phase="WaitingForApproval",pod="a"}': "1x60"},
        quiet_at=("4m",),
        fires_at="6m",
        summary="1 drain(s) wait for a person to approve what Defib would do.",
    ),
    Case(
        alert="DefibIsGone",
        series={'defib_build_info{version="1",pod="a"}': "1x10 _x60"},
        quiet_at=("10m", "17m"),
        fires_at="22m",
    ),
    Case(
        alert="DefibNobodyLeads",
        series={f'defib_leading{{pod="{pod}"}}': "1x3 0x30" if pod == "a" else "0x33" for pod in ("a", "b")},
        quiet_at=("3m", "5m"),
        fires_at="7m",
    ),
    Case(
        alert="DefibTwoLead",
        series={'defib_leading{pod="a"}': "1x30", 'defib_leading{pod="b"}': "0x3 1x30"},
        quiet_at=("3m", "5m"),
        fires_at="7m",
        summary="2 replicas of Defib say that they lead.",
    ),
    Case(
        alert="DefibHasNoStandby",
        series={'defib_leading{pod="a"}': "1x60", 'defib_leading{pod="b"}': "0x10 stale"},
        quiet_at=("10m", "25m"),
        fires_at="27m",
    ),
    Case(
        alert="DefibReplicaDoesNotSeeLeader",
        series={'defib_leader_known{pod="a"}': "1x30", 'defib_leader_known{pod="b"}': "0x30"},
        quiet_at=("1m",),
        fires_at="3m",
        labels={"pod": "b"},
    ),
    Case(
        alert="DefibLeadershipFlaps",
        series={f'defib_leadership_changes_total{{pod="{pod}"}}': "0x5 0+1x10" for pod in ("a", "b")},
        quiet_at=("5m",),
        fires_at="15m",
    ),
    Case(
        alert="DefibBucketUnowned",
        series={'defib_buckets_unowned{pod="a"}': "0x3 4x30", 'defib_buckets_unowned{pod="b"}': "9x33"},
        quiet_at=("3m",),
        fires_at="6m",
        summary="4 bucket(s) of nodes are looked after by no replica of Defib.",
    ),
    Case(
        alert="DefibIsBlind",
        series={
            'defib_watch_blind_since_seconds{kind="nodes",pod="a"}': "0x5 300x30",
            'defib_watch_blind_since_seconds{kind="nodes",pod="b"}': "0x40",
        },
        quiet_at=("5m", "7m"),
        fires_at="10m",
        labels={"kind": "nodes", "pod": "a"},
        summary="Defib has not seen nodes for two minutes, so it begins nothing.",
    ),
    Case(
        alert="DefibMakesNoPasses",
        series={'defib_passes_total{pod="a"}': "0+3x30 90x60", 'defib_passes_total{pod="b"}': "0+1x90"},
        quiet_at=("30m", "44m"),
        fires_at="52m",
        labels={"pod": "a"},
    ),
    Case(
        alert="DefibApiServerRefuses",
        series={
            'defib_api_requests_total{verb="GET",code="503",pod="a"}': "0+12x60",
            'defib_api_requests_total{verb="GET",code="403",pod="a"}': "0+120x60",
        },
        quiet_at=("14m",),
        fires_at="20m",
    ),
    Case(
        alert="DefibObjectsUnreadable",
        series={'defib_set_aside_objects{kind="nodes",pod="a"}': "2x60"},
        quiet_at=("14m",),
        fires_at="16m",
        labels={"kind": "nodes"},
        summary="2 object(s) of nodes cannot be read and are left alone.",
    ),
    Case(
        alert="DefibRemediationHeldBack",
        series={
            'defib_check_nodes{check="held",state="unhealthy",pod="a"}': "2x60",
            'defib_check_nodes{check="well",state="unhealthy",pod="a"}': "0x60",
            'defib_check_nodes{check="open",state="unhealthy",pod="a"}': "5x60",
            'defib_gate_closed{check="held",gate="Storm",pod="a"}': "1x60",
            'defib_gate_closed{check="well",gate="Storm",pod="a"}': "1x60",
        },
        quiet_at=("14m",),
        fires_at="16m",
        labels={"check": "held"},
        summary="NodeHealthCheck held has unhealthy nodes, and something holds remediation back.",
    ),
    Case(
        alert="DefibNodeWaitsForApproval",
        series={
            'defib_nodes_held{check="asks",gate="Approval",pod="a"}': "2x10 _x10",
            'defib_nodes_held{check="busy",gate="RateLimit",pod="a"}': "9x60",
        },
        quiet_at=("4m", "16m"),
        fires_at="6m",
        labels={"check": "asks"},
        summary="2 unhealthy node(s) of NodeHealthCheck asks wait for a person to approve remediation.",
    ),
    Case(
        alert="DefibActionsFail",
        series={
            'defib_actions_failed_total{action="SwitchPower",pod="a"}': "0+1x60",
            'defib_actions_failed_total{action="MovePod",pod="a"}': "3x60",
        },
        quiet_at=("2m",),
        fires_at="12m",
        labels={"action": "SwitchPower", "pod": "a"},
        summary="What Defib does keeps failing: SwitchPower.",
    ),
    Case(
        alert="DefibRemediationTakesLong",
        series={
            'nodehealthcheck_ongoing_remediation{name="n1",namespace="x",remediation="Foo",pod="a"}': "1x120",
            'nodehealthcheck_ongoing_remediation{name="n2",namespace="x",remediation="Foo",pod="a"}': "1x50 0x70",
        },
        quiet_at=("59m",),
        fires_at="62m",
        labels={"name": "n1", "remediation": "Foo"},
        summary="Node n1 has been remediated by Foo for an hour.",
    ),
    Case(
        alert="DefibRemediationOld",
        series={'nodehealthcheck_old_remediation_cr{name="n1",namespace="",pod="a"}': "_x5 1x200"},
        quiet_at=("5m", "2h30m"),
        fires_at="8m",
        labels={"name": "n1", "pod": "a"},
        summary="A remediation of node n1 has been there for two days.",
    ),
    Case(
        alert="DefibCannotTell",
        series={
            'defib_deliveries_total{to="webhook",result="failed",pod="a"}': "0x5 1x60",
            'defib_deliveries_total{to="traces",result="sent",pod="a"}': "0+9x65",
        },
        quiet_at=("5m", "30m"),
        fires_at="10m",
        labels={"to": "webhook"},
        summary="What Defib tells to webhook does not arrive.",
    ),
    Case(
        alert="DefibCannotTell",
        series={
            'defib_deliveries_waiting{to="webhook",pod="a"}': "1 3x60",
            'defib_deliveries_waiting{to="traces",pod="a"}': "1x10 0 1x60",
        },
        quiet_at=(),
        fires_at="17m",
        labels={"to": "webhook"},
        summary="What Defib tells to webhook does not arrive.",
    ),
)

# Three hours in which all is well, and much happens.
CALM = {
    'defib_build_info{version="1",pod="a"}': "1x180",
    'defib_build_info{version="1",pod="b"}': "1x180",
    'defib_leading{pod="a"}': "1x90 0x90",
    'defib_leading{pod="b"}': "0x90 1x90",
    'defib_leader_known{pod="a"}': "1x180",
    'defib_leader_known{pod="b"}': "1x180",
    'defib_leadership_changes_total{pod="a"}': "1x180",
    'defib_leadership_changes_total{pod="b"}': "0x90 1x90",
    'defib_buckets_unowned{pod="a"}': "0x180",
    'defib_passes_total{pod="a"}': "0+2x180",
    'defib_passes_total{pod="b"}': "0+1x180",
    'defib_watch_blind_since_seconds{kind="nodes",pod="a"}': "0x60 3600x1 0x118",
    'defib_set_aside_objects{kind="nodes",pod="a"}': "0x180",
    'defib_api_requests_total{verb="GET",code="200",pod="a"}': "0+600x180",
    'defib_api_requests_total{verb="GET",code="404",pod="a"}': "0+60x180",
    'defib_api_requests_total{verb="WATCH",code="none",pod="a"}': "0+1x180",
    'defib_check_nodes{check="workers",state="unhealthy",pod="a"}': "0x60 1x5 0x114",
    'defib_actions_failed_total{action="MovePod",pod="a"}': "0x60 2x120",
    'defib_fence_ready{node="n1",pod="a"}': "1x60 0x10 1x110",
    'defib_fence_checked_seconds{pod="a"}': "0+60x180",
    'defib_incidents{phase="NeedsPerson",pod="a"}': "0x180",
    'defib_incident_open_since_seconds{pod="a"}': "0x60 3600x10 0x110",
    'defib_pods_waiting_for_proof{pod="a"}': "0x60 5x4 0x116",
    'defib_drains{phase="Held",pod="a"}': "0x60 1x10 0x110",
    'nodehealthcheck_ongoing_remediation{name="n1",namespace="x",remediation="Foo",pod="a"}': "_x60 1x10 0x110",
    'defib_deliveries_total{to="webhook",result="sent",pod="a"}': "0+1x180",
    'defib_deliveries_total{to="webhook",result="failed",pod="a"}': "0x180",
    'defib_deliveries_waiting{to="webhook",pod="a"}': "0x60 50x10 0x110",
}
