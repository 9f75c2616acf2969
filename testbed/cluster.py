"""A real control plane on loopback for as long as its context lasts: etcd, API server, controller manager, scheduler.

    async with ControlPlane(control_plane_programs()) as cluster:
        await cluster.wait_for_namespace("default")
        ...                                         # cluster.url, cluster.ca_pem, cluster.kubeconfig

Nothing of it outlives the context or the Python process. Its directory goes at a clean end and stays after a failure.
"""

import asyncio
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from testbed.component import Component
from testbed.credentials import ADMIN, RESTRICTED, Credentials
from testbed.leash import Leash
from testbed.programs import Program, Programs
from testbed.settings import ETCD_DATA, Settings, arguments

READY_WITHIN = 60.0
_LOOK_EVERY = 0.05
_ASK_WITHIN = aiohttp.ClientTimeout(total=5)


class ControlPlaneFailed(Exception):
    """A component died, or was not ready in time. Says which, with the end of its log."""


class ControlPlane:
    """`directory`, when named, must be empty or absent; without one a temporary one is made."""

    def __init__(self, programs: Programs, settings: Settings | None = None, *, directory: Path | None = None) -> None:
        self._programs = programs
        self._settings = settings or Settings()
        missing = set(self._settings.components) - set(programs)
        assert not missing, f"these settings need {', '.join(missing)} too: were the programs asked for as api_only?"
        self._wished_directory = directory
        self._keep = False
        self._components: dict[Program, Component] = {}

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._prepare)
        try:
            self._tls = await asyncio.to_thread(self._credentials.admin_tls)
            await self._start()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ctrl-C and cancellation are a wish to end, not a failure that somebody will want to read about.
        if error is not None and not isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
            self.keep()
        try:
            if error is None:
                await self.fail_if_dead()
        except ControlPlaneFailed:
            self.keep()
            raise
        finally:
            await self._end()

    def keep(self) -> None:
        """The directory stays after the end: a test that shares this cluster has failed, and its logs are wanted."""
        self._keep = True

    def _prepare(self) -> None:
        self.directory = _empty_directory(self._wished_directory)
        self._port = _reserve_port()
        self._credentials = Credentials(self.directory, self.url, self._settings.token_users)
        self._leash = Leash()
        for program in self._settings.components:
            command = (str(self._programs[program]), *arguments(program, self._settings, self.port))
            self._components[program] = Component(program, command, self.directory, self._leash)

    async def _start(self) -> None:
        await self._components[Program.ETCD].start()
        await self.start_apiserver()
        # Only now: they give up when nobody answers.
        for program in self._settings.components[2:]:
            await self._components[program].start()

    async def _end(self) -> None:
        try:
            for component in self._components.values():
                component.resume()  # each needs the one below it for an orderly end
            for component in reversed(self._components.values()):
                await component.stop()
        finally:
            await asyncio.to_thread(self._clear_away)

    def _clear_away(self) -> None:
        self._leash.close()
        for component in self._components.values():
            component.reap()
        self._port.close()
        if self._keep:
            print(f"testbed: the control plane's logs are kept in {self.directory}", file=sys.stderr, flush=True)
        else:
            shutil.rmtree(self.directory)

    @property
    def port(self) -> int:
        port: int = self._port.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_pem(self) -> bytes:
        return self._credentials.ca_pem

    @property
    def kubectl(self) -> Path:
        return self._programs[Program.KUBECTL]

    @property
    def kubeconfig(self) -> Path:
        """May do everything: a client certificate in the group system:masters."""
        return self._credentials.path_of(ADMIN)

    @property
    def restricted_kubeconfig(self) -> Path:
        """A client certificate of a user without any role."""
        return self._credentials.path_of(RESTRICTED)

    def token_kubeconfig(self, user: str) -> Path:
        """For one of the settings' token users."""
        assert user in {known.name for known in self._settings.token_users}, (
            f"{user} is not among the settings' token users"
        )
        return self._credentials.path_of(user)

    async def kubeconfig_for(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A client certificate, made now, for any user and groups."""
        return await asyncio.to_thread(self._credentials.kubeconfig_for, user, groups)

    @property
    def process_group(self) -> int:
        """Holds every process of this control plane, and no other."""
        return self._leash.group

    async def kill_apiserver(self) -> None:
        await self._components[Program.APISERVER].kill()

    async def stop_apiserver(self) -> None:
        await self._components[Program.APISERVER].stop()

    async def start_apiserver(self) -> None:
        """On the same port and the same data; ready when this returns."""
        await self._components[Program.APISERVER].start()
        await self._until_found("/readyz?verbose")

    async def kill(self, program: Program) -> None:
        await self._components[program].kill()

    async def start(self, program: Program) -> None:
        """What was killed, on the same data. For the API server see `start_apiserver`, which waits until it is ready."""
        await self._components[program].start()

    async def start_controllers_again(self) -> list[Program]:
        """Those that have ended by themselves, as a kubelet would; which these were."""
        dead = [self._components[name] for name in self._settings.components[2:] if self._components[name].died]
        for component in dead:
            component.reap()
            await component.start()
        return [component.program for component in dead]

    async def back_up(self, name: str) -> None:
        """The data of etcd as it is now, beside it. Whatever etcd had not written yet is not in it, as after a crash."""
        self.pause(Program.ETCD)
        try:
            await asyncio.to_thread(shutil.copytree, self._data, self.directory / name)
        finally:
            self.resume(Program.ETCD)

    async def restore(self, name: str) -> None:
        """Everything is as it was when this was made, also the versions of objects: the worst way to restore.

        Controllers are started anew, as Kubernetes asks for; kubelets and operators are not ours to start.
        """
        for component in reversed(self._components.values()):
            component.resume()
            await component.kill()
        await asyncio.to_thread(shutil.rmtree, self._data)
        await asyncio.to_thread(shutil.copytree, self.directory / name, self._data)
        await self._start()

    @property
    def _data(self) -> Path:
        return self.directory / ETCD_DATA

    def pause(self, program: Program) -> None:
        """It holds its connections and answers nothing: what a hung machine looks like from outside."""
        self._components[program].pause()

    def resume(self, program: Program) -> None:
        self._components[program].resume()

    async def fail_if_dead(self) -> None:
        """Raises when a component ended that nobody told to."""
        dead = next((component for component in self._components.values() if component.died), None)
        if dead is not None:
            raise ControlPlaneFailed(f"{dead.program} died; the end of {dead.log}:\n{await dead.last_words()}")

    async def version(self) -> str:
        """Of Kubernetes, as the API server says it."""
        async with self._session() as session, session.get("/version", ssl=self._tls) as answer:
            said: dict[str, str] = await answer.json()
            return said["gitVersion"]

    async def wait_for_namespace(self, name: str, *, within: float = READY_WITHIN) -> None:
        """Until pods can be made in it: the namespace is there and, with controllers, its default service account."""
        path = f"/api/v1/namespaces/{name}"
        await self._until_found(path if self._settings.api_only else f"{path}/serviceaccounts/default", within=within)

    async def _until_found(self, path: str, *, within: float = READY_WITHIN) -> None:
        said = "nothing"
        try:
            async with asyncio.timeout(within), self._session() as session:
                while (said := await self._ask(session, path)) != "":
                    await self.fail_if_dead()
                    await asyncio.sleep(_LOOK_EVERY)
        except TimeoutError:
            raise ControlPlaneFailed(
                f"{path} was not there within {within:g} s; the API server last said: {said}"
            ) from None

    async def _ask(self, session: aiohttp.ClientSession, path: str) -> str:
        """Why it is not there yet; empty when it is."""
        try:
            async with session.get(path, ssl=self._tls) as answer:
                return "" if answer.status == 200 else f"HTTP {answer.status} {await answer.text()}"
        except (aiohttp.ClientError, TimeoutError) as error:
            return repr(error)

    def _session(self) -> aiohttp.ClientSession:
        # One for each question: a session belongs to the event loop it was made in, and the cluster to none.
        return aiohttp.ClientSession(self.url, timeout=_ASK_WITHIN)


def _empty_directory(wished: Path | None) -> Path:
    if wished is None:
        return Path(tempfile.mkdtemp(prefix="defib-cluster-"))
    wished.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(wished.iterdir()):
        raise ControlPlaneFailed(
            f"{wished} is not empty: a cluster runs or failed there; stop it, or remove the directory"
        )
    return wished.resolve()


def _reserve_port() -> socket.socket:
    """A free port that stays ours, also while the API server is down.

    Bound but not listening, it takes no connection; sharing lets the API server listen on it. Without this, another
    process could take the port before the start or during a restart, even a client's own attempt to reconnect.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved
