"""Readers and their rights: watchers and agents see no capability and no text of the user's with secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from installer.assisted.auth import Scheme
from installer.assisted.enums import ClusterStatus
from installer.assisted.errors import BadRequest, PrepareError
from installer.rendezvous.api.app import SERVICE
from installer.rendezvous.api.handlers.files import CREDENTIALS
from installer.rendezvous.api.handlers.infra_envs import FILES
from installer.rendezvous.api.handlers.routes import ROUTES
from installer.rendezvous.discovery.images import DiscoveryImages
from installer.rendezvous.store.documents import InstallerArgs
from installer.rendezvous.store.model import InfraEnv, KernelArgument, StaticNetwork, StaticNic
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import TOKENS, filled, header, no_brakes, serve

SECRET = "hunter2-of-the-user"
PROXY = f"http://user:{SECRET}@proxy.example:3128"
# What a signed URL, a token or a secret of the user's would bring into an answer.
MARKS = (SECRET, "signature=", *TOKENS.values())


def with_secrets(fleet: Fleet) -> None:
    """Put a secret into every text of the user's that may hold one."""
    store, change = fleet.world.store, msgspec.structs.replace
    ignition = json.dumps({"ignition": {"version": "3.2.0"}, "passwd": {"users": [{"passwordHash": SECRET}]}})
    cluster, infra_env = fleet.cluster, store.infra_env(fleet.infra_env_id)
    with store.change():
        overrides = json.dumps({"pullSecret": SECRET})
        store.put_cluster(
            change(
                cluster, status=ClusterStatus.INSTALLING, pull_secret=SECRET, http_proxy=PROXY, https_proxy=PROXY,
                install_config_overrides=overrides, ui_settings=SECRET,
                disk_encryption={"tang_servers": json.dumps([{"url": f"http://u:{SECRET}@t", "thumbprint": "x"}])},
            )
        )  # fmt: skip
        network = StaticNetwork(
            network_yaml=f"802.1x: {SECRET}", mac_interface_map=[StaticNic(mac_address="", logical_nic_name="")]
        )
        store.put_infra_env(
            change(
                infra_env, pull_secret=SECRET, static_network_config=[network], proxy={"http_proxy": PROXY},
                kernel_arguments=[KernelArgument(operation="append", value=f"rd.iscsi.password={SECRET}")],
                ignition_config_override=ignition,
            )
        )  # fmt: skip
        for host in store.hosts(cluster_id=cluster.id):
            arguments = InstallerArgs(json.dumps(["--append-karg", f"rd.iscsi.password={SECRET}"]))
            store.put_host(change(host, ignition_config_overrides=ignition, installer_args=arguments))
        for name in CREDENTIALS:
            store.put_file(cluster.id, name, SECRET.encode())


async def answers(client: TestClient[Any, Any], fleet: Fleet, scheme: Scheme) -> dict[str, str]:
    """Return the body of each GET that this token opens."""
    found = {}
    for method, path, schemes, _ in ROUTES:
        if method == "GET" and scheme in schemes:
            async with client.get(filled(path, fleet), headers=header(scheme)) as answer:
                found[path] = await answer.text()
    return found


@pytest.mark.parametrize("scheme", [Scheme.WATCHER, Scheme.AGENT])
def test_only_the_user_reads_urls_that_are_a_right_and_texts_with_secrets(tmp_path: Path, scheme: Scheme) -> None:
    async def use(client: TestClient[Any, Any], fleet: Fleet) -> None:
        service = cast(TestServer, client.server).app[SERVICE]
        # So that there are URLs of images.
        service.images = DiscoveryImages(lambda _: service.settings, TOKENS[Scheme.AGENT], lambda _: "", lambda _: None)
        with_secrets(fleet)
        await answers(client, fleet, Scheme.USER)  # what is kept of the user's answers is not given to others
        seen = await answers(client, fleet, scheme)
        assert len(seen) >= 6
        # An agent is told which Tang servers it is to ask.
        seen.pop("/infra-envs/{infra_env_id}/hosts/{host_id}/instructions", None)
        for path, text in seen.items():
            assert not [mark for mark in MARKS if mark in text], path
        assert any("proxy.example:3128" in text for text in seen.values())
        full = await answers(client, fleet, Scheme.USER)
        assert "signature=" in full["/infra-envs"]
        for path, least in (("/infra-envs", 4), ("/clusters/{cluster_id}", 3 + 2 * len(fleet.machines))):
            assert full[path].count(SECRET) >= least, path

    with no_brakes():
        serve(tmp_path, use)


def test_agents_have_no_files_of_infra_envs(tmp_path: Path) -> None:
    """They hold the pull secret, overrides and signed URLs, of every infra-env."""

    async def use(client: TestClient[Any, Any], fleet: Fleet) -> None:
        path = filled("/infra-envs/{infra_env_id}/downloads/files", fleet)
        for name in FILES:
            async with client.get(path, params={"file_name": name}, headers=header(Scheme.AGENT)) as answer:
                assert answer.status == 401, name

    serve(tmp_path, use)


def test_agents_have_no_credentials_but_what_bootstrapping_takes(tmp_path: Path) -> None:
    async def use(client: TestClient[Any, Any], fleet: Fleet) -> None:
        with_secrets(fleet)
        path = filled("/clusters/{cluster_id}/downloads/credentials", fleet)
        found = {}
        for scheme in (Scheme.USER, Scheme.AGENT):
            for name in CREDENTIALS:
                async with client.get(path, params={"file_name": name}, headers=header(scheme)) as answer:
                    found[scheme, name] = answer.status
        assert found == {
            **{(Scheme.USER, name): 200 for name in CREDENTIALS},
            (Scheme.AGENT, "kubeconfig"): 403,
            (Scheme.AGENT, "kubeconfig-noingress"): 200,
            (Scheme.AGENT, "kubeadmin-password"): 403,
        }

    serve(tmp_path, use)


def test_an_error_of_the_service_shows_no_path_of_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"[Errno 28] No space left on device: '{tmp_path}/images/x.iso'; {tmp_path}: read r.example/a/b@sha256:1"

    def full(infra_env: InfraEnv) -> None:
        raise PrepareError("image", text)

    def refused(infra_env: InfraEnv) -> None:
        try:
            full(infra_env)
        except PrepareError as error:
            raise BadRequest(str(error)) from error

    async def use(client: TestClient[Any, Any], fleet: Fleet) -> None:
        service = cast(TestServer, client.server).app[SERVICE]
        service.images = DiscoveryImages(lambda _: service.settings, "", lambda _: "", lambda _: None)
        monkeypatch.setattr(service.images, "ignition", full)
        path = filled("/infra-envs/{infra_env_id}/downloads/files", fleet)
        async with client.get(path, params={"file_name": "discovery.ign"}, headers=header(Scheme.USER)) as answer:
            reason = (await answer.json())["reason"]
            assert answer.status == 500
        shown = f"image: [Errno 28] No space left on device: 'x.iso'; {tmp_path.name}: read r.example/a/b@sha256:1"
        assert reason == shown
        # Nor a refusal that it led to.
        monkeypatch.setattr(service.images, "ignition", refused)
        async with client.get(path, params={"file_name": "discovery.ign"}, headers=header(Scheme.USER)) as answer:
            assert (answer.status, json.loads(await answer.text())["reason"]) == (400, shown)

    serve(tmp_path, use)
