"""What the telling of a story knows at one moment: its scene, and what happened in it so far."""

from defib.hollow.node import HollowNode
from defib.hollow.objects import Pod
from testbed.scenario.conditions import EvictionOutcome
from testbed.scenario.replica import Replica
from testbed.scenario.stage import Scene
from testbed.scenario.story import NamedNode, NodeOf, PodName, Story, ThatNode, Where


class CannotDo(Exception):
    """A deed that is impossible now: its pod is gone, or is on no node."""


class Telling:
    def __init__(self, story: Story, scene: Scene) -> None:
        self.story = story
        self.scene = scene
        self.sight = scene.sight
        self.remediation = scene.sight.remediation
        self.client = scene.client
        self.that_node = ""
        self.eviction: EvictionOutcome | None = None

    @property
    def replica(self) -> Replica:
        assert self.scene.replica, "check.py sees to it that whoever needs an operator has one"
        return self.scene.replica

    def find(self, where: Where) -> str:
        """The name of a node; empty when the pod that it is the node of is not on any."""
        match where:
            case NamedNode(name):
                return name
            case NodeOf(pod):
                found = self.sight.pod(pod)
                return found.spec.node_name if found else ""
            case ThatNode():
                return self.that_node

    def name_of(self, where: Where) -> str:
        found = self.find(where)
        if not found:
            raise CannotDo(f"there is no {where} now")
        return found

    def hollow(self, where: Where) -> HollowNode:
        return self.scene.nodes[self.name_of(where)]

    def pod(self, name: PodName) -> Pod:
        found = self.sight.pod(name)
        if found is None:
            raise CannotDo(f"there is no pod {name} now")
        return found
