"""What a hollow container does that no polite one would."""

from tests.unit.hollow.day import HEARD_SECONDS, Day, live, pass_seconds

STUBBORN = {"ignores-sigterm": "true", "outlives-grace": "true"}


def test_a_pod_that_outlives_its_grace_ends_when_its_kubelet_is_told_to_kill_it() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1", annotations=STUBBORN)
        await pass_seconds(HEARD_SECONDS)
        await day.delete(pod, grace_seconds=5)
        await pass_seconds(300)
        assert day.nodes["n1"].containers() == {pod.uid: "stopping"}
        await day.delete(pod, grace_seconds=1)
        await pass_seconds(HEARD_SECONDS)
        assert await day.phase("web") == "gone"
        assert day.nodes["n1"].containers() == {}

    live(story)


def test_one_that_listens_to_the_signal_ends_whatever_its_kubelet_counts() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1", annotations={"outlives-grace": "true"})
        await pass_seconds(HEARD_SECONDS)
        await day.delete(pod)
        await pass_seconds(HEARD_SECONDS)
        assert await day.phase("web") == "gone"

    live(story)
