"""The secrets of one asset directory: made once, kept in its state, so that making the image again changes none.

A kubeconfig that was handed out stays valid, and so does an ISO that was booted already.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any

from installer.config.state import AUTH, CREDENTIALS, State
from installer.credentials import access, certificates, tokens
from installer.credentials import background as begun
from installer.credentials.background import Begun
from installer.credentials.certificates import Pair
from installer.credentials.tokens import Tokens
from installer.errors import StateError


@dataclass(frozen=True)
class Secrets:
    """Signers, the service's CA and certificate, tokens, kubeadmin's password and its hash."""

    signers: dict[str, Pair] = field(repr=False)
    service_ca: Pair = field(repr=False)
    service: Pair = field(repr=False)
    tokens: Tokens = field(repr=False)
    password: str = field(repr=False)
    password_hash: str = field(repr=False)
    kubeconfig: str = field(repr=False)
    # Which inputs the certificates depend on.
    address: str = ""
    cluster: str = ""

    def tls_files(self) -> dict[str, bytes]:
        """/opt/agent/tls by file name."""
        return access.host_tls_files(self.signers, self.service_ca, self.service, self.password_hash)


def _pair(value: Any) -> Pair:
    return Pair(str(value["certificate"]).encode(), str(value["key"]).encode())


def _plain(pair: Pair) -> dict[str, str]:
    return {"certificate": pair.certificate.decode(), "key": pair.key.decode()}


def known(state: State) -> bool:
    """Whether the state has secrets, so that none are to be made."""
    return bool(state.get(CREDENTIALS) and state.get(AUTH))


def make(state: State, address: str, name: str, domain: str, begun_already: Begun | None = None) -> Secrets:
    """The state's secrets, or new ones where there are none; certificates follow a changed address or name.

    `begun_already`: the making of new ones, if somebody saw to it before. Raises StateError for a damaged state.
    """
    saved, auth = state.get(CREDENTIALS), state.get(AUTH)
    cluster = f"{name}.{domain.rstrip('.')}"
    if not known(state):
        made = begun_already.made() if begun_already is not None else begun.make()
        service_ca = certificates.authority("node0-service-ca")
        return Secrets(
            signers=made.signers,
            service_ca=service_ca,
            service=_service(service_ca, address),
            tokens=tokens.make_tokens(),
            password=made.password,
            password_hash=made.password_hash,
            kubeconfig=access.kubeconfig(name, domain, made.signers),
            address=address,
            cluster=cluster,
        )
    try:
        signers = {str(key): _pair(value) for key, value in saved["signers"].items()}
        service_ca = _pair(saved["serviceCA"])
        same_address, same_cluster = saved["address"] == address, saved["cluster"] == cluster
        return Secrets(
            signers=signers,
            service_ca=service_ca,
            service=_pair(saved["service"]) if same_address else _service(service_ca, address),
            tokens=Tokens(auth["PublicKey"], auth["AgentAuthToken"], auth["UserAuthToken"], auth["WatcherAuthToken"]),
            password=saved["password"],
            password_hash=saved["passwordHash"],
            kubeconfig=saved["kubeconfig"] if same_cluster else access.kubeconfig(name, domain, signers),
            address=address,
            cluster=cluster,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise StateError(f"failed to load state file {state.path}: damaged credentials ({error!r})") from error


def _service(service_ca: Pair, address: str) -> Pair:
    return certificates.leaf(
        service_ca, "assisted-service", addresses=(str(ipaddress.ip_address(address)),), server=True
    )


def store(state: State, made: Secrets) -> None:
    """Put the secrets into the state, in memory."""
    state.put(
        AUTH,
        {
            "PublicKey": made.tokens.public_key_pem,
            "AgentAuthToken": made.tokens.agent,
            "UserAuthToken": made.tokens.user,
            "WatcherAuthToken": made.tokens.watcher,
        },
    )
    state.put(
        CREDENTIALS,
        {
            "signers": {name: _plain(pair) for name, pair in made.signers.items()},
            "serviceCA": _plain(made.service_ca),
            "service": _plain(made.service),
            "password": made.password,
            "passwordHash": made.password_hash,
            "kubeconfig": made.kubeconfig,
            "address": made.address,
            "cluster": made.cluster,
        },
    )
