"""What each trouble of a schedule is, on a real control plane. Each puts right what it broke before it is over."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import msgspec

from defib.hollow.disk import Disks
from testbed.cluster import ControlPlane
from testbed.programs import Program
from tests.chaos.books import Books
from tests.chaos.door import Door, Mood
from tests.chaos.replicas import Deployment, Life
from tests.chaos.schedule import Trouble
from tests.simulation.history import Happened

BACKUPS_MAX = 6  # until one can be restored
_LOOK_EVERY_SECONDS = 0.5
_STILL_SECONDS = 0.3  # what etcd has told by then was told before it stood still


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to be broken, and the books in which that is seen."""

    plane: ControlPlane
    disks: Disks
    books: Books
    replicas: Deployment
    door: Door


class Stage:
    def __init__(self, parts: Parts, random: Random) -> None:
        self.happened: list[Happened] = []
        self.done: Counter[str] = Counter()
        self.thaws: list[float] = []  # when the API server or etcd went on after it had stood still
        self.restores = 0
        self._plane = parts.plane
        self._disks = parts.disks
        self._books = parts.books
        self._replicas = parts.replicas
        self._door = parts.door
        self._random = random
        self._controllers = asyncio.Lock()  # whoever starts or ends them

    async def play(self, troubles: list[Trouble], until: float) -> None:
        """As long as there is time; but each that is drawn comes once, also on a machine that is slow today."""
        played: set[str] = set()
        for trouble in troubles:
            if self._books.now + trouble.after_seconds >= until and trouble.name in played:
                continue
            played.add(trouble.name)
            await asyncio.sleep(trouble.after_seconds)  # the schedule says so
            self.note(f"{trouble}")
            await TROUBLES[trouble.name](self, trouble.lasts_seconds)
            self.done[trouble.name] += 1

    def note(self, what: str) -> None:
        self.happened.append(Happened(self._books.now, what))

    # The control plane

    async def api_server_is_killed(self, seconds: float) -> None:
        await self._plane.kill_apiserver()
        await asyncio.sleep(seconds)  # that is the trouble
        await self._plane.start_apiserver()

    async def api_server_ends(self, seconds: float) -> None:
        await self._plane.stop_apiserver()
        await asyncio.sleep(seconds)  # that is the trouble
        await self._plane.start_apiserver()

    async def api_server_stands_still(self, seconds: float) -> None:
        await self._stands_still(Program.APISERVER, seconds)

    async def etcd_is_killed(self, seconds: float) -> None:
        await self._plane.kill(Program.ETCD)
        await asyncio.sleep(seconds)  # that is the trouble
        await self._plane.start(Program.ETCD)

    async def etcd_stands_still(self, seconds: float) -> None:
        await self._stands_still(Program.ETCD, seconds)

    async def _stands_still(self, program: Program, seconds: float) -> None:
        self._plane.pause(program)
        try:
            await asyncio.sleep(seconds)  # that is the trouble
        finally:
            self._plane.resume(program)
            self.thaws.append(self._books.now)

    async def etcd_is_restored(self, seconds: float) -> None:
        """To before a database moved, Kubernetes alone would start it twice, and prove nothing about us: then not."""
        for _ in range(BACKUPS_MAX):
            backup = f"backup-{len(self.thaws)}"
            writers = await self._back_up(backup)
            await asyncio.sleep(seconds)  # what happens now will not have happened
            if self._writers() == writers and await self._restore(backup, writers):
                self.note("restored")
                self.restores += 1
                return
            self.note("a database has moved since the backup, which is not restored")

    async def _back_up(self, backup: str) -> list[str]:
        self._plane.pause(Program.ETCD)
        await asyncio.sleep(_STILL_SECONDS)  # so that the books end where the backup does
        self._books.backed_up(backup)
        writers = self._writers()
        await self._plane.back_up(backup)
        self.thaws.append(self._books.now)
        return writers

    async def _restore(self, backup: str, writers: list[str]) -> bool:
        async with self._controllers:
            await self._plane.kill_apiserver()
            # So that the books end where etcd does, and kubelets do what they heard.
            await asyncio.sleep(_STILL_SECONDS)
            if self._writers() != writers:
                await self._plane.start_apiserver()
                return False
            self._books.restored(backup)
            await self._plane.restore(backup)
        await self._door.open_wide()
        return True

    async def keep_controllers(self) -> None:
        """For ever: a scheduler or controller manager that ends is started again."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)  # nobody tells when one ends
            async with self._controllers:
                for program in await self._plane.start_controllers_again():
                    self.note(f"{program} had ended by itself, and was started again")

    def _writers(self) -> list[str]:
        return sorted(f"{disk.handle} {writer}" for disk in self._disks for writer in disk.writers())

    # Replicas and their lines

    async def leader_is_killed(self, _: float) -> None:
        self._kill(await self._leader())

    async def replica_is_killed(self, _: float) -> None:
        self._kill(self._anybody())

    async def leader_stands_still(self, seconds: float) -> None:
        life = await self._leader()
        if life is None:
            return
        life.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)  # that is the trouble
        finally:
            if life.process.returncode is None:
                life.process.send_signal(signal.SIGCONT)

    async def all_lines_are_cut(self, _: float) -> None:
        for line in self._replicas.lines:
            line.cut()

    async def leaders_line_is_cut(self, _: float) -> None:
        if life := await self._leader():
            life.line.cut()

    async def leaders_line_is_mute(self, seconds: float) -> None:
        await self._mute(await self._leader(), seconds)

    async def replicas_line_is_mute(self, seconds: float) -> None:
        await self._mute(self._anybody(), seconds)

    async def _mute(self, life: Life | None, seconds: float) -> None:
        if life is None:
            return
        life.line.mute()
        try:
            await asyncio.sleep(seconds)  # that is the trouble
        finally:
            life.line.unmute()

    def _kill(self, life: Life | None) -> None:
        if life is not None and life.process.returncode is None:
            life.was_killed = True
            life.process.kill()

    async def _leader(self) -> Life | None:
        """Nobody knows who that is while the API server is away: then it is anybody."""
        return await self._replicas.leader() or self._anybody()

    def _anybody(self) -> Life | None:
        alive = self._replicas.alive
        return self._random.choice(alive) if alive else None

    # The door

    async def webhook_does_not_answer(self, seconds: float) -> None:
        await self._in_mood(Mood.HANGS, seconds)

    async def webhook_refuses(self, seconds: float) -> None:
        await self._in_mood(Mood.REFUSES, seconds)

    async def webhook_fails(self, seconds: float) -> None:
        await self._in_mood(Mood.FAILS, seconds)

    async def narrow(self, seconds: float) -> None:
        async with self._narrow(shares=1):
            await asyncio.sleep(seconds)  # that is the trouble

    async def shut(self, seconds: float) -> None:
        async with self._narrow(shares=0):
            await asyncio.sleep(seconds)  # that is the trouble

    @asynccontextmanager
    async def _narrow(self, shares: int) -> AsyncIterator[None]:
        await self._door.narrow(shares)
        try:
            yield
        finally:
            await self._door.open_wide()

    async def _in_mood(self, mood: Mood, seconds: float) -> None:
        self._door.mood = mood
        try:
            await asyncio.sleep(seconds)  # that is the trouble
        finally:
            self._door.mood = Mood.ALLOWS


TROUBLES: dict[str, Callable[[Stage, float], Awaitable[None]]] = {
    "the API server is killed": Stage.api_server_is_killed,
    "the API server ends in order": Stage.api_server_ends,
    "the API server stands still": Stage.api_server_stands_still,
    "etcd is killed": Stage.etcd_is_killed,
    "etcd stands still": Stage.etcd_stands_still,
    "etcd is restored": Stage.etcd_is_restored,
    "the leader is killed": Stage.leader_is_killed,
    "a replica is killed": Stage.replica_is_killed,
    "the leader stands still": Stage.leader_stands_still,
    "all lines are cut": Stage.all_lines_are_cut,
    "the leader's line is cut": Stage.leaders_line_is_cut,
    "the leader's line is mute": Stage.leaders_line_is_mute,
    "a replica's line is mute": Stage.replicas_line_is_mute,
    "a webhook does not answer": Stage.webhook_does_not_answer,
    "a webhook refuses": Stage.webhook_refuses,
    "a webhook fails": Stage.webhook_fails,
    "the API server is narrow for us": Stage.narrow,
    "the API server is shut for us": Stage.shut,
}
