"""The cluster's parts by family: what listens where, certificates, virtual IPs, pod networks, the node's addresses."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from lab.release import components
from lab.release.cluster import templates, tls
from lab.release.cluster.ignition import keepalived, machineconfig
from lab.release.cluster.installconfig import InstallConfig, parse
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.nodes.probes.view import address, addresses
from lab.release.cluster.pods import staticpods
from lab.testing.ignition import read_data_url

MACHINES = {4: "192.0.2.0/24", 6: "2001:db8:1::/64"}
CLUSTERS = {4: {"cidr": "10.128.0.0/14", "hostPrefix": 23}, 6: {"cidr": "fd01::/48", "hostPrefix": 64}}
SERVICES = {4: "172.30.0.0/16", 6: "fd02::/112"}
VIPS = {4: ("192.0.2.5", "192.0.2.4"), 6: ("2001:db8:1::5", "2001:db8:1::4")}
ORDERS = {"ipv4": (4,), "ipv6": (6,), "dual": (4, 6), "dual6": (6, 4)}


def config_of(stack: str, **more: Any) -> InstallConfig:
    order = ORDERS[stack]
    document = {
        "metadata": {"name": "c"},
        "baseDomain": "d.example",
        "controlPlane": {"replicas": 3},
        "networking": {
            "machineNetwork": [{"cidr": MACHINES[v]} for v in order],
            "clusterNetwork": [CLUSTERS[v] for v in order],
            "serviceNetwork": [SERVICES[v] for v in order],
        },
        "platform": {"baremetal": {"apiVIPs": [VIPS[v][0] for v in order], "ingressVIPs": [VIPS[v][1] for v in order]}},
    }
    return parse(yaml.safe_dump(document | more))


@pytest.fixture(params=ORDERS)
def config(request: pytest.FixtureRequest) -> InstallConfig:
    return config_of(request.param)


def option(command: tuple[str, ...], name: str) -> str:
    [value] = [word.partition("=")[2] for word in command if word.partition("=")[0] == f"--{name}"]
    return value


def test_servers_listen_in_every_family_that_there_is(config: InstallConfig) -> None:
    six = 6 in config.families
    [etcd], [api] = (stage.pods for stage in staticpods.control_plane(config, "r@sha256:0", "::9", "n")[:2])
    host = "[::]" if six else "0.0.0.0"
    assert option(etcd.command, "listen-client-urls") == f"https://{host}:2379"
    assert option(etcd.command, "listen-peer-urls") == f"https://{host}:2380"
    assert option(etcd.command, "advertise-client-urls") == "https://[::9]:2379"
    assert option(etcd.command, "initial-cluster") == "n=https://[::9]:2380"
    assert option(api.command, "bind-address") == ("::" if six else "0.0.0.0")
    assert option(api.command, "service-cluster-ip-range") == ",".join(config.service_networks)
    assert ("--feature-gates=IPv6DualStack=true" in api.command) is config.dual_stack


def kubelet(config: InstallConfig, part: str = "kubelet") -> dict[str, Any]:
    images = Images("1", {"pod": "p@sha256:0", "keepalived-ipfailover": "k@sha256:0"})
    [files] = [
        c["spec"]["config"]["storage"]["files"]
        for c in machineconfig.standard(config, images, "master")
        if c["metadata"]["name"] == f"01-master-{part}"
    ]
    return {f["path"]: read_data_url(f["contents"]["source"], None).decode() for f in files}


def test_a_kubelet_listens_and_forwards_in_every_family(config: InstallConfig) -> None:
    files = kubelet(config)
    conf = yaml.safe_load(files["/etc/kubernetes/kubelet.conf"])
    assert conf["address"] == config.any_address
    assert conf["featureGates"] == {"CSIMigration": False} | ({"IPv6DualStack": True} if config.dual_stack else {})
    assert conf["clusterDNS"] == [config.dns_ip]
    sysctls = files["/etc/sysctl.d/99-kubernetes.conf"].splitlines()
    assert ("net.ipv6.conf.all.forwarding=1" in sysctls) is (6 in config.families)
    assert ("net.ipv4.ip_forward=1" in sysctls) is (4 in config.families)


def test_every_virtual_ip_is_in_the_certificates_that_hosts_verify(config: InstallConfig) -> None:
    pairs = tls.complete(config, {})
    for name in ("kube-apiserver-lb-server", "kube-apiserver-internal-lb-server", "machine-config-server"):
        cert = x509.load_pem_x509_certificate(pairs[name].certificate.encode())
        san = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert {str(ip) for ip in san.get_values_for_type(x509.IPAddress)} == set(config.api_vips), name


def test_each_virtual_ip_is_an_instance_of_its_own_and_only_ipv4_has_a_password(config: InstallConfig) -> None:
    text = keepalived.node(config, "master")
    instances = text.split("vrrp_instance ")[1:]
    assert len(instances) == 2 * len(config.families)
    for vip in (*config.api_vips, *config.ingress_vips):
        [mine] = [part for part in instances if f" {vip}/" in part]
        assert f"{vip}/{128 if ':' in vip else 32} " in mine
        assert ("auth_pass" in mine) is (":" not in vip)


def test_a_nodes_address_is_the_first_that_its_kubelet_tells() -> None:
    node = {
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "2001:db8::9"},
                {"type": "InternalIP", "address": "192.0.2.9"},
                {"type": "Hostname", "address": "n"},
            ]
        }
    }
    assert address(node) == "[2001:db8::9]"
    assert addresses(node) == ["2001:db8::9", "192.0.2.9"]
    assert (address({"status": {}}), addresses({})) == ("", [])


def test_pod_networks_are_one_a_family_the_services_first() -> None:
    assert config_of("dual6").pod_networks == (("fd01::/48", 64), ("10.128.0.0/14", 23))
    single = config_of("dual", networking={"clusterNetwork": list(CLUSTERS.values()), "serviceNetwork": [SERVICES[4]]})
    assert single.pod_networks == (("10.128.0.0/14", 23),)
    assert not single.dual_stack


def test_the_network_of_pods_has_the_part_of_each_family() -> None:
    """Go's template, as containerd fills it (pkg/cri/server/update_runtime_config.go of containerd 1.6)."""
    text = templates.text("cni.conflist.tmpl")
    assert '{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}' in text
    assert '{{range $i, $route := .Routes}}{{if $i}}, {{end}}{"dst": "{{$route}}"}{{end}}' in text


def test_the_network_of_pods_is_not_looked_for_where_podman_keeps_its_own() -> None:
    settings = tomllib.loads(templates.fill("containerd.toml", pod_image="p", registry_auth=""))
    network = settings["plugins"]["io.containerd.grpc.v1.cri"]["cni"]
    assert network["conf_template"] == "/etc/containerd/cni.conflist.tmpl"
    assert not network["conf_dir"].startswith("/etc/cni/")


def test_networkmanager_leaves_the_devices_of_pods_alone() -> None:
    """It took the first pod's pair for a NIC, and out of the bridge when no DHCP server had answered there."""
    settings = kubelet(config_of("ipv4"))["/etc/NetworkManager/conf.d/sdn.conf"]
    bridge = re.search(r'"bridge": "(\w+)"', templates.text("cni.conflist.tmpl"))
    assert bridge is not None
    assert f"interface-name:{bridge[1]}" in settings
    assert "interface-name:veth*" in settings


PLACE = """
set -e
ip link set lo up
ip link add eth9 type veth peer name peer9
ip link set peer9 up
ip address add 192.0.2.80/24 dev eth9
ip address add 2001:db8:1::80/64 dev eth9 nodad
# As keepalived adds a virtual IP: it must not become the node's.
ip address add 2001:db8:1::5/128 dev eth9 nodad preferred_lft 0
ip address add 192.0.2.5/32 dev eth9
ip link set eth9 up
bash "$1" "$2"
"""


@pytest.mark.parametrize(
    ("stack", "addresses"),
    [
        ("ipv4", "192.0.2.80"),
        ("ipv6", "2001:db8:1::80"),
        ("dual", "192.0.2.80,2001:db8:1::80"),
        ("dual6", "2001:db8:1::80,192.0.2.80"),
    ],
)
def test_a_host_finds_its_address_of_each_family_in_a_namespace(stack: str, addresses: str, tmp_path: Path) -> None:
    completed, output = found_with(PLACE, tmp_path, stack)
    assert completed.returncode == 0, completed.stderr
    variables = dict(line.split("=", 1) for line in output.splitlines())
    assert variables == {
        "KUBELET_NODE_IP": addresses.split(",")[0], "KUBELET_NODE_IPS": addresses, "NODE_INTERFACE": "eth9"
    }, json.dumps(variables)  # fmt: skip


def test_a_host_may_have_the_probed_address_itself(tmp_path: Path) -> None:
    place = PLACE.replace("192.0.2.80", "192.0.2.1").replace("2001:db8:1::80/", "2001:db8:1::1/")
    completed, output = found_with(place, tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert "KUBELET_NODE_IPS=192.0.2.1,2001:db8:1::1\n" in output


LATE = """
set -e
ip link set lo up
ip link add eth9 type veth peer name peer9
ip link set peer9 up
ip address add 192.0.2.80/24 dev eth9
ip link set eth9 up
ip -6 route add 2001:db8:1::/64 dev eth9
(read -r -t 2 < <(sleep 9) || true; ip address add 2001:db8:1::80/64 dev eth9 nodad) &
bash "$1" "$2"
"""


def found_with(place: str, tmp_path: Path, stack: str = "dual") -> tuple[subprocess.CompletedProcess[str], str]:
    """Return the script's run on a host in a namespace, and what it wrote."""
    script, out = tmp_path / "node-ip.sh", tmp_path / "env"
    script.write_bytes(read_data_url(machineconfig.node_ip_script(config_of(stack))["contents"]["source"], None))
    completed = subprocess.run(
        ["unshare", "-n", "bash", "-c", place, "place", str(script), str(out)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return completed, out.read_text() if out.exists() else ""


def test_a_host_waits_for_the_address_that_comes_later(tmp_path: Path) -> None:
    """DHCPv6 is slower than IPv4, and until then the link's own address would be the source."""
    completed, output = found_with(LATE, tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert "KUBELET_NODE_IPS=192.0.2.80,2001:db8:1::80\n" in output


def test_an_address_that_never_comes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machineconfig, "NODE_IP_SECONDS", 1)
    completed, errors = found_with("ip link set lo up; " + LATE.partition("(read")[0] + 'bash "$1" "$2"', tmp_path)
    assert completed.returncode == 1
    assert "No address from which 2001:db8:1::1 can be reached within 1 s" in completed.stderr
    assert errors == ""


def test_what_keepalived_checks_with_is_in_its_image(config: InstallConfig) -> None:
    """keepalived drops a check whose program is not there, and gives addresses to nodes without an API server."""
    scripts = re.findall(r'^ *script "(\S+)', keepalived.node(config, "master"), re.MULTILINE)
    assert sorted(scripts) == [keepalived.CHECK_ROUTER, keepalived.CHECK_ROUTER, "/usr/bin/curl"]
    [files] = [
        c["spec"]["config"]["storage"]["files"]
        for c in machineconfig.standard(
            config, Images("1", dict.fromkeys(("pod", "keepalived-ipfailover"), "")), "master"
        )
        if c["metadata"]["name"] == "02-master-keepalived"
    ]
    assert next(f["mode"] for f in files if f["path"] == keepalived.CHECK_ROUTER) == 0o555
    [component] = [candidate for candidate in components.COMPONENTS if candidate.tag == "keepalived-ipfailover"]
    assert "curl" in {name for group in component.packages for name in components.PACKAGES[group].names}
