"""Inputs as big as they get: 500 hosts, and NMStateConfigs that fill their part of the embed area of 256 KiB."""

import time

import pytest
import yaml

from installer.common import cpio
from installer.common.formats.yamltext import load_all
from installer.create.stages.check import check
from installer.create.stages.read import read
from installer.ignition.live import IMAGE_VARIABLES, LiveInputs, live_config
from installer.manifests.cluster import Inputs, cluster_manifests
from installer.testing.create.inputs_kit import AGENT, COMPACT, many_hosts, text

pytestmark = pytest.mark.slow

AREA = 262144
# That many fit, says the assisted service's documentation; an eighth of them tells how much each takes.
MOST = 3960
NMSTATE_CONFIGS = MOST // 8
RELEASE = "release.example/x@sha256:" + "0" * 64


def ignition(manifests, hosts) -> bytes:
    return live_config(
        LiveInputs(
            rendezvous_ip="10.20.0.10", release_image=RELEASE, release_version="4.18.0",
            images=dict.fromkeys(IMAGE_VARIABLES.values(), RELEASE), public_key_pem="", agent_token="", user_token="",
            watcher_token="", tls_files={}, pull_secret="{}", manifests=manifests, hosts=hosts,
        )
    )  # fmt: skip


def test_five_hundred_hosts(tmp_path):
    """In processor time, which a busy machine does not lengthen; the wall clock is ci/bench's."""
    install, agent = many_hosts(500)
    (tmp_path / "install-config.yaml").write_text(text(install))
    (tmp_path / "agent-config.yaml").write_text(text(agent))
    begin = time.process_time()
    inputs = check(read(tmp_path, "x"), "x")
    files = inputs.host_files
    assert time.process_time() - begin < 1.5
    assert len(files) == 500
    assert all("address0=10." in host.network["eth0.nmconnection"] for host in files)
    manifests = cluster_manifests(Inputs(inputs.install, (), inputs.hosts, RELEASE, release_version="4.18.0"))
    assert len(load_all(manifests["nmstateconfig.yaml"].decode())) == 500


def test_as_many_nmstate_configs_as_fit(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", RELEASE)
    (tmp_path / "install-config.yaml").write_text(text(COMPACT))
    (tmp_path / "agent-config.yaml").write_text(text(AGENT))
    checked = check(read(tmp_path, "x"), "x")
    _install, agent = many_hosts(NMSTATE_CONFIGS)
    documents = [
        {
            "apiVersion": "agent-install.openshift.io/v1beta1",
            "kind": "NMStateConfig",
            "metadata": {
                "name": f"host-{index}",
                "labels": {"infraenvs.agent-install.openshift.io": checked.install.metadata.name},
            },
            "spec": {"config": host["networkConfig"], "interfaces": host["interfaces"]},
        }
        for index, host in enumerate(agent["hosts"])
    ]
    for path in tmp_path.iterdir():
        path.unlink()
    folder = tmp_path / "cluster-manifests"
    folder.mkdir()
    manifests = cluster_manifests(Inputs(checked.install, (), (), RELEASE, release_version="4.18.0"))
    for name, data in manifests.items():
        (folder / name).write_bytes(data)
    (folder / "nmstateconfig.yaml").write_text(yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False))
    begin = time.process_time()
    inputs = check(read(tmp_path, "x"), "x")
    hosts = inputs.host_files
    assert len(hosts) == NMSTATE_CONFIGS
    config = ignition(inputs.manifests, hosts)
    packed, bare = (
        len(cpio.compress(cpio.pack({"config.ign": content}), AREA)) for content in (config, ignition(manifests, ()))
    )
    assert time.process_time() - begin < 5
    assert bare + (packed - bare) / NMSTATE_CONFIGS * MOST <= AREA, f"{packed} bytes of {len(config)}, {bare} without"
