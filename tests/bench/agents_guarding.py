"""A thousand agents on a real API server: what their renewals and lists cost it and etcd, beside the heartbeats of kubelets.

Each agent has a service account's token of its own, as the kubelet gives them, and the rights that agents have. The agents
are played by a few processes that make the real requests at the real pace.
"""

import asyncio
import os
import signal
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.http import connect
from defib.kube.kinds import unstructured
from defib.kube.transport import Request
from testbed.cluster import ControlPlane
from testbed.programs import Program
from tests.bench.agents import (
    AGENTS,
    AGENTS_WALK,
    KUBELETS_WALK,
    SECONDS,
    Burden,
    Guarding,
    Notes,
    Talk,
    talk_of,
    together,
    verdicts,
)
from tests.bench.agents_crowd import NAMESPACE
from tests.bench.processes import OUR_PYTHON, BenchFailed, running, say, stages_until
from tests.bench.usage import cpu_seconds_of
from tests.e2e.agent_fleet import RIGHTS

ACCOUNT = "defib-agent"
HEARTBEATS_NAMESPACE = "kube-node-lease"
HEARTBEAT_RIGHTS = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "update"]}]
CROWDS = 4  # processes, so that they have the CPU that agents have on nodes of their own
WARM_UP_SECONDS = 20.0
SETTLED_SECONDS = 30.0  # until the API server has done what it does after its start
TOKENS_AT_ONCE = 8
ENDS_WITHIN = 30.0
RBAC = ("rbac.authorization.k8s.io", "v1")
ACCOUNTS = unstructured("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
ROLES = unstructured(*RBAC, "roles", "Role", namespaced=True)
BINDINGS = unstructured(*RBAC, "rolebindings", "RoleBinding", namespaced=True)


async def guard(cluster: ControlPlane, agents: int, seconds: float) -> Guarding:
    load_before, _, _ = os.getloadavg()
    say(f"Making an account and {agents:,} tokens for agents")
    tokens = await _prepare(cluster, agents)
    programs = await asyncio.to_thread(_processes, cluster)
    await asyncio.sleep(SETTLED_SECONDS)  # a real process, which cannot be asked when its start is over
    before = _spent(programs)
    await asyncio.sleep(seconds)  # the cost over this time is what is measured
    rest = _since(before, _spent(programs))
    say(f"  at rest: {', '.join(f'{name} {100 * spent / seconds:.1f} %' for name, spent in rest.items())} of a core")
    say("Starting kubelets")
    kubelets, heartbeats, _ = await _spent_for(KUBELETS_WALK, cluster, tokens, programs, seconds)
    say(f"  answered: {heartbeats.renewals:,} heartbeats")
    say("Starting agents")
    agents_alone, talk, crowd_share = await _spent_for(AGENTS_WALK, cluster, tokens, programs, seconds)
    burden = Burden(seconds=seconds, rest=rest, kubelets=kubelets, agents=agents_alone)
    say(f"  for kubelets: {', '.join(f'{name} {100 * burden.for_kubelets(name):.1f} %' for name in rest)} more")
    say(f"  for agents: {', '.join(f'{name} {100 * burden.for_agents(name):.1f} %' for name in rest)} more")
    say(f"  answered: {talk.renewals:,} renewals and {talk.lists:,} lists")
    load_after, _, _ = os.getloadavg()
    return Guarding(
        agents=agents,
        judged=agents >= AGENTS and seconds >= SECONDS,
        load_before=load_before,
        load_after=load_after,
        burden=burden,
        heartbeats=heartbeats,
        talk=talk,
        crowd_share=crowd_share,
        verdicts=verdicts(agents, burden, talk),
    )


async def _prepare(cluster: ControlPlane, agents: int) -> list[str]:
    """The account with its rights, and a token for each agent."""
    clock = SystemClock()
    client = Client(await connect(cluster.kubeconfig, None, {}, clock), clock)
    try:
        await cluster.wait_for_namespace(NAMESPACE)
        named = {"metadata": {"name": ACCOUNT}}
        role = {"apiGroup": RBAC[0], "kind": "Role", "name": ACCOUNT}
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
        await client.create(ACCOUNTS, named, namespace=NAMESPACE)
        for namespace, rules in ((NAMESPACE, RIGHTS[:1]), (HEARTBEATS_NAMESPACE, HEARTBEAT_RIGHTS)):
            await cluster.wait_for_namespace(namespace)
            await client.create(ROLES, {**named, "rules": rules}, namespace=namespace)
            await client.create(BINDINGS, {**named, "roleRef": role, "subjects": [subject]}, namespace=namespace)
        return await _tokens(client, agents)
    finally:
        await client.close()


async def _tokens(client: Client, agents: int) -> list[str]:
    tokens: list[str] = []
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    body = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})

    async def fetch() -> None:
        while len(tokens) < agents:
            told: dict[str, Any] = msgspec.json.decode(await client.ask(Request(method="POST", path=path, body=body)))
            tokens.append(told["status"]["token"])

    async with asyncio.TaskGroup() as group:
        for _ in range(TOKENS_AT_ONCE):
            group.create_task(fetch())
    return tokens[:agents]


def _processes(cluster: ControlPlane) -> dict[str, int]:
    """The numbers of the API server and of etcd."""
    found: dict[str, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue  # it has ended
        name = head.partition("(")[2]
        if int(rest.split()[2]) == cluster.process_group and name in (Program.APISERVER, Program.ETCD):
            found[name] = int(stat.parent.name)
    if len(found) != len((Program.APISERVER, Program.ETCD)):
        raise BenchFailed("the processes of the control plane were not found")
    return dict(sorted(found.items(), reverse=True))


def _spent(programs: dict[str, int]) -> dict[str, float]:
    return {name: cpu_seconds_of(process) for name, process in programs.items()}


def _since(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: after[name] - before[name] for name in before}


async def _spent_for(
    who: str, cluster: ControlPlane, tokens: list[str], programs: dict[str, int], seconds: float
) -> tuple[dict[str, float], Talk, float]:
    """What both programs spent, what those who walk noted, and what playing them cost."""
    results = [cluster.directory / f"notes-{who}-{place}.json" for place in range(CROWDS)]
    async with AsyncExitStack() as stack:
        crowds = [
            await stack.enter_async_context(await _crowd(who, cluster, tokens, place, result))
            for place, result in enumerate(results)
        ]
        for crowd in crowds:
            await stages_until(crowd, "walking")
        await asyncio.sleep(WARM_UP_SECONDS)  # until the start is over on both sides
        measured = programs | {f"crowd {place}": crowd.pid for place, crowd in enumerate(crowds)}
        before = _signalled(crowds, signal.SIGUSR1, measured)
        await asyncio.sleep(seconds)  # what they cost in this time is what is measured
        spent = _since(before, _signalled(crowds, signal.SIGTERM, measured))
        for crowd in crowds:
            await _expect_end(crowd)
    notes = [msgspec.json.decode(await asyncio.to_thread(result.read_bytes), type=Notes) for result in results]
    playing = sum(one for name, one in spent.items() if name not in programs)
    return {name: spent[name] for name in programs}, talk_of(together(notes)), playing / seconds


async def _crowd(
    who: str, cluster: ControlPlane, tokens: list[str], place: int, result: Path
) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    ca, theirs = result.with_suffix(".crt"), result.with_suffix(".tokens")
    await asyncio.to_thread(ca.write_bytes, cluster.ca_pem)
    await asyncio.to_thread(theirs.write_bytes, msgspec.json.encode(dict(list(enumerate(tokens))[place::CROWDS])))
    named = {"who": who, "server": cluster.url, "ca": ca, "tokens": theirs, "agents": len(tokens), "result": result}
    return running(OUR_PYTHON, "tests.bench.agents_crowd", *(f"--{name}={value}" for name, value in named.items()))


def _signalled(
    crowds: list[asyncio.subprocess.Process], number: signal.Signals, measured: dict[str, int]
) -> dict[str, float]:
    for crowd in crowds:
        crowd.send_signal(number)
    return _spent(measured)


async def _expect_end(crowd: asyncio.subprocess.Process) -> None:
    try:
        code = await asyncio.wait_for(crowd.wait(), ENDS_WITHIN)
    except TimeoutError:
        raise BenchFailed("agents did not end") from None
    if code:
        raise BenchFailed("agents failed; their own words are above")
