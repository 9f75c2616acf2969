"""Tells a story on a stage: makes what its header declares, then goes through its lines, and keeps a log book of it all."""

import asyncio
from contextlib import suppress
from functools import partial

import msgspec

from defib.kube.errors import AlreadyExists, KubeError
from defib.model.failover_policy import read_policy_status
from defib.model.node import Node
from testbed.scenario.conditions import Always, Never, Now, Within
from testbed.scenario.errors import StoryFailed
from testbed.scenario.failover_sight import policy_texts, policy_words
from testbed.scenario.judge import holds
from testbed.scenario.log_book import Entry
from testbed.scenario.manifests import NAMESPACES, manifests, pods_wanted
from testbed.scenario.perform import perform
from testbed.scenario.perform_remediation import install
from testbed.scenario.remediation_manifests import DEFIB_NAMESPACES, definitions, remediation_manifests, secret_manifest
from testbed.scenario.remediation_sight import check_texts, check_words, incident_words, remedy_words
from testbed.scenario.sight import Sight, attachment_words, is_ready, node_words, pod_words
from testbed.scenario.stage import Scene, Stage
from testbed.scenario.story import Phrase, Step, Story
from testbed.scenario.telling import CannotDo, Telling

CREATE_SECONDS = 10.0


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """How a story went. `failure` is empty when it ended as it says."""

    story: Story
    stage: str
    entries: tuple[Entry, ...]
    failure: str = ""
    ending: tuple[str, ...] = ()

    def transcript(self) -> str:
        head = f"{self.story.path} on {self.stage}, {self.story.timers.value} timers\n{self.story.title}\n"
        lines = [head, *(str(entry) for entry in self.entries)]
        if self.failure:
            lines += ["", f"FAILED {self.failure}", "", "As it was then:", *(f"  {line}" for line in self.ending)]
        return "\n".join(lines)


async def expect_story(story: Story, stage: Stage) -> Told:
    """Raises StoryFailed with the transcript when the story does not end as it says."""
    told = await tell(story, stage)
    if told.failure:
        raise StoryFailed(told.transcript())
    return told


async def tell(story: Story, stage: Stage) -> Told:
    async with stage.open(story) as scene:
        telling = Telling(story, scene)
        failure = await _prepare(story, scene) or await _go_through(telling)
        return Told(
            story=story,
            stage=stage.name,
            entries=scene.sight.book.entries,
            failure=failure,
            ending=tuple(_ending(telling)),
        )


async def _prepare(story: Story, scene: Scene) -> str:
    """Time is zero when everything that the story declares runs. Says what did not."""
    sight, seconds = scene.sight, scene.profile.start_seconds
    if not await sight.until(lambda: all(_is_usable(sight.node(name)) for name in story.node_names), seconds):
        return "before the first line: not all nodes became ready"
    for made in manifests(story, scene.profile.toleration_seconds):
        await scene.client.create(made.kind, made.body, namespace=sight.namespace, deadline=CREATE_SECONDS)
    if scene.replica:
        await _prepare_remediation(story, scene)
        await scene.replica.start()
    wanted = {workload.name: pods_wanted(workload, len(story.node_names)) for workload in story.workloads}

    def runs() -> bool:
        return all(sum(map(is_ready, sight.pods(name))) == count for name, count in wanted.items())

    if not await sight.until(runs, seconds):
        return f"before the first line: not all pods ran within {seconds:g} s"
    if not await sight.until(lambda: all(_is_looked_after(sight, check.name) for check in story.checks), seconds):
        return f"before the first line: Defib did not look at all checks within {seconds:g} s"
    if not await sight.until(lambda: all(_is_read(sight, policy.name) for policy in story.policies), seconds):
        return f"before the first line: Defib did not look at all policies within {seconds:g} s"
    sight.book.start()
    sight.book.note("story", "begins: everything that it declares runs")
    return ""


async def _prepare_remediation(story: Story, scene: Scene) -> None:
    await install(scene.client, definitions(openshift=story.is_openshift))
    scene.sight.remediation.follow_all()
    for namespace in DEFIB_NAMESPACES:
        with suppress(AlreadyExists):  # from an earlier story
            await scene.client.create(NAMESPACES, {"metadata": {"name": namespace}}, deadline=CREATE_SECONDS)
    secrets = (secret_manifest(node.machine.bmc) for node in scene.nodes.values())
    for made in (*secrets, *remediation_manifests(story)):
        namespace = scene.sight.namespace if made.kind.namespaced else ""
        await scene.client.create(made.kind, made.body, namespace=namespace, deadline=CREATE_SECONDS)


def _is_looked_after(sight: Sight, check: str) -> bool:
    known = sight.remediation.check(check)
    return known is not None and bool((known.status or {}).get("phase"))


def _is_read(sight: Sight, policy: str) -> bool:
    known = sight.remediation.policy(policy)
    return known is not None and read_policy_status(known).condition("Valid") is not None


def _is_usable(node: Node | None) -> bool:
    return node is not None and node.ready == "True" and not node.spec.taints


async def _go_through(telling: Telling) -> str:
    """The line that failed, and why; empty when none did."""
    book = telling.sight.book
    for step in telling.story.steps:
        if step.at is not None and step.at > book.seconds:
            await asyncio.sleep(step.at - book.seconds)
        try:
            why = await _take(step, telling)
        except (CannotDo, KubeError) as error:
            why = str(error)
        if why:
            return f"{telling.story.path}:{step.line}: {step.text}: {why}"
    book.note("story", "ends as it says")
    return ""


async def _take(step: Step, telling: Telling) -> str:
    """Why this line does not hold; empty when it does."""
    book = telling.sight.book
    match step.does:
        case Within(condition=condition, seconds=seconds):
            why = await _expect(telling, condition, seconds)
        case Now(condition=condition):
            why = "" if holds(condition, telling) else "it is not so"
        case Never(condition=condition, seconds=seconds):
            why = await _expect_never(telling, condition, seconds)
        case Always(condition=condition, seconds=seconds):
            why = await _expect_always(telling, condition, seconds)
        case deed:
            book.note("deed", step.text)
            node = await perform(deed, telling)
            if node and node not in step.text.split():
                book.note("deed", f"  which is {node}")
            return ""
    book.note("expected", f"{step.text}: {why or 'so it was'}")
    return why


async def _expect(telling: Telling, condition: Phrase, seconds: float) -> str:
    seen = await telling.sight.until(partial(holds, condition, telling), seconds)
    return "" if seen else f"not seen within {seconds:g} s"


async def _expect_never(telling: Telling, condition: Phrase, seconds: float) -> str:
    began = telling.sight.book.seconds
    seen = await telling.sight.until(partial(holds, condition, telling), seconds)
    return f"seen after {telling.sight.book.seconds - began:.1f} s" if seen else ""


async def _expect_always(telling: Telling, condition: Phrase, seconds: float) -> str:
    began = telling.sight.book.seconds
    broken = await telling.sight.until(lambda: not holds(condition, telling), seconds)
    return f"no longer so after {telling.sight.book.seconds - began:.1f} s" if broken else ""


def _ending(telling: Telling) -> list[str]:
    sight = telling.sight
    nodes = [f"node {name}: {node_words(node)}" for name in telling.story.node_names if (node := sight.node(name))]
    pods = [f"pod {pod.name}: {pod_words(pod)}" for pod in sight.pods()]
    volumes = [
        f"volume of {pod.name}: {attachment_words(one)}" for pod in sight.pods() for one in sight.attachments(pod.name)
    ]
    disks = [line for disk in sight.disks for line in disk.verdict().story.splitlines()]
    return [*nodes, *pods, *volumes, *disks, *_ending_of_checks(telling)]


def _ending_of_checks(telling: Telling) -> list[str]:
    sight = telling.remediation
    lines = []
    for check in sight.checks():
        lines.append(f"check {check.name}: {check_words(check)}")
        lines += [f"  it says: {text}" for text in check_texts(check) if text]
    for policy in sight.policies():
        lines.append(f"policy {policy.name}: {policy_words(policy)}")
        lines += [f"  it says: {text}" for text in policy_texts(read_policy_status(policy)) if text]
    lines += [f"remediation of {remedy.node}: {remedy_words(remedy)}" for remedy in sight.remedies()]
    return lines + [f"incident {incident.name}: {incident_words(incident)}" for incident in sight.incidents()]
