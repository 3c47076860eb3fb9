"""Directories of manifests without configs (zero-touch provisioning), and second runs in one directory."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import yaml

from ci.bench.oracle.inputs.bases import Config, bases
from ci.bench.oracle.inputs.cases import Change, apply, dump
from ci.bench.oracle.inputs.values import ABSENT
from ci.bench.oracle.programs import RELEASE, Edit, Input

#: How many combinations of a seed: of changes to manifests, of edits between two runs.
MANIFEST_PAIRS, EDIT_PAIRS = 20, 30
_INSTALL, _DEPLOYMENT, _IMAGE_SET, _INFRA_ENV, _SECRET, _NETWORKS = (
    f"cluster-manifests/{name}.yaml"
    for name in (
        *("agent-cluster-install", "cluster-deployment", "cluster-image-set"),
        *("infraenv", "pull-secret", "nmstateconfig"),
    )
)
_REGISTRIES, _BUNDLE = "mirror/registries.conf", "mirror/ca-bundle.crt"
_AGENT, _CONFIG = "agent-config.yaml", "install-config.yaml"
_LABELS = {"infraenvs.agent-install.openshift.io": "ztp"}
_OVERRIDES = "agent-install.openshift.io/install-config-overrides"


def _network(number: int) -> Config:
    mac, address = f"52:54:00:6e:32:{number:02x}", f"192.168.111.{80 + number}"
    ipv4 = {"enabled": True, "dhcp": False, "address": [{"ip": address, "prefix-length": 24}]}
    nic = {"name": "eth0", "type": "ethernet", "state": "up", "mac-address": mac, "ipv4": ipv4}
    return {
        "apiVersion": "agent-install.openshift.io/v1beta1",
        "kind": "NMStateConfig",
        "metadata": {"name": f"node-{number}", "namespace": "ztp", "labels": _LABELS},
        "spec": {"config": {"interfaces": [nic]}, "interfaces": [{"name": "eth0", "macAddress": mac}]},
    }


def manifests() -> dict[str, list[Config]]:
    """The documents of a compact cluster's manifests, by path."""
    metadata = {"name": "ztp", "namespace": "ztp"}
    networking = {
        "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
        "machineNetwork": [{"cidr": "192.168.111.0/24"}],
        "serviceNetwork": ["172.30.0.0/16"],
    }
    install = {
        "apiVIP": "192.168.111.5",
        "ingressVIP": "192.168.111.4",
        "clusterDeploymentRef": {"name": "ztp"},
        "imageSetRef": {"name": "release"},
        "networking": networking,
        "provisionRequirements": {"controlPlaneAgents": 3, "workerAgents": 0},
        "sshPublicKey": "ssh-ed25519 AAAA",
    }
    deployment = {"baseDomain": "test.example", "clusterName": "ztp", "pullSecretRef": {"name": "pull-secret"}}
    infra_env = {
        "clusterRef": metadata,
        "cpuArchitecture": "x86_64",
        "pullSecretRef": {"name": "pull-secret"},
        "nmStateConfigLabelSelector": {"matchLabels": _LABELS},
    }
    secret = {"stringData": {".dockerconfigjson": '{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}'}}
    image_set = {"spec": {"releaseImage": RELEASE}}
    return {
        _INSTALL: [_object("extensions.hive.openshift.io/v1beta1", "AgentClusterInstall", metadata, spec=install)],
        _DEPLOYMENT: [_object("hive.openshift.io/v1", "ClusterDeployment", metadata, spec=deployment)],
        _IMAGE_SET: [_object("hive.openshift.io/v1", "ClusterImageSet", {"name": "release"}, **image_set)],
        _INFRA_ENV: [_object("agent-install.openshift.io/v1beta1", "InfraEnv", metadata, spec=infra_env)],
        _SECRET: [_object("v1", "Secret", {"name": "pull-secret", "namespace": "ztp"}, **secret)],
        _NETWORKS: [_network(number) for number in range(3)],
    }


def _object(version: str, kind: str, metadata: Config, **rest: Any) -> Config:
    # A copy, so that a change in one place does not change another.
    return copy.deepcopy({"apiVersion": version, "kind": kind, "metadata": metadata}) | copy.deepcopy(rest)


#: Changes of one document of the manifests, by file, its number and a path in it.
_CHANGES: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    (_INSTALL, "0.spec.platformType", ("BareMetal", "baremetal", "None", "VSphere", "vSphere", "Cloud")),
    (_INSTALL, "0.spec.networking.userManagedNetworking", (True, False)),
    (_INSTALL, "0.spec.networking.networkType", ("OVNKubernetes", "OpenShiftSDN", "Cilium")),
    (_INSTALL, "0.spec.networking.clusterNetwork.0.hostPrefix", (26, 14, "x")),
    (_INSTALL, "0.spec.networking.clusterNetwork.0.cidr", ("nonsense", "fd01::/48")),
    (_INSTALL, "0.spec.networking.machineNetwork", (ABSENT, [{"cidr": "10.0.0.0/8"}])),
    (_INSTALL, "0.spec.provisionRequirements.controlPlaneAgents", (0, 1, 2, 4)),
    (_INSTALL, "0.spec.provisionRequirements.workerAgents", (2, 5000)),
    (_INSTALL, "0.spec.apiVIP", (ABSENT, "10.0.0.1", "x")),
    (_INSTALL, "0.spec.diskEncryption", ({"enableOn": "all", "mode": "tpmv2"}, {"enableOn": "some", "mode": "tpmv2"})),
    (_INSTALL, "0.spec.unknownField", ("x",)),
    (_INSTALL, "0.metadata.annotations", ({_OVERRIDES: '{"fips": true}'}, {_OVERRIDES: "{fips"})),
    (_DEPLOYMENT, "0.kind", ("Other",)),
    (_DEPLOYMENT, "0.spec.clusterName", (ABSENT, "other")),
    (_DEPLOYMENT, "0.spec.unknownField", ("x",)),
    (_IMAGE_SET, "0.spec.releaseImage", (ABSENT, "quay.io/other@sha256:0")),
    (_INFRA_ENV, "0.spec.cpuArchitecture", (ABSENT, "amd64", "arm64", "vax")),
    (_INFRA_ENV, "0.spec.nmStateConfigLabelSelector.matchLabels", ({"other": "x"},)),
    (_INFRA_ENV, "0.spec.additionalNTPSources", (["ntp.example"], "ntp.example")),
    (_INFRA_ENV, "0.spec.proxy", ({"httpProxy": "http://proxy.example:3128"},)),
    (_SECRET, "0.stringData", (ABSENT, {"other": "x"}, {".dockerconfigjson": ""}, {".dockerconfigjson": "{"})),
    (_NETWORKS, "1.metadata.labels", (ABSENT, {"other": "x"})),
    (_NETWORKS, "1.spec.interfaces.0.macAddress", ("52:54:00:6e:32:00", "52:54:00:6E:32:00")),
    (_NETWORKS, "1.spec.interfaces", (ABSENT,)),
)
_MIRROR = """[[registry]]
location = "{}"
mirror-by-digest-only = true
[[registry.mirror]]
location = "registry.example:5000/ocp/release"
"""
#: Files beside the manifests, or in the place of one: None takes it away.
_FILES: tuple[dict[str, str | None], ...] = (
    {_NETWORKS: ""},
    {_INSTALL: "a: [\n"},
    {"cluster-manifests/other.yaml": "a: 1\n"},
    {"openshift/broken.yaml": "a: [\n"},
    {_REGISTRIES: _MIRROR.format("127.0.0.1/ocp/release")},
    {_REGISTRIES: _MIRROR.format("quay.io/other")},
    {_REGISTRIES: _MIRROR.format("127.0.0.1/ocp/release").partition("[[registry.mirror")[0]},
    {_REGISTRIES: "location = 1 2\n"},
    {_BUNDLE: "nonsense\n"},
    {_AGENT: "apiVersion: v1beta1\nkind: AgentConfig\nrendezvousIP: 192.168.111.80\n"},
    {_AGENT: "a: [\n"},
)


def inputs(certificate: str, seed: int) -> list[Input]:
    """All inputs of this module, each named by what was changed."""
    rng = random.Random(seed)
    return [*_of_manifests(rng), *_again(certificate, rng)]


def _of_manifests(rng: random.Random) -> Iterator[Input]:
    changes = [Change(file, path, value) for file, path, values in _CHANGES for value in values]
    yield _written("as they are", [], {})
    yield from (_written(str(change), [change], {}) for change in changes)
    absent: list[dict[str, str | None]] = [{name: None} for name in manifests()]
    yield from (_written(_files_changed(files), [], files) for files in (*absent, *_FILES))
    # Pairs within one file: openshift-install reports only the first file that is wrong.
    for _ in range(MANIFEST_PAIRS):
        change = rng.choice(changes)
        other = rng.choice([one for one in changes if (one.file, one.path) != (change.file, change.path)])
        if change.file == other.file == _INSTALL:
            yield _written(f"{change}; {other}", [change, other], {})


def _files_changed(files: dict[str, str | None]) -> str:
    return "; ".join(f"{name} {'absent' if text is None else repr(text[:40])}" for name, text in files.items())


def _written(name: str, changes: list[Change], files: dict[str, str | None]) -> Input:
    documents: dict[str, Any] = copy.deepcopy(manifests())
    for change in changes:
        apply(documents[change.file], change.path, change.value)
    texts: dict[str, bytes] = {path: b"---\n".join(map(dump, items)) for path, items in documents.items()}
    for path, text in files.items():
        texts.pop(path, None)
        if text is not None:
            texts[path] = text.encode()
    return Input(f"manifests: {name}", texts)


def _edits(certificate: str, install: Config, agent: Config) -> dict[str, tuple[Edit, ...]]:
    """Edits that are made between two runs, by a name for the input."""
    later = {**agent, "additionalNTPSources": ["192.0.2.1"]}
    without_hosts = {name: value for name, value in agent.items() if name != "hosts"}
    removed = {f"{name} absent": (Edit(name),) for name in (*manifests(), _REGISTRIES, _BUNDLE)}
    return {
        "nothing": (),
        **removed,
        "all manifests absent": tuple(Edit(name) for name in manifests()),
        "mirror/ absent": (Edit(_REGISTRIES), Edit(_BUNDLE)),
        "the state absent": (Edit(".openshift_install_state.json"),),
        "the state broken": (Edit(".openshift_install_state.json", new=b"{"),),
        "the same agent-config": (Edit(_AGENT, new=dump(agent)),),
        "another agent-config": (Edit(_AGENT, new=dump(later)),),
        "an agent-config without hosts": (Edit(_AGENT, new=dump(without_hosts)),),
        "a broken agent-config": (Edit(_AGENT, new=b"a: [\n"),),
        "the same install-config": (Edit(_CONFIG, new=dump(install)),),
        "the same install-config, as JSON": (Edit(_CONFIG, new=yaml.dump(install, default_flow_style=True).encode()),),
        "another install-config": (Edit(_CONFIG, new=dump({**install, "sshKey": ""})),),
        "a broken install-config": (Edit(_CONFIG, new=b"a: [\n"),),
        "pod network": (Edit(_INSTALL, b"10.128.0.0/14", b"10.132.0.0/14"),),
        "domain": (Edit(_DEPLOYMENT, b"baseDomain: ", b"baseDomain: x."),),
        "label": (Edit(_INFRA_ENV, b"matchLabels:", b"matchLabels:\n      other: x"),),
        "broken AgentClusterInstall": (Edit(_INSTALL, new=b"a: [\n"),),
        "another mirror": (Edit(_REGISTRIES, new=_MIRROR.format("quay.io/other").encode()),),
        "a certificate": (Edit(_BUNDLE, new=certificate.encode()),),
        "an extra manifest": (Edit("openshift/a.yaml", new=b"kind: A\n"),),
    }


def _again(certificate: str, rng: random.Random) -> Iterator[Input]:
    for base in ("sno", "compact"):
        install, agent = bases(certificate)[base]
        edits = _edits(certificate, install, agent)
        whole = {_CONFIG: dump(install), _AGENT: dump(agent)}
        if base == "sno":
            for name, some in edits.items():
                yield Input(f"again: {name}", whole, again=some)
            first = {_CONFIG: dump(install)}
            yield Input("again: agent-config comes later", first, again=(Edit(_AGENT, new=dump(agent)),))
        # On bare metal openshift-install takes the same for a new one: once is enough (same-install-config).
        others = sorted(name for name in edits if base == "sno" or not name.startswith("the same install-config"))
        yield Input(f"again {base}: the same install-config", whole, again=edits["the same install-config"])
        for _ in range(EDIT_PAIRS // 2):
            one, other = rng.sample(others, 2)
            paths = [{edit.path for edit in edits[name]} for name in (one, other)]
            if not paths[0] & paths[1]:
                yield Input(f"again {base}: {one}; {other}", whole, again=(*edits[one], *edits[other]))
