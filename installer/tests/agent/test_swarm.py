"""The swarm: the agent's own code over hosts of data, against the real service on TLS."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.agent import steps
from installer.agent.swarm import command as swarm
from installer.agent.swarm import report as swarm_report
from installer.agent.swarm import run as swarm_run
from installer.agent.swarm.host import SimulatedHost, Site
from installer.assisted.inventory import decode
from installer.testing.forked_kit import forked
from installer.testing.service.rendezvous_kit import REPOSITORY, running
from installer.testing.service.service_kit import INSTALLER

pytestmark = pytest.mark.slow

NETWORK = IPv4Network("10.64.0.0/16")
HOSTS = 20


@given(st.lists(st.floats(0, 100), min_size=1, max_size=300))
def test_percentiles(values: list[float]) -> None:
    percentiles = swarm_report.percentiles(values)
    for percent in swarm_report.PERCENTILES:
        limit = percentiles[f"p{percent}"]
        assert sum(round(value * 1000, 1) <= limit for value in values) * 100 >= percent * len(values)
        assert limit in {round(value * 1000, 1) for value in values}


def test_hosts_are_different_and_always_the_same() -> None:
    site = Site(NETWORK)
    hosts = [SimulatedHost(number, site) for number in range(5000)]
    for trait in ("id", "mac", "ip", "name"):
        assert len({getattr(host, trait) for host in hosts}) == 5000
    assert SimulatedHost(4999, site).inventory() == hosts[-1].inventory()
    assert decode(hosts[0].inventory()).interfaces[0].ipv4_addresses == ["10.64.0.16/16"]
    # A step that only real hosts know would go unanswered.
    assert set(steps.TABLE) - set(hosts[0].steps()) == {"tang-connectivity-check", "api-vip-connectivity-check"}


@pytest.mark.parametrize(
    "words",
    [
        ["0"],
        ["5001"],
        ["9", "--network", "10.0.0.0/28"],
        ["9", "--seconds", "0"],
        ["9", "--seconds", "1e9"],
        ["9"],
        ["9", "--clusters", "10"],
        ["9", "--clusters", "1", "--cluster-size", "2"],
        ["9", "--p99", "0"],
        ["9", "--infra-env-id", "x", "--clusters", "2"],
        ["9", "--p99", "5", "--step", "0"],
    ],
)
def test_bad_usage(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        swarm.main([*words, "--url", "https://127.0.0.1:1/", "--token", str(tmp_path)])
    assert caught.value.code == 2


def test_an_error_is_a_line_as_any_commands(tmp_path: Path) -> None:
    words = ["1", "--url", "https://127.0.0.1:1/", "--infra-env-id", "x", "--token", str(tmp_path / "gone")]
    assert forked(swarm.main, words) == (1, f"level=fatal msg={tmp_path}/gone: No such file or directory\n")
    (tmp_path / "token").touch()
    code, stderr = forked(swarm.main, [*words[:-1], str(tmp_path / "token"), "--ca", str(tmp_path / "token")])
    assert (code, stderr.startswith("level=fatal msg="), stderr.count("\n")) == (1, True, 1), stderr


class Late(threading.Event):
    """Whoever looks by it has no processor for a while."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(timeout) or (timeout == swarm_run.LOOK and super().wait(0.1))


def test_how_late_the_swarm_itself_was() -> None:
    """A swarm that has no processor sees slow answers, whatever the service does."""
    crowd = swarm_run.Swarm(
        swarm_run.Plan(1, "http://127.0.0.1:1/", "t", None, infra_envs=("i",), network=NETWORK, seconds=60.0)
    )
    crowd.stop = Late()
    looks = iter([False, False])
    crowd.run(lambda: next(looks, True))
    assert crowd.steps[0].late >= 0.1


def test_agents_from_the_lab_command(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        for who in ("agent", "user"):
            (tmp_path / who).write_text(service.keys.token(f"{who}Auth"))
        command = [sys.executable, "-m", "lab.commands.cli", "swarm", str(HOSTS)]
        command += ["--url", service.url, "--ca", str(service.ca)]
        command += ["--token", str(tmp_path / "agent"), "--user-token", str(tmp_path / "user"), "--json"]
        command += ["--seconds", "5", "--ramp", "1", "--service-pid", str(service.process.pid)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        report = json.loads(done.stdout)
        assert report["registered"] == HOSTS
        assert report["errors"] == {}
        assert report["latency_ms"]["POST hosts"]["count"] == HOSTS
        assert report["latency_ms"]["GET instructions"]["count"] >= HOSTS
        assert report["service"]["cpu_percent"] > 0
        [cluster] = service.client().call("GET", "/clusters", query={"with_hosts": "true"})
        assert cluster["total_host_count"] == HOSTS
        assert {json.loads(host["inventory"])["hostname"] for host in cluster["hosts"]} == {
            f"swarm-{number}" for number in range(HOSTS)
        }
        # A host that is refused gets an error, and is no success.
        (tmp_path / "agent").write_text("x.y.z")
        done = subprocess.run(
            [*(word for word in command if word != "--json"), "--seconds", "2"],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "401" in done.stdout


def test_an_installation_by_simulated_hosts(tmp_path: Path) -> None:
    """Five hosts go from discovery to the last stage; the cluster's states follow."""
    binary = tmp_path / "openshift-install"
    binary.write_text(INSTALLER)
    binary.chmod(0o755)
    with running(tmp_path, INSTALLER_BINARY=str(binary)) as service:
        user = service.client()
        infra_envs = swarm.make_infra_envs(user, NETWORK)
        token = service.keys.token("agentAuth")
        pause = random.uniform(0.05, 0.2)
        crowd = swarm_run.Swarm(
            swarm_run.Plan(
                5,
                service.url,
                token,
                service.ca,
                infra_envs=infra_envs,
                network=NETWORK,
                seconds=120,
                stage_seconds=pause,
            )
        )
        [cluster] = user.call("GET", "/clusters")
        seen: list[str] = []

        def done() -> bool:
            status = user.call("GET", f"/clusters/{cluster['id']}")["status"]
            if seen[-1:] != [status]:
                seen.append(status)
                if status == "ready":
                    user.call("POST", f"/clusters/{cluster['id']}/actions/install")
            return status in ("finalizing", "error")

        crowd.run(done)
        answer = user.call("GET", f"/clusters/{cluster['id']}")
        assert seen[-1] == "finalizing", (seen, answer["status_info"], [h["status_info"] for h in answer["hosts"]])
        assert {"preparing-for-installation", "installing"} <= set(seen)
        roles = sorted(host["role"] for host in answer["hosts"])
        assert roles.count("master") == 3 or [h["suggested_role"] for h in answer["hosts"]].count("master") == 3
        masters = [h for h in answer["hosts"] if "master" in (h["role"], h["suggested_role"])]
        assert {host["progress"]["current_stage"] for host in masters} == {"Done"}
        assert not crowd.tally.errors


def test_more_and_more_hosts_in_many_clusters_until_the_limit(tmp_path: Path) -> None:
    """Steps are reported one by one; a limit that no service can keep ends the run at the first, with exit code 1."""
    with running(tmp_path) as service:
        for who in ("agent", "user"):
            (tmp_path / who).write_text(service.keys.token(f"{who}Auth"))
        command = [sys.executable, "-m", "installer", "swarm", "20", "--url", service.url, "--ca", str(service.ca)]
        command += ["--token", str(tmp_path / "agent"), "--user-token", str(tmp_path / "user"), "--json"]
        command += ["--step", "10", "--hold", "2", "--ramp", "1", "--service-pid", str(service.process.pid)]

        def run(*words: str) -> tuple[int, dict[str, Any]]:
            done = subprocess.run(
                [*command, *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
            )
            return done.returncode, json.loads(done.stdout)

        code, result = run("--cluster-size", "3", "--p99", "20000")
        assert (code, result["held"], result["infra_envs"], result["errors"]) == (0, 20, 7, {})
        assert [step["hosts"] for step in result["steps"]] == [10, 20]
        assert all(0 < step["p99_ms"] <= 20000 and step["holding_seconds"] >= 2 for step in result["steps"])
        assert all(step["swarm_late_ms"] >= 0 for step in result["steps"])
        assert result["service"]["memory_kib_per_host"] > 0
        user = service.client()
        sizes = [cluster["total_host_count"] for cluster in user.call("GET", "/clusters")]
        assert sizes == [3] * 6 + [2]
        for cluster in user.call("GET", "/clusters"):
            user.call("DELETE", f"/clusters/{cluster['id']}")
        code, result = run("--clusters", "0", "--p99", "0.001")
        assert (code, result["held"], result["hosts"], result["infra_envs"]) == (1, 0, 10, 1)
        [infra_env] = [
            item for item in user.call("GET", "/infra-envs") if not item.get("cluster_id") and item["name"] == "swarm"
        ]
        statuses = {host["status"] for host in user.call("GET", f"/infra-envs/{infra_env['id']}/hosts")}
        assert statuses <= {"discovering-unbound", "insufficient-unbound", "known-unbound"}
