"""containerd's configuration of registries.

containerd does not read registries.conf, so mirrors, CA and credentials are written a second time in its own format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from lab.release.cluster.errors import ConfigError
from lab.release.cluster.ignition.document import Config, file
from lab.release.cluster.installconfig import InstallConfig, Mirror

TRUST_ANCHOR = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt"


def _split(repository: str) -> tuple[str, str]:
    host, _, path = repository.partition("/")
    return host, path


def _quote(text: str) -> str:
    return json.dumps(text)  # TOML's basic strings are JSON's


def registry_auth(pull_secret: str) -> str:
    """Return the credentials of a pull secret as TOML tables of the CRI plugin, one for each registry host."""
    lines = []
    for key, entry in sorted(json.loads(pull_secret)["auths"].items()):
        if isinstance(entry, dict) and entry.get("auth"):
            host = _split(key)[0]
            lines.append(f'    [plugins."io.containerd.grpc.v1.cri".registry.configs.{_quote(host)}.auth]')
            lines.append(f"      auth = {_quote(entry['auth'])}")
    return "\n".join(lines)


def mirror_base(source: str, mirror: str) -> str:
    """Return the mirror's URL under which containerd finds ``<source path>``, for a hosts.toml with override_path.

    containerd keeps the repository's path and can only put something in front of it. Raises ConfigError when the
    mirror's path does not end with the source's.
    """
    (_, path), (host, mirror_path) = _split(source), _split(mirror)
    if mirror_path != path and not mirror_path.endswith("/" + path) and path:
        raise ConfigError("imageDigestSources", "mirrors", f"{mirror} must end with the source's path, {path}")
    prefix = mirror_path[: len(mirror_path) - len(path)].strip("/")
    return f"https://{host}/v2" + (f"/{prefix}" if prefix else "")


def hosts_files(mirrors: Iterable[Mirror], trust_bundle: str) -> list[Config]:
    """certs.d/<host>/hosts.toml for every source and every mirror host."""
    ca = [f"  ca = [{_quote(TRUST_ANCHOR)}]"] if trust_bundle else []
    bases: dict[str, list[str]] = {}
    contact: dict[str, bool] = {}
    own: set[str] = set()
    for entry in mirrors:
        host = _split(entry.source)[0]
        endpoints = bases.setdefault(host, [])
        endpoints += [base for m in entry.mirrors if (base := mirror_base(entry.source, m)) not in endpoints]
        contact[host] = contact.get(host, False) or entry.contact_source
        own |= {_split(mirror)[0] for mirror in entry.mirrors}
    files = []
    for host, urls in sorted(bases.items()):
        server = f"https://{host}" if contact[host] or not urls else urls[0]
        lines = [f"server = {_quote(server)}", ""]
        for url in urls:
            lines += [f"[host.{_quote(url)}]", '  capabilities = ["pull", "resolve"]', "  override_path = true", *ca]
        files.append(file(f"/etc/containerd/certs.d/{host}/hosts.toml", "\n".join(lines) + "\n"))
    for host in sorted(own - set(bases)):
        lines = [f"[host.{_quote('https://' + host)}]", '  capabilities = ["pull", "resolve"]', *ca]
        files.append(file(f"/etc/containerd/certs.d/{host}/hosts.toml", "\n".join(lines) + "\n"))
    return files


def registries_conf(config: InstallConfig) -> str:
    """Return the mirrors as podman reads them (reference/cluster.md §1.6)."""
    lines = []
    for entry in config.mirrors:
        lines += ["[[registry]]", f"location = {_quote(entry.source)}", "mirror-by-digest-only = true"]
        if not entry.contact_source:
            lines.append("blocked = true")
        for mirror in entry.mirrors:
            lines += ["  [[registry.mirror]]", f"  location = {_quote(mirror)}"]
        lines.append("")
    return "\n".join(lines)
