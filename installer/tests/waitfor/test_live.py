"""wait-for against the real rendezvous service and a real agent, each in its own process."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from installer.testing.service.rendezvous_kit import CLUSTER, PULL_SECRET, REPOSITORY, SMALL, running
from installer.testing.waiting_kit import asset_dir, upload_logs
from installer.waitfor.command import execute
from installer.waitfor.settings import Settings

NEEDED_MIB = 10_000_000


@pytest.mark.slow
def test_host_with_too_little_memory_ends_with_found_and_needed(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "installer.waitfor")
    needs = json.loads(SMALL)
    needs[0]["sno"]["ram_mib"] = NEEDED_MIB
    (tmp_path / "service").mkdir()
    with running(tmp_path / "service", HW_VALIDATOR_REQUIREMENTS=json.dumps(needs)) as service:
        directory = asset_dir(tmp_path / "assets", service)
        user = service.client()
        cluster = user.call("POST", "/clusters", CLUSTER)
        body = {"name": "ostest", "pull_secret": PULL_SECRET, "cluster_id": cluster["id"]}
        infra_env = user.call("POST", "/infra-envs", body)
        host_id = "6f1d2a8e-98b5-4a7e-9a35-0e4b1c7c1f11"
        agent_api = service.client("agentAuth")
        agent_api.call("POST", f"/infra-envs/{infra_env['id']}/hosts", {"host_id": host_id})
        upload_logs(service, cluster["id"], host_id, infra_env["id"])
        user.call("DELETE", f"/infra-envs/{infra_env['id']}/hosts/{host_id}")
        env = {**service.env, "PULL_SECRET_TOKEN": service.keys.token("agentAuth"), "NODE0_HOST_ROOT": "/"}
        args = ["--url", service.url, "--infra-env-id", infra_env["id"], "--cacert", str(service.ca), "--interval", "1"]
        with (tmp_path / "agent.log").open("wb") as out:
            agent = subprocess.Popen(
                [sys.executable, "-m", "installer.agent", *args], env=env, cwd=REPOSITORY, stderr=out
            )
        try:
            settings = Settings(rest_port=service.port, interval=0.3, failing_for=1.0, bootstrap=60)
            assert execute("bootstrap-complete", directory, None, settings) == 5
        finally:
            agent.terminate()
            agent.wait(20)
    errors = [r.message for r in caplog.records if r.name == "installer.waitfor" and r.levelname == "ERROR"]
    memory = [line for line in errors if "has-memory-for-role failed" in line]
    assert len(memory) == 1
    assert "Require at least 9.54 TiB RAM for role master" in memory[0]
    assert "found only " in memory[0]
    assert errors[0].startswith("Host ")
    kept = directory / "logs"
    assert (kept / "cluster" / "ostest").is_dir()
    assert {"events.json", "hosts.json", "cluster.json", "cluster-logs.tar"} <= {p.name for p in kept.iterdir()}
    assert "Successfully registered" in (kept / "events.json").read_text()
