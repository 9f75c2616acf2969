"""Kinds that a command asks the cluster for, where it need not have them. What cannot be found out is noted, not guessed."""

from defib.kube.discovery import Discovery
from defib.kube.errors import KubeError, UnknownKind
from defib.kube.kinds import Kind
from defib.model.cluster import Missing
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured

LIST_SECONDS = 30.0
NOT_READ = "could not be read here, and the operator may see more"


async def find_kind(ref: KindRef, discovery: Discovery, unknown: list[str]) -> Kind[Unstructured] | Missing | KubeError:
    """`unknown` gets a sentence where nobody can tell whether there is one."""
    try:
        return await discovery.find(ref.group, ref.name, ref.version)
    except UnknownKind as error:
        return Missing(str(error))
    except KubeError as error:
        unknown.append(f"whether there is a kind {ref} could not be found out: {error}")
        return error
