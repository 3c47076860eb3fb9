"""Additions of a disconnected lab to cluster-manifests/ and mirror/, where a user has those in place of the two files.

The manifests' fields are in reference/installer.md §2.1.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from installer.common.formats import YamlError, yamltext
from installer.common.inputs import read_input
from installer.common.secretfiles import write_private
from lab.derive import AGENT, INSTALL
from lab.errors import TopologyError
from lab.inputs.changes import differences
from lab.inputs.configs import Access, boot_fields, merged_secret, through_proxy
from lab.topology import Topology

FOLDER = "cluster-manifests"
CLUSTER_INSTALL = f"{FOLDER}/agent-cluster-install.yaml"
INFRA_ENV = f"{FOLDER}/infraenv.yaml"
PULL_SECRET = f"{FOLDER}/pull-secret.yaml"
IMAGE_SET = f"{FOLDER}/cluster-image-set.yaml"
REGISTRIES = "mirror/registries.conf"
CA_BUNDLE = "mirror/ca-bundle.crt"
_KEY = ".dockerconfigjson"
_ADAPTED = (PULL_SECRET, IMAGE_SET, CLUSTER_INSTALL, INFRA_ENV, AGENT)


def is_ztp(directory: Path) -> bool:
    """Return whether a directory has manifests and no install-config.yaml, which would be what they are made from."""
    return (directory / FOLDER).is_dir() and not (directory / INSTALL).exists()


def _manifest(directory: Path, name: str) -> dict[str, Any]:
    """Return the first document, as the installer takes it; empty where there is none. Raises TopologyError."""
    path = directory / name
    try:
        documents = [document for document in yamltext.load_all(read_input(path)) if document is not None]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise TopologyError(str(path), f"{error.strerror}; the lab is made from it") from error
    except YamlError as error:
        raise TopologyError(str(path), " ".join(str(error).split())) from error
    if documents and not isinstance(documents[0], dict):
        raise TopologyError(str(path), "must be a mapping")
    return documents[0] if documents else {}


def release_image(directory: Path) -> str:
    """Return the release that the manifests name, empty where they name none. Raises TopologyError."""
    spec = _manifest(directory, IMAGE_SET).get("spec")
    return str(spec.get("releaseImage") or "") if isinstance(spec, dict) else ""


def check(directory: Path, topology: Topology) -> list[str]:
    """Return why a lab cannot install from these manifests alone, a line each."""
    if topology.boot == "config-image" and is_ztp(directory):
        return [f"boot: config-image is made from {INSTALL} and {AGENT}, {FOLDER}/ alone will not do"]
    return []


def adapt(directory: Path, topology: Topology, access: Access, pullspec: str, *, as_is: bool = False) -> list[str]:
    """Add the lab's registry, credentials, CA, SSH key, clock, proxy and Tang server to the manifests of `directory`,
    and name the release that is installed; `as_is` leaves out the clock and how hosts boot. Returns a line for each
    field that changed, without secrets. Raises TopologyError."""
    before = {name: _manifest(directory, name) for name in _ADAPTED}
    environment = before[INFRA_ENV].get("spec") or {}
    installed = before[CLUSTER_INSTALL].get("spec") or {}
    clocks = [] if as_is else [topology.gateway]
    # The installer takes the second field where the first is empty: filling in the first would hide the user's second.
    key = environment.get("sshAuthorizedKey") or installed.get("sshPublicKey")
    bundle = _text(directory / CA_BUNDLE) or str(environment.get("additionalTrustBundle") or "")
    _edit(directory, PULL_SECRET, lambda manifest: _secret(manifest, access))
    _edit(directory, IMAGE_SET, lambda manifest: _put(manifest, releaseImage=pullspec))
    _edit(directory, CLUSTER_INSTALL, lambda manifest: _cluster_install(manifest, topology, access))
    _edit(directory, INFRA_ENV, lambda manifest: _infra_env(manifest, topology, access, key=key, clocks=clocks))
    _registries(directory / REGISTRIES, "".join(_registry(*mirror) for mirror in access.mirrors))
    # No blank line after the last certificate: the installer refuses one.
    write_private(directory / CA_BUNDLE, f"{_joined(bundle, access.trust_bundle)}\n")
    if not as_is:
        _agent_config(directory, topology)
    lines = [line for name in _ADAPTED for line in differences(name, before[name], _manifest(directory, name))]
    lines += [f"{REGISTRIES}: {mirror} mirrors {source}, before yours" for source, mirror in access.mirrors]
    return [*lines, f"{CA_BUNDLE}: the lab's CA added"]


def _edit(directory: Path, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    if manifest := _manifest(directory, name):
        write_private(directory / name, yaml.safe_dump(change(manifest), sort_keys=False))


def _put(manifest: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**manifest, "spec": {**(manifest.get("spec") or {}), **fields}}


def _joined(*texts: Any) -> str:
    return "\n".join(text for value in texts if (text := str(value or "").strip()))


def _secret(manifest: dict[str, Any], access: Access) -> dict[str, Any]:
    """Return the Secret with the lab's credentials added, as stringData, which the installer reads."""
    plain, encoded = manifest.get("stringData") or {}, manifest.get("data") or {}
    try:
        secret = merged_secret(plain.get(_KEY) or base64.b64decode(encoded.get(_KEY) or "").decode(), access)
    except (ValueError, AttributeError, TypeError):
        # The error's text is left out: it may quote a secret.
        raise TopologyError(PULL_SECRET, f"stringData.{_KEY}: not a dockerconfigjson") from None
    rest = {key: value for key, value in manifest.items() if key != "data"}
    return {**rest, "stringData": {**plain, _KEY: secret}}


def _cluster_install(manifest: dict[str, Any], topology: Topology, access: Access) -> dict[str, Any]:
    spec = through_proxy(manifest.get("spec") or {}, topology)
    encryption = spec.get("diskEncryption")
    if topology.tang and isinstance(encryption, dict):
        spec = {**spec, "diskEncryption": {**encryption, "tangServers": access.tang_servers}}
    return _put(
        {**manifest, "spec": spec}, sshPublicKey=_joined(spec.get("sshPublicKey"), access.ssh_key),
    )  # fmt: skip


def _infra_env(
    manifest: dict[str, Any], topology: Topology, access: Access, *, key: Any, clocks: list[str]
) -> dict[str, Any]:
    spec = through_proxy(manifest.get("spec") or {}, topology)
    sources = spec.get("additionalNTPSources") or []
    return _put(
        {**manifest, "spec": spec},
        sshAuthorizedKey=_joined(key, access.ssh_key),
        additionalTrustBundle=f"{_joined(spec.get('additionalTrustBundle'), access.trust_bundle)}\n",
        additionalNTPSources=list(dict.fromkeys([*sources, *clocks])),
    )


def _registry(source: str, mirror: str) -> str:
    """Return an entry of containers-registries.conf(5) for a repository that is pulled by digest."""
    return (
        f'\n[[registry]]\nprefix = ""\nlocation = "{source}"\nmirror-by-digest-only = true\n'
        f'\n[[registry.mirror]]\nlocation = "{mirror}"\n'
    )


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def _registries(path: Path, tables: str) -> None:
    """Put the lab's mirrors before the user's: of two tables for a location the first is used."""
    text = _text(path)
    head, mark, rest = text.partition("[[registry]]")
    user = f"\n{mark}{rest}\n" if mark else ""
    write_private(path, f"{head.rstrip()}\n{tables}{user}")


def _agent_config(directory: Path, topology: Topology) -> None:
    """Write how hosts boot to agent-config.yaml, which need not be there where they have an ISO of all they need."""
    config, fields = _manifest(directory, AGENT), boot_fields(topology)
    if not fields:
        return
    named = {"apiVersion": "v1beta1", "kind": "AgentConfig", "metadata": {"name": topology.cluster_name}}
    content = config or {**named, "rendezvousIP": topology.rendezvous_ip}
    write_private(directory / AGENT, yaml.safe_dump({**content, **fields}, sort_keys=False))
