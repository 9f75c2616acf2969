"""The parts of kube-controller-manager that an operator leans on. Each reacts to changes in the store, at once and in order."""

from defib.simulate.controllers.disruption import DisruptionController
from defib.simulate.controllers.garbage import GarbageCollector
from defib.simulate.controllers.namespaces import NamespaceController
from defib.simulate.server import ApiServer


def attach(server: ApiServer) -> None:
    """Starts all of them on a server."""
    for controller in (GarbageCollector(server), NamespaceController(server), DisruptionController(server)):
        server.reactions.append(controller.react)
