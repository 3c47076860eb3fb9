"""The secrets of one asset directory: made once, kept in its state, so that making the image again changes none.

A kubeconfig that was handed out stays valid, and so does an ISO that was booted already.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, replace
from typing import Any

from installer.common import certificates
from installer.common.certificates import Pair
from installer.config.state import AUTH, CREDENTIALS, State, damaged
from installer.credentials import access, background, tokens
from installer.credentials.background import SIGNERS, BackgroundCredentials
from installer.credentials.tokens import Tokens


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """Signers, the service's CA and certificate, tokens, kubeadmin's password and its hash."""

    signers: dict[str, Pair] = field(repr=False)
    service_ca: Pair = field(repr=False)
    service: Pair = field(repr=False)
    tokens: Tokens = field(repr=False)
    password: str = field(repr=False)
    password_hash: str = field(repr=False)
    kubeconfig: str = field(repr=False)
    # The inputs that the certificates depend on: rendezvous IP, and the cluster's name with its domain.
    address: str = ""
    cluster: str = ""

    def tls_files(self) -> dict[str, bytes]:
        """/opt/agent/tls by file name."""
        return access.host_tls_files(self.signers, self.service_ca, self.service, self.password_hash)


def _plain(pair: Pair) -> dict[str, str]:
    return {"certificate": pair.certificate, "key": pair.key}


def saved_secrets(state: State) -> Secrets | None:
    """Return the state's secrets, None where there are none. Raises StateError where one is damaged: nobody could log
    in with it."""
    saved, auth = state.get(CREDENTIALS), state.get(AUTH)
    if not state.has_secrets:
        return None

    def text(table: Any, key: str, what: str) -> str:
        value = table.get(key) if isinstance(table, dict) else None
        if not isinstance(value, str) or not value:
            raise ValueError(f"{what}.{key} is missing or not a text")
        return value

    def pair(table: Any, key: str, what: str) -> Pair:
        value = table.get(key) if isinstance(table, dict) else None
        keypair = Pair(*(text(value, part, f"{what}.{key}") for part in ("certificate", "key")))
        try:
            certificates.check(keypair)
        except ValueError as error:
            raise ValueError(f"{what}.{key}: {error}") from None
        return keypair

    try:
        texts = {key: text(saved, key, CREDENTIALS) for key in ("password", "passwordHash", "kubeconfig")}
        secrets = Secrets(
            signers={name: pair(saved.get("signers"), name, f"{CREDENTIALS}.signers") for name in SIGNERS},
            service_ca=pair(saved, "serviceCA", CREDENTIALS),
            service=pair(saved, "service", CREDENTIALS),
            tokens=Tokens(
                *(text(auth, key, AUTH) for key in ("PublicKey", "AgentAuthToken", "UserAuthToken", "WatcherAuthToken"))
            ),
            password=texts["password"],
            password_hash=texts["passwordHash"],
            kubeconfig=texts["kubeconfig"],
            address=text(saved, "address", CREDENTIALS),
            cluster=text(saved, "cluster", CREDENTIALS),
        )
        try:
            tokens.check(secrets.tokens)
        except ValueError as error:
            raise ValueError(f"{AUTH}: {error}") from None
        if not access.is_password(secrets.password, secrets.password_hash):
            raise ValueError(f"{CREDENTIALS}.password or passwordHash is malformed")
        if not access.is_kubeconfig(secrets.kubeconfig):
            raise ValueError(f"{CREDENTIALS}.kubeconfig is not a kubeconfig")
    except ValueError as error:
        # A UnicodeEncodeError's message would show the text, which may be a secret.
        reason = "a text is not Unicode" if isinstance(error, UnicodeError) else str(error)
        raise damaged(state.path, reason) from None
    return secrets


def secrets_for(
    state: State, address: str, name: str, domain: str, *, in_progress: BackgroundCredentials | None = None
) -> Secrets:
    """Return the state's secrets, or new ones where there are none; certificates follow a changed address or name.

    `in_progress`: new credentials that are being made already. Raises StateError for a damaged state.
    """
    cluster = f"{name}.{domain.rstrip('.')}"
    saved = saved_secrets(state)
    if saved is not None:
        if saved.address != address:
            saved = replace(saved, service=_service(saved.service_ca, address), address=address)
        if saved.cluster != cluster:
            saved = replace(saved, kubeconfig=access.kubeconfig(name, domain, saved.signers), cluster=cluster)
        return saved
    new = in_progress.result() if in_progress is not None else background.make()
    service_ca = certificates.authority("node0-service-ca")
    return Secrets(
        signers=new.signers,
        service_ca=service_ca,
        service=_service(service_ca, address),
        tokens=tokens.make_tokens(),
        password=new.password,
        password_hash=new.password_hash,
        kubeconfig=access.kubeconfig(name, domain, new.signers),
        address=address,
        cluster=cluster,
    )


def _service(service_ca: Pair, address: str) -> Pair:
    names = (str(ipaddress.ip_address(address)),)
    return certificates.leaf(service_ca, "assisted-service", names=names, usages=certificates.SERVER)


def store(state: State, secrets: Secrets) -> None:
    """Put the secrets into the state, in memory."""
    state.put(
        AUTH,
        {
            "PublicKey": secrets.tokens.public_key_pem,
            "AgentAuthToken": secrets.tokens.agent,
            "UserAuthToken": secrets.tokens.user,
            "WatcherAuthToken": secrets.tokens.watcher,
        },
    )
    state.put(
        CREDENTIALS,
        {
            "signers": {name: _plain(pair) for name, pair in secrets.signers.items()},
            "serviceCA": _plain(secrets.service_ca),
            "service": _plain(secrets.service),
            "password": secrets.password,
            "passwordHash": secrets.password_hash,
            "kubeconfig": secrets.kubeconfig,
            "address": secrets.address,
            "cluster": secrets.cluster,
        },
    )
