"""Tokens and certificate of added hosts' services: valid for two days, kept in a Secret of the cluster, and shared by
all images made in that time, so that anyone with the kubeconfig can follow the hosts.

The Secret, its keys and the times are upstream's (reference/add-nodes.md §3); serviceCA, serviceCertificate and
serviceKey are ours, since the services here speak TLS.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from installer.common import certificates
from installer.common.certificates import Pair
from installer.credentials import tokens
from installer.credentials.tokens import Tokens
from installer.errors import ConfigError
from installer.hub.kube.api import Api
from installer.hub.kube.kinds import SECRET, Json, Key
from installer.ignition.live import EACH_ITS_OWN

KEY = Key("openshift-config", "agent-auth-token")
LIFETIME = timedelta(hours=48)
#: Tokens that expire sooner are replaced.
LEAST = timedelta(hours=24)
_FIELDS = ("authTokenPublicKey", "agentAuthToken", "userAuthToken", "watcherAuthToken")
_TLS = ("serviceCA", "serviceCertificate", "serviceKey")


@dataclass(frozen=True, kw_only=True)
class Access:
    """Tokens, the services' CA (PEM) and certificate, and the time at which the tokens expire."""

    tokens: Tokens = field(repr=False)
    ca: str
    service: Pair = field(repr=False)
    expiry: datetime

    def data(self) -> dict[str, str]:
        """Return the Secret's data."""
        own = self.tokens
        values = (own.public_key_pem, own.agent, own.user, own.watcher, self.ca, self.service.certificate)
        pairs = zip((*_FIELDS, *_TLS), (*values, self.service.key), strict=True)
        return {name: base64.b64encode(value.encode()).decode() for name, value in pairs}

    def tls_files(self) -> dict[str, bytes]:
        """/opt/agent/tls by file name."""
        files = {"ca.crt": self.ca, "service.crt": self.service.certificate, "service.key": self.service.key}
        return {name: text.encode() for name, text in files.items()}


def make(now: datetime) -> Access:
    """Make new tokens and a new certificate."""
    expiry = (now + LIFETIME).replace(microsecond=0)
    authority = certificates.authority("node0-service-ca")
    service = certificates.leaf(authority, "assisted-service", names=(EACH_ITS_OWN,), usages=certificates.SERVER)
    return Access(tokens=tokens.make_tokens(expiry), ca=authority.certificate, service=service, expiry=expiry)


def read(secret: Json) -> Access | None:
    """Return what a Secret holds; None where something is missing, malformed, or of another time than the rest."""
    data = secret.get("data") or {}
    try:
        values = [base64.b64decode(str(data[name]), validate=True).decode() for name in (*_FIELDS, *_TLS)]
        own, service, expiry = Tokens(*values[:4]), Pair(values[5], values[6]), tokens.expiry_of(values[3])
        certificates.check(service)
        tokens.check(own, expiry)
        if expiry is None or not certificates.signed_by(service.certificate, values[4]):
            return None
    except (ValueError, KeyError):
        return None
    return Access(tokens=own, ca=values[4], service=service, expiry=expiry)


def usable(api: Api, now: datetime) -> tuple[Access, Json | None]:
    """Return the cluster's access, or a new one where that is missing, unusable or expires within a day; and the
    cluster's Secret, if any.

    Nothing is written: `store` does that. Raises KubeError.
    """
    secret = api.get(SECRET, KEY)
    kept = read(secret) if secret else None
    return (kept if kept and kept.expiry - now > LEAST else make(now)), secret


def store(api: Api, access: Access, secret: Json | None) -> None:
    """Put the access into the cluster's Secret, unless it is there. Raises KubeError, Conflict where it has changed."""
    data, stamp = access.data(), "%Y-%m-%dT%H:%M:%SZ"
    notes = {"updatedAt": datetime.now(UTC).strftime(stamp), "expiresAt": access.expiry.strftime(stamp)}
    if secret is None:
        new = SECRET.new(KEY, type="Opaque", data=data)
        api.create(SECRET, {**new, "metadata": {**new["metadata"], "annotations": notes}})
    elif (secret.get("data") or {}) != data:
        annotations = {**(secret["metadata"].get("annotations") or {}), **notes}
        metadata = {**secret["metadata"], "annotations": annotations}
        api.update(SECRET, {**SECRET.new(KEY, type=secret.get("type")), "metadata": metadata, "data": data})


def watching(api: Api, now: datetime) -> Access:
    """Return the cluster's access, for following hosts. Raises ConfigError where there is none, or it has expired."""
    secret = api.get(SECRET, KEY)
    found = read(secret) if secret else None
    if found is None:
        raise ConfigError(f"no image for hosts of this cluster has been made: it has no Secret {KEY} with tokens")
    if found.expiry <= now:
        raise ConfigError(
            f"the tokens of this cluster's last image expired at {found.expiry:%Y-%m-%dT%H:%M:%SZ}: make a new image "
            "(node0 agent add-nodes create), and boot hosts from that"
        )
    return found
