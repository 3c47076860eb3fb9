"""The real service on TLS in its own process, real agent processes, kill -9, and the unmodified public client."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import assisted_service_client as public
import pytest

from installer.testing.service.forked_kit import forked
from installer.testing.service.rendezvous_kit import CLUSTER, PULL_SECRET, REPOSITORY, Running, running, wait_for

pytestmark = pytest.mark.slow

# This machine has no disk to spare: the real agent's real inventory has one more, with a speed; all else is untouched.
AGENT = """
import json, sys
from installer.agent.checks import diskspeed
from installer.agent.host import blockdev
from installer.assisted.inventory import Disk, Eligibility
real = blockdev.disks
blockdev.disks = lambda host: [*real(host), Disk(id="/dev/spare", name="spare", path="/dev/spare", drive_type="SSD",
    size_bytes=20 * 1000**3, installation_eligibility=Eligibility(eligible=True))]
diskspeed.disk_speed = lambda host, request, seconds: json.dumps({"path": request.path, "io_sync_duration": 1})
from installer.agent.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
INSTALLER = """#!/usr/bin/env python3
import json, pathlib, sys
work = pathlib.Path(sys.argv[sys.argv.index("--dir") + 1])
assert (work / "install-config.yaml").is_file()
if sys.argv[2] == "manifests":
    (work / "manifests").mkdir(); (work / "openshift").mkdir()
else:
    assert (work / "openshift" / "99-extra.yaml").is_file()
    empty = json.dumps({"ignition": {"version": "3.2.0"}})
    for name in ("bootstrap-in-place-for-live-iso.ign", "master.ign", "worker.ign", "metadata.json"):
        (work / name).write_text(empty)
    (work / "auth").mkdir(); (work / "auth/kubeconfig").write_text("k")
"""


@pytest.fixture
def service(tmp_path: Path) -> Any:
    binary = tmp_path / "openshift-install"
    binary.write_text(INSTALLER)
    binary.chmod(0o755)
    with running(tmp_path, INSTALLER_BINARY=str(binary), DISABLED_STEPS="container-image-availability") as live:
        yield live


def _cidr() -> str:
    routes = json.loads(subprocess.run(["ip", "-j", "route"], capture_output=True, check=True).stdout)
    return next(str(item["dst"]) for item in routes if "/" in item["dst"])


def _agent(service: Running, infra_env_id: str, log: Path) -> subprocess.Popen[bytes]:
    env = {**service.env, "PULL_SECRET_TOKEN": service.keys.token("agentAuth"), "NODE0_HOST_ROOT": "/"}
    args = ["--url", service.url, "--infra-env-id", infra_env_id, "--cacert", str(service.ca), "--interval", "1"]
    with log.open("ab") as out:
        return subprocess.Popen([sys.executable, "-c", AGENT, *args], env=env, cwd=REPOSITORY, stderr=out)


def _public_api(service: Running) -> public.InstallerApi:
    config = public.Configuration()
    config.host = f"{service.url}api/assisted-install"
    config.ssl_ca_cert = str(service.ca)
    config.api_key["Authorization"] = service.keys.token("userAuth")
    return public.InstallerApi(api_client=public.ApiClient(configuration=config))


@pytest.mark.filterwarnings("ignore")
def test_discovery_to_installing_with_a_killed_service(service: Running, tmp_path: Path) -> None:
    user = service.client()
    cluster = user.call("POST", "/clusters", {**CLUSTER, "machine_networks": [{"cidr": _cidr()}]})
    assert cluster["status"] == "insufficient"
    assert "pull_secret" not in cluster
    assert cluster["pull_secret_set"] is True
    extra = {"folder": "openshift", "file_name": "99-extra.yaml", "content": "a2luZDogTGlzdAo="}
    user.call("POST", f"/clusters/{cluster['id']}/manifests", extra)
    body = {"name": "ostest", "pull_secret": PULL_SECRET, "cluster_id": cluster["id"]}
    infra_env = user.call("POST", "/infra-envs", body)
    agent = _agent(service, infra_env["id"], tmp_path / "agent.log")
    try:
        hosts = f"/infra-envs/{infra_env['id']}/hosts"
        wait_for("a host to be known", lambda: [h for h in user.call("GET", hosts) if h["status"] == "known"])
        service.kill()
        service.start()
        answer = user.call("GET", f"/clusters/{cluster['id']}")
        assert answer["status"] == "ready", answer["status_info"]
        assert answer["hosts"][0]["installation_disk_id"] == "/dev/spare"
        # The agent survives the service's death and goes on polling.
        before = answer["hosts"][0]["checked_in_at"]
        wait_for("the agent to call in again", lambda: user.call("GET", hosts)[0]["checked_in_at"] > before)

        api = _public_api(service)
        listed = api.v2_list_clusters(with_hosts=True)
        assert [item["id"] for item in listed] == [cluster["id"]]
        typed = api.v2_get_cluster(cluster_id=cluster["id"])
        assert typed.status == "ready"
        assert typed.hosts[0].requested_hostname == answer["hosts"][0]["requested_hostname"]
        assert api.v2_list_hosts(infra_env_id=infra_env["id"])[0]["status"] == "known"

        user.call("POST", f"/clusters/{cluster['id']}/actions/install")
        service.kill()
        service.start()

        def ended() -> Any:
            now = user.call("GET", f"/clusters/{cluster['id']}")
            return now if now["status"] in ("error", "installing") and now["hosts"][0]["status"] == "error" else None

        # No podman image is named here, so the install step itself is refused by the agent: the error path for real.
        failed = wait_for("the install step to fail", ended)
        assert "argument: installer_image is empty" in failed["hosts"][0]["status_info"]
        events = user.call("GET", "/events", query={"infra_env_id": infra_env["id"]})
        changes = [event["message"] for event in events if event["name"] == "host_status_updated"]
        assert any("from known to preparing-for-installation" in text for text in changes)
        assert any("from preparing-successful to installing" in text for text in changes)
        ignition = service.client("agentAuth").download(
            f"/infra-env/{infra_env['id']}/hosts/{failed['hosts'][0]['id']}/downloads/ignition"
        )
        assert json.loads(ignition)["storage"]["files"][0]["path"] == "/etc/hostname"
        assert PULL_SECRET[10:] not in (tmp_path / "service.log").read_text()
        assert stat.S_IMODE(os.stat(tmp_path / "data" / "assisted.db").st_mode) == 0o600
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait(10)


@pytest.mark.parametrize(
    ("wanted", "own"), [("r.example/agent:new", "r.example/agent:old"), ("", "r.example/agent:old")]
)
def test_a_host_is_told_which_agent_to_run_from_now_on(tmp_path: Path, wanted: str, own: str) -> None:
    """Upstream's agent starts its runner from that image: the one that it has would be told to upgrade for ever."""
    with forked(tmp_path, AGENT_DOCKER_IMAGE=wanted) as live:
        cluster = live.client().call("POST", "/clusters", CLUSTER)
        params = {"name": "e", "cluster_id": cluster["id"], "pull_secret": PULL_SECRET, "openshift_version": "4.18.0"}
        infra_env = live.client().call("POST", "/infra-envs", params)
        body = {"host_id": "00000000-0000-4000-8000-000000000007", "discovery_agent_version": own}
        host = live.client("agentAuth").call("POST", f"/infra-envs/{infra_env['id']}/hosts", body)
    [text] = host["next_step_runner_command"]["args"]
    assert json.loads(text) == {
        "infra_env_id": infra_env["id"],
        "host_id": body["host_id"],
        "agent_version": wanted or own,
    }
