"""cluster-manifests/ made from valid inputs, and changes to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from installer.config.load import parse_agent_config, parse_install_config, resolve_hosts
from installer.config.types.agent import Host
from installer.config.types.install import InstallConfig
from installer.manifests import files as names
from installer.manifests.cluster import Inputs, cluster_manifests
from installer.testing.create.inputs_kit import AGENT, SNO, changed, text

RELEASE = "registry.example/release@sha256:" + "0" * 64


def generated(
    install: Mapping[str, Any] = SNO, agent: Mapping[str, Any] = AGENT
) -> tuple[InstallConfig, tuple[Host, ...], dict[str, bytes]]:
    """Return install-config, hosts, and the cluster-manifests that are made of them, by path."""
    config = parse_install_config(text(dict(install)))
    parsed = parse_agent_config(text(dict(agent)))
    hosts = resolve_hosts(config, parsed)
    manifests = cluster_manifests(Inputs(config, ("ntp.example",), hosts, RELEASE, release_version="4.18.0"))
    return config, hosts, {f"{names.DIRECTORY}/{name}": data for name, data in manifests.items()}


def edited(files: Mapping[str, bytes], name: str, path: str, value: Any) -> dict[str, bytes]:
    """Return the files with a field of the first document of `name` changed; `...` removes it."""
    documents = [d for d in yaml.load_all(files[name], yaml.CSafeLoader) if d]
    documents[0] = changed(documents[0], path, value)
    return {**files, name: yaml.dump_all(documents, Dumper=yaml.CSafeDumper).encode()}
