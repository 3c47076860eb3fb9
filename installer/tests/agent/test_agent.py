"""The agent: parsers on recorded forms, the loop's rules, steps on this very host."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.agent import containers
from installer.agent.checks import diskspeed, netchecks
from installer.agent.errors import MediaLost
from installer.agent.host import blockdev, hostid, media
from installer.agent.host import inventory as agent_inventory
from installer.assisted import inventory as inv
from installer.assisted.enums import Role
from installer.assisted.steparguments import Domain, DomainsRequest, InstallRequest
from installer.common.redact.testing import corpus
from installer.hostsys import logs
from installer.hostsys.system import HostSystem
from installer.testing.agent_kit import AGENT

HERE = HostSystem(Path("/"))


class Scripted(HostSystem):
    """A host whose programs' answers are given; a program that is not is an error of the test."""

    def __init__(self, root: Path, **answers: str) -> None:
        super().__init__(root)
        object.__setattr__(self, "answers", answers)

    def run(self, *args: str, timeout: float = 60.0, check: bool = True) -> str:
        return str(getattr(self, "answers")[args[0]])  # noqa: B009


LSBLK = {
    "blockdevices": [
        {
            "name": "sr0",
            "kname": "sr0",
            "path": "/dev/sr0",
            "type": "rom",
            "size": 900,
            "mountpoints": ["/run/media/iso"],
        },
        {"name": "loop0", "kname": "loop0", "path": "/dev/loop0", "type": "loop", "size": 5000, "mountpoints": ["/"]},
        {
            "name": "vda",
            "kname": "vda",
            "path": "/dev/vda",
            "type": "disk",
            "size": 21474836480,
            "rota": True,
            "mountpoints": [None],
            "children": [
                {"name": "vda1", "kname": "vda1", "type": "part", "size": 1, "mountpoints": [None], "partflags": "0x80"}
            ],
        },
        {
            "name": "sda",
            "kname": "sda",
            "path": "/dev/sda",
            "type": "disk",
            "size": 10,
            "rota": False,
            "tran": "sata",
            "hctl": "1:0:0:0",
            "model": "M ",
            "children": [{"name": "sda1", "kname": "sda1", "type": "part", "size": 1, "mountpoints": ["/var"]}],
        },
    ]
}


def test_disks(tmp_path: Path) -> None:
    by_path = tmp_path / "dev/disk/by-path"
    by_path.mkdir(parents=True)
    (by_path / "virtio-pci-0000:04:00.0").symlink_to("../../vda")
    by_id = tmp_path / "dev/disk/by-id"
    by_id.mkdir()
    (by_id / "ata-M").symlink_to("../../sda")
    (by_id / "wwn-0x5").symlink_to("../../sda")
    disks = {disk.name: disk for disk in blockdev.disks(Scripted(tmp_path, lsblk=json.dumps(LSBLK)))}
    assert sorted(disks) == ["sda", "sr0", "vda"]
    assert disks["vda"].id == "/dev/disk/by-path/virtio-pci-0000:04:00.0"
    assert disks["vda"].bootable
    assert disks["vda"].installation_eligibility.eligible
    assert disks["sda"].id == "/dev/disk/by-id/wwn-0x5"
    assert (disks["sda"].drive_type, disks["sda"].model) == ("SSD", "M")
    assert disks["sda"].installation_eligibility.not_eligible_reasons == ["Disk has partition 'sda1' mounted on '/var'"]
    assert disks["sr0"].is_installation_media
    assert not disks["sr0"].installation_eligibility.eligible


def test_host_id(tmp_path: Path) -> None:
    dmi = tmp_path / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    host = HostSystem(tmp_path)
    assert hostid.host_id(host) == hostid.FALLBACK
    (dmi / "product_uuid").write_text("00000000-0000-0000-0000-000000000000\n")
    assert hostid.host_id(host) == hostid.FALLBACK
    (dmi / "product_uuid").write_text("A0B1C2D3-0000-4000-8000-000000000001\n")
    assert hostid.host_id(host) == "a0b1c2d3-0000-4000-8000-000000000001"
    (dmi / "board_serial").write_text("None\n")
    assert hostid.host_id(host) == "a0b1c2d3-0000-4000-8000-000000000001"
    (dmi / "board_serial").write_text("XYZ-1\n")
    assert hostid.host_id(host) == hostid.md5_uuid("XYZ-1")


def test_inventory_of_this_host_reads_back() -> None:
    text = agent_inventory.collect_json(HERE)
    decoded = inv.decode(text)
    assert decoded.cpu.count >= 1
    assert decoded.memory.physical_bytes >= decoded.memory.usable_bytes > 0
    assert decoded.boot.current_boot_mode in ("uefi", "bios")
    assert decoded.hostname
    assert "null" not in re.sub(r'"[^"]*"', "", text)


def test_domain_resolution_by_this_host() -> None:
    answer = json.loads(netchecks.domains(HERE, DomainsRequest(domains=[Domain(domain_name="localhost")])))
    assert answer["resolutions"][0]["domain_name"] == "localhost"
    assert "127.0.0.1" in answer["resolutions"][0]["ipv4_addresses"]


@given(st.lists(st.floats(0, 1000), min_size=1), st.floats(0.01, 1))
def test_percentile_is_one_of_the_values(values: list[float], share: float) -> None:
    assert diskspeed.percentile(values, share) in values


def test_media(tmp_path: Path) -> None:
    host = HostSystem(tmp_path)
    media.check(host)
    (tmp_path / "run/media/iso").mkdir(parents=True)
    mountinfo = tmp_path / "proc/1/mountinfo"
    mountinfo.parent.mkdir(parents=True)
    mountinfo.write_text("36 25 11:0 / /run/media/iso ro,nodev shared:9 - iso9660 /dev/sr0 ro\n")
    with pytest.raises(MediaLost, match="/dev/sr0"):
        media.check(host)
    device = tmp_path / "dev/sr0"
    device.parent.mkdir()
    device.write_bytes(b"\0" * 4096)
    watch = media.Watch(every=3600)
    watch.check(host)
    device.write_bytes(b"")
    with pytest.raises(MediaLost, match="empty"):
        media.check(host)
    # What was good a moment ago is not asked about for every step; one that failed asks all the same.
    watch.check(host)


REQUEST = InstallRequest(
    cluster_id="c",
    infra_env_id="i",
    host_id="h",
    role=Role.BOOTSTRAP,
    boot_device="/dev/vda",
    installer_image="r.example/i@sha256:1",
    control_plane_count=1,
    installer_args='["--copy-network"]',
    check_cvo=True,
)


def test_orchestrator_command_has_no_token_and_is_understood() -> None:
    from installer.orchestrator.__main__ import parse_arguments

    command = containers.run_command(REQUEST, AGENT)
    assert command[:2] == ["podman", "run"]
    assert "TOKEN" not in [item for item in command if item != "PULL_SECRET_TOKEN"]
    # The image's entry point is the program: what follows the image are its arguments alone.
    start = command.index("r.example/i@sha256:1")
    parsed = parse_arguments(command[start + 1 :])
    assert (parsed.role, parsed.boot_device, parsed.control_plane_count) == ("bootstrap", "/dev/vda", 1)
    assert parsed.installer_args == '["--copy-network"]'
    assert parsed.cacert == "/opt/agent/tls/ca.crt"


def test_logs_are_redacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every secret of the corpus in the journal, and the host's own wherever they are said."""
    own = {"root/.docker/config.json": '{"auths":{"r":{"auth":"b3duOmhpZGQzbi1Xb3Jk"}}}'}
    own["etc/assisted/hostconfig/fencing-credentials.yaml"] = "credentials:\n- username: root\n  password: Fenc3-Word\n"
    own["etc/assisted/rendezvous-host.env"] = "USER_AUTH_TOKEN=0pen-Tok3n\nNODE_ZERO_IP=192.0.2.1\n"
    for name, text in own.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    vectors = corpus.vectors()
    message = "cannot log in as own with hidd3n-Word, Fenc3-Word or 0pen-Tok3n at 192.0.2.1"
    journal = "".join(f"{corpus.BEFORE}\n{vector.text}\n{corpus.AFTER}\n" for vector in vectors) + message
    monkeypatch.setattr(logs, "output_of", lambda host, command: journal if "-b" in command else "")
    file = io.BytesIO()
    logs.write_archive(HostSystem(tmp_path), "h1", False, file)
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        files = {name: tar.extractfile(name).read().decode() for name in tar.getnames()}
    everything = "".join(files.values())
    for secret in {secret for vector in vectors for secret in vector.secrets}:
        assert secret not in everything
    for secret in ("hidd3n-Word", "Fenc3-Word", "0pen-Tok3n", "b3duOmhpZGQzbi1Xb3Jk"):
        assert secret not in everything
    assert files["host_h1/journal.logs"].count(corpus.AFTER) == len(vectors)
    assert "NODE_ZERO_IP=192.0.2.1" in files["host_h1/files/etc/assisted/rendezvous-host.env"]


def test_log_archive() -> None:
    file = io.BytesIO()
    logs.write_archive(HERE, "h1", False, file)
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        names = tar.getnames()
    assert "host_h1/dmesg.logs" in names
    assert "host_h1/journal.logs" in names
