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
from urllib.error import HTTPError

import pytest
from assisted_service_client.rest import ApiException

from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.forked_kit import forked
from installer.testing.service.rendezvous_kit import wait_for
from installer.testing.service.service_kit import MARKS, STATIC, Standalone, answer_steps, file_of, standalone

pytestmark = [*MARKS, pytest.mark.slow]


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
    for mac in ("52:54:00:00:01:00", ":".join(["80"] * 20)):
        with service.fetch(f"{url}={mac}") as answer:
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
        assert resumed(**{"If-Range": condition, "X-No-UTF-8": "\xff"}) == whole
    assert resumed() == part
    # Other ranges than one of bytes, and invalid ones, are no error.
    for ranges in ("bytes=0-1,5-6", "lines=1-2", "x", "bytes=5-1", "bytes=-", "bytes=-0", f"bytes=0-{'1' * 5000}"):
        with service.fetch(user.get_infra_env(infra_env.id).download_url, Range=ranges) as answer:
            assert (answer.status, len(answer.read())) == whole
    for ranges in ("bytes=-5", f"bytes={len(before) - 5}-99999999999"):
        with service.fetch(user.get_infra_env(infra_env.id).download_url, Range=ranges) as answer:
            assert (answer.status, len(answer.read())) == (206, 5)
    with pytest.raises(HTTPError, match="416"):
        service.fetch(user.get_infra_env(infra_env.id).download_url, Range="bytes=999999999999-")
    user.deregister_infra_env(infra_env.id)


def run(service: Standalone, home: Path, *args: str, **env: str) -> tuple[int, str]:
    """aicli's exit code and output."""
    from ailib.cli import cli  # type: ignore[import-untyped]  # costly to load

    def main(arguments: Sequence[str]) -> int:
        os.dup2(2, 1)
        os.chdir(home)
        os.environ.update(service.env, HOME=str(home), AI_TOKEN=service.token("user"), **env)
        warnings.simplefilter("ignore")
        sys.argv = ["aicli", "--url", service.url, *arguments]
        cli()
        return 0

    return forked(main, args, seconds=120)


def aicli(service: Standalone, home: Path, *args: str, **env: str) -> str:
    """aicli's output; it must have no error."""
    code, output = run(service, home, *args, **env)
    assert code == 0, (args, output)
    return output


def refused(service: Standalone, home: Path, *args: str) -> str:
    """aicli's output about what the service, or aicli itself, does not do."""
    code, output = run(service, home, *args)
    assert code == 1, (args, output)
    return output


@pytest.fixture
def home(service: Standalone, tmp_path: Path) -> Path:
    """With what aicli looks for by default."""
    (tmp_path / "openshift_pull.json").write_text(service.pull_secret)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519.pub").write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
    )
    return tmp_path


def test_aicli_from_create_to_delete(service: Standalone, home: Path) -> None:
    user, agent, machine = service.api("user"), service.api("agent"), Machine(7, Network())
    aicli(service, home, "create", "cluster", "-P", "sno=true", "-P", "openshift_version=4.18", "lab")
    assert "lab" in aicli(service, home, "list", "clusters")
    assert "lab_infra-env" in aicli(service, home, "info", "infraenv", "lab_infra-env")
    (infra_env,) = user.list_infra_envs()
    # Its image, whose certificate aicli holds against those that the system trusts, whatever it is told otherwise.
    assert "full.iso" in aicli(service, home, "info", "iso", "lab_infra-env")
    assert "CERTIFICATE_VERIFY_FAILED" in refused(service, home, "download", "iso", "lab_infra-env")
    assert not [*home.glob("*.iso")]
    aicli(service, home, "download", "iso", "lab_infra-env", "-p", str(home), SSL_CERT_FILE=str(service.ca))
    with service.fetch(infra_env["download_url"]) as answer:
        assert (home / "lab_infra-env.iso").read_bytes() == answer.read()
    for kind, name in (("discovery-ignition", "discovery.ign.lab"), ("ipxe-script", "ipxe-script.lab")):
        aicli(service, home, "download", kind, "lab", "-p", str(home))
        assert (home / name).read_bytes()

    # A host, of which nothing but its id is known at first
    version = user.v2_list_component_versions().versions["discovery-agent"]
    agent.v2_register_host(infra_env["id"], {"host_id": machine.id, "discovery_agent_version": version})
    assert machine.id in aicli(service, home, "list", "hosts")
    assert machine.id in aicli(service, home, "info", "host", machine.id)
    assert "(409)" in (output := refused(service, home, "start", "cluster", "lab")), output
    assert "cluster is in status pending-for-input and cannot be installed: " in output
    answer_steps(agent, infra_env["id"], machine)
    assert machine.id in aicli(service, home, "list", "hosts")
    aicli(service, home, "update", "host", machine.id, "-P", "name=renamed")
    assert "renamed" in aicli(service, home, "list", "hosts")
    assert "Successfully registered" in aicli(service, home, "list", "events", "lab")

    # Removed, and found again; its installation
    aicli(service, home, "delete", "host", machine.id, "-y")
    agent.v2_register_host(infra_env["id"], {"host_id": machine.id, "discovery_agent_version": version})
    for _ in range(2):
        answer_steps(agent, infra_env["id"], machine)
    aicli(service, home, "start", "cluster", "lab")
    cluster_id = user.v2_list_clusters()[0]["id"]
    wait_for("the install step", lambda: "install" in answer_steps(agent, infra_env["id"], machine), 60)
    for stage in ("Starting installation", "Installing", "Writing image to disk", "Rebooting"):
        agent.v2_update_host_install_progress(infra_env["id"], machine.id, {"current_stage": stage})
    with pytest.raises(ApiException, match="404"):
        user.v2_download_infra_env_files(infra_env["id"], "ipxe-script", mac=machine.mac)
    for stage in ("Joined", "Done"):
        agent.v2_update_host_install_progress(infra_env["id"], machine.id, {"current_stage": stage})
    # `aicli wait cluster` waits for another time than this.
    assert str(user.v2_get_cluster(cluster_id).install_completed_at) == "0001-01-01 00:00:00+00:00"
    agent.v2_complete_installation(cluster_id, {"is_success": True})
    aicli(service, home, "wait", "cluster", "lab")
    for kind in ("kubeconfig", "kubeadmin-password"):
        aicli(service, home, "download", kind, "lab", "--path", str(home))
        assert (home / f"{kind}.lab").read_bytes()

    # Day 2: a worker gets its config from where the installer has pointed the first ones to
    aicli(service, home, "update", "cluster", "lab", "-P", "day2=true")
    assert user.v2_get_cluster(cluster_id).status == "adding-hosts"
    worker = Machine(8, Network())
    agent.v2_register_host(infra_env["id"], {"host_id": worker.id, "discovery_agent_version": version})

    def is_known() -> bool:
        answer_steps(agent, infra_env["id"], worker)
        return bool(user.v2_get_host(infra_env["id"], worker.id).status == "known")

    wait_for("the worker to be known", is_known, 60)
    assert user.v2_install_host(infra_env["id"], worker.id).progress_stages[-1] == "Done"
    assert "install" in answer_steps(agent, infra_env["id"], worker)
    config = agent.v2_download_host_ignition(infra_env["id"], worker.id, _preload_content=False).data
    assert b"https://api-int.lab.example:22623/config/worker" in config
    agent.v2_update_host_install_progress(infra_env["id"], worker.id, {"current_stage": "Rebooting"})

    aicli(service, home, "delete", "cluster", "lab", "-y")
    assert (user.v2_list_clusters(), user.list_infra_envs()) == ([], [])


def test_what_is_not_ready_is_not_installed(service: Standalone) -> None:
    user, agent, machine = service.api("user"), service.api("agent"), Machine(8, Network())
    body = {"name": "unready", "openshift_version": "4.18", "pull_secret": service.pull_secret}
    cluster = user.v2_register_cluster(body)
    infra_env = user.register_infra_env({**body, "cluster_id": cluster.id})

    def answer() -> tuple[int, str]:
        with pytest.raises(ApiException) as caught:
            user.v2_install_cluster(cluster.id)
        body = json.loads(caught.value.body)
        assert body["code"] == str(caught.value.status)
        return caught.value.status, body["reason"]

    # Without hosts; with one of which nothing is known; with one that is not ready; with one whose role is chosen.
    assert answer()[0] == 409
    version = user.v2_list_component_versions().versions["discovery-agent"]
    agent.v2_register_host(infra_env.id, {"host_id": machine.id, "discovery_agent_version": version})
    assert answer()[0] == 409
    answer_steps(agent, infra_env.id, machine)
    assert answer()[0] == 400
    user.v2_update_host(infra_env.id, machine.id, {"host_role": "master"})
    status, reason = answer()
    assert status == 409
    assert reason.startswith("cluster is in status pending-for-input and cannot be installed: ")
    user.v2_deregister_cluster(cluster.id)
    user.deregister_infra_env(infra_env.id)
