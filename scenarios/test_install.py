"""Empty machines become a cluster: every topology is installed once, then examined from inside and outside."""

import json
import re
import time

import pytest

from lab.cleanup import afterwards
from lab.layout import REGISTRY_PORT
from lab.machines import disks
from lab.topology import FROM_NETWORK
from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.catalogue.variants import KERNEL_ARGUMENTS
from scenarios.testing.cluster import Installation

every = pytest.mark.parametrize("installation", params(), indirect=True)
# Slow tests of what depends on one host only need not run on several.
single = pytest.mark.parametrize(
    "installation", params(lambda row: row.thorough and row.topology.startswith("sno-")), indirect=True
)

# What the live host shows of a service that ended and that nobody stopped (assisted-service.sh).
ENDED_BY_ITSELF = ".service ended by itself ("
SERVICES = ("kubelet", "containerd", "NetworkManager", "chrony", "ssh")
ETCD = ("openshift-etcd", "etcd")
# Namespace and name, with one pod on every master and none elsewhere.
MASTER_PODS = (
    ("openshift-kube-apiserver", "kube-apiserver"),
    ("openshift-kube-controller-manager", "kube-controller-manager"),
    ("openshift-kube-scheduler", "kube-scheduler"),
    ("openshift-machine-config-operator", "machine-config-server"),
)
VERSION_OPERATOR = ("openshift-cluster-version", "cluster-version-operator")
ROUTER = ("openshift-ingress", "router")
ENCRYPTED = {"tpm_encryption", "tang_encryption"}


@pytest.mark.parametrize("installation", params(lambda row: row.boot != "discovery-iso"), indirect=True)
def test_node0_is_the_first_master_whether_it_was_named_or_chosen(installation: Installation):
    written = (installation.deployment.directory / "rendezvousIP").read_text()
    assert written.strip() == installation.topology.rendezvous_ip


# ---- from inside, over SSH


@every
def test_every_node_runs_from_its_disk_with_the_iso_still_inserted(installation: Installation):
    """Or with the stick plugged in, or the network still telling what to boot."""
    in_drive = installation.topology.boot not in ("usb", *FROM_NETWORK)
    for name, node in installation.lab.nodes.items():
        host = node.ssh()
        below = host.check_output("lsblk -nslpo NAME %s", host.check_output("findmnt -no SOURCE /")).split()
        assert any(source.startswith(node.spec.root_device) for source in below), name
        assert "coreos.liveiso" not in host.file("/proc/cmdline").content_string, name
        assert bool(node.media.inserted()) is in_drive, name


@single
def test_of_several_disks_only_the_chosen_one_was_written(installation: Installation):
    """Byte for byte: the machine's other disks, one full of data and one empty, are as they were before it ever ran."""
    held = {disk.holds for spec in installation.topology.nodes for disk in spec.disks}
    if held != {"data", "old-system", "nothing"}:
        pytest.skip(f"the disks of this topology hold {', '.join(sorted(held)) or 'nothing'}")
    assert disks.changed(installation.lab.layout) == []
    for spec in installation.topology.nodes:
        host = installation.lab.nodes[spec.name].ssh()
        described = json.loads(host.check_output("sudo lsblk -J -b -o NAME,SERIAL,SIZE,MOUNTPOINTS"))["blockdevices"]
        [root] = [disk for disk in described if "/" in [m for c in disk.get("children", []) for m in c["mountpoints"]]]
        assert root["serial"] == spec.serial(spec.root_index)
        volumes = host.check_output("sudo pvs --noheadings -o vg_name").split()
        assert volumes == [disks.DATA_GROUP], "the old system's volume group is gone with its disk, the data's is not"


@every
def test_hostname_and_address_are_those_of_the_config(installation: Installation):
    """Every host found its own config in the shared image by its MAC address."""
    topology = installation.topology
    for spec in topology.nodes:
        host = installation.lab.nodes[spec.name].ssh()
        assert host.check_output("hostname") == spec.name
        links = json.loads(host.check_output("ip -json address"))
        for link in topology.links(spec):
            for address, network in link.addresses:
                [(mac, own)] = [(x.get("address"), a) for x in links for a in x["addr_info"] if a["local"] == address]
                assert mac == link.mac, address
                leased = network.dhcpv6 if ":" in address else network.dhcp
                # The NIC that leads to the root keeps the firmware's address (docs/machine-os.md).
                leased = leased and link not in topology.iscsi_links(spec)
                assert bool(own.get("dynamic")) is leased, f"{spec.name}: {address} by DHCP, or the reverse"


@every
def test_the_way_out_and_the_longest_packets_are_those_of_the_network(installation: Installation):
    topology = installation.topology
    for spec in topology.nodes:
        host = installation.lab.nodes[spec.name].ssh()
        links = {link["ifname"]: link for link in json.loads(host.check_output("ip -json address"))}
        homes = {link["ifname"] for link in links.values() for a in link["addr_info"] if a["local"] == spec.ip}
        [home] = homes
        assert links[home]["mtu"] == topology.home.mtu, spec.name
        for address in topology.known_addresses(spec):
            family = "-6" if ":" in address else "-4"
            routes = json.loads(host.check_output(f"ip -json {family} route show default"))
            assert {route["dev"] for route in routes} == homes, f"{spec.name}: {routes}"
            largest = topology.home.mtu - (48 if ":" in address else 28)
            sent = f"sudo ping {family} -c 1 -W 20 -M do -s {largest} {topology.home.own_like(address)}"
            assert host.run(sent).rc == 0, f"{spec.name}: {sent}"


@pytest.mark.parametrize("installation", params(lambda row: "kernel_arguments" in row.variants), indirect=True)
def test_kernel_arguments_of_machine_configs_are_in_force(installation: Installation):
    for name, node in installation.lab.nodes.items():
        words = node.ssh().file("/proc/cmdline").content_string.split()
        assert [word for word in words if word in KERNEL_ARGUMENTS] == list(KERNEL_ARGUMENTS), name


@pytest.mark.parametrize("installation", params(lambda row: "fips" in row.variants), indirect=True)
def test_every_node_is_in_fips_mode(installation: Installation):
    """As far as a kernel of its own goes: container machines have the argument, and the host's kernel."""
    configs = {item["metadata"]["name"]: item for item in installation.kubectl_json("get", "machineconfigs")["items"]}
    for spec in installation.topology.nodes:
        assert configs[f"99-{spec.role}-fips"]["spec"]["fips"] is True
        host = installation.lab.nodes[spec.name].ssh()
        assert "fips=1" in host.file("/proc/cmdline").content_string.split(), spec.name
        if installation.topology.machine == "vm":
            assert host.file("/proc/sys/crypto/fips_enabled").content_string.strip() == "1", spec.name
            tested = host.file("/proc/crypto").content_string
            assert set(re.findall(r"^selftest\s*: (.*)$", tested, re.M)) == {"passed"}, spec.name


@pytest.mark.parametrize("installation", params(lambda row: ENCRYPTED & {*row.variants}), indirect=True)
def test_the_root_is_encrypted_with_a_key_of_the_tpm_or_of_the_tang_server(installation: Installation):
    names = {item["metadata"]["name"] for item in installation.kubectl_json("get", "machineconfigs")["items"]}
    mode, pin = ("tang", "tang") if installation.topology.tang else ("tpm", "tpm2")
    for spec in installation.topology.nodes:
        assert f"{spec.role}-{mode}" in names
        host = installation.lab.nodes[spec.name].ssh()
        assert host.check_output("findmnt -no SOURCE,FSTYPE /").split() == ["/dev/mapper/root", "xfs"], spec.name
        volume = host.check_output("lsblk -nslpo NAME /dev/mapper/root").split()[1]
        assert f": {pin} " in host.check_output("sudo clevis luks list -d %s", volume), spec.name
        assert ("Secure boot enabled" in host.check_output("sudo dmesg")) is spec.secure_boot, spec.name


@pytest.mark.parametrize("installation", params(lambda row: "proxy" in row.variants), indirect=True)
def test_hosts_reach_the_registry_through_the_proxy_alone(installation: Installation):
    layout = installation.lab.layout
    log = layout.proxy_log.read_text()
    for spec in installation.topology.nodes:
        asked = re.findall(rf"Connect \(file descriptor \d+\): {re.escape(spec.ip)}", log)
        assert asked, f"{spec.name} has never asked the proxy"
        host = installation.lab.nodes[spec.name].ssh()
        for target in (layout.registry, f"{layout.topology.gateway}:{REGISTRY_PORT}"):
            completed = host.run(f"curl --noproxy '*' -ksS --max-time 10 https://{target}/v2/")
            assert completed.rc in (6, 7), f"{spec.name} reaches {target} without the proxy: {completed}"
    assert f"CONNECT {layout.registry} HTTP/1.1" in log


@every
def test_services_run_and_no_unit_failed(installation: Installation):
    for name, node in installation.lab.nodes.items():
        host = node.ssh()
        for service in SERVICES:
            assert host.service(service).is_running, f"{name}: {service}"
        assert host.check_output("systemctl --failed --no-legend --plain") == "", name


@every
def test_no_service_of_the_live_hosts_crashed(installation: Installation):
    """It is started again and the installation goes on, but the release is not sound. Nobody has killed it here."""
    for name, node in installation.lab.nodes.items():
        crashed = [line for line in node.console.text().splitlines() if ENDED_BY_ITSELF in line]
        assert not crashed, f"{name}: {crashed[0]}"


@every
def test_clock_follows_the_lab(installation: Installation):
    for name, node in installation.lab.nodes.items():
        host = node.ssh()
        sources = host.check_output("chronyc -n sources")
        assert re.search(r"^\^\* ", sources, re.M), f"{name}: no selected source in\n{sources}"
        # The clock of a kernel that underestimated its counter's rate gains time faster than chrony can correct.
        tracking = host.check_output("chronyc -n tracking")
        for field, limit in (("System time", 1.0), ("Frequency", 10_000.0)):
            match = re.search(rf"^{field} *: ([\d.]+) ", tracking, re.M)
            assert match, f"{name}: {field} is not in\n{tracking}"
            assert float(match[1]) < limit, f"{name}: its clock does not run as the lab's does\n{tracking}"


# ---- from outside, with everybody's own clients


@every
def test_kubectl_sees_every_node_ready_with_its_own_role_and_address(installation: Installation):
    nodes = {node["metadata"]["name"]: node for node in installation.kubectl_json("get", "nodes")["items"]}
    assert set(nodes) == {spec.name for spec in installation.topology.nodes}
    for spec in installation.topology.nodes:
        status, labels = nodes[spec.name]["status"], nodes[spec.name]["metadata"]["labels"]
        assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True", spec.name
        assert [a["address"] for a in status["addresses"] if a["type"] == "InternalIP"] == list(
            installation.topology.known_addresses(spec)
        ), spec.name
        assert f"node-role.kubernetes.io/{spec.role}" in labels, spec.name
        assert ("node-role.kubernetes.io/master" in labels) is (spec.role == "master"), spec.name


@every
def test_every_node_has_been_given_its_certificates(installation: Installation):
    csrs = installation.kubectl_json("get", "csr")["items"]
    for csr in csrs:
        assert csr["status"].get("certificate"), csr["metadata"]["name"]
    signers = [csr["spec"]["signerName"] for csr in csrs]
    assert signers.count("kubernetes.io/kube-apiserver-client-kubelet") >= len(installation.topology.nodes)
    serving = {c["spec"]["username"] for c in csrs if c["spec"]["signerName"] == "kubernetes.io/kubelet-serving"}
    assert serving >= {f"system:node:{spec.name}" for spec in installation.topology.nodes}


@every
def test_pods_run_where_they_belong_and_their_logs_can_be_read(installation: Installation):
    topology = installation.topology
    masters = {spec.name for spec in topology.masters}
    where = {f"{ns}/{name}": set(installation.pods(ns, name)) for ns, name in MASTER_PODS}
    assert where == dict.fromkeys(where, masters)
    arbiters = {spec.name for spec in topology.arbiters}
    assert set(installation.pods(*ETCD)) == masters | arbiters
    for name in arbiters:
        running = {(pod["metadata"]["namespace"], pod["spec"]["nodeName"]) for pod in installation.pods_of(name)}
        assert running == {(ETCD[0], name)}, "an arbiter votes in etcd and does nothing else"
    assert set(installation.pods(*VERSION_OPERATOR)) <= masters
    routers = set(installation.pods(*ROUTER))
    may_route = {spec.name for spec in topology.workers or topology.masters}
    assert routers <= may_route
    assert len(routers) >= min(2, len(may_route)), "one router is no high availability"
    for namespace, name in (ETCD, *MASTER_PODS, VERSION_OPERATOR, ROUTER):
        pods = installation.pods(namespace, name)
        assert pods, f"no pod {namespace}/{name}* runs"
        pod = next(iter(pods.values()))["metadata"]["name"]
        assert installation.kubectl("-n", namespace, "logs", "--tail=5", pod).strip(), pod


@every
def test_cluster_version_and_operators_are_available(installation: Installation):
    version = installation.kubectl_json("get", "clusterversion", "version")
    conditions = {c["type"]: c["status"] for c in version["status"]["conditions"]}
    assert (conditions["Available"], conditions["Progressing"], conditions["Failing"]) == ("True", "False", "False")
    assert version["status"]["history"][0]["state"] == "Completed"
    assert version["status"]["desired"]["version"] == installation.release.version
    operators = installation.kubectl_json("get", "clusteroperators")["items"]
    assert operators
    for operator in operators:
        states = {c["type"]: c["status"] for c in operator["status"]["conditions"]}
        assert (states["Available"], states["Degraded"]) == ("True", "False"), operator["metadata"]["name"]
        message = next(c["message"] for c in operator["status"]["conditions"] if c["type"] == "Available")
        assert message, f"{operator['metadata']['name']} does not say what it looked at"


@single
@pytest.mark.disruptive
def test_an_operator_reports_what_it_really_sees(installation: Installation):
    """Stop the router: ingress must turn unavailable, and come back."""
    host = next(iter(installation.lab.nodes.values())).ssh()

    def available() -> str:
        operator = installation.kubectl_json("get", "clusteroperator", "ingress")
        return str(next(c["status"] for c in operator["status"]["conditions"] if c["type"] == "Available"))

    host.check_output("sudo pkill -STOP -x haproxy")
    with afterwards(("let the router go on", lambda: host.check_output("sudo pkill -CONT -x haproxy"))):
        wait_until(
            lambda: available() == "False", 180, "ClusterOperator ingress to notice that the router hangs", available
        )
    wait_until(lambda: available() == "True", 240, "ClusterOperator ingress to see the router again", available)


@every
def test_console_answers(installation: Installation):
    status, body = installation.get(installation.deployment.console_url)
    assert status == 200
    assert installation.topology.cluster_name in body


@every
def test_official_python_client_creates_watches_and_deletes_a_configmap(installation: Installation):
    def exercise() -> list[str]:
        from kubernetes import client, watch

        api = client.CoreV1Api(installation.api_client())
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="scenario"), data={"a": "1"})
        start = api.list_namespaced_config_map("default").metadata.resource_version
        api.create_namespaced_config_map("default", body)
        api.patch_namespaced_config_map("scenario", "default", {"data": {"a": "2"}})
        api.delete_namespaced_config_map("scenario", "default")
        seen = []
        for event in watch.Watch().stream(
            api.list_namespaced_config_map, "default", resource_version=start, timeout_seconds=60
        ):
            if event["object"].metadata.name == "scenario":
                seen.append(event["type"])
            if event["type"] == "DELETED":
                break
        return seen

    assert installation.lab.inside(exercise) == ["ADDED", "MODIFIED", "DELETED"]


@single
def test_filled_maps_do_not_kill_the_api_server(installation: Installation):
    """Kubernetes 1.20 built with Go 1.19 and the vendored reflect2 crashed on the first object with a filled map."""

    def soak(most: int, seconds: float) -> int:
        from kubernetes import client

        api = client.CoreV1Api(installation.api_client())
        deadline, rounds = time.monotonic() + seconds, 0
        while rounds < most and time.monotonic() < deadline:
            name = f"soak-{rounds}"
            body = client.V1ConfigMap(
                metadata=client.V1ObjectMeta(name=name, labels={"soak": "yes"}),
                data={f"key{i}": str(i) for i in range(20)},
            )
            api.create_namespaced_config_map("default", body)
            assert api.read_namespaced_config_map(name, "default").data == body.data
            api.list_config_map_for_all_namespaces()
            rounds += 1
        api.delete_collection_namespaced_config_map("default", label_selector="soak=yes")
        return rounds

    restarts_before = installation.restarts("openshift-kube-apiserver")
    # An emulated machine has the time for a few rounds only.
    assert installation.lab.inside(soak, 100, 45.0) >= 5
    assert installation.restarts("openshift-kube-apiserver") == restarts_before


# ---- last, since they change the machine


@single
@pytest.mark.disruptive
def test_a_reboot_comes_back_without_running_ignition_again(installation: Installation):
    node = next(iter(installation.lab.nodes.values()))
    host = node.ssh()
    boot_id = host.check_output("cat /proc/sys/kernel/random/boot_id")
    report = host.check_output("sudo sha256sum /etc/.ignition-result.json")
    node.power.cycle()

    def new_boot() -> bool:
        return bool(node.ssh().check_output("cat /proc/sys/kernel/random/boot_id") != boot_id)

    wait_until(new_boot, 240, f"{node.name} to be back after a power cycle")
    host = node.ssh()
    assert host.check_output("sudo sha256sum /etc/.ignition-result.json") == report
    assert "ignition.firstboot" not in host.file("/proc/cmdline").content_string
    ran = host.check_output("sudo journalctl -b -o cat -t ignition | head -n 3")
    assert ran == "", f"Ignition ran again: {ran}"
    active = "systemctl is-active kubelet"
    wait_until(lambda: host.run(active).rc == 0, 120, "kubelet to run", lambda: host.run(active).stdout.strip())


@single
@pytest.mark.disruptive
def test_the_node_is_ready_in_its_last_boot(installation: Installation):
    """The reboot before this test is why it may not be."""
    [(name, node)] = installation.lab.nodes.items()
    boot_id = node.ssh().check_output("cat /proc/sys/kernel/random/boot_id")
    wait_until(installation.api_ready, 300, "the API to answer")
    wait_until(
        lambda: installation.ready_boots() == {name: boot_id}, 240, f"{name} to be Ready", installation.ready_boots
    )
