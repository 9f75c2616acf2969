"""A real Redis and a real ZooKeeper, each one process on a port of its own, which can hang, die and come back."""

import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from testbed.leash import Leash

JAR = "/usr/share/java/zookeeper.jar"
DIES_WITHIN = 5.0


class Server:
    def __init__(self, scheme: str, command: Callable[[int, Path], list[str]], directory: Path, leash: Leash) -> None:
        self.port = _free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._command = command(self.port, directory)
        self._directory = directory
        self._leash = leash
        self._process = self._started()

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        except OSError:
            return False
        return True

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(DIES_WITHIN)

    def start(self) -> None:
        self._process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        return self._leash.start(self._command, directory=self._directory, log=self._directory / "log")


def redis(program: Path) -> Callable[[int, Path], list[str]]:
    """It keeps nothing over a restart, which is the hardest case."""

    def command(port: int, directory: Path) -> list[str]:
        where = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory)]
        return [str(program), *where, "--save", "", "--appendonly", "no"]

    return command


def zookeeper(port: int, directory: Path) -> list[str]:
    """With ticks so short that it agrees to the short sessions of these tests."""
    settings = {
        "tickTime": 500,
        "dataDir": directory / "data",
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
    }
    (directory / "zoo.cfg").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-Dzookeeper.jmx.log4j.disable=true", "-cp", JAR]
    return [*java, "org.apache.zookeeper.server.ZooKeeperServerMain", "zoo.cfg"]


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
