"""Credentials that take time to make and depend on no input: begun in threads while the inputs are read."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType

from installer.common.certificates import Pair, authority

# RSA, since openshift-install reads nothing else (names, lifetimes and use: reference/cluster.md §7.2).
SIGNERS = (
    "admin-kubeconfig-signer",
    "kube-apiserver-lb-signer",
    "kube-apiserver-localhost-signer",
    "kube-apiserver-service-network-signer",
)


@dataclass(frozen=True)
class NewCredentials:
    """The four signers by name, kubeadmin's password and its hash."""

    signers: dict[str, Pair] = field(repr=False)
    password: str = field(repr=False)
    password_hash: str = field(repr=False)


def password_and_hash() -> tuple[str, str]:
    """Make a new password of kubeadmin, and its hash."""
    from installer.credentials import access

    password = access.kubeadmin_password()
    return password, access.password_hash(password)


class BackgroundCredentials:
    """Signers and password, made in threads. A context: at its end, unfinished work is given up."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(2, "credentials")
        self._signers: dict[str, Future[Pair]] = {
            name: self._pool.submit(authority, name, unit="openshift", with_rsa=True) for name in SIGNERS
        }
        self._password: Future[tuple[str, str]] = self._pool.submit(password_and_hash)

    def __enter__(self) -> BackgroundCredentials:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def result(self) -> NewCredentials:
        """Return the new credentials; waits until they are complete."""
        password, hashed = self._password.result()
        return NewCredentials({name: future.result() for name, future in self._signers.items()}, password, hashed)


def make() -> NewCredentials:
    """Make new credentials, and wait until they are complete."""
    with BackgroundCredentials() as making:
        return making.result()
