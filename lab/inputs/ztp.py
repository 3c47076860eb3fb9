"""What a disconnected lab adds to cluster-manifests/ and mirror/, where a user has those in place of the two files.

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
from lab.derive.manifests import CLUSTER_DEPLOYMENT, CLUSTER_INSTALL, FOLDER, INFRA_ENV, NMSTATE, Manifests
from lab.errors import ConfigsError, TopologyError
from lab.inputs.configs import Access, boot_fields, merged_secret, through_proxy
from lab.topology import Topology

PULL_SECRET = f"{FOLDER}/pull-secret.yaml"
IMAGE_SET = f"{FOLDER}/cluster-image-set.yaml"
REGISTRIES = "mirror/registries.conf"
CA_BUNDLE = "mirror/ca-bundle.crt"
_KINDS = {
    CLUSTER_INSTALL: "AgentClusterInstall",
    CLUSTER_DEPLOYMENT: "ClusterDeployment",
    INFRA_ENV: "InfraEnv",
    NMSTATE: "NMStateConfig",
}
_KEY = ".dockerconfigjson"


def is_ztp(directory: Path) -> bool:
    """Whether a directory has manifests and no install-config.yaml, which would be what they are made from."""
    return (directory / FOLDER).is_dir() and not (directory / INSTALL).exists()


def _documents(directory: Path, name: str) -> list[Any]:
    """The documents of a manifest, without empty ones; none where there is no file. Raises TopologyError."""
    path = directory / name
    try:
        documents = [one for one in yamltext.load_all(read_input(path)) if one is not None]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TopologyError(str(path), f"{error.strerror}; the lab is made from it") from error
    except YamlError as error:
        raise TopologyError(str(path), " ".join(str(error).split())) from error
    # `oc get -o yaml` of several objects writes a List, in which no field is where it is looked for.
    kinds = [one.get("kind") for one in documents if isinstance(one, dict)]
    if wrong := [kind for kind in kinds if kind not in (None, _KINDS.get(name, kind))]:
        rule = f"kind: {wrong[0]!r}: must be {_KINDS[name]}"
        raise TopologyError(str(path), f"{rule}, a document each" if wrong[0] == "List" else rule)
    return documents


def _manifest(directory: Path, name: str, *, needed: bool = False) -> dict[str, Any]:
    """The first document, as the installer takes it. Raises TopologyError."""
    documents = _documents(directory, name)
    if not documents and not needed:
        return {}
    if not documents or not isinstance(documents[0], dict):
        rule = "must be a mapping" if documents else "is missing or empty; the lab is made from it"
        raise TopologyError(str(directory / name), rule)
    return documents[0]


def check(directory: Path, topology: Topology) -> list[str]:
    """Why a lab cannot install from these manifests alone, a line each."""
    if topology.boot == "config-image" and is_ztp(directory):
        return [f"boot: config-image is made from {INSTALL} and {AGENT}, {FOLDER}/ alone will not do"]
    return []


def read(directory: Path) -> tuple[Manifests, dict[str, Any]]:
    """The manifests of a directory, and its agent-config.yaml (empty without one). Raises ConfigsError for all that
    cannot be read."""
    wrong: list[tuple[str, str]] = []

    def manifest(name: str, *, needed: bool = False) -> dict[str, Any]:
        try:
            return _manifest(directory, name, needed=needed)
        except TopologyError as error:
            wrong.append((error.source, error.message))
            return {}

    install, deployment = manifest(CLUSTER_INSTALL, needed=True), manifest(CLUSTER_DEPLOYMENT, needed=True)
    environment, agent = manifest(INFRA_ENV), manifest(AGENT)
    try:
        hosts = _documents(directory, NMSTATE)
    except TopologyError as error:
        wrong.append((error.source, error.message))
    if wrong:
        raise ConfigsError(wrong)
    return Manifests(install, deployment, environment, hosts), agent


def adapt(directory: Path, topology: Topology, access: Access, pullspec: str) -> None:
    """Add the lab's registry, credentials, CA, SSH key, clock, proxy and Tang server to the manifests of `directory`,
    and name the release that is installed. Raises TopologyError."""
    environment = _manifest(directory, INFRA_ENV).get("spec") or {}
    installed = _manifest(directory, CLUSTER_INSTALL).get("spec") or {}
    # The installer takes the second field where the first is empty: filling in the first would hide the user's second.
    key = environment.get("sshAuthorizedKey") or installed.get("sshPublicKey")
    bundle = _text(directory / CA_BUNDLE) or str(environment.get("additionalTrustBundle") or "")
    _edit(directory, PULL_SECRET, lambda one: _secret(one, access))
    _edit(directory, IMAGE_SET, lambda one: _put(one, releaseImage=pullspec))
    _edit(directory, CLUSTER_INSTALL, lambda one: _cluster_install(one, topology, access))
    _edit(directory, INFRA_ENV, lambda one: _infra_env(one, topology, access, key))
    _registries(directory / REGISTRIES, "".join(_registry(*mirror) for mirror in access.mirrors))
    # No blank line after the last certificate: the installer refuses one.
    write_private(directory / CA_BUNDLE, f"{_joined(bundle, access.trust_bundle)}\n")
    _agent_config(directory, topology)


def _edit(directory: Path, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    if manifest := _manifest(directory, name):
        write_private(directory / name, yaml.safe_dump(change(manifest), sort_keys=False))


def _put(manifest: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**manifest, "spec": {**(manifest.get("spec") or {}), **fields}}


def _joined(*texts: Any) -> str:
    return "\n".join(text for one in texts if (text := str(one or "").strip()))


def _secret(manifest: dict[str, Any], access: Access) -> dict[str, Any]:
    """The Secret with the lab's credentials beside the user's, as stringData: that is what the installer reads."""
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


def _infra_env(manifest: dict[str, Any], topology: Topology, access: Access, key: Any) -> dict[str, Any]:
    spec = through_proxy(manifest.get("spec") or {}, topology)
    sources, clock = spec.get("additionalNTPSources") or [], topology.gateway
    return _put(
        {**manifest, "spec": spec},
        sshAuthorizedKey=_joined(key, access.ssh_key),
        additionalTrustBundle=f"{_joined(spec.get('additionalTrustBundle'), access.trust_bundle)}\n",
        additionalNTPSources=[*sources, *([clock] if clock not in sources else [])],
    )


def check_secret(directory: Path, access: Access) -> None:
    """Raises TopologyError where the lab's credentials cannot be added to the user's."""
    if manifest := _manifest(directory, PULL_SECRET):
        _secret(manifest, access)


def _registry(source: str, mirror: str) -> str:
    """An entry of containers-registries.conf(5) for a repository that is pulled by digest."""
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
    """agent-config.yaml says how hosts boot; it need not be there where they have an ISO of all that they need."""
    config, fields = _manifest(directory, AGENT), boot_fields(topology)
    if not fields:
        return
    named = {"apiVersion": "v1beta1", "kind": "AgentConfig", "metadata": {"name": topology.cluster_name}}
    content = config or {**named, "rendezvousIP": topology.rendezvous_ip}
    write_private(directory / AGENT, yaml.safe_dump({**content, **fields}, sort_keys=False))
