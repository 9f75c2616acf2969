"""Who may ask for a power cycle, and who may say that a machine is off: deploy/ on a real API server (RM-36)."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.kube.client import Client, Deletion, Merge
from defib.kube.errors import Forbidden, Invalid, Refused
from defib.kube.http import connect
from defib.kube.kinds import NAMESPACES, NODE_INCIDENTS, Kind, unstructured
from defib.model.incident import NodeIncident
from defib.model.meta import Unstructured
from testbed.bmc.metal3 import metal3_definitions
from testbed.chart import render
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings, TokenUser
from tests.contract.api_server.steps import eventually, install, raw

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

PATIENCE_SECONDS = 20.0
TRIGGER = "host.metal3.io/external-remediation"
PLACE = "machines-here"
DEFIB = "system:serviceaccount:defib-system:defib"
OPENSHIFT = "system:serviceaccount:openshift-machine-api:machine-api-controllers"
ALICE = "alice"  # has the rights that deploy/ has for people
BOB = "bob"  # may change Machines and incidents as he likes, and has no right to remediate
CAROL = "carol"  # has no rights at all
NAMES = (ALICE, BOB, CAROL, DEFIB, OPENSHIFT)

MACHINES = (
    unstructured("machine.openshift.io", "v1beta1", "machines", "Machine", namespaced=True),
    unstructured("cluster.x-k8s.io", "v1beta1", "machines", "Machine", namespaced=True),
)
POWER_CYCLES = unstructured("defib.dev", "v1alpha1", "powercycleremediations", "PowerCycleRemediation", namespaced=True)
ROLES = unstructured("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
EVERYWHERE = unstructured(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
IN_ONE_PLACE = unstructured("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)
CHANGES_THINGS = {
    "metadata": {"name": "changes-things"},
    "rules": [
        {
            "apiGroups": ["machine.openshift.io", "cluster.x-k8s.io"],
            "resources": ["machines", "machines/status"],
            "verbs": ["get", "create", "update", "patch", "delete"],
        },
        {
            "apiGroups": ["defib.dev"],
            "resources": ["nodeincidents", "nodeincidents/status"],
            "verbs": ["get", "create", "update", "patch", "delete"],
        },
    ],
}

READ = ("get", "list", "watch")
VERBS = (*READ, "create", "update", "patch", "delete", "deletecollection", "remediate")
# What the feature metal3 of the chart adds for Defib, and what the other rules let it read already.
WITH_METAL3 = {
    "baremetalhosts.metal3.io": (*READ, "patch"),
    "baremetalhosts/status.metal3.io": (),
    "machines.machine.openshift.io": (*READ, "patch", "delete", "remediate"),
    "machines.cluster.x-k8s.io": (*READ, "patch", "delete", "remediate"),
    "machines/status.machine.openshift.io": (),
    "machinehealthchecks.machine.openshift.io": READ,
    "machinehealthchecks.cluster.x-k8s.io": READ,
    "machinehealthchecks/status.machine.openshift.io": ("patch",),
    "metal3machines.infrastructure.cluster.x-k8s.io": READ,
    "metal3remediations.infrastructure.cluster.x-k8s.io": (*READ, "create", "patch", "delete"),
    "metal3remediations/status.infrastructure.cluster.x-k8s.io": ("patch",),
    "metal3remediationtemplates.infrastructure.cluster.x-k8s.io": READ,
    "secrets": (),
}


class People(msgspec.Struct, frozen=True):
    """A client for each of those who try something."""

    admin: Client
    by_name: dict[str, Client]

    def __getitem__(self, name: str) -> Client:
        return self.by_name[name]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def people(programs: Programs, helm: Path) -> AsyncIterator[People]:
    settings = Settings(api_only=True, token_users=tuple(TokenUser(name) for name in NAMES))
    async with ControlPlane(programs, settings) as cluster, AsyncExitStack() as stack:
        admin = await a_client(cluster.kubeconfig, stack)
        for definition in metal3_definitions():
            await install(admin, definition)
        await apply(cluster, helm)
        clients = {name: await a_client(cluster.token_kubeconfig(name), stack) for name in NAMES}
        await give_rights(admin)
        people = People(admin, clients)
        await until_in_force(people)
        yield people


async def a_client(kubeconfig: Path, stack: AsyncExitStack) -> Client:
    clock = SystemClock()
    client = Client(await connect(kubeconfig, None, {}, clock), clock)
    stack.push_async_callback(client.close)
    return client


async def apply(cluster: ControlPlane, helm: Path) -> None:
    """As for a cluster on Metal3."""
    manifest = cluster.directory / "install.yaml"
    manifest.write_text(render(helm, {"features.metal3": True, "namespace.create": True}))
    process = await asyncio.create_subprocess_exec(
        cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", "apply", f"-f={manifest}", stdout=PIPE, stderr=STDOUT
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert "Warning" not in said.decode(), said.decode()


async def give_rights(admin: Client) -> None:
    await admin.create(NAMESPACES, {"metadata": {"name": PLACE}})
    await admin.create(ROLES, CHANGES_THINGS)
    for role, names in (("changes-things", (ALICE, BOB, OPENSHIFT)), ("defib-confirm-down", (ALICE,))):
        await admin.create(EVERYWHERE, binding(role, *names))
    await admin.create(IN_ONE_PLACE, binding("defib-remediate-machines", ALICE), namespace=PLACE)
    await admin.create(IN_ONE_PLACE, binding("defib-power-cycle", ALICE), namespace="defib-system")


def binding(role: str, *names: str) -> dict[str, Any]:
    subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name} for name in names]
    ref = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": role}
    return {"metadata": {"name": f"{role}-in-this-test"}, "roleRef": ref, "subjects": subjects}


async def until_in_force(people: People) -> None:
    """The API server learns of roles and policies by watches of its own, a moment after they are written."""

    async def allowed() -> bool:
        asked = [
            (ALICE, "remediate", "machines.cluster.x-k8s.io", PLACE),
            (BOB, "patch", "nodeincidents.defib.dev", ""),
        ]
        asked += [(ALICE, "create", "powercycleremediations.defib.dev", "defib-system")]
        asked += [(DEFIB, "remediate", "machines.cluster.x-k8s.io", ""), (DEFIB, "get", "secrets", "defib-system")]
        return all([await may(people[who], *what) for who, *what in asked])

    async def refused() -> bool:
        body = {"metadata": {"name": "first", "annotations": {TRIGGER: ""}}}
        incident = an_incident("first") | {"confirmedOff": {"by": "somebody", "at": moment()}}
        return await is_refused(people[BOB], MACHINES[0], body, PLACE) and await is_refused(
            people[BOB], NODE_INCIDENTS, {"metadata": {"name": "first"}, "spec": incident}
        )

    await eventually(allowed, within=PATIENCE_SECONDS)
    await eventually(refused, within=PATIENCE_SECONDS)


async def is_refused(client: Client, kind: Kind[Any], body: dict[str, Any], namespace: str = "") -> bool:
    whole = {"apiVersion": kind.api_version, "kind": kind.name, **body}
    try:
        await raw(client, "POST", kind.collection(namespace), whole, dryRun="All")
    except Refused:
        return True
    return False


async def may(client: Client, verb: str, what: str, namespace: str) -> bool:
    resource, _, group = what.partition(".")
    resource, _, subresource = resource.partition("/")
    asked = {"verb": verb, "resource": resource, "subresource": subresource, "group": group, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    review = await raw(client, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    allowed: bool = review["status"]["allowed"]
    return allowed


def moment(later_seconds: float = 0.0) -> str:
    return f"{SystemClock().now() + timedelta(seconds=later_seconds):%Y-%m-%dT%H:%M:%SZ}"


def an_incident(node: str) -> dict[str, Any]:
    cause = {"apiVersion": "defib.dev/v1alpha1", "kind": "PowerCycleRemediation", "namespace": "defib-system"}
    return {"node": node, "cause": cause | {"name": node, "uid": f"uid-of-{node}"}}


async def open_incident(people: People, node: str, phase: str = "NeedsPerson") -> NodeIncident:
    """As Defib does it."""
    body = {"metadata": {"name": node}, "spec": an_incident(node)}
    incident = await people[DEFIB].create(NODE_INCIDENTS, body)
    return await people[DEFIB].patch(
        NODE_INCIDENTS.of(incident), Merge({"status": {"phase": phase}}), subresource="status"
    )


def confirmed(by: str, at: str) -> Merge:
    return Merge({"spec": {"confirmedOff": {"by": by, "at": at}}})


def annotated(value: str | None) -> Merge:
    return Merge({"metadata": {"annotations": {TRIGGER: value}}})


@pytest.mark.parametrize("kind", MACHINES, ids=lambda kind: kind.group)
async def test_rm_36_who_may_only_change_a_machine_cannot_have_it_power_cycled(
    people: People, kind: Kind[Unstructured]
) -> None:
    machine = await people[BOB].create(kind, {"metadata": {"name": "m1"}, "spec": {}}, namespace=PLACE)
    with pytest.raises(Forbidden, match=f"bob may not set or remove {TRIGGER}: .*remediate on machines.{kind.group}"):
        await people[BOB].patch(kind.of(machine), annotated(""))
    body = {"metadata": {"name": "m2", "annotations": {TRIGGER: ""}}}
    with pytest.raises(Forbidden, match="bob may not"):
        await people[BOB].create(kind, body, namespace=PLACE)
    await people[BOB].patch(kind.of(machine), annotated(""), subresource="status")
    assert TRIGGER not in (await people.admin.get(kind.of(machine))).annotations
    await people[BOB].patch(kind.of(machine), Merge({"metadata": {"annotations": {"other": "fine"}}}))


@pytest.mark.parametrize("kind", MACHINES, ids=lambda kind: kind.group)
async def test_rm_36_the_right_to_remediate_sets_and_removes_the_trigger(
    people: People, kind: Kind[Unstructured]
) -> None:
    machine = await people[BOB].create(kind, {"metadata": {"name": "m3"}, "spec": {}}, namespace=PLACE)
    ref = kind.of(machine)
    assert TRIGGER in (await people[ALICE].patch(ref, annotated(""))).annotations
    with pytest.raises(Forbidden, match="bob may not"):
        await people[BOB].patch(ref, annotated(None))
    assert TRIGGER in (await people[BOB].patch(ref, Merge({"metadata": {"labels": {"other": "fine"}}}))).annotations
    assert TRIGGER not in (await people[ALICE].patch(ref, annotated(None))).annotations


@pytest.mark.parametrize("kind", MACHINES, ids=lambda kind: kind.group)
async def test_rm_36_a_right_in_one_namespace_counts_in_that_one_alone(
    people: People, kind: Kind[Unstructured]
) -> None:
    machine = await people[ALICE].create(kind, {"metadata": {"name": "m4"}, "spec": {}}, namespace="default")
    with pytest.raises(Forbidden, match="alice may not"):
        await people[ALICE].patch(kind.of(machine), annotated(""))


@pytest.mark.parametrize("kind", MACHINES, ids=lambda kind: kind.group)
async def test_rm_36_defib_and_openshifts_own_controllers_may_do_both(people: People, kind: Kind[Unstructured]) -> None:
    machine = await people.admin.create(kind, {"metadata": {"name": "m5"}, "spec": {}}, namespace=PLACE)
    for name in (DEFIB, OPENSHIFT):
        assert TRIGGER in (await people[name].patch(kind.of(machine), annotated(""))).annotations
        assert TRIGGER not in (await people[name].patch(kind.of(machine), annotated(None))).annotations


async def test_metal3_gives_defib_what_it_needs_there_and_exactly_that(people: People) -> None:
    wrong = []
    for what, wanted in WITH_METAL3.items():
        allowed = [verb for verb in VERBS if await may(people[DEFIB], verb, what, PLACE)]
        wrong += [f"{what}: {allowed}"] if set(allowed) != set(wanted) else []
    assert wrong == []


async def test_a_machine_is_confirmed_to_be_off_in_ones_own_name(people: People) -> None:
    incident = await open_incident(people, "n1")
    ref = NODE_INCIDENTS.of(incident)
    with pytest.raises(Forbidden, match=r"spec\.confirmedOff\.by must be alice"):
        await people[ALICE].patch(ref, confirmed(BOB, moment()))
    written = await people[ALICE].patch(ref, confirmed(ALICE, moment()))
    assert written.spec.confirmed_off is not None
    with pytest.raises(Forbidden, match=r"spec\.confirmedOff\.by must be bob"):
        await people[BOB].patch(ref, confirmed(ALICE, moment(-60)))
    again = await people[BOB].patch(ref, Merge({"metadata": {"labels": {"seen-by": BOB}}}))
    assert again.spec == written.spec, "what somebody else has said stays, whoever writes besides"
    taken_back = await people[BOB].patch(ref, Merge({"spec": {"confirmedOff": None}}))
    assert taken_back.spec.confirmed_off is None


async def test_nobody_confirms_what_is_yet_to_come(people: People) -> None:
    ref = NODE_INCIDENTS.of(await open_incident(people, "n2"))
    with pytest.raises(Invalid, match="yet to come"):
        await people[ALICE].patch(ref, confirmed(ALICE, moment(90)))
    assert (await people[ALICE].patch(ref, confirmed(ALICE, moment(30)))).spec.confirmed_off is not None


async def test_whoever_has_no_right_confirms_nothing_and_defib_itself_neither(people: People) -> None:
    ref = NODE_INCIDENTS.of(await open_incident(people, "n3"))
    for name in (CAROL, DEFIB):
        with pytest.raises(Forbidden):
            await people[name].patch(ref, confirmed(name, moment()))
    body = {"metadata": {"name": "n4"}, "spec": an_incident("n4") | {"confirmedOff": {"by": ALICE, "at": moment()}}}
    with pytest.raises(Forbidden, match="must be system:serviceaccount:defib-system:defib"):
        await people[DEFIB].create(NODE_INCIDENTS, body)


async def test_what_an_incident_is_about_stays(people: People) -> None:
    incident = await open_incident(people, "n5")
    for change in ({"node": "n6"}, {"cause": {"uid": "another"}}):
        with pytest.raises(Invalid, match="stay as they are"):
            await people[BOB].patch(NODE_INCIDENTS.of(incident), Merge({"spec": change}))


async def test_an_incident_is_not_removed_while_its_machine_may_be_off(people: People) -> None:
    incident = await open_incident(people, "n7", "FreeingWorkloads")
    with pytest.raises(Forbidden, match=r"FreeingWorkloads.*PowerCycleRemediation n7"):
        await people.admin.delete(NODE_INCIDENTS.of(incident), Deletion(uid=incident.uid))
    await people[DEFIB].patch(NODE_INCIDENTS.of(incident), Merge({"status": {"phase": "Closed"}}), subresource="status")
    await people[DEFIB].delete(NODE_INCIDENTS.of(incident), Deletion(uid=incident.uid))


async def test_a_power_cycle_is_asked_for_by_those_with_the_right_and_nobody_else(people: People) -> None:
    body = {"metadata": {"name": "n8"}, "spec": {"power": {"driver": "manual"}}}
    made = await people[ALICE].create(POWER_CYCLES, body, namespace="defib-system")
    with pytest.raises(Forbidden):
        await people[ALICE].create(POWER_CYCLES, body, namespace=PLACE)
    for name in (BOB, CAROL):
        with pytest.raises(Forbidden):
            await people[name].create(POWER_CYCLES, body, namespace="defib-system")
        with pytest.raises(Forbidden):
            await people[name].delete(POWER_CYCLES.of(made), Deletion(uid=made.uid))
    await people[ALICE].delete(POWER_CYCLES.of(made), Deletion(uid=made.uid))
