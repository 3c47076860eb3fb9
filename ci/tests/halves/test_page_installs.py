"""A cluster installed with the browser alone: real Chromium, real service over TLS, the swarm's hosts."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from drivers.browser import PROGRAM, Page, chromium
from installer.agent.swarm.run import Plan, Swarm
from installer.testing.service.rendezvous_kit import CLUSTER, PULL_SECRET, Running, inventory, running, wait_for
from installer.testing.service.service_kit import INSTALLER, NEEDED, STATIC, standalone
from lab.testing.axe_kit import complaints
from scenarios.testing import wizard

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM, reason="no Chromium here: apt-get install chromium-headless-shell"),
]
NETWORK = IPv4Network("10.64.0.0/16")
TEXT = "document.getElementById('main').innerText"
THREE = {"control_plane_count": 3, "platform": {"type": "baremetal"}, "machine_networks": []}
VALUES = {
    "Cluster name": "paged",
    "Base domain": "test.node0.example",
    "Pull secret": PULL_SECRET,
    "SSH public key": str(CLUSTER["ssh_public_key"]),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("installs")
    binary = folder / "openshift-install"
    binary.write_text(INSTALLER)
    binary.chmod(0o755)
    with running(folder, PAGE_ACCESS="open", INSTALLER_BINARY=str(binary)) as live:
        yield live


@contextmanager
def browser(service: Running, folder: Path) -> Iterator[Page]:
    with chromium(folder / "profile", (service.directory / "tls/service.crt").read_bytes()) as tab:
        yield tab


@pytest.fixture(scope="module")
def tab(service: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(service, tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.fixture
def page(service: Running, tab: Page) -> Page:
    """Provide the page as somebody sees it who has never been there."""
    begin(tab, service)
    tab.js("sessionStorage.clear()")
    begin(tab, service)
    tab.complaints.clear()
    return tab


def begin(tab: Page, service: Running) -> None:
    """Load the page anew: from another document, as another fragment of the same one would load nothing."""
    tab.open("about:blank")
    tab.open(service.url)
    tab.until(wizard.LIVE)


@contextmanager
def swarm(service: Running, infra_env: str, hosts: int, stage_seconds: float = 0.1) -> Iterator[None]:
    """Provide so many simulated hosts in an infra-env, at work in threads of their own."""
    plan = Plan(
        hosts, service.url, service.keys.token("agentAuth"), service.ca, infra_envs=(infra_env,), network=NETWORK,
        seconds=300, stage_seconds=stage_seconds,
    )  # fmt: skip
    crowd = Swarm(plan)
    worker = threading.Thread(target=crowd.run)
    worker.start()
    try:
        yield
    finally:
        crowd.stop.set()
        worker.join(30)


def finish(service: Running, cluster: str) -> None:
    """Report what the cluster's controller reports once all of it is there."""
    agent = service.client("agentAuth")
    path = f"/clusters/{cluster}"
    wait_for("finalizing", lambda: service.client().call("GET", path)["status"] == "finalizing", 120)
    for name in ("cvo", "console"):
        agent.call("PUT", f"{path}/monitored-operators", {"name": name, "status": "available", "version": "4.18.0"})
    agent.call("POST", f"{path}/actions/complete-installation", {"is_success": True})


def cluster_of(service: Running, identity: str) -> Any:
    return service.client().call("GET", f"/clusters/{identity}")


def registered(service: Running, name: str) -> tuple[str, str]:
    """Register a cluster of three and its infra-env; returns their ids."""
    user = service.client()
    cluster = user.call("POST", "/clusters", {**CLUSTER, **THREE, "name": name})["id"]
    body = {"name": name, "pull_secret": PULL_SECRET, "cluster_id": cluster}
    return cluster, user.call("POST", "/infra-envs", body)["id"]


def opened(page: Page, service: Running, cluster: str, step: str) -> None:
    """Sign in where that is not done yet, and open a step of a cluster."""
    if not page.js("sessionStorage.getItem('token')"):
        wizard.sign_in(page, service.keys.token("userAuth"))
    page.js(f"location.hash = '#/clusters/{cluster}/details'")
    page.until("document.getElementById('step-title')?.textContent === 'Cluster details'")
    wizard.go_to(page, step)


def test_a_cluster_is_installed_by_browser_alone(service: Running, page: Page) -> None:
    assert "Create a cluster" not in page.text()
    wizard.sign_in(page, service.keys.token("userAuth"))
    cluster = wizard.create_cluster(page, VALUES)
    # The stream tells of it a second later.
    assert page.js(f"{TEXT}.includes('Loading') || {TEXT}.includes('Discovery image')")
    [infra_env] = service.client().call("GET", "/infra-envs")
    assert infra_env["cluster_id"] == cluster
    with swarm(service, infra_env["id"], 3):
        wizard.go_to(page, "Hosts")
        page.until(f"{TEXT}.includes('3 hosts have registered')")
        # What prevents it, with its remedy and the way there; the button waits for it.
        wizard.go_to(page, "Review")
        page.until(f"{TEXT}.includes('api-vips-defined') && document.getElementById('install').disabled")
        page.until(f"/swarm-., swarm-., swarm-.: /.test({TEXT})")
        assert complaints(page) == []
        page.push("Go to Networking", "link")
        page.until("document.getElementById('networking-api_vips-problem')?.innerText.includes('free address')")
        assert complaints(page) == []
        wizard.save(page, {"API addresses": str(NETWORK[2]), "Ingress addresses": str(NETWORK[3])})
        wizard.wait_for_hosts(page, 3, 120)
        wizard.install(page)
        # A rendezvous host is gone before all is installed: its page has the login before.
        page.push("Show the console's address and login")
        page.until(f"{TEXT}.includes('https://console-openshift-console.apps.paged.test.node0.example')")
        finish(service, cluster)
        wizard.wait_until_installed(page, 60)
    assert cluster_of(service, cluster)["status"] == "installed"
    assert complaints(page) == []
    assert page.complaints == []


def test_two_browsers_change_one_host(service: Running, page: Page, tmp_path: Path) -> None:
    """The second is told, beside the field, and nothing that either has entered is lost; a restart loses nothing."""
    cluster, infra_env = registered(service, "shared")
    form = "document.querySelector('form[aria-label^=Change]')"
    with swarm(service, infra_env, 1), browser(service, tmp_path) as two:
        begin(two, service)
        for each in (page, two):
            opened(each, service, cluster, "Hosts")
            each.push("Change swarm-0", "summary")
            each.until(f"{form} && {form}.querySelector('select')")
        two.fill("Host name", "of-two")
        two.choose("Role", "worker")
        wizard.save(page, {"Host name": "of-one"})
        # Live, before the second has sent anything.
        two.until(f"{form}.innerText.includes('Changed meanwhile in another browser, to: of-one')")
        assert complaints(two) == []
        two.push("Save")
        two.until(f"{form}.innerText.includes('Not saved: host_name was changed in another browser meanwhile')")
        [host] = service.client().call("GET", f"/infra-envs/{infra_env}/hosts")
        assert (host["requested_hostname"], host["role"]) == ("of-one", "auto-assign")

        # The service is killed while the form is open, and comes back.
        service.kill()
        two.until("document.getElementById('connection').textContent.startsWith('Not connected')")
        two.push("Keep mine")
        two.push("Save")
        two.until(f"{form}.innerText.includes('The service does not answer. What you have entered is kept')")
        service.start()
        two.until(wizard.LIVE)
        assert two.js(f"{form}.querySelector('input').value") == "of-two"
        wizard.save(two, {})
        [host] = service.client().call("GET", f"/infra-envs/{infra_env}/hosts")
        assert (host["requested_hostname"], host["role"]) == ("of-two", "worker")
        page.until(f"{TEXT}.includes('of-two')")

        # A reload keeps what was entered as well, but no secret.
        wizard.go_to(two, "Cluster details")
        two.fill("Base domain", "kept.example")
        two.fill("Pull secret", PULL_SECRET)
        two.push("Proxy, time, mirrors", "summary")
        two.fill("HTTP proxy", "http://user:hidden@proxy.example:3128")
        begin(two, service)
        opened(two, service, cluster, "Cluster details")
        two.until("document.querySelector('[name=base_dns_domain]')?.value === 'kept.example'")
        assert two.js("document.querySelector('[name=pull_secret]').value") == ""
        kept = two.js("JSON.stringify(Object.values(sessionStorage))")
        assert "kept.example" in kept
        assert [secret for secret in (PULL_SECRET, "c2VjcmV0OnNlY3JldA", "hidden") if secret in kept] == []


def test_a_service_that_has_forgotten_everything(service: Running, page: Page) -> None:
    """A live host that restarts has lost its clusters: what was entered is there to begin again with, but no secret."""
    wizard.sign_in(page, service.keys.token("userAuth"))
    proxies = {"HTTP proxy": "http://proxy.example:3128", "HTTPS proxy": "http://user:hidden@proxy.example:3128"}
    wizard.create_cluster(page, VALUES | {"Control plane nodes": "1", **proxies})
    assert "hidden" not in page.js("JSON.stringify(Object.values(sessionStorage))")
    service.kill()
    shutil.rmtree(service.directory / "data")
    service.start()
    page.until(f"{TEXT}.includes('There is no such cluster any more')")
    page.push("Create it again with what was entered")
    page.until("document.querySelector('[name=http_proxy]')?.value === 'http://proxy.example:3128'")
    assert page.js("document.querySelector('[name=pull_secret]').value") == ""
    wizard.fill(page, {"Pull secret": PULL_SECRET})
    page.push("Create cluster")
    page.until("location.hash.startsWith('#/clusters/')")
    [cluster] = service.client().call("GET", "/clusters")
    assert (cluster["name"], cluster["control_plane_count"]) == ("paged", 1)


def test_no_token_no_change(service: Running, page: Page) -> None:
    cluster, _ = registered(service, "watched")
    page.open(f"{service.url}#/clusters/{cluster}/review")
    for token in ("", "watcherAuth"):
        if token:
            wizard.sign_in(page, f"Bearer {service.keys.token(token)}")
        for step in ("Hosts", "Custom manifests", "Networking", "Review", "Progress"):
            wizard.go_to(page, step)
            enabled = page.js(
                "[...document.querySelectorAll('main button')].filter(b => !b.disabled).map(b => b.innerText)"
            )
            assert enabled == []
    # What was seen with a token goes with it, before the service has said anything.
    page.js("window.fetch = () => new Promise(() => {}), true")
    page.push("Forget the token")
    page.until(f"!{TEXT}.includes('watched')")


def test_a_single_node_its_manifests_and_a_new_beginning(service: Running, page: Page) -> None:
    """Bad input is told beside its field and changes nothing; then cancel, reset and removal."""
    wizard.sign_in(page, service.keys.token("userAuth"))
    before = service.client().call("GET", "/clusters")
    page.push("Create a cluster", "link")
    page.push("Proxy, time, mirrors", "summary")
    wizard.fill(page, VALUES | {"Cluster name": "single", "Control plane nodes": "1", "HTTP proxy": "ftp://proxy"})
    page.push("Create cluster")
    page.until("document.getElementById('new-http_proxy-problem')?.innerText.includes('must be a URL of http')")
    # The cluster would be taken, its infra-env not: neither is registered.
    wizard.fill(page, {"HTTP proxy": "", "Additional trust bundle": "no certificate"})
    page.push("Create cluster")
    page.until("!!document.getElementById('new-additional_trust_bundle-problem')")
    assert service.client().call("GET", "/clusters") == before
    wizard.fill(page, {"Additional trust bundle": "", "Mirrors of images": "quay.io/a = mirror.example/a"})
    page.push("Create cluster")
    cluster = str(page.until("location.hash.startsWith('#/clusters/') && location.hash.split('/')[2]"))
    overrides = json.loads(cluster_of(service, cluster)["install_config_overrides"])
    assert overrides == {"imageDigestSources": [{"source": "quay.io/a", "mirrors": ["mirror.example/a"]}]}
    [infra_env] = service.client().call("GET", "/infra-envs", query={"cluster_id": cluster})

    # A static network by the form, as the service reads it; a kernel argument, beside one that has no field here.
    deleted = {"operation": "delete", "value": "quiet"}
    service.client().call("PATCH", f"/infra-envs/{infra_env['id']}", {"kernel_arguments": [deleted]})
    page.push("Add a host's network by a form", "summary")
    wizard.fill(page, {"MAC address": "52:54:00:00:00:99", "Addresses": "192.0.2.9/24, 2001:db8::9/64"})
    wizard.fill(page, {"Gateways": "192.0.2.1", "DNS servers": "192.0.2.53", "VLAN": "20"})
    page.push("Add this host's network")
    wizard.save(page, {"Further kernel arguments": 'a=1 b="2 3"'})
    saved = service.client().call("GET", f"/infra-envs/{infra_env['id']}")
    added = [{"operation": "append", "value": value} for value in ("a=1", 'b="2 3"')]
    assert json.loads(saved["kernel_arguments"]) == [deleted, *added]
    [network] = json.loads(saved["static_network_config"])
    document = yaml.safe_load(network["network_yaml"])
    assert document["interfaces"][1]["vlan"] == {"base-iface": "eno1", "id": 20}
    assert document["interfaces"][1]["ipv6"]["address"] == [{"ip": "2001:db8::9", "prefix-length": 64}]
    page.push("Host 1: 52:54:00:00:00:99=eno1", "summary")
    page.fill("NMState YAML of host 1", "interfaces: {")
    page.push("Save")
    page.until(f"{TEXT}.includes('static_network_config[0].network_yaml: is not YAML')")
    assert complaints(page) == []
    page.push("Discard what I entered")

    wizard.go_to(page, "Custom manifests")
    values = {"File name": "50-a.yaml", "Content": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: ä}\n"}
    wizard.fill(page, values)
    page.push("Save manifest")
    page.until(f"{TEXT}.includes('Added manifests/50-a.yaml')")
    wizard.fill(page, values | {"Content": "kind: other"})
    page.push("Save manifest")
    page.until(f"{TEXT}.includes('exists, with another content')")
    page.push("Edit 50-a.yaml")
    page.until(f"document.querySelector('textarea').value === {json.dumps(values['Content'])}")
    assert complaints(page) == []
    page.push("Remove 50-a.yaml")
    page.push("Yes, remove it")
    page.until(f"{TEXT}.includes('There is none')")

    with swarm(service, infra_env["id"], 1, stage_seconds=2.0):
        wizard.save_at(page, "Networking", {"Machine networks": str(NETWORK)})
        wizard.wait_for_hosts(page, 1, 120)
        page.push("Change swarm-0", "summary")
        wizard.save(page, {"Installation disk": "/dev/disk/by-path/pci-0000:04:00.0", "Host name": "alone"})
        wizard.install(page)
        page.until(f"{TEXT}.includes('Writing image to disk')", 120)
        page.push("Cancel the installation")
        page.push("Yes, cancel it")
        page.until("document.querySelector('main .status').innerText === 'cancelled'")
        page.push("Reset the cluster")
        page.push("Yes, begin anew")
        page.until("document.querySelector('main .status').innerText.match(/insufficient|input|ready/)")
    page.push("Remove the cluster from this service")
    page.push("Yes, remove it")
    page.until("location.hash === '#/'")
    assert cluster not in {item["id"] for item in service.client().call("GET", "/clusters")}
    assert infra_env["id"] not in {item["id"] for item in service.client().call("GET", "/infra-envs")}


def test_hosts_that_are_in_no_cluster(service: Running, page: Page) -> None:
    """An infra-env of no cluster, as an image without a configuration has one: its hosts join by the page."""
    body = {"name": "blank", "pull_secret": PULL_SECRET}
    infra_env = service.client().call("POST", "/infra-envs", body)["id"]
    with swarm(service, infra_env, 2):
        wizard.sign_in(page, service.keys.token("userAuth"))
        joined = wizard.create_cluster(page, VALUES | {"Cluster name": "joined", "Hosts come from": infra_env})
        for name in ("swarm-0", "swarm-1"):
            page.until(f"{TEXT}.includes({json.dumps(name)})")
            if f"Add {name} to this cluster" in page.text():
                page.push(f"Add {name} to this cluster")
        page.until(f"{TEXT}.includes('2 hosts have registered')")
        assert {host["cluster_id"] for host in service.client().call("GET", f"/infra-envs/{infra_env}/hosts")} == {
            joined
        }
        page.push("Change swarm-1", "summary")
        page.push("Remove swarm-1")
        page.push("Yes, remove swarm-1")
        page.until(f"{TEXT}.includes('1 host has registered')")

        # The service ended before it had the cluster's image; a machine of another cluster is booted from that.
        half = service.client().call("POST", "/clusters", {**CLUSTER, **THREE, "name": "half"})["id"]
        page.open(f"{service.url}#/clusters/{half}/image")
        page.fill("Pull secret", PULL_SECRET)
        page.push("Make a discovery image")
        page.until(f"{TEXT}.includes('What the image has')")
        [image] = service.client().call("GET", "/infra-envs", query={"cluster_id": half})
        [host] = service.client().call("GET", f"/infra-envs/{infra_env}/hosts")
        agent, path = service.client("agentAuth"), f"/infra-envs/{image['id']}/hosts"
        agent.call("POST", path, {"host_id": host["id"], "discovery_agent_version": "1"})
        said = {"step_type": "inventory", "step_id": "inventory-1", "exit_code": 0, "error": ""}
        said["output"] = json.dumps(inventory("long" * 80, ip="10.64.9.9/16"))
        agent.call("POST", f"{path}/{host['id']}/instructions", said)
        wizard.go_to(page, "Hosts")
        page.until("document.querySelector('#hosts h3')?.innerText.startsWith('longlong')")
        page.until(f"{TEXT}.includes('is pending-for-input')")
        page.resize(360)
        assert page.js("document.documentElement.scrollWidth") <= 360
        page.open(f"{service.url}#/clusters/{joined}/hosts")
        page.until(f"{TEXT}.includes('1 host has registered')")


def test_a_host_that_is_being_bound(service: Running, page: Page) -> None:
    """Until its agent has come back nothing of it can be saved: the page says so, and keeps what was entered."""
    user, agent = service.client(), service.client("agentAuth")
    path = f"/infra-envs/{user.call('POST', '/infra-envs', {'name': 'late', 'pull_secret': PULL_SECRET})['id']}/hosts"
    mine = "52540000-0000-4000-8000-000000000080"
    disks = [{**inventory()["disks"][0], "id": f"/dev/disk/by-path/{name}", "path": f"/dev/{name}"} for name in "ab"]
    found = {"step_type": "inventory", "step_id": "i", "exit_code": 0, "output": json.dumps(inventory(disks=disks))}

    def call_in() -> None:
        agent.call("POST", path, {"host_id": mine, "discovery_agent_version": "1"})

    call_in()
    agent.call("POST", f"{path}/{mine}/instructions", found)
    waits = f"{TEXT}.includes('can be saved after that')"
    wizard.sign_in(page, service.keys.token("userAuth"))
    # Nothing can be sent before the page knows the versions.
    page.js(
        "window.real = fetch; window.fetch = async (url, ...rest) => {"
        "  if (url.includes('openshift-versions')) await new Promise((go) => { window.answer = go; });"
        "  return real(url, ...rest); }"
    )
    page.push("Create a cluster", "link")
    page.until("window.answer && document.querySelector('form[aria-label] button[type=submit]').disabled")
    assert "being asked" in page.text()
    page.js("window.answer()")
    values = {"Cluster name": "late", "Control plane nodes": "1", "Hosts come from": path.split("/")[2]}
    page.until("!!document.querySelector('[name=infra_env] option:nth-child(2)')")
    wizard.fill(page, VALUES | values)
    page.push("Create cluster")
    page.push("Change master-0", "summary")
    wizard.fill(page, {"Host name": "chosen", "Installation disk": disks[1]["id"]})
    page.until(waits)
    assert complaints(page) == []
    call_in()
    page.until("document.querySelector('main').innerText.includes('Waiting for host to send hardware details. What')")
    agent.call("POST", f"{path}/{mine}/instructions", found)
    page.until(f"!{waits}")
    wizard.save(page, {})
    page.push("Save")
    page.until(f"{TEXT}.includes('Saved already')")
    assert page.complaints == []
    host = user.call("GET", f"{path}/{mine}")
    assert (host["requested_hostname"], host["installation_disk_id"]) == ("chosen", disks[1]["id"])


@pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")
def test_the_discovery_image_comes_from_the_page(tmp_path: Path) -> None:
    """`node0 service` over a release in a registry: the version is offered, the ISO downloaded, the network in it."""
    with (
        standalone(tmp_path) as own,
        chromium(tmp_path / "profile", (own.dir / "tls/service.crt").read_bytes()) as page,
    ):
        page.open(own.url)
        page.until("document.getElementById('problem').innerText.includes('A token is needed')")
        assert "auth/user-token" in page.text()
        wizard.sign_in(page, own.token("user"))
        headers = {"Authorization": own.token("user")}
        for kind in ("full-iso", "minimal-iso"):
            folder = tmp_path / kind
            page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
            page.open(f"{own.url}#/")
            folder.mkdir()
            values = VALUES | {"Cluster name": kind, "Pull secret": own.pull_secret, "Discovery image": kind}
            cluster = wizard.create_cluster(page, values)
            page.push("Add a host's network as YAML")
            page.push("Host 1: no MAC address yet", "summary")
            nic = STATIC["mac_interface_map"][0]
            page.fill("MAC addresses and NICs of host 1", f"{nic['mac_address']}={nic['logical_nic_name']}")
            page.fill("NMState YAML of host 1", STATIC["network_yaml"])
            wizard.save(page, {})
            page.push("Download discovery ISO")
            [image] = wait_for("the image", lambda folder=folder: [*folder.glob("*.iso")], 120)
            [infra_env] = own.api("user").list_infra_envs(cluster_id=cluster)
            with own.fetch(infra_env["download_url"]) as answer:
                assert image.read_bytes() == answer.read()
            files = f"/api/assisted-install/v2/infra-envs/{infra_env['id']}/downloads/files"
            with own.fetch(f"{files}?file_name=static-network-config", **headers) as answer:
                assert b"address0=192.168.111.80/24" in answer.read().replace(b" ", b"")
