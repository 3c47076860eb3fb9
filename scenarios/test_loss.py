"""Faults during an installation: each has a documented outcome, which `wait-for` reports."""

import pytest

from lab.deploy import Deployment
from lab.waiting import wait_until
from scenarios.testing.cluster import BOOTSTRAP_SECONDS, INSTALL_SECONDS, WAIT_FOR_FAILED, Installation, output_of

pytestmark = pytest.mark.nightly

DISK_SECONDS = 1800
SERVICE = "assisted-service.service"


@pytest.mark.parametrize("deployment", ["compact-ipv4-static-uefi-power_cut"], indirect=True)
def test_a_host_that_loses_power_while_its_disk_is_written_is_named(deployment: Deployment):
    """The host boots the image again and registers again, which a host in installation must not; or it takes longer
    than the three minutes after which a silent host is given up, which is as final (installer.md §5.2, §5.6)."""
    deployment.create_image()
    deployment.boot()
    victim = deployment.topology.masters[-1].name
    deployment.disk_is_written(victim, DISK_SECONDS)
    deployment.lab.nodes[victim].power.cycle()
    result = deployment.wait_for("bootstrap-complete", BOOTSTRAP_SECONDS)
    assert result.returncode == WAIT_FOR_FAILED, output_of(result)[-2000:]
    errors = [line for line in output_of(result).splitlines() if "level=error" in line and victim in line]
    outcomes = ("unexpectedly restarted", "lost its connection to the service at stage Writing image to disk")
    assert any(outcome in line for line in errors for outcome in outcomes), output_of(result)[-3000:]


@pytest.mark.parametrize("deployment", ["compact-ipv4-static-uefi-service_killed"], indirect=True)
def test_an_installation_survives_the_death_of_the_service(deployment: Deployment):
    deployment.create_image()
    deployment.boot()
    node0, other = deployment.topology.masters[:2]
    deployment.disk_is_written(other.name, DISK_SECONDS)
    host = deployment.lab.nodes[node0.name].ssh()
    pid = host.check_output("sudo podman inspect --format '{{.State.Pid}}' assisted-service")
    assert int(pid) > 1
    host.check_output(f"sudo kill -KILL {pid}")

    def restarts() -> int:
        return int(host.check_output(f"systemctl show --property NRestarts --value {SERVICE}"))

    wait_until(lambda: restarts() >= 1, 120, f"{SERVICE} to be started again", restarts)
    for target, seconds in (("bootstrap-complete", BOOTSTRAP_SECONDS), ("install-complete", INSTALL_SECONDS)):
        result = deployment.wait_for(target, seconds)
        assert result.returncode == 0, f"wait-for {target} ended with {result.returncode}:\n{output_of(result)[-4000:]}"
    assert Installation(deployment).nodes_ready()
