"""`node0 agent create ...`, and `image` from manifests: real registry, real skopeo, ISOs made by xorriso."""

import base64
import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from installer.cli import main
from installer.common import cpio
from installer.common.iso9660 import Iso
from installer.config.rules.general import SKIP_FIPS_CHECK
from installer.create.graph import ASSETS, TARGETS, dot
from installer.create.stages.resolve import DEFAULT_RELEASE
from installer.create.targets import created_in
from installer.ignition.early import HOOK
from installer.ignition.livesystem import SYSTEM_UNITS
from installer.image.config_image import PATHS
from installer.overrides import RELEASE_OVERRIDE
from installer.testing.create import outputs_kit
from installer.testing.create.image_kit import NEEDED, content, inputs
from installer.testing.create.inputs_kit import SNO
from installer.testing.create.iso_kit import KARGS
from installer.testing.create.outputs_kit import MANIFESTS, MIRROR, create, kernel_line, names

pytestmark = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")
directory, lab = outputs_kit.directory, outputs_kit.lab
URL = "http://192.168.111.1:8080/boot"


def brought(path: Path) -> dict[str, bytes]:
    """Return the files that a config image brings."""
    with path.open("rb") as file:
        packed = Iso(file, path).file("config.gz")
    assert packed is not None
    return cpio.unpack(gzip.decompress(packed))


def test_manifests_changed_by_hand_end_in_the_image(directory, lab, capsys):
    assert create("cluster-manifests", directory) == 0
    err = capsys.readouterr().err
    last = f"Cluster-Manifests created in: {directory}/cluster-manifests and {directory}/mirror"
    assert err.splitlines()[-1] == f"level=info msg={last}"
    assert names(directory) == [*MANIFESTS, *MIRROR]
    assert (directory / "mirror/ca-bundle.crt").read_text() == lab[0].ca_pem
    path = directory / MANIFESTS[0]
    objects = yaml.safe_load(path.read_text())
    objects["spec"]["networking"]["clusterNetwork"][0]["cidr"] = "10.132.0.0/14"
    path.write_text(yaml.safe_dump(objects))
    assert create("image", directory) == 0
    assert names(directory) == ["agent.x86_64.iso", "auth/kubeadmin-password", "auth/kubeconfig", "rendezvousIP"]
    _config, files = content(directory / "agent.x86_64.iso")
    assert files["/etc/assisted/manifests/agent-cluster-install.yaml"] == path_text(objects)
    assert files["/etc/assisted/hostnames/52:54:00:6e:30:00"] == "master-0"
    assert "192.168.111.80/24" in files["/etc/assisted/network/host0/eth0.nmconnection"]
    assert lab[0].repository in files["/etc/containers/registries.conf"]
    # All is in the state now: again, from it alone.
    (directory / "agent.x86_64.iso").unlink()
    assert create("image", directory) == 0
    assert content(directory / "agent.x86_64.iso")[1] == files
    # The same install-config says nothing new, however it is written; another counts more than old manifests.
    install_config = "/etc/assisted/manifests/agent-cluster-install.yaml"
    for change, cidr in (({}, "10.132.0.0/14"), ({"sshKey": ""}, "10.128.0.0/14")):
        inputs(directory, lab[0], change)
        with (directory / "install-config.yaml").open("a") as file:
            file.write("# the same\n")
        assert create("image", directory) == 0
        assert cidr in content(directory / "agent.x86_64.iso")[1][install_config]


def path_text(objects):
    return yaml.safe_dump(objects)


def test_image_from_manifests_alone(directory, capsys):
    """ZTP: the manifests and mirror/ of somebody else, and no configs."""
    assert create("cluster-manifests", directory) == 0
    other = directory.parent / "other"
    other.mkdir()
    for folder in ("cluster-manifests", "mirror"):
        shutil.copytree(directory / folder, other / folder)
    (other / "cluster-manifests/cluster-image-set.yaml").unlink()  # then it is the installer's own
    (other / "openshift").mkdir()
    (other / "openshift/two.yaml").write_text("kind: A\n---\nkind: B\n")
    capsys.readouterr()
    assert create("image", other) == 0
    assert "The rendezvous host IP (node0 IP) is 192.168.111.80" in capsys.readouterr().err
    assert names(other) == ["agent.x86_64.iso", "auth/kubeadmin-password", "auth/kubeconfig", "rendezvousIP"]
    config, files = content(other / "agent.x86_64.iso")
    assert {"/etc/assisted/extra-manifests/two-0.yaml", "/etc/assisted/extra-manifests/two-1.yaml"} <= set(files)
    assert files["/usr/local/share/start-cluster/start-cluster.env"].startswith("REQUIRED_MASTER_NODES=1\n")
    assert "/etc/assisted/manifests/agent-config.yaml" not in files
    assert "releaseImage: " in files["/etc/assisted/manifests/cluster-image-set.yaml"]
    assert config["passwd"]["users"][0]["sshAuthorizedKeys"] == [SNO["sshKey"]]
    assert "https://api.ostest.test.node0.example:6443" in (other / "auth/kubeconfig").read_text()


def test_wrong_manifests_write_nothing(directory, capsys):
    assert create("cluster-manifests", directory) == 0
    path = directory / MANIFESTS[2]
    path.write_text(path.read_text().replace("sha256:", "sha256:00"))
    before = {name: (directory / name).read_bytes() for name in names(directory)}
    capsys.readouterr()
    for target in ("image", "pxe-files", "config-image", "cluster-manifests", "unconfigured-ignition"):
        assert create(target, directory) == 1
        fatal = [line for line in capsys.readouterr().err.splitlines() if "level=fatal" in line]
        assert len(fatal) == 1
        assert "invalid ClusterImageSet configuration: spec.releaseImage: Invalid value" in fatal[0]
        assert {name: (directory / name).read_bytes() for name in names(directory)} == before


def test_manifests_that_the_service_would_refuse_are_not_written_anew(directory, capsys, monkeypatch):
    assert create("cluster-manifests", directory) == 0
    path = directory / "cluster-manifests/infraenv.yaml"
    good = path.read_text()
    monkeypatch.setenv(RELEASE_OVERRIDE, "")  # no registry is needed to judge them
    image_set = directory / "cluster-manifests/cluster-image-set.yaml"
    image_set.write_text(re.sub("releaseImage: .*", f"releaseImage: {DEFAULT_RELEASE}", image_set.read_text()))
    assert create("cluster-manifests", directory) == 0
    path.write_text(good.replace("spec:\n", "spec:\n  additionalNTPSources: ['-x']\n"))
    before = {name: (directory / name).read_bytes() for name in names(directory)}
    capsys.readouterr()
    assert create("cluster-manifests", directory) == 1
    assert "infraenv.yaml: spec.additionalNTPSources: '-x' is neither a name" in capsys.readouterr().err
    assert {name: (directory / name).read_bytes() for name in names(directory)} == before


def test_boot_artifacts_of_the_users_own_stay(directory, lab, capsys):
    inputs(directory, lab[0], agent={"bootArtifactsBaseURL": URL})
    boot = directory / "boot-artifacts"
    (directory / "tftp/menus").mkdir(parents=True)
    (directory / "tftp/agent.d").mkdir()
    boot.symlink_to("tftp")
    users = ("menus/main.ipxe", "boot.ipxe", "my.agent.cfg", "agent.d/x")
    for name in (*users, "agent.aarch64.ipxe"):
        (boot / name).write_text("mine")
    assert create("pxe-files", directory) == 0
    assert all((directory / "tftp" / name).read_text() == "mine" for name in users)
    assert (boot / "agent.x86_64-vmlinuz").exists()
    assert not (boot / "agent.aarch64.ipxe").exists()


def test_pxe_files(directory, lab, capsys):
    inputs(directory, lab[0], agent={"bootArtifactsBaseURL": URL + "/"})
    assert create("pxe-files", directory) == 0
    boot = directory / "boot-artifacts"
    files = ["agent.x86_64-initrd.img", "agent.x86_64-rootfs.img", "agent.x86_64-vmlinuz", "agent.x86_64.ipxe"]
    assert sorted(path.name for path in boot.iterdir()) == files
    assert names(directory)[:2] == ["auth/kubeadmin-password", "auth/kubeconfig"]
    kargs = KARGS.partition(" ")[2]
    assert (boot / "agent.x86_64.ipxe").read_text() == (
        f"#!ipxe\ninitrd --name initrd {URL}/agent.x86_64-initrd.img\nkernel {URL}/agent.x86_64-vmlinuz initrd=initrd "
        f"coreos.live.rootfs_url={URL}/agent.x86_64-rootfs.img {kargs}\nboot\n"
    )
    err = capsys.readouterr().err.splitlines()
    assert err[-3:] == [
        f"level=info msg=Created iPXE script agent.x86_64.ipxe in {boot} directory",
        f"level=info msg=PXE boot artifacts created in: {boot}",
        f"level=info msg=Kernel parameters for PXE boot: {kargs}",
    ]
    with lab[2].open("rb") as file:
        iso = Iso(file, lab[2])
        for name in ("vmlinuz", "rootfs.img"):
            assert (boot / f"agent.x86_64-{name}").read_bytes() == iso.file(f"images/pxeboot/{name}")
        base = iso.file("images/pxeboot/initrd.img") or b""
    initrd = (boot / "agent.x86_64-initrd.img").read_bytes()
    assert initrd.startswith(base)
    config = cpio.unpack(gzip.decompress(initrd[(len(base) + 3) // 4 * 4 :]))["config.ign"]
    assert json.loads(config)["ignition"]["version"] == "3.2.0"
    assert (boot / "agent.x86_64-initrd.img").stat().st_mode & 0o777 == 0o644
    # Without a URL there is no script; the old folder goes as a whole.
    inputs(directory, lab[0])
    assert create("pxe-files", directory) == 0
    assert sorted(path.name for path in boot.iterdir()) == files[:-1]


def test_minimal_iso(directory, lab, capsys, monkeypatch):
    monkeypatch.setenv(SKIP_FIPS_CHECK, "1")
    inputs(directory, lab[0], {"fips": True, "sshKey": ""}, {"minimalISO": True, "bootArtifactsBaseURL": URL})
    assert create("image", directory) == 0
    err = capsys.readouterr().err
    assert "Minimal ISO will be created based on configuration" in err
    assert f"RootFS file created in: {directory}/boot-artifacts. Upload it at {URL}/agent.x86_64-rootfs.img" in err
    assert f"Generated minimal ISO at {directory}/agent.x86_64.iso" in err
    iso_path = directory / "agent.x86_64.iso"
    _config, files = content(iso_path)
    assert files["/etc/assisted/rendezvous-host.env"]
    with iso_path.open("rb") as file:
        iso = Iso(file, iso_path)
        assert iso.find("images/pxeboot/rootfs.img") is None
        initrd = iso.file("images/pxeboot/initrd.img")
    # The root is fetched before Ignition has put the hosts' networks in place.
    added = cpio.unpack(gzip.decompress(initrd[initrd.rindex(b"\x1f\x8b\x08") :]))
    network = "etc/assisted/network/host0/eth0.nmconnection"
    assert added[network].decode() == files[f"/{network}"]
    assert added[HOOK].startswith(b"#!/bin/sh")
    kargs = kernel_line(iso_path)
    assert f'coreos.live.rootfs_url="{URL}/agent.x86_64-rootfs.img"' in kargs
    assert "fips=1" in kargs
    assert not [word for word in kargs if word.startswith("coreos.liveiso=")]
    assert (directory / "boot-artifacts/agent.x86_64-rootfs.img").stat().st_size == 40_000


def test_external_platform_is_always_minimal(directory, lab, capsys):
    external = {"platform": {"external": {"platformName": "oci", "cloudControllerManager": "External"}}}
    inputs(directory, lab[0], external)
    assert create("image", directory) == 1
    assert "bootArtifactsBaseURL: Required value" in capsys.readouterr().err
    inputs(directory, lab[0], external, {"bootArtifactsBaseURL": URL})
    assert create("image", directory) == 0
    err = capsys.readouterr().err
    assert "Minimal ISO will be created for External platform" in err
    assert "make sure CCM manifests were added in the openshift directory" in err
    assert "console=ttyS0" in kernel_line(directory / "agent.x86_64.iso")


def test_config_image(directory, capsys):
    assert create("config-image", directory) == 0
    assert capsys.readouterr().err.splitlines()[-1] == f"level=info msg=Config-Image created in: {directory}/auth"
    path = directory / "agentconfig.noarch.iso"
    assert path.stat().st_mode & 0o777 == 0o644
    if shutil.which("blkid"):
        done = subprocess.run(["blkid", "-p", "-s", "LABEL", "-o", "value", path], capture_output=True, text=True)
        assert done.stdout.strip() == "agent_configimage"
    with path.open("rb") as file:
        assert Iso(file, path).volume_id == "agent_configimage"
    files = brought(path)
    assert list(files)[-1] == "/etc/assisted/rendezvous-host.env"
    assert all(any(name.startswith(item) for item in PATHS) for name in files)
    assert "/etc/assisted/manifests/cluster-image-set.yaml" in files
    assert {"/opt/agent/tls/ca.crt", "/root/.docker/config.json"} <= set(files)
    assert not any(name.startswith("/usr/local/bin/") for name in files)


def test_unconfigured_ignition(directory, capsys):
    assert create("cluster-manifests", directory) == 0
    other = directory.parent / "other"
    (other / "cluster-manifests").mkdir(parents=True)
    shutil.copytree(directory / "mirror", other / "mirror")
    for name in ("infraenv", "pull-secret"):
        shutil.copy(directory / f"cluster-manifests/{name}.yaml", other / "cluster-manifests")
    capsys.readouterr()
    assert create("unconfigured-ignition", other) == 0
    assert names(other) == [*MIRROR, "unconfigured-agent.ign"]
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == f"level=info msg=Unconfigured-Ignition created in: {other}"
    config = json.loads((other / "unconfigured-agent.ign").read_text())
    files = {f["path"]: base64.b64decode(f["contents"]["source"].partition(",")[2]) for f in config["storage"]["files"]}
    manifests = sorted(name for name in files if name.startswith("/etc/assisted/manifests/"))
    assert [Path(name).name for name in manifests] == ["cluster-image-set.yaml", "infraenv.yaml", "pull-secret.yaml"]
    assert not {"/etc/assisted/rendezvous-host.env", "/opt/agent/tls/ca.crt"} & set(files)
    assert b"192.0.2.1" not in b"".join(files.values())
    assert {"/usr/local/bin/load-config-iso.sh", "/etc/udev/rules.d/80-agent-config-image.rules"} <= set(files)
    assert files["/etc/containers/registries.conf"] == (directory / "mirror/registries.conf").read_bytes()
    enabled = {unit["name"] for unit in config["systemd"]["units"] if unit["enabled"]}
    assert enabled == {"agent-check-config-image.service", *SYSTEM_UNITS}
    started = files["/etc/assisted/config-image-units"].decode().split()
    assert {"agent-register-cluster.service", "start-cluster-installation.service"} < set(started)
    assert set(started) <= {unit["name"] for unit in config["systemd"]["units"]}
    # Config image and unconfigured image agree on what release they are for.
    assert create("config-image", directory) == 0
    brought_files = brought(directory / "agentconfig.noarch.iso")
    name = "/etc/assisted/manifests/cluster-image-set.yaml"
    assert yaml.safe_load(brought_files[name])["spec"] == yaml.safe_load(files[name])["spec"]


def test_unconfigured_ignition_takes_networks_whatever_their_labels(directory, capsys):
    """As openshift-install does; without a key there is no user, and the architecture gets uname's name."""
    assert create("cluster-manifests", directory) == 0
    other = directory.parent / "other"
    shutil.copytree(directory / "mirror", other / "mirror")
    manifests = other / "cluster-manifests"
    manifests.mkdir()
    for name in ("infraenv", "pull-secret", "nmstateconfig"):
        shutil.copy(directory / f"cluster-manifests/{name}.yaml", manifests)
    infra_env = yaml.safe_load((manifests / "infraenv.yaml").read_text())
    infra_env["spec"] |= {"nmStateConfigLabelSelector": {"matchLabels": {"other": "x"}}, "cpuArchitecture": "amd64"}
    del infra_env["spec"]["sshAuthorizedKey"]
    (manifests / "infraenv.yaml").write_text(yaml.safe_dump(infra_env))
    capsys.readouterr()
    assert create("unconfigured-ignition", other) == 0
    stderr = capsys.readouterr().err
    for asset in ("InfraEnv Config File", "Agent PullSecret", "NMState Config"):
        assert f"Consuming {asset} from target directory" in stderr
    config = json.loads((other / "unconfigured-agent.ign").read_text())
    files = {f["path"]: base64.b64decode(f["contents"]["source"].partition(",")[2]) for f in config["storage"]["files"]}
    assert yaml.safe_load(files["/etc/assisted/manifests/infraenv.yaml"])["spec"]["cpuArchitecture"] == "x86_64"
    assert "/etc/assisted/network/host0/mac_interface.ini" in files
    assert config["passwd"] == {"users": []}


def test_hosts_that_only_an_nmstateconfig_names_are_not_awaited(directory):
    """The service would wait for each that has a host config, and there may be more networks than hosts."""
    assert create("cluster-manifests", directory) == 0
    other = directory.parent / "other"
    for folder in ("cluster-manifests", "mirror"):
        shutil.copytree(directory / folder, other / folder)
    assert create("config-image", other) == 0
    files = brought(other / "agentconfig.noarch.iso")
    assert any(name.startswith("/etc/assisted/network/host0/") for name in files)
    assert not [name for name in files if name.startswith("/etc/assisted/hostconfig/")]


def test_unconfigured_ignition_wants_manifests(directory, capsys):
    assert create("unconfigured-ignition", directory) == 1
    err = capsys.readouterr().err
    assert (
        'failed to generate asset "InfraEnv Config File": configuration file not found: cluster-manifests/infraenv.yaml'
        in err
    )
    assert names(directory) == ["agent-config.yaml", "install-config.yaml"]


def test_certificates_are_those_of_the_cluster(directory, tmp_path, capsys):
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder in (empty, directory):
        if folder is directory:
            assert create("image", folder) == 0
        assert create("certificates", folder) == 0
        assert len(list((folder / "tls").iterdir())) == 10
        assert f"Certificates created in: {folder}/tls" in capsys.readouterr().err
    _config, files = content(directory / "agent.x86_64.iso")
    for path in (directory / "tls").iterdir():
        if path.name != "kubeadmin-password":
            assert files[f"/opt/agent/tls/{path.name}"] == path.read_text()
        assert path.stat().st_mode & 0o777 == 0o600
    assert (directory / "tls/kubeadmin-password").read_text() == (directory / "auth/kubeadmin-password").read_text()


def test_agent_config_template(tmp_path, capsys):
    assert create("agent-config-template", tmp_path) == 0
    assert capsys.readouterr().err == f"level=info msg=Agent-Config-Template created in: {tmp_path}\n"
    template = yaml.safe_load((tmp_path / "agent-config.yaml").read_text())
    assert set(template) >= {"rendezvousIP", "bootArtifactsBaseURL", "minimalISO", "additionalNTPSources", "hosts"}
    [host] = template["hosts"]
    assert [nic["name"] for nic in host["interfaces"]] == [nic["name"] for nic in host["networkConfig"]["interfaces"]]


def test_agent_config_template_overwrites_nothing(tmp_path, capsys):
    own = tmp_path / "agent-config.yaml"
    for _ in range(2):  # a template again is no loss
        assert create("agent-config-template", tmp_path) == 0
    for written in ("rendezvousIP: 192.168.111.80\n", ""):
        own.write_text(written)
        assert create("agent-config-template", tmp_path) == 1
        assert "there is one already, which is not overwritten" in capsys.readouterr().err
        assert own.read_text() == written
    own.unlink()
    own.symlink_to("nowhere")
    assert create("agent-config-template", tmp_path) == 1
    assert own.is_symlink()


def test_graph(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the log goes to the asset directory, which is this one without --dir
    assert main(["agent", "graph"]) == 0
    out = capsys.readouterr().out
    assert out == dot()
    assert main(["agent", "graph", "--output-file", str(tmp_path / "g")]) == 0
    assert (tmp_path / "g").read_text() == out
    assert main(["agent", "graph", "--output-file", str(tmp_path / "no/g")]) == 1
    assets = set(ASSETS) | {parent for parents in ASSETS.values() for parent in parents}
    assert {parent for parents in TARGETS.values() for parent in parents} <= assets
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tplain"], input=out, text=True, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("files", "places"),
    [
        (["a"], "test"),
        (["a", "machines/b"], "test and test/machines"),
        (["a", "machines/b", "machines/c"], "test and test/machines"),
        (["a", "machines/b", "control-plane/c"], "test, test/control-plane and test/machines"),
        (["a", "b/a", "c/a", "d/a"], "test"),
        (["machines/workers/b", "control-plane/disks/c"], "test/control-plane and test/machines"),
    ],
)
def test_created_in(files, places):
    assert created_in("machine-config", Path("test/"), files) == f"Machine-Config created in: {places}"
