"""The rows that have a control plane of their own."""

from testbed.scenario.profiles import TUNED
from tests.bench_failover.modes import MODES


def test_tuned_flags_are_those_of_a_control_plane_in_a_hurry() -> None:
    (mode,) = (mode for mode in MODES.values() if mode.flags is not None)
    assert (mode.name, mode.flags) == ("tuned flags", TUNED)
    settings = TUNED.settings(unmount_flag=False)
    assert "--node-monitor-grace-period=20000ms" in settings.controller_manager
    assert "--node-monitor-period=2000ms" in settings.controller_manager
    assert "--default-unreachable-toleration-seconds=30" in settings.apiserver
