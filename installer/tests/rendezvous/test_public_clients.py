"""The public clients' ways through `node0 service`: files and images of an infra-env, aicli with its defaults."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tarfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from assisted_service_client.rest import ApiException

from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.forked_kit import forked
from installer.testing.service.service_kit import MARKS, STATIC, Standalone, answer_steps, file_of, standalone

pytestmark = MARKS


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


def test_files_of_an_infra_env(service: Standalone) -> None:
    user = service.api("user")
    body = {"name": "files", "pull_secret": service.pull_secret, "ntp_sources": "ntp.a,192.0.2.1"}
    infra_env = user.register_infra_env({**body, "static_network_config": [STATIC]})

    def read(name: str, **query: str) -> bytes:
        raw = user.v2_download_infra_env_files(infra_env.id, name, **query, _preload_content=False)
        return bytes(raw.data)

    contents: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(read("static-network-config"))) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            assert member.mode == 0o600
            contents[member.name] = file.read()
    place = "/etc/assisted/network/host0"
    assert contents.keys() == {f"{place}/eth0.nmconnection", f"{place}/mac_interface.ini"}
    assert contents[f"{place}/mac_interface.ini"].strip() == b"52:54:00:00:01:00=eth0"
    # The only time sources from the start; a minimal image has its networks in its initrd.
    full, minimal = (json.loads(read("discovery.ign", discovery_iso_type=kind)) for kind in ("full-iso", "minimal-iso"))
    for config, has_network in ((full, True), (minimal, False)):
        assert "server ntp.a iburst\nserver 192.0.2.1 iburst\n" in file_of(config, "/etc/chrony.conf")
        assert any(f["path"].startswith(place) for f in config["storage"]["files"]) is has_network
    # Chained to by iPXE, which names its machine; one that is not known here boots the image.
    redirect = read("ipxe-script", ipxe_script_type="boot-order-control").decode()
    presigned = user.get_infra_env_presigned_file_url(
        infra_env.id, "ipxe-script", ipxe_script_type="boot-order-control"
    )
    with service.fetch(presigned.url) as answer:
        assert re.sub("expires=.*&mac", "&mac", answer.read().decode()) == re.sub("expires=.*&mac", "&mac", redirect)
    url, variable = redirect.removeprefix("#!ipxe\nchain ").rstrip().rsplit("=", 1)
    assert variable == "${net0/mac}"
    with service.fetch(f"{url}=52:54:00:00:01:00") as answer:
        assert b"\nboot\n" in answer.read()
    for name, query in (("discovery.ign", {"mac": "52:54:00:00:01:00"}), ("ipxe-script", {"mac": "52"})):
        with pytest.raises(ApiException, match="400"):
            read(name, **query)
    user.deregister_infra_env(infra_env.id)


def test_a_download_is_resumed_only_if_the_image_is_the_same(service: Standalone) -> None:
    user = service.api("user")
    infra_env = user.register_infra_env({"name": "resumed", "pull_secret": service.pull_secret})
    with service.fetch(infra_env.download_url) as answer:
        before, tag, date = answer.read(), answer.headers["ETag"], answer.headers["Last-Modified"]

    def resumed(**condition: str) -> tuple[int, int]:
        with service.fetch(user.get_infra_env(infra_env.id).download_url, Range="bytes=100-", **condition) as answer:
            return answer.status, len(answer.read())

    whole, part = (200, len(before)), (206, len(before) - 100)
    assert resumed(**{"If-Range": tag}) == resumed() == part
    # The same size, but another image.
    user.update_infra_env(infra_env.id, {"ntp_sources": "ntp.a"})
    for condition in (tag, date, f"W/{tag}", '"x"'):
        assert resumed(**{"If-Range": condition}) == whole
    assert resumed() == part
    user.deregister_infra_env(infra_env.id)


def aicli(service: Standalone, home: Path, *args: str) -> str:
    """aicli's output; it must have no error."""
    from ailib.cli import cli  # type: ignore[import-untyped]  # costly to load

    def main(arguments: Sequence[str]) -> int:
        os.dup2(2, 1)
        os.chdir(home)
        os.environ.update(service.env, HOME=str(home), AI_TOKEN=service.token("user"))
        warnings.simplefilter("ignore")
        sys.argv = ["aicli", "--url", service.url, *arguments]
        cli()
        return 0

    code, output = forked(main, args, seconds=120)
    assert code == 0, (args, output)
    return output


def test_aicli_discovers_and_configures(service: Standalone, tmp_path: Path) -> None:
    (tmp_path / "openshift_pull.json").write_text(service.pull_secret)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519.pub").write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
    )
    wanted = ("sno=true", "base_dns_domain=test.example", "openshift_version=4.18")
    pairs = (f"pull_secret={tmp_path}/openshift_pull.json", *wanted)
    aicli(service, tmp_path, "create", "cluster", *(word for pair in pairs for word in ("-P", pair)), "lab")
    assert "lab" in aicli(service, tmp_path, "list", "clusters")
    assert "lab_infra-env" in aicli(service, tmp_path, "info", "infraenv", "lab_infra-env")
    (infra_env,) = service.api("user").list_infra_envs()
    assert "full.iso" in aicli(service, tmp_path, "info", "iso", "lab_infra-env")
    agent, machine = service.api("agent"), Machine(7, Network())
    version = service.api("user").v2_list_component_versions().versions.get("discovery-agent", "")
    agent.v2_register_host(infra_env["id"], {"host_id": machine.id, "discovery_agent_version": version})
    # Which has no inventory yet.
    assert machine.id in aicli(service, tmp_path, "list", "hosts")
    assert machine.id in aicli(service, tmp_path, "info", "host", machine.id)
    answer_steps(agent, infra_env["id"], machine)
    assert machine.id in aicli(service, tmp_path, "list", "hosts")
    aicli(service, tmp_path, "update", "host", machine.id, "-P", "name=renamed")
    assert "renamed" in aicli(service, tmp_path, "list", "hosts")
    assert "Successfully registered" in aicli(service, tmp_path, "list", "events", "lab")
    aicli(service, tmp_path, "delete", "host", machine.id, "-y")
    aicli(service, tmp_path, "delete", "cluster", "lab", "-y")
