"""The public clients, unmodified, against `node0 service` over TLS: every operation, images, a restart."""

from __future__ import annotations

import base64
import gzip
import io
import json
import shutil
import stat
import tarfile
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import assisted_service_client as public
import pytest
from assisted_service_client.rest import ApiException

from installer.common import cpio
from installer.common.iso9660 import Iso
from installer.common.kargareas import current_kargs, kargs_area
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.service.rendezvous_kit import wait_for
from installer.testing.service.service_kit import APIS, MARKS, STATIC, Standalone, answer_steps, file_of, standalone

pytestmark = MARKS
NOT_OFFERED = {"v2_register_disconnected_cluster"}
# In the client, but not in the specification.
NOT_SPECIFIED = {"v2_list_supported_offline_openshift_versions"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


def operations() -> set[str]:
    names = {
        name
        for api in APIS
        for name in dir(getattr(public, api))
        if not name.startswith("_") and not name.endswith("_with_http_info")
    }
    return names - NOT_SPECIFIED


def embedded(data: bytes, folder: Path) -> dict[str, Any]:
    """Return the Ignition config of an ISO."""
    path = folder / "downloaded.iso"
    path.write_bytes(data)
    with path.open("rb") as file:
        archive = Iso(file, path).file("images/ignition.img")
    assert archive is not None
    config: dict[str, Any] = json.loads(next(iter(cpio.unpack(cpio.decompress(archive)).values())))
    return config


def test_the_folder_is_private_and_its_ca_is_shared(service: Standalone) -> None:
    for party in ("agent", "user", "watcher"):
        assert stat.S_IMODE((service.dir / f"auth/{party}-token").stat().st_mode) == 0o600
    for name in ("tls/ca.key", "tls/service.key", "data/assisted.db"):
        assert stat.S_IMODE((service.dir / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(service.ca.stat().st_mode) == 0o644


def test_a_service_takes_the_versions_of_its_release_from_the_start(service: Standalone) -> None:
    user = service.api("user")
    [(version, entry)] = user.v2_list_supported_openshift_versions().items()
    assert (version, entry["cpu_architectures"]) == ("4.18.0-test", ["x86_64"])
    wrong = {"name": "wrong", "openshift_version": "4.99", "pull_secret": service.pull_secret}
    for register in (user.v2_register_cluster, user.register_infra_env):
        with pytest.raises(ApiException, match=r"Openshift version 4\.99 is not supported"):
            register(wrong)
    assert user.list_infra_envs() == []


@pytest.mark.slow
def test_every_operation_of_the_public_client(service: Standalone, tmp_path: Path) -> None:
    user, agent, watcher = (service.api(party) for party in ("user", "agent", "watcher"))
    machine = Machine(0, Network())
    cluster = user.v2_register_cluster(
        {
            "name": "discovered",
            "base_dns_domain": "test.node0.example",
            "openshift_version": "4.18.0",
            "pull_secret": service.pull_secret,
            "control_plane_count": 1,
            "platform": {"type": "none"},
            "machine_networks": [{"cidr": "192.168.111.0/24"}],
            "ntp_sources": "ntp.only",
        }
    )
    infra_env = user.register_infra_env({"name": "discovered", "pull_secret": service.pull_secret})
    user.update_infra_env(
        infra_env.id,
        {
            "static_network_config": [STATIC],
            "ssh_authorized_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop",
        },
    )
    assert [item["id"] for item in user.list_infra_envs()] == [infra_env.id]
    read = user.get_infra_env(infra_env.id)
    assert read.pull_secret_set is True

    # Images
    url = user.get_infra_env_download_url(infra_env.id).url
    with service.fetch(url) as answer:
        iso = answer.read()
    config = embedded(iso, tmp_path)
    environment = file_of(config, "/etc/assisted/discovery.env")
    assert f"INFRA_ENV_ID={infra_env.id}\n" in environment
    assert f"SERVICE_BASE_URL={service.url}/\n" in environment
    assert file_of(config, "/opt/agent/tls/ca.crt") == service.ca.read_text()
    assert "192.168.111.80/24" in file_of(config, "/etc/assisted/network/host0/eth0.nmconnection")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        service.fetch(url[:-3])
    user.regenerate_infra_env_signing_key(infra_env.id)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        service.fetch(url)
    user.update_infra_env(infra_env.id, {"image_type": "minimal-iso"})
    with service.fetch(user.get_infra_env(infra_env.id).download_url) as answer:
        minimal = answer.read()
    assert len(minimal) < len(iso)
    with service.fetch(user.get_infra_env_presigned_file_url(infra_env.id, "ipxe-script").url) as answer:
        script = answer.read().decode()
    initrd = next(line.split()[-1] for line in script.splitlines() if line.startswith("initrd"))
    with service.fetch(initrd) as answer:
        assert len(answer.read()) > 0
    raw = user.v2_download_infra_env_files(infra_env.id, "discovery.ign", _preload_content=False)
    assert json.loads(raw.data)["ignition"]["version"] == "3.2.0"
    added = user.download_minimal_initrd(infra_env.id, _preload_content=False).data
    assert added in minimal
    assert b"192.168.111.80/24" in cpio.unpack(gzip.decompress(added))["etc/assisted/network/host0/eth0.nmconnection"]

    # An unbound host, given to the cluster, taken out and given again; its agent is the release's
    version = user.v2_list_component_versions().versions["discovery-agent"]
    agent.v2_register_host(infra_env.id, {"host_id": machine.id, "discovery_agent_version": version})
    assert user.v2_get_host(infra_env.id, machine.id).status == "discovering-unbound"
    answer_steps(agent, infra_env.id, machine)
    assert user.v2_get_host(infra_env.id, machine.id).status == "known-unbound"
    for _ in range(2):
        user.bind_host(infra_env.id, machine.id, {"cluster_id": cluster.id})
        assert agent.v2_get_next_steps(infra_env.id, machine.id).post_step_action == "exit"
        agent.v2_register_host(infra_env.id, {"host_id": machine.id, "discovery_agent_version": version})
        # What it is tells what it is asked next.
        assert "domain-resolution" not in answer_steps(agent, infra_env.id, machine)
        assert "domain-resolution" in answer_steps(agent, infra_env.id, machine)
        bound = user.v2_get_host(infra_env.id, machine.id)
        assert bound.status == "known", bound.status_info
        if "unbind_host" not in user.done:
            user.unbind_host(infra_env.id, machine.id)
            agent.v2_register_host(infra_env.id, {"host_id": machine.id, "discovery_agent_version": version})
            answer_steps(agent, infra_env.id, machine)
            assert user.v2_get_host(infra_env.id, machine.id).status == "known-unbound"

    # What can be set before the installation
    user.v2_update_cluster(
        cluster.id,
        {"ssh_public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"},
    )
    user.v2_update_cluster_install_config(cluster.id, '{"fips": false}')
    assert "metadata" in str(user.v2_get_cluster_install_config(cluster.id))
    user.v2_update_host(infra_env.id, machine.id, {"host_name": "chosen"})
    user.v2_update_host_installer_args(infra_env.id, machine.id, {"args": ["--append-karg", "quiet"]})
    user.v2_update_host_ignition(infra_env.id, machine.id, {"config": '{"ignition": {"version": "3.2.0"}}'})
    content = base64.b64encode(b"kind: List\n").decode()
    user.v2_create_cluster_manifest(cluster.id, {"folder": "openshift", "file_name": "99-a.yaml", "content": content})
    user.v2_update_cluster_manifest(
        cluster.id, {"folder": "openshift", "file_name": "99-a.yaml", "updated_file_name": "99-b.yaml"}
    )
    assert [item["file_name"] for item in user.v2_list_cluster_manifests(cluster.id)] == ["99-b.yaml"]
    user.v2_download_cluster_manifest(cluster.id, "99-b.yaml", folder="openshift", _preload_content=False)
    user.v2_delete_cluster_manifest(cluster.id, "99-b.yaml", folder="openshift")
    ignored = {"host-validation-ids": '["ntp-synced"]', "cluster-validation-ids": "[]"}
    user.v2_set_ignored_validations(cluster.id, ignored)
    assert user.v2_get_ignored_validations(cluster.id).host_validation_ids == '["ntp-synced"]'
    user.v2_update_cluster_ui_settings(cluster.id, "{}")
    user.v2_get_cluster_ui_settings(cluster.id)
    user.v2_reset_host_validation(infra_env.id, machine.id, "sufficient-installation-disk-speed")
    for call in (
        lambda: user.v2_get_preflight_requirements(cluster.id),
        lambda: user.get_cluster_supported_platforms(cluster.id),
        lambda: user.list_cluster_hosts(cluster.id),
        lambda: user.v2_list_hosts(infra_env.id),
        user.v2_get_cluster_default_config,
        user.v2_list_component_versions,
        user.v2_list_supported_openshift_versions,
        user.v2_list_release_sources,
        user.v2_list_managed_domains,
        user.v2_list_supported_operators,
        user.v2_list_bundles,
        lambda: user.get_supported_features("4.18"),
        lambda: user.get_detailed_supported_features("4.18"),
        lambda: user.get_supported_architectures("4.18"),
    ):
        assert call() is not None
    for missing in (lambda: user.v2_get_bundle("x"), lambda: user.v2_list_operator_properties("x")):
        with pytest.raises(ApiException) as caught:
            missing()
        assert caught.value.status == 404
        user.done |= {"v2_get_bundle", "v2_list_operator_properties"}

    # The installation
    assert watcher.v2_get_cluster(cluster.id).status == "ready"
    user.v2_install_cluster(cluster.id)

    def is_told_to_install() -> bool:
        return "install" in answer_steps(agent, infra_env.id, machine)

    # Not as soon as the cluster is installing: progress is taken from who was told to install.
    wait_for("the host to be told to install", is_told_to_install, 120)
    assert user.v2_get_cluster(cluster.id).status == "installing"
    for stage in ("Starting installation", "Installing", "Waiting for bootkube", "Writing image to disk"):
        agent.v2_update_host_install_progress(infra_env.id, machine.id, {"current_stage": stage})
    raw = agent.v2_download_host_ignition(infra_env.id, machine.id, _preload_content=False)
    assert "chosen" in raw.data.decode()
    assert "data:,server%20ntp.only%20iburst%0Amakestep" in raw.data.decode()
    agent.v2_download_cluster_files(cluster.id, "bootstrap.ign", _preload_content=False)
    user.v2_download_cluster_credentials(cluster.id, "kubeconfig", _preload_content=False)
    assert user.v2_get_credentials(cluster.id).username == "kubeadmin"
    for presigned in (
        user.v2_get_presigned_for_cluster_files(cluster.id, "bootstrap.ign"),
        user.v2_get_presigned_for_cluster_credentials(cluster.id, "kubeconfig"),
    ):
        with service.fetch(presigned.url) as answer:
            assert answer.read()
    agent.v2_update_host_logs_progress(infra_env.id, machine.id, {"logs_state": "collecting"})
    agent.v2_update_cluster_logs_progress(cluster.id, {"logs_state": "requested"})
    archive = tmp_path / "logs.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        info = tarfile.TarInfo("journal.log")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"lines"))
    agent.v2_upload_logs(cluster.id, "host", upfile=str(archive), host_id=machine.id, infra_env_id=infra_env.id)
    assert user.v2_download_cluster_logs(cluster.id, _preload_content=False).data
    operator = {"name": "console", "status": "available", "status_info": "fine"}
    agent.v2_report_monitored_operator_status(cluster.id, operator)
    assert agent.v2_list_of_cluster_operators(cluster.id)[0]["name"] == "console"
    for stage in ("Rebooting", "Joined", "Done"):
        agent.v2_update_host_install_progress(infra_env.id, machine.id, {"current_stage": stage})
    agent.v2_update_cluster_finalizing_progress(cluster.id, {"finalizing_stage": "Adding router ca"})
    event = {"severity": "info", "message": "seen\nfrom the host", "event_time": "2026-01-01T00:00:00.000Z"}
    agent.v2_trigger_event({**event, "cluster_id": cluster.id, "name": "x", "category": "user"})
    # What was acknowledged outlives the process; the same folder is gone on from.
    service.kill()
    service.start()
    events = watcher.v2_list_events(cluster_id=cluster.id, limit=1, order="descending", message="seen from")
    assert [item["message"] for item in events] == ["seen from the host"]
    pem = service.ca.read_text()
    agent.v2_upload_cluster_ingress_cert(cluster.id, pem)
    agent.v2_complete_installation(cluster.id, {"is_success": True})
    assert user.v2_get_cluster(cluster.id).status == "installed"

    # By the id that the payload's installer gave it
    listed = [user.v2_list_clusters(openshift_cluster_id=f"9B5A1B3E-0000-4000-8000-00000000000{end}") for end in "ab"]
    assert [[item["id"] for item in items] for items in listed] == [[cluster.id], []]

    # And back
    user.v2_reset_cluster(cluster.id)
    agent.v2_register_host(infra_env.id, {"host_id": machine.id, "discovery_agent_version": version})
    with pytest.raises(ApiException) as caught:
        user.v2_cancel_installation(cluster.id)
    assert caught.value.status == 409
    answer_steps(agent, infra_env.id, machine)
    user.v2_install_cluster(cluster.id)
    assert user.v2_cancel_installation(cluster.id).status == "cancelled"
    for name, status, args in (
        ("v2_import_cluster", 400, ({"name": "x", "api_vip_dnsname": "_", "openshift_cluster_id": cluster.id},)),
        ("v2_register_disconnected_cluster", 400, ({"name": "x", "openshift_version": "4.18.0"},)),
        ("v2_install_host", 409, (infra_env.id, machine.id)),
        ("v2_reset_host", 409, (infra_env.id, machine.id)),
        ("v2_get_host_ignition", 404, (infra_env.id, machine.id)),
        ("transform_cluster_to_day2", 409, (cluster.id,)),
        ("transform_cluster_to_adding_hosts", 409, (cluster.id,)),
    ):
        with pytest.raises(ApiException) as caught:
            getattr(user, name)(*args)
        assert caught.value.status == status, name
        assert json.loads(caught.value.body)["reason"]
    _add_a_host(service, user, agent, version)
    user.v2_deregister_host(infra_env.id, machine.id)
    user.v2_deregister_cluster(cluster.id)
    user.deregister_infra_env(infra_env.id)
    assert user.v2_list_clusters() == []
    user.done.add("v2_get_host_ignition")
    missed = operations() - (user.done | agent.done | watcher.done) - NOT_OFFERED
    assert not missed


def _add_a_host(service: Standalone, user: Any, agent: Any, version: str) -> None:
    """Day 2 of a cluster that somebody else has installed: known by the name of its API alone."""
    name = {"name": "there", "api_vip_dnsname": "api.there.example"}
    cluster = user.v2_import_cluster({**name, "openshift_cluster_id": "9b5a1b3e-0000-4000-8000-00000000000c"})
    for transform in (user.transform_cluster_to_day2, user.transform_cluster_to_adding_hosts):
        answer = transform(cluster.id)
        assert (answer.status, answer.kind, answer.imported) == ("adding-hosts", "AddHostsCluster", True)
    body = {"name": "there", "pull_secret": service.pull_secret, "cluster_id": cluster.id, "ntp_sources": "ntp.a"}
    infra_env, machine = user.register_infra_env(body), Machine(9, Network())

    def is_known() -> bool:
        answer_steps(agent, infra_env.id, machine)
        return bool(user.v2_get_host(infra_env.id, machine.id).status == "known")

    for again in (False, True):
        agent.v2_register_host(infra_env.id, {"host_id": machine.id, "discovery_agent_version": version})
        wait_for("the added host to be known", is_known, 30)
        host = user.v2_install_host(infra_env.id, machine.id)
        assert (host.status, host.role, host.kind) == ("installing", "worker", "AddToExistingClusterHost")
        assert "install" in answer_steps(agent, infra_env.id, machine)
        config = json.loads(agent.v2_download_host_ignition(infra_env.id, machine.id, _preload_content=False).data)
        assert config["ignition"]["config"]["merge"] == [{"source": "http://api.there.example:22624/config/worker"}]
        assert {file["path"] for file in config["storage"]["files"]} == {"/etc/hostname", "/etc/chrony.conf"}
        agent.v2_update_host_install_progress(infra_env.id, machine.id, {"current_stage": "Rebooting"})
        host = user.v2_get_host(infra_env.id, machine.id)
        assert (host.status, host.progress.current_stage) == ("added-to-existing-cluster", "Done")
        if not again:
            assert user.v2_reset_host(infra_env.id, machine.id).status == "resetting-pending-user-action"
    user.v2_deregister_host(infra_env.id, machine.id)
    user.deregister_infra_env(infra_env.id)
    user.v2_deregister_cluster(cluster.id)


@pytest.mark.slow
def test_kernel_arguments_are_edited_where_the_image_has_them(service: Standalone, tmp_path: Path) -> None:
    user = service.api("user")
    wanted = [{"operation": "append", "value": "a=1"}, {"operation": "replace", "value": "a=2"}]
    infra_env = user.register_infra_env(
        {"name": "arguments", "pull_secret": service.pull_secret, "kernel_arguments": wanted}
    )
    with service.fetch(infra_env.download_url) as answer, (tmp_path / "edited.iso").open("wb") as file:
        shutil.copyfileobj(answer, file)
    with (tmp_path / "edited.iso").open("rb") as file:
        iso = Iso(file, tmp_path / "edited.iso")
        area = kargs_area(iso)
        assert area is not None
        assert current_kargs(iso, area).split()[-1] == "a=2"
    # What the image is known not to take is refused at once, and changes nothing.
    for edit, problem in (
        ({"operation": "delete", "value": "nosmt"}, "kernel argument nosmt cannot be deleted"),
        ({"operation": "append", "value": "a=" + "x" * 1100}, "bytes are more than the 1139 that the image has"),
    ):
        with pytest.raises(ApiException, match=problem):
            user.update_infra_env(infra_env.id, {"kernel_arguments": [edit]})
    assert json.loads(user.get_infra_env(infra_env.id).kernel_arguments) == wanted
    user.deregister_infra_env(infra_env.id)
