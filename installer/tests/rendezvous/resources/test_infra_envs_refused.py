"""Infra-envs that no image could be made of: refused as they come in, with the reason, and nothing changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer.assisted.errors import BadRequest, PrepareError
from installer.common.iso9660 import Iso
from installer.errors import ConfigError, EmbedTooBig
from installer.files import write_whole
from installer.image.iso import embed
from installer.image.iso.minimal import minimal_kargs
from installer.overrides import OS_OVERRIDE
from installer.rendezvous import architectures, standalone
from installer.rendezvous.discovery import images, liveconfig, payload
from installer.rendezvous.resources import hostchanges, infra_envs
from installer.rendezvous.resources.requests.hosts import InfraEnvParams
from installer.rendezvous.resources.requests.params import decoded
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import InfraEnv, KernelArgument
from installer.testing.create.iso_kit import build
from installer.testing.engine import sent_kit
from installer.testing.engine.world_kit import World
from installer.testing.service.rendezvous_kit import PULL_SECRET

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
MAC = "52:54:00:00:01:00"
NIC = "- name: {name}\n  type: ethernet\n  state: up\n  ipv4:\n    enabled: true\n    dhcp: true\n"
ETH0, ETH1 = NIC.format(name="eth0"), NIC.format(name="eth1")
BOND = (
    "- name: bond0\n  type: bond\n  state: up\n  link-aggregation:\n    mode: active-backup\n    port: [eth0, eth1]\n"
)


def static(text: str, **nics: str) -> dict[str, Any]:
    pairs = [{"mac_address": mac, "logical_nic_name": name} for name, mac in (nics or {"eth0": MAC}).items()]
    return {"static_network_config": [{"network_yaml": text, "mac_interface_map": pairs}]}


def appended(*values: str) -> dict[str, Any]:
    return {"kernel_arguments": [{"operation": "append", "value": value} for value in values]}


def override(**sections: Any) -> dict[str, Any]:
    return {"ignition_config_override": json.dumps({"ignition": {"version": "3.2.0"}, **sections})}


REFUSED: list[tuple[dict[str, Any], str]] = [
    (static("{}"), r"static_network_config\[0\]: .*no profile comes out of this document"),
    (static("interfaces: []"), "no profile comes out of this document"),
    (static("interfaces: 5"), r"static_network_config\[0\]: interfaces"),
    (static(f"interfaces:\n{ETH0}  speed: 7\n"), "speed"),
    (static("interfaces:\n- type: ethernet\n"), r"interfaces\[0\].name: is required"),
    (override(storage={"files": [{"path": "etc/x"}]}), r"storage.files\[0\].path must be absolute"),
    (override(systemd={"units": [{"name": "x"}]}), r"systemd.units\[0\].name must end in one of"),
    ({"ignition_config_override": '{"ignition": {"version": "3.9.0"}}'}, "ignition.version must be one of"),
    # Ignition refuses what both have together.
    (override(storage={"links": [{"path": "/opt", "target": "/x"}]}), "path /opt/agent/tls/ca.crt lies below a link"),
    (override(storage={"directories": [{"path": "/etc/assisted/discovery.env"}]}), "is there twice"),
    (appended("a=" + "x" * 1137), "1140 bytes are more than the 1139 of an image's area"),
    (appended(*["a=é" * 300]), "1201 bytes are more than the 1139"),
    *(
        (appended(f"a={text}"), "boot loaders would change")
        for text in ("$x", "a;b", "\\", "'", '"a\nb"', '"$x"', "\x07", "{b}", "}")
    ),
    *((appended(text), "boot loaders would change") for text in ("#a", "[[", "]]", "{")),
]


@pytest.mark.parametrize(("fields", "problem"), REFUSED)
def test_what_no_image_could_be_made_of_is_refused(world: World, fields: dict[str, Any], problem: str) -> None:
    engine = world.engine
    with pytest.raises(BadRequest, match=problem):
        sent_kit.register_infra_env(engine, {"name": "x", "pull_secret": PULL_SECRET, **fields})
    assert engine.store.infra_envs() == []
    infra_env = sent_kit.register_infra_env(engine, {"name": "x", "pull_secret": PULL_SECRET})
    with pytest.raises(BadRequest, match=problem):
        sent_kit.update_infra_env(engine, infra_env.id, fields)
    assert engine.store.infra_env(infra_env.id) == infra_env


@pytest.mark.parametrize(
    "fields",
    [
        static(f"interfaces:\n{BOND}", eth0=MAC, eth1="52:54:00:00:01:01"),
        static(f"interfaces:\n{ETH0}{NIC.format(name='enp1s0')}"),
        static(f"interfaces:\n{ETH0}{ETH1}  identifier: mac-address\n  mac-address: 52:54:00:00:01:01\n"),
        override(storage={"files": [{"path": "/etc/motd", "contents": {"source": "data:,x"}}]}),
        appended('a="b;c {d}"', "a=#b#", '"#"', "a=[[b]]", "console=ttyS0,115200n8", "é"),
        {"ssh_authorized_key": f"{KEY}\n" * 2},
    ],
)
def test_what_images_are_made_of_is_taken(world: World, fields: dict[str, Any]) -> None:
    infra_env = sent_kit.register_infra_env(world.engine, {"name": "x", "pull_secret": PULL_SECRET, **fields})
    liveconfig.check_mapped(infra_env)
    config = json.loads(liveconfig.ignition(infra_env, world.engine.settings, "", ""))
    assert len(config["passwd"]["users"][0].get("sshAuthorizedKeys", [""])) == 1


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("iso"), "2023-07.x86_64")


@pytest.mark.parametrize("kind", ["full-iso", "minimal-iso"])
def test_arguments_that_do_not_fit_the_image_are_refused_once_it_is_known(
    tmp_path: Path, base: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with base.open("rb") as file:
        iso = Iso(file, base)
        area = embed.kargs_area(iso)
        assert area is not None
        before = embed.current_kargs(iso, area)
    url = "https://192.0.2.1/rootfs.img"
    if kind == "minimal-iso":
        before = minimal_kargs(before, url)
    room = 1139 - len("\n") - len(embed.operated(before, [{"operation": "append", "value": ""}]).encode())
    monkeypatch.setattr(payload, "cached", lambda *_: payload.Payload("4.18.0", {}, base))
    maker = images.DiscoveryImages(lambda _: Settings(work_dir=tmp_path), "", lambda _: url, lambda _: None)

    def infra_env(length: int) -> InfraEnv:
        argument = KernelArgument(operation="append", value="é" + "x" * (length - 2))
        return InfraEnv(id="x", name="x", type=kind, kernel_arguments=[argument])

    maker.check(infra_env(room))
    with pytest.raises(BadRequest, match="kernel_arguments: 1140 bytes are more than the 1139 that the image has"):
        maker.check(infra_env(room + 1))


@pytest.mark.parametrize("exists", [True, False])
def test_a_base_that_cannot_be_read_is_told_and_stops_no_other_registration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    iso = tmp_path / "my.iso"
    monkeypatch.setenv(OS_OVERRIDE, str(iso))
    if exists:
        iso.write_bytes(b"none")
    notes = {"release": "r", "version": "4.18.0", "images": {"AGENT_DOCKER_IMAGE": "a"}, "isos": {"x86_64": str(iso)}}
    settings = Settings(work_dir=tmp_path, release_image="r")
    write_whole(architectures.notes_file(settings), json.dumps(notes).encode())
    maker = images.DiscoveryImages(lambda _: settings, "", lambda _: "", lambda _: None)
    maker.check(InfraEnv(id="x", name="x", type="full-iso"))
    arguments = [KernelArgument(operation="append", value="a")]
    with pytest.raises(BadRequest, match=r"^base ISO: .*my\.iso"):
        maker.check(InfraEnv(id="x", name="x", type="full-iso", kernel_arguments=arguments))
    for name in ("full.iso", "minimal.iso", "vmlinuz"):
        with pytest.raises(BadRequest, match=r"my\.iso"):
            maker.file(InfraEnv(id="x", name="x", type="full-iso"), name)
    assert [*(tmp_path / "images").rglob("*.iso")] == []
    if not exists:
        with pytest.raises(ConfigError, match=OS_OVERRIDE):
            standalone.settings_of(tmp_path / "service", "127.0.0.1:8090", {})
        assert not (tmp_path / "service").exists()


def test_only_an_infra_envs_own_older_images_go(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "cached", lambda *_: payload.Payload("4.18.0", {"AGENT_DOCKER_IMAGE": "x"}, base))
    maker = images.DiscoveryImages(lambda _: Settings(work_dir=tmp_path), "", lambda _: "", lambda _: None)
    first, other = (InfraEnv(id=name, name=name, type="full-iso") for name in ("first", "other"))
    before, others = maker.file(first, "full.iso"), maker.file(other, "full.iso")
    (before.parent / ".full.iso.1").mkdir()
    arguments = [KernelArgument(operation="append", value="a=b")]
    changed = msgspec.structs.replace(first, kernel_arguments=arguments)
    after = maker.file(changed, "full.iso")
    (after.parent / ".full.iso.2").mkdir()
    assert {path for path in (tmp_path / "images").rglob("*.iso") if path.is_file()} == {after, others}
    assert maker.file(changed, "full.iso") == after
    assert [path.name for path in after.parent.iterdir()] == ["full.iso"]
    assert others.exists()


def test_a_full_disk_is_no_fault_of_the_request(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "cached", lambda *_: payload.Payload("4.18.0", {"AGENT_DOCKER_IMAGE": "x"}, base))
    maker = images.DiscoveryImages(lambda _: Settings(work_dir=tmp_path), "", lambda _: "", lambda _: None)
    (tmp_path / "images").write_bytes(b"")
    with pytest.raises(PrepareError, match="Not a directory"):
        maker.file(InfraEnv(id="x", name="x", type="full-iso"), "full.iso")


def test_arguments_are_utf_8_in_every_loader(base: Path) -> None:
    with base.open("rb") as file:
        iso = Iso(file, base)
        patches = embed.kargs_patches(iso, ("a=é", "b=ж"))
        assert len(patches) == 2
        assert all("a=é b=ж\n#".encode() in patch.data for patch in patches)
        with pytest.raises(EmbedTooBig):
            embed.kargs_patches(iso, ("é" * 600,))


@pytest.mark.parametrize("text", [f"interfaces:\n{ETH0}{ETH1}", f"interfaces:\n{BOND}"])
def test_nics_without_a_mapping_are_refused_where_images_are_made(world: World, tmp_path: Path, text: str) -> None:
    maker = images.DiscoveryImages(lambda _: Settings(work_dir=tmp_path), "", lambda _: "", lambda _: None)
    body = decoded({"name": "x", "pull_secret": PULL_SECRET, **static(text)}, InfraEnvParams)
    with pytest.raises(BadRequest, match="mac-interface mapping for interface eth1 is missing"):
        infra_envs.register(world.engine, body, maker.check)
    assert world.store.infra_envs() == []


def test_an_empty_pull_secret_changes_nothing(world: World) -> None:
    infra_env = sent_kit.register_infra_env(world.engine, {"name": "x", "pull_secret": PULL_SECRET})
    assert sent_kit.update_infra_env(world.engine, infra_env.id, {"pull_secret": ""}).pull_secret == PULL_SECRET


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"storage": {"files": [{"path": "etc/x"}]}}, r"config: .*storage.files\[0\].path must be absolute"),
        ({"storage": {"links": [{"path": "/etc/hostname", "target": "/x"}]}}, "path /etc/hostname is there twice"),
        ({"storage": {"directories": [{"path": "/etc/chrony.conf"}]}}, "path /etc/chrony.conf is there twice"),
    ],
)
def test_a_hosts_overrides_that_its_ignition_could_not_have_are_refused(
    world: World, sections: dict[str, Any], problem: str
) -> None:
    _, infra_env_id = world.known_host()
    host = world.host(infra_env_id)
    with pytest.raises(BadRequest, match=problem):
        hostchanges.set_ignition(world.engine, infra_env_id, host.id, override(**sections)["ignition_config_override"])
    assert world.host(infra_env_id) == host
