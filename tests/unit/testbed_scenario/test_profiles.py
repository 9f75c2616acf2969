"""One set of timers, as flags of a real control plane and as timers of a simulated one."""

from testbed.scenario.profiles import PROFILES
from testbed.scenario.story import Timers


def test_the_default_profile_is_what_kubernetes_does_anyway() -> None:
    profile = PROFILES[Timers.DEFAULT]
    assert str(profile) == "default timers: heartbeat 10 s, grace 50 s, toleration 300 s, unmount wait 360 s"
    assert profile.settings(unmount_flag=False).controller_manager == (
        "--node-monitor-grace-period=50000ms",
        "--node-monitor-period=5000ms",
        "--node-eviction-rate=0.1",
        "--attach-detach-reconcile-sync-period=60000ms",
    )
    assert profile.workloads().unmount_seconds == 360


def test_a_profile_is_the_same_on_both_kinds_of_control_plane() -> None:
    profile = PROFILES[Timers.COMPRESSED]
    settings = profile.settings(unmount_flag=True)
    assert settings.apiserver == (
        "--default-not-ready-toleration-seconds=10",
        "--default-unreachable-toleration-seconds=10",
    )
    assert settings.controller_manager[-2] == "--attach-detach-reconcile-sync-period=2000ms"
    assert settings.controller_manager[-1] == "--testbed-max-wait-for-unmount=12000ms"
    assert profile.workloads().toleration_seconds == 10
    assert profile.workloads().unmount_seconds == 12
    assert profile.workloads().verify_seconds == 2


def test_without_the_flag_the_unmount_wait_is_told_as_it_is() -> None:
    profile = PROFILES[Timers.COMPRESSED]
    assert profile.as_run(unmount_flag=True) is profile
    assert "unmount wait 360 s" in str(profile.as_run(unmount_flag=False))
