"""The hub's daemons: etcd, kube-apiserver and kube-controller-manager, run natively by the lab's supervisor.

They are the lab release's programs, so a hub is the Kubernetes that node0's own clusters have. Nothing runs pods here:
of the controllers there are those that own objects, namespaces and service accounts.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from installer.common import certificates
from installer.common.certificates import CLIENT, SERVER, YEAR, Pair
from installer.common.formats import yamltext
from installer.common.secretfiles import write_private
from lab.errors import LabStartError
from lab.release.kubernetes import build_kubernetes
from lab.release.stage.errors import ReleaseError
from lab.supervisor.plan import Ready, Service

PORT = 6444
ADMIN = "kubeconfig"
_ETCD = "http://127.0.0.1:2379"
_ETCD_PORT = 2379
# The API server takes 4 s on an idle machine, and starts beside all the others.
_START_SECONDS = 180.0
CONTROLLERS = (
    "clusterrole-aggregation", "garbagecollector", "namespace", "serviceaccount", "serviceaccount-token",
    "root-ca-cert-publisher",
)  # fmt: skip


@dataclass(frozen=True)
class ControlPlane:
    """A hub whose files lie in `folder`, which must not exist yet, and which listens at `address`."""

    folder: Path
    address: str

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig (0600)."""
        return self.folder / ADMIN

    @property
    def url(self) -> str:
        """The API server."""
        return f"https://{f'[{self.address}]' if ':' in self.address else self.address}:{PORT}"

    def services(self) -> tuple[Service, ...]:
        """Write certificates and kubeconfigs, and describe the daemons in the order of their start.

        Kubernetes is built when nobody has built it yet (minutes). Raises LabStartError.
        """
        try:
            programs = build_kubernetes()
        except ReleaseError as error:
            raise LabStartError(str(error), service="hub-api") from error
        self.folder.mkdir(parents=True, mode=0o700)
        authority = certificates.authority("node0 hub", lifetime=YEAR)
        self._file("ca.crt").write_text(authority.certificate)
        names = (self.address, "127.0.0.1", "kubernetes", "kubernetes.default.svc")
        self._write("server", certificates.leaf(authority, "hub", names=names, usages=SERVER, lifetime=YEAR))
        accounts = certificates.ec_key()
        write_private(self._file("accounts.key"), certificates.private_pem(accounts))
        self._file("accounts.pub").write_text(certificates.public_pem(accounts))
        self._kubeconfig(ADMIN, authority, "admin", "system:masters")
        self._kubeconfig("controllers.kubeconfig", authority, "system:kube-controller-manager")
        return self._etcd(), self._api_server(programs), self._controllers(programs)

    def _file(self, name: str) -> Path:
        return self.folder / name

    def _write(self, stem: str, pair: Pair) -> None:
        self._file(f"{stem}.crt").write_text(pair.certificate)
        write_private(self._file(f"{stem}.key"), pair.key)

    def _kubeconfig(self, name: str, authority: Pair, user: str, *groups: str) -> None:
        pair = certificates.leaf(authority, user, organizations=groups, usages=CLIENT, lifetime=YEAR)
        texts = {"ca": authority.certificate, "certificate": pair.certificate, "key": pair.key}
        data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hub", "cluster": {"server": self.url, "certificate-authority-data": data["ca"]}}],
            "users": [
                {
                    "name": user,
                    "user": {"client-certificate-data": data["certificate"], "client-key-data": data["key"]},
                }
            ],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": user}}],
            "current-context": "hub",
        }
        write_private(self._file(name), yamltext.dump(config))

    def _etcd(self) -> Service:
        argv = (
            "etcd",
            f"--data-dir={self._file('etcd')}",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--log-level=warn",
            # A hub has a long life of small writes.
            "--auto-compaction-retention=1h",
        )
        return Service(name="hub-etcd", argv=argv, ready=Ready("tcp", "127.0.0.1", _ETCD_PORT), timeout=_START_SECONDS)

    def _api_server(self, programs: Path) -> Service:
        argv = (
            str(programs / "kube-apiserver"),
            # It refuses a loopback address here, and nobody asks for this one: the lab has no pods.
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--bind-address={self.address}",
            f"--secure-port={PORT}",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            f"--client-ca-file={self._file('ca.crt')}",
            # Its queues are for hundreds of clients; its book-keeping takes 40 % of an idle server's CPU.
            "--enable-priority-and-fairness=false",
            f"--etcd-servers={_ETCD}",
            "--profiling=false",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._file('accounts.pub')}",
            f"--service-account-signing-key-file={self._file('accounts.key')}",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--tls-cert-file={self._file('server.crt')}",
            f"--tls-private-key-file={self._file('server.key')}",
        )
        ready = Ready("https", self.address, PORT, path="/readyz")
        return Service(name="hub-api", argv=argv, ready=ready, timeout=_START_SECONDS, needs="hub-etcd")

    def _controllers(self, programs: Path) -> Service:
        config = self._file("controllers.kubeconfig")
        argv = (
            str(programs / "kube-controller-manager"),
            f"--kubeconfig={config}",
            f"--controllers={','.join(CONTROLLERS)}",
            "--leader-elect=false",
            f"--root-ca-file={self._file('ca.crt')}",
            f"--service-account-private-key-file={self._file('accounts.key')}",
            # The roles that each controller needs are those of its own account.
            "--use-service-account-credentials=true",
            "--port=0",
            "--bind-address=127.0.0.1",
        )
        return Service(name="hub-controllers", argv=argv, needs="hub-api")
