"""Installations that must fail, and say why."""

import json
import re
import tarfile
from pathlib import Path

import pytest

from lab.deploy import Deployment
from lab.layout import BRIDGE
from scenarios.testing import planted
from scenarios.testing.cluster import WAIT_FOR_FAILED, Stopped, output_of, state_of
from scenarios.testing.page import card, watching
from scenarios.testing.surfaces import GATHER_SECONDS

NO_DISK = "has-min-valid-disks"
# What no archive may hold whatever its value: signed tokens and private keys.
SECRETS = re.compile(rb"eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}|-----BEGIN [A-Z ]*PRIVATE KEY-----\s")

small_disk = pytest.mark.parametrize("stopped", ["sno-ipv4-static-uefi-small_disk"], indirect=True)


@small_disk
def test_a_disk_too_small_is_named_with_what_was_found_and_needed(stopped: Stopped):
    line = stopped.validation_message(stopped.deployment.topology.nodes[0].name, NO_DISK)
    sizes = re.findall(r"(\d+(?:\.\d+)?) ?Gi?B", line)
    assert len(sizes) >= 2, f"found and needed size are not both in: {line}"
    logs = list(stopped.deployment.directory.glob("logs/**/*"))
    assert any(path.is_file() and path.stat().st_size for path in logs), "wait-for left no logs"


@small_disk
def test_the_page_shows_the_host_and_says_what_wait_for_said(stopped: Stopped):
    host = stopped.deployment.topology.nodes[0]
    screens = stopped.lab.artifacts / "screens"
    screens.mkdir(exist_ok=True)
    with watching(stopped.lab, host.ip, state_of(stopped.deployment)["serviceCACert"]) as page:
        page.until(f"{card(host.name)}.includes({json.dumps(NO_DISK)})")
        page.picture(screens / "page.png")
        text = str(page.js(card(host.name)))
        assert f"failure {NO_DISK}: {stopped.validation_message(host.name, NO_DISK)}" in text.splitlines(), text
        assert "insufficient" in text
        assert f"Cluster {stopped.deployment.topology.cluster_domain}" in page.text()
        assert page.complaints == []


def secrets_of(deployment: Deployment) -> dict[str, bytes]:
    """Every secret of the installation that a user or the lab holds."""
    [login] = json.loads(deployment.lab.access.pull_secret)["auths"].values()
    texts = {
        "watcher's token": state_of(deployment)["watcherToken"],
        "pull secret": login["auth"],
        "registry's password": deployment.lab.credentials.registry_password,
        "kubeadmin's password": (deployment.directory / "auth/kubeadmin-password").read_text().strip(),
        "SSH key": deployment.lab.ssh_key.read_text().splitlines()[-2],
    }
    assert all(len(text) >= 8 for text in texts.values()), "a secret that cannot be looked for"
    return {name: text.encode() for name, text in texts.items()}


def unpacked(archive: Path) -> dict[str, bytes]:
    """Return the files of a gathered archive, by path below its one folder."""
    with tarfile.open(archive) as source:
        files = {member.name: source.extractfile(member) for member in source if member.isreg()}
        return {name.partition("/")[2]: file.read() for name, file in files.items() if file is not None}


@small_disk
def test_gather_brings_journal_service_and_network_of_the_live_host_and_no_secret(stopped: Stopped):
    deployment = stopped.deployment
    host = deployment.topology.nodes[0]
    archive = deployment.directory / "gathered.tar.gz"
    live = stopped.lab.nodes[host.name].ssh()
    lines = planted.plant(live)
    there = int(live.check_output("sudo journalctl --no-pager -o cat -t %s | grep -c .", planted.UNIT))
    assert there >= lines, "the journal has not taken all that was planted"
    with stopped.lab.phase("gather"):
        result = deployment.agent(
            "gather", "--key", str(stopped.lab.ssh_key), "--output", str(archive), timeout=GATHER_SECONDS
        )
    assert result.returncode == 0, output_of(result)[-2000:]
    files = unpacked(archive)
    for name, secret in secrets_of(deployment).items():
        assert not [path for path, content in files.items() if secret in content], f"the {name} is in the archive"
    assert not [path for path, content in files.items() if SECRETS.search(content)], "a token or key is in the archive"

    left = {secret for secret in planted.SECRETS for content in files.values() if secret.encode() in content}
    assert left == set(), f"planted, and in the archive: {sorted(left)[:5]}"

    mine = f"hosts/{host.ip}"
    assert files[f"{mine}/journal.log"].count(f" {planted.UNIT}[".encode()) > lines / 2, (
        "secrets went with what is around"
    )
    assert planted.JOURNAL_TEXT.encode() in files[f"{mine}/journal.log"]
    [config] = [content for path, content in files.items() if path.endswith("planted-install-config.yaml")]
    assert b"redfish-virtualmedia+https://192.0.2.1" in config
    assert [item["Name"] for item in json.loads(files[f"{mine}/system/podman-inspect.json"])].count(
        planted.CONTAINER
    ) == 1
    journal = files[f"{mine}/journal.log"].decode(errors="replace")
    for source in ("assisted-service.sh", "start-agent.sh", "NetworkManager", "kernel"):
        assert re.search(rf" {re.escape(source)}(\[\d+\])?: ", journal), f"nothing of {source} is in the journal"
    nics = json.loads(files[f"{mine}/network/addr.json"])
    assert host.ip in [address.get("local") for nic in nics for address in nic["addr_info"]]
    assert json.loads(files[f"{mine}/network/route.json"])
    assert "assisted-service" in files[f"{mine}/system/podman-ps"].decode()
    [hosts] = [json.loads(content) for path, content in files.items() if path.startswith("service/hosts-")]
    assert [item["requested_hostname"] for item in hosts] == [host.name]
    [events] = [json.loads(content) for path, content in files.items() if path.startswith("service/events-")]
    assert any(stopped.validation_message(host.name, NO_DISK) in event["message"] for event in events)
    assert host.ip in files["summary.txt"].decode()


@pytest.mark.nightly
@pytest.mark.parametrize("deployment", ["compact-ipv4-static-uefi-node0_alone"], indirect=True)
def test_hosts_that_never_come_and_a_vip_that_is_taken_are_told(deployment: Deployment):
    """Two of three machines stay off, and something else on the network has the API's address."""
    [vip] = deployment.topology.api_addresses
    taken = deployment.lab.run(["ip", "address", "add", f"{vip}/32", "dev", BRIDGE], timeout=10)
    assert taken.returncode == 0, output_of(taken)
    deployment.create_image()
    node0, *absent = deployment.topology.nodes
    deployment.boot(node0.name)
    result = deployment.wait_for("bootstrap-complete", 900, "--timeout=480")
    lines = output_of(result).splitlines()
    assert result.returncode == WAIT_FOR_FAILED, output_of(result)[-2000:]
    assert any("timed out after 8m0s" in line for line in lines), output_of(result)[-2000:]
    for spec in absent:
        assert any("level=error" in line and spec.name in line and "never registered" in line for line in lines)
    assert any(vip in line and "already in use" in line for line in lines), output_of(result)[-3000:]


@pytest.mark.nightly
@pytest.mark.parametrize("deployment", ["compact-ipv4-dhcp-uefi-same_hostname"], indirect=True)
def test_two_hosts_with_one_name_are_both_told(deployment: Deployment):
    deployment.create_image()
    deployment.boot()
    result = deployment.wait_for("bootstrap-complete", timeout=1200)
    assert result.returncode == WAIT_FOR_FAILED, output_of(result)[-2000:]
    name = deployment.topology.nodes[1].name
    errors = [x for x in output_of(result).splitlines() if "level=error" in x and "hostname-unique" in x and name in x]
    assert len(errors) == 2, output_of(result)[-3000:]
