"""What a test may choose about its control plane, and the command lines that follow from it."""

from pathlib import Path

import msgspec

from testbed.programs import Program


class TokenUser(msgspec.Struct, frozen=True):
    """Somebody who logs in with a static token."""

    name: str
    groups: tuple[str, ...] = ()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Extra flags go last, so they win over ours: timers, limits and feature gates are set with them.

    Settings(controller_manager=("--node-monitor-grace-period=4s", "--node-monitor-period=1s"))
    """

    api_only: bool = False
    """Without controller manager and scheduler: starts faster; pods need no service account and stay unscheduled."""

    etcd: tuple[str, ...] = ()
    apiserver: tuple[str, ...] = ()
    controller_manager: tuple[str, ...] = ()
    scheduler: tuple[str, ...] = ()

    token_users: tuple[TokenUser, ...] = (TokenUser("token-admin", ("system:masters",)), TokenUser("token-restricted"))
    """The API server reads them only when it starts, so they cannot be added later."""

    @property
    def components(self) -> tuple[Program, ...]:
        """In the order in which they start; they stop in the reverse one."""
        core = (Program.ETCD, Program.APISERVER)
        return core if self.api_only else (*core, Program.CONTROLLER_MANAGER, Program.SCHEDULER)


def arguments(component: Program, settings: Settings, port: int) -> tuple[str, ...]:
    """Paths are relative: every component runs in the cluster's directory (a socket's path must stay short)."""
    match component:
        case Program.ETCD:
            return (*_ETCD, *settings.etcd)
        case Program.APISERVER:
            without = ("--disable-admission-plugins=ServiceAccount",) if settings.api_only else ()
            return (*_APISERVER, f"--secure-port={port}", *without, *settings.apiserver)
        case Program.CONTROLLER_MANAGER:
            return (*_CONTROLLER_MANAGER, *settings.controller_manager)
        case Program.SCHEDULER:
            return (*_SCHEDULER, *settings.scheduler)
        case Program.KUBECTL:
            raise AssertionError("kubectl is for people, not a part of the control plane")


PKI = Path("pki")

# Sockets, not ports: nobody else on the machine can reach this etcd, and no port can be taken before it starts.
ETCD_SOCKET = "etcd.sock"
_ETCD_URL = f"unix://{ETCD_SOCKET}"
_PEER_URL = "unix://etcd-peer.sock"
ETCD_DATA = "etcd"

_ETCD = (
    f"--data-dir={ETCD_DATA}",
    "--unsafe-no-fsync",
    "--watch-progress-notify-interval=5s",  # as kubeadm sets it: without it, quiet kinds get no bookmarks
    f"--listen-client-urls={_ETCD_URL}",
    f"--advertise-client-urls={_ETCD_URL}",
    f"--listen-peer-urls={_PEER_URL}",
    f"--initial-advertise-peer-urls={_PEER_URL}",
    f"--initial-cluster=default={_PEER_URL}",
)

_APISERVER = (
    f"--etcd-servers={_ETCD_URL}",
    "--bind-address=127.0.0.1",
    "--permit-port-sharing",  # the port stays reserved by us, see cluster.py
    "--endpoint-reconciler-type=none",  # a loopback address is no legal endpoint of the kubernetes Service
    "--shutdown-watch-termination-grace-period=1s",  # else open watches hold up an orderly end for a minute
    "--authorization-mode=RBAC",
    "--allow-privileged",
    "--service-cluster-ip-range=10.0.0.0/24",
    f"--tls-cert-file={PKI}/apiserver.crt",
    f"--tls-private-key-file={PKI}/apiserver.key",
    f"--client-ca-file={PKI}/ca.crt",
    f"--token-auth-file={PKI}/tokens.csv",
    "--service-account-issuer=https://kubernetes.default.svc",
    f"--service-account-key-file={PKI}/service-account.pub",
    f"--service-account-signing-key-file={PKI}/service-account.key",
)

# No replica to elect a leader among, and nobody who asks for their metrics: no Lease to wait for, no port to find.
# Their default of 20 requests a second makes the start alone wait 5 s.
_ALONE = ("--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000")

_CONTROLLER_MANAGER = (
    *_ALONE,
    f"--kubeconfig={Program.CONTROLLER_MANAGER}.kubeconfig",
    "--use-service-account-credentials",  # the roles that RBAC brings along are per controller
    f"--service-account-private-key-file={PKI}/service-account.key",
    f"--root-ca-file={PKI}/ca.crt",
)

_SCHEDULER = (*_ALONE, f"--kubeconfig={Program.SCHEDULER}.kubeconfig")
