"""Claims: what a Route, or a rule of an Ingress, asks of the router, once it has been checked.

Nothing of a claim goes into haproxy's configuration that was not matched against a set of characters here, or made anew
from what was parsed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.release.cluster.errors import ClusterError

#: What OpenShift's router calls the reasons for which it does not admit a route (pkg/router/controller).
INVALID_HOST = "InvalidHost"
NO_HOST = "NoHostValue"
INVALID = "ExtendedValidationFailed"
CLAIMED = "HostAlreadyClaimed"

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
#: The path of a URL (RFC 3986 §3.3), without its quotation mark.
_PATH = re.compile(r"/[A-Za-z0-9._~!$&*+,;=:@()%/-]*")
LONGEST_HOST, LONGEST_PATH = 253, 1024


class Refused(ClusterError):
    """A route is not admitted: the reason, and every problem."""

    def __init__(self, reason: str, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.reason = reason


@dataclass(frozen=True)
class Domain:
    """The names and addresses of the cluster's ingress."""

    apps: str
    addresses: tuple[str, ...] = ()

    @property
    def canonical(self) -> str:
        """The name that stands for the router."""
        return f"router-default.{self.apps}"


@dataclass(frozen=True)
class Options:
    """The settings of a route that its annotations make. Times are milliseconds; None and empty mean the default."""

    timeout_ms: int | None = None
    tunnel_ms: int | None = None
    check_ms: int = 5000
    balance: str = ""
    cookies: bool = True
    cookie_name: str = ""
    same_site: str = "None"
    rewrite: str = ""
    hsts: str = ""
    allowed: tuple[str, ...] = ()
    forwarded: str = "append"
    connections: int | None = None


@dataclass(frozen=True)
class Target:
    """A Service, the share of the requests that it gets (0 to 256), and its port: the name or number of the endpoints'
    port, or, ``of_service``, of the Service's; empty: all."""

    service: str
    port: str = ""
    weight: int = 100
    of_service: bool = False


@dataclass(frozen=True)
class Claim:
    """A host, a path, and where its requests go.

    ``index`` tells an Ingress's claims apart. An empty host is any that nobody else claims; a wildcard is for the names
    directly below ``host``. ``termination``: empty for HTTP, else edge, reencrypt or passthrough; ``insecure``: what
    happens to HTTP then, None, Allow or Redirect. ``certificate`` is PEM, key included; ``destination_ca`` vouches for
    the servers.
    """

    kind: str
    namespace: str
    name: str
    host: str
    targets: tuple[Target, ...]
    uid: str = ""
    created: str = ""
    index: int = 0
    wildcard: bool = False
    path: str = "/"
    exact: bool = False
    termination: str = ""
    insecure: str = "None"
    certificate: str = field(default="", repr=False)
    destination_ca: str = ""
    options: Options = Options()

    def __post_init__(self) -> None:
        if not is_name(self.namespace) or not is_name(self.name):
            raise Refused(INVALID, "metadata.name: no name of an object")

    @property
    def age(self) -> tuple[str, str, int]:
        """Order of claims: the older first."""
        return (self.created, self.uid, self.index)

    @property
    def names(self) -> str:
        """The claimed host, as certificates and messages say it."""
        return f"*.{self.host}" if self.wildcard else self.host or "*"

    @property
    def key(self) -> str:
        """A name of the claim that no other has."""
        suffix = f":ingress-{self.index}" if self.kind == "Ingress" else ""
        return f"{self.namespace}:{self.name}{suffix}"


def check_host(host: str) -> None:
    """Accept the name of a host. Raises Refused."""
    if not _HOST.fullmatch(host) or len(host) > LONGEST_HOST:
        rule = "must be a DNS name in lower case, of labels of up to 63 characters and 253 in all"
        raise Refused(INVALID_HOST, f"host name validation errors: {host[:LONGEST_HOST]!r} {rule}")


def is_name(text: str) -> bool:
    """Return whether an object may have this name."""
    return bool(_NAME.fullmatch(text)) and len(text) <= LONGEST_HOST


def check_path(path: str, field_name: str = "spec.path") -> str:
    """Return the problem of a path; empty when there is none."""
    if _PATH.fullmatch(path) and len(path) <= LONGEST_PATH:
        return ""
    rule = f"must begin with / and have up to {LONGEST_PATH} characters of a URL's path, no quotation marks"
    return f"{field_name}: {path[:64]!r} {rule}"


def _parts(claim: Claim) -> tuple[list[object], list[object]]:
    """Return the parts of its host that a claim takes, and those that nobody may have before it: its path, and with
    passthrough, which knows no paths, all that is TLS."""
    path = (claim.path, claim.exact)
    if claim.termination == "passthrough":
        return [path, "passthrough"], [path, "passthrough", "terminated"]
    return ([path, "terminated"], [path, "passthrough"]) if claim.termination else ([path], [path])


def admit(claims: Sequence[Claim]) -> tuple[list[Claim], dict[Claim, Refused]]:
    """Return the claims that hold, the oldest first, and why others do not.

    A host belongs to the namespace whose claim is the oldest, and there each path to its oldest claim.
    """
    held: dict[str, dict[object, Claim]] = {}
    admitted: list[Claim] = []
    refused: dict[Claim, Refused] = {}
    for claim in sorted(claims, key=lambda c: c.age):
        holders = held.setdefault(claim.names, {})
        taken, needed = _parts(claim)
        if holders and next(iter(holders.values())).namespace != claim.namespace:
            text = f"a route in another namespace holds {claim.names} and is older than {claim.name}"
            refused[claim] = Refused(CLAIMED, text)
        elif older := next((holders[part] for part in needed if part in holders), None):
            refused[claim] = Refused(CLAIMED, f"route {older.name} already exposes {claim.names} and is older")
        else:
            for part in taken:
                holders.setdefault(part, claim)
            admitted.append(claim)
    return admitted, refused
