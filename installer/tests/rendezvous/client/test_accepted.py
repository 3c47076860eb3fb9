"""Manifests that `agent create` accepts, registered with the real service by the hosts' own client."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from installer.assisted.errors import RendezvousError
from installer.common.formats.yamltext import compose_all
from installer.config.state import State
from installer.create.stages import check as stage
from installer.create.stages.read import read
from installer.create.stages.render import manifest_files
from installer.create.stages.resolve import ResolvedRelease
from installer.errors import InstallerError
from installer.manifests import files as names
from installer.manifests import read as manifests
from installer.rendezvous.client import manifests as client_manifests
from installer.rendezvous.client.command import Client
from installer.testing.create import inputs_kit as kit
from installer.testing.create.manifests_kit import RELEASE, edited, generated
from installer.testing.service.forked_kit import forked
from installer.testing.service.rendezvous_kit import Running

pytestmark = pytest.mark.slow

VERSION = "4.18.0"
BASES = {"sno": kit.SNO, "dual-stack": kit.DUAL_STACK}
SPECS = (names.INSTALL, names.DEPLOYMENT, names.INFRA_ENV)
#: Of several kinds, for every field; then those for single fields, by the last part of their names.
VALUES: tuple[Any, ...] = ("", "no such thing", None, ["x"], ...)
FIELDS: dict[str, tuple[Any, ...]] = {
    "proxy": ({"httpProxy": "proxy"}, {"httpsProxy": "ftp://p"}, {"noProxy": "a b"}, {"httpProxy": "http://p:1"}),
    "diskEncryption": ({"enableOn": "all", "mode": "tang"}, {"enableOn": "none", "mode": "tpmv2"}),
    "additionalTrustBundle": ("-----BEGIN CERTIFICATE-----\n",),
    "additionalNTPSources": (["-x"], ["a b"], ["192.168.111.1", "ntp.example"]),
    "sshAuthorizedKey": ("ssh-rsa", kit.SSH_KEY),
    "clusterNetwork": ([{"cidr": "10.128.0.0/14", "hostPrefix": 0}], [{"cidr": "10.128.0.7/14", "hostPrefix": 23}]),
    "machineNetwork": ([{"cidr": "192.168.111.7/24"}], [{"cidr": "0.0.0.0/0"}], [{"cidr": "10.128.0.0/14"}]),
    "apiVIPs": (["192.168.111.4"], ["192.168.111.5", "192.168.111.6"], ["10.0.0.1"]),
    "controlPlaneAgents": (0, 2, 4, 6),
    "loadBalancer": ({"type": "UserManaged"}, {"type": "x"}),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    folder = tmp_path_factory.mktemp("service")
    with forked(folder) as service:
        yield service, folder / "assisted"


@pytest.fixture(autouse=True)
def of_this_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", RELEASE)
    # Of the files of one change most are those of the change before.
    monkeypatch.setattr(manifests, "compose_all", functools.cache(lambda text: [*compose_all(text)]))


def changes(files: dict[str, bytes], done: set[tuple[str, str]]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the manifests with each field of three of them changed but those that are done, and with fields added."""
    for name in SPECS:
        spec = yaml.safe_load(files[name])["spec"]
        for path in {*_paths(spec), *(FIELDS if name != names.DEPLOYMENT else ())}:
            if (name, path) in done:
                continue
            done.add((name, path))
            for value in (*VALUES, *FIELDS.get(path.rpartition(".")[2], ())):
                with contextlib.suppress(KeyError):  # where there is nothing to remove
                    yield f"{name} spec.{path}={value!r}", edited(files, name, f"spec.{path}", copy.deepcopy(value))


def _paths(value: Any, path: str = "") -> Iterator[str]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield f"{path}{key}"
        yield from _paths(inner, f"{path}{key}.")


def accepted(folder: Path, files: dict[str, bytes]) -> dict[str, bytes] | None:
    """Return the manifests that an image of these would have; None if `agent create` refuses them."""
    state = State.load(folder)
    inputs = dataclasses.replace(read(folder, "X", state), on_disk={"Manifests": files}, manifests=files)
    try:
        checked = stage.check(dataclasses.replace(inputs, from_manifests=True), "X")
        return manifest_files(checked, ResolvedRelease(RELEASE, VERSION, {}))
    except InstallerError:
        return None


def bodies(made: dict[str, bytes]) -> str:
    """Return the bodies that the client would send of these manifests."""
    parsed = client_manifests.parse({Path(name).name: data for name, data in made.items()})
    cluster = client_manifests.cluster_params(parsed, RELEASE, VERSION)
    infra_env = client_manifests.infra_env_params(parsed, "c", "full-iso", VERSION)
    return repr((cluster, infra_env, client_manifests.overrides(parsed)))


def labelled(folder: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the manifests of each base, as they are and changed; ``folder`` has its files meanwhile."""
    done: set[tuple[str, str]] = set()
    for base, install in BASES.items():
        agent = kit.AGENT if base == "sno" else {**kit.AGENT, "hosts": kit.AGENT["hosts"][:1]}
        _, _, files = generated(install, agent)
        (folder / "agent-config.yaml").write_text(kit.text(agent))
        for name, data in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
        yield base, files
        yield from changes(files, done)


def test_the_service_registers_what_create_accepts(client, tmp_path):
    service, root = client
    registered: set[str] = set()
    wrong = []
    api = service.client()
    for label, changed in labelled(tmp_path):
        made = accepted(tmp_path, changed)
        if made is None or (key := bodies(made)) in registered:
            continue
        registered.add(key)
        (root / "manifests").mkdir(parents=True, exist_ok=True)
        for name, data in made.items():
            (root / "manifests" / name).write_bytes(data)
        env = {"OPENSHIFT_INSTALL_RELEASE_IMAGE": RELEASE, "OPENSHIFT_VERSION": VERSION}
        registering = Client(api, root, root / "failures", env)
        resources: list[str] = []
        try:
            resources.append(f"/clusters/{registering.register_cluster()}")
            resources.append(f"/infra-envs/{registering.register_infra_env()}")
        except RendezvousError as error:
            wrong.append(f"{label}: {error}")
        for path in reversed(resources):
            api.call("DELETE", path)
    assert not wrong, "\n".join(wrong)
    assert len(registered) > 15
