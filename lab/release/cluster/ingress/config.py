"""haproxy's configuration: the claims that hold, and their servers, as files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lab.release.cluster import templates
from lab.release.cluster.ingress.claims import Claim, Options
from lab.release.cluster.ingress.endpoints import Server

#: The names of backends, after OpenShift's, by termination.
_PREFIXES = {"": "be_http", "edge": "be_edge_http", "reencrypt": "be_secure", "passthrough": "be_tcp"}
#: What stands for a backend where HTTP is redirected, and where it is not answered.
REDIRECT, NOWHERE = "redirect", "openshift_default"
#: A connection that fails is looked into at once, and the next failure takes the server out.
_WATCHED = " observe layer4 error-limit 1 on-error sudden-death"


@dataclass(frozen=True)
class Settings:
    """All that comes from no claim: the directory of the sockets, ports, the default certificate, key included, and
    the CA for servers of re-encrypted routes that name none."""

    run: str
    certificate: str
    service_ca: str = ""
    http_port: int = 80
    https_port: int = 443
    stats_port: int = 1936


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def backend_name(claim: Claim) -> str:
    """Return the name of a claim's backend."""
    return f"{_PREFIXES[claim.termination]}:{claim.key}"


def _host_pattern(claim: Claim) -> str:
    if not claim.host:
        return "[^/:]*"
    return ("[^./:]*\\." if claim.wildcard else "") + re.escape(claim.host)


def pattern(claim: Claim) -> str:
    """Return the regular expression of the claim's host and path, as haproxy's ``base`` has them."""
    path = re.escape(claim.path)
    if claim.exact:
        below = ""
    elif not claim.path.strip("/"):
        path, below = "", "(/.*)?"
    else:
        below = ".*" if claim.path.endswith("/") else "(/.*)?"
    return f"^{_host_pattern(claim)}\\.?(:[0-9]+)?{path}{below}$"


def _order(claim: Claim) -> tuple[bool, bool, int, bool, str]:
    """Order of map entries, of which the first match counts: the more special before the more general."""
    return (not claim.host, claim.wildcard, -len(claim.path), not claim.exact, pattern(claim))


def _map(claims: Iterable[Claim], value: Callable[[Claim], str]) -> str:
    ordered = sorted(claims, key=_order)
    return "".join(f"{pattern(claim)} {value(claim)}\n" for claim in ordered)


def _http_value(claim: Claim) -> str:
    if not claim.termination or claim.insecure == "Allow":
        return backend_name(claim)
    return REDIRECT if claim.insecure == "Redirect" else NOWHERE


def _sni(claims: Iterable[Claim]) -> str:
    passed = sorted((c for c in claims if c.termination == "passthrough"), key=_order)
    return "".join(f"^{_host_pattern(c)}\\.?$ {backend_name(c)}\n" for c in passed)


def _forwarded(how: str) -> list[str]:
    """Return the rules by which a server learns of its client (RFC 7239, and the names from before it)."""
    if how == "never":
        return []
    verb = "add-header" if how == "append" else "set-header"

    def rule(name: str, value: str, condition: str = "") -> str:
        missing = f" !{{ req.hdr({name}) -m found }}" if how == "if-none" else ""
        terms = f"{condition}{missing}".strip()
        return f"http-request {verb} {name} {value}" + (f" if {terms}" if terms else "")

    first = {"append": "option forwardfor", "if-none": "option forwardfor if-none"}.get(how)
    host = "host=%[req.hdr(host)];proto=%[req.hdr(X-Forwarded-Proto)]"
    return [
        first or "http-request set-header X-Forwarded-For %[src]",
        "acl ipv6_source src -m sub :",
        rule("X-Forwarded-Host", "%[req.hdr(host)]"),
        rule("X-Forwarded-Port", "%[dst_port]"),
        rule("X-Forwarded-Proto", "http", "!{ ssl_fc }"),
        rule("X-Forwarded-Proto", "https", "{ ssl_fc }"),
        rule("Forwarded", f'for=\\"[%[src]]\\";{host}', "ipv6_source"),
        rule("Forwarded", f"for=%[src];{host}", "!ipv6_source"),
    ]


def _cookie(claim: Claim) -> str:
    options = claim.options
    line = f"cookie {options.cookie_name or _digest(claim.key)} insert indirect nocache httponly"
    if claim.termination and claim.insecure != "Allow":
        line += f" secure attr SameSite={options.same_site}"
    return line


def _http_rules(claim: Claim) -> list[str]:
    options = claim.options
    lines = _forwarded(options.forwarded)
    if options.rewrite:
        slash = "/?" if options.rewrite == "/" else ""
        lines.append(f"http-request replace-path '^{re.escape(claim.path)}{slash}(.*)$' '{options.rewrite}\\1'")
    if options.cookies:
        lines.append(_cookie(claim))
    if options.hsts and claim.termination:
        lines.append(f"http-response set-header Strict-Transport-Security '{options.hsts}'")
    return lines


def _times(claim: Claim) -> list[str]:
    options, passed = claim.options, claim.termination == "passthrough"
    tunnel = options.tunnel_ms or (options.timeout_ms if passed else None)
    lines = [f"timeout server {options.timeout_ms}ms"] if options.timeout_ms and not passed else []
    return lines + ([f"timeout tunnel {tunnel}ms"] if tunnel else [])


def _server(claim: Claim, server: Server, settings: Settings, files: str, *, checked: bool) -> str:
    options: Options = claim.options
    address = f"[{server.address}]" if ":" in server.address else server.address
    line = f"server {_digest(f'{server.address} {server.port}')} {address}:{server.port} weight {server.weight}"
    if claim.termination != "passthrough" and options.cookies:
        line += f" cookie {_digest(f'{claim.namespace} {server.service} {server.address} {server.port}')}"
    if claim.termination == "reencrypt":
        line += " ssl no-check-ssl"
        if claim.destination_ca:
            line += f" verify required ca-file {files}/{_digest(claim.key)}.ca"
        elif settings.service_ca:
            host = f"{server.service}.{claim.namespace}.svc"
            line += f" verify required ca-file {files}/service.ca verifyhost {host}"
        else:
            line += " verify none"
    if options.connections is not None:
        line += f" maxconn {options.connections}"
    return line + (f" check inter {options.check_ms}ms{_WATCHED}" if checked else "")


def backend(claim: Claim, servers: Sequence[Server], settings: Settings, files: str) -> str:
    """Return a claim's backend."""
    passed = claim.termination == "passthrough"
    # Without cookies, a share of nothing has no meaning; with them, those who have been there may come back.
    used = [s for s in servers if s.weight or not passed]
    balance = claim.options.balance or (
        "roundrobin" if len({s.service for s in used if s.weight}) > 1 else "source" if passed else "random"
    )
    lines = [f"mode {'tcp' if passed else 'http'}", f"balance {balance}", *_times(claim)]
    if passed:
        lines.append("hash-type consistent")
    if claim.options.allowed:
        lines += [f"acl allowed src -f {files}/{_digest(claim.key)}.allowed", "tcp-request content reject if !allowed"]
    if not passed:
        lines += _http_rules(claim)
    # With one server, nothing better is to be had than to try it.
    lines += [_server(claim, s, settings, files, checked=len(used) > 1) for s in used]
    return f"\nbackend {backend_name(claim)}\n" + "".join(f"    {line}\n" for line in lines)


def _certificates(claims: Sequence[Claim], files: str) -> dict[str, str]:
    """Return the certificates of hosts, and the list by which haproxy finds them; of two for a host, the older's."""
    made, listed = dict[str, str](), dict[str, str]()
    for claim in claims:
        if claim.certificate and claim.host and claim.names not in listed:
            name = f"{_digest(claim.key)}.pem"
            made[name], listed[claim.names] = claim.certificate, f"{files}/{name} {claim.names}\n"
    return {**made, "certificates.list": "".join(listed.values())}


def render(claims: Sequence[tuple[Claim, Sequence[Server]]], settings: Settings, files: str) -> dict[str, str]:
    """Return haproxy's files by name; they are to be in the directory ``files``. The claims come the oldest first."""
    alone = [claim for claim, _ in claims]
    base = templates.fill(
        "haproxy.cfg",
        run=settings.run,
        files=files,
        http_port=str(settings.http_port),
        https_port=str(settings.https_port),
        stats_port=str(settings.stats_port),
    )
    made = {
        "haproxy.cfg": base + "".join(backend(claim, servers, settings, files) for claim, servers in claims),
        "503.http": templates.text("503.http"),
        "default.pem": settings.certificate,
        "http.map": _map(alone, _http_value),
        "tls.map": _map((c for c in alone if c.termination in ("edge", "reencrypt")), backend_name),
        "sni.map": _sni(alone),
        **_certificates(alone, files),
    }
    if settings.service_ca:
        made["service.ca"] = settings.service_ca
    for claim in alone:
        if claim.destination_ca:
            made[f"{_digest(claim.key)}.ca"] = claim.destination_ca
        if claim.options.allowed:
            made[f"{_digest(claim.key)}.allowed"] = "".join(f"{text}\n" for text in claim.options.allowed)
    return made
