"""Everything that lets somebody in: the authority, certificates, tokens and kubeconfigs of one cluster's directory."""

import base64
import csv
import io
import re
import secrets
import ssl
from pathlib import Path
from typing import Any

import yaml

from defib.clock import SystemClock
from testbed.certificates import Authority, KeyPair, service_account_keys
from testbed.programs import Program
from testbed.settings import PKI, TokenUser

ADMIN = "admin"
RESTRICTED = "restricted"
_MASTERS = "system:masters"


class Credentials:
    """Writes files, so call it in a thread when an event loop runs."""

    def __init__(self, directory: Path, url: str, token_users: tuple[TokenUser, ...]) -> None:
        self._directory = directory
        self._url = url
        self._authority = Authority(SystemClock().now())
        self._tokens = {user.name: secrets.token_urlsafe(24) for user in token_users}
        self._write_pki(token_users)
        self._write_kubeconfigs()

    @property
    def ca_pem(self) -> bytes:
        return self._authority.pem

    def path_of(self, name: str) -> Path:
        return self._directory / f"{name}.kubeconfig"

    def kubeconfig_for(self, user: str, groups: tuple[str, ...]) -> Path:
        """A kubeconfig with a fresh client certificate."""
        # No colons in the name: KUBECONFIG is a list of paths that they separate.
        name = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join((user, *groups)))
        return self._write_certified(name, user, groups)

    def admin_tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.ca_pem.decode())
        context.load_cert_chain(self._directory / PKI / "admin.crt", self._directory / PKI / "admin.key")
        return context

    def _write_pki(self, token_users: tuple[TokenUser, ...]) -> None:
        (self._directory / PKI).mkdir(mode=0o700)
        self._write_pki_file("ca.crt", self._authority.pem)
        self._write_pair(
            "apiserver",
            self._authority.server(names=("localhost", "kubernetes.default.svc"), addresses=("127.0.0.1", "10.0.0.1")),
        )
        self._write_pair("admin", self._authority.client(ADMIN, (_MASTERS,)))
        signing = service_account_keys()
        self._write_pki_file("service-account.key", signing.private)
        self._write_pki_file("service-account.pub", signing.public)
        table = io.StringIO()
        for user in token_users:
            groups = (",".join(user.groups),) if user.groups else ()  # an empty column would be a group without a name
            csv.writer(table).writerow((self._tokens[user.name], user.name, user.name, *groups))
        self._write_pki_file("tokens.csv", table.getvalue().encode())

    def _write_kubeconfigs(self) -> None:
        self._write_certified(ADMIN, ADMIN, (_MASTERS,))
        self._write_certified(RESTRICTED, RESTRICTED, ())
        for component in (Program.CONTROLLER_MANAGER, Program.SCHEDULER):
            self._write_certified(component, f"system:{component}", ())
        for user, token in self._tokens.items():
            self._write_kubeconfig(user, user, {"token": token})

    def _write_certified(self, name: str, user: str, groups: tuple[str, ...]) -> Path:
        pair = self._authority.client(user, groups)
        login = {"client-certificate-data": _base64(pair.public), "client-key-data": _base64(pair.private)}
        return self._write_kubeconfig(name, user, login)

    def _write_pair(self, name: str, pair: KeyPair) -> None:
        self._write_pki_file(f"{name}.crt", pair.public)
        self._write_pki_file(f"{name}.key", pair.private)

    def _write_pki_file(self, name: str, content: bytes) -> None:
        _write_secret(self._directory / PKI / name, content)

    def _write_kubeconfig(self, name: str, user: str, login: dict[str, str]) -> Path:
        cluster = {"server": self._url, "certificate-authority-data": _base64(self.ca_pem)}
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "testbed", "cluster": cluster}],
            "users": [{"name": user, "user": login}],
            "contexts": [{"name": user, "context": {"cluster": "testbed", "user": user}}],
            "current-context": user,
        }
        path = self.path_of(name)
        _write_secret(path, yaml.safe_dump(content, sort_keys=False).encode())
        return path


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
