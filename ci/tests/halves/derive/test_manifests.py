"""Labs for cluster-manifests/ alone, as users of ZTP write them."""

import ipaddress

import pytest
import yaml

from ci.tests.halves.derive.kit import lab_of
from installer.create.stages.resolve import DEFAULT_RELEASE
from installer.testing.create.inputs_kit import PULL_SECRET, SSH_KEY
from lab.deploy import topology_for
from lab.errors import ConfigsError, TopologyError

LABELS = {"infraenvs.agent-install.openshift.io": "z"}
NETWORKS = {"machineNetwork": [{"cidr": "192.168.5.0/24"}]}
DUAL = {
    "machineNetwork": [{"cidr": "10.1.0.0/24"}, {"cidr": "fd00::/64"}],
    "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}, {"cidr": "fd01::/48", "hostPrefix": 64}],
    "serviceNetwork": ["172.30.0.0/16", "fd02::/112"],
}


def nmstate(index, *addresses, mac=None, extra=None):
    families, routes, servers = {}, [], []
    for address in addresses:
        ip, _, length = address.partition("/")
        family = "ipv6" if ":" in ip else "ipv4"
        hop = str(ipaddress.ip_interface(address).network[1])
        everywhere = "::/0" if ":" in ip else "0.0.0.0/0"
        routes.append({"destination": everywhere, "next-hop-address": hop, "next-hop-interface": "eno1"})
        servers.append(hop)
        families[family] = {"enabled": True, "address": [{"ip": ip, "prefix-length": int(length)}]}
    mac = mac or f"52:54:00:11:22:{index:02x}"
    nic = {"name": "eno1", "type": "ethernet", "state": "up", "mac-address": mac, **families}
    return {
        "apiVersion": "agent-install.openshift.io/v1beta1",
        "kind": "NMStateConfig",
        "metadata": {"name": f"z-{index}", "labels": LABELS},
        "spec": {
            "interfaces": [{"name": "eno1", "macAddress": mac}],
            "config": {
                "interfaces": [nic, *(extra or [])],
                "routes": {"config": routes},
                "dns-resolver": {"config": {"server": servers}},
            },
        },
    }


def write(folder, *, spec, hosts=(), environment=None, agent=None, release=DEFAULT_RELEASE):
    """Return a directory as users of ZTP have it."""
    manifests = folder / "cluster-manifests"
    manifests.mkdir(parents=True)
    name = {"name": "z", "namespace": "z"}
    networks = {
        "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
        "serviceNetwork": ["172.30.0.0/16"],
        **spec.get("networking", {}),
    }
    selector = {"nmStateConfigLabelSelector": {"matchLabels": LABELS}, "sshAuthorizedKey": SSH_KEY}
    documents = {
        "agent-cluster-install.yaml": ("AgentClusterInstall", {"spec": {**spec, "networking": networks}}),
        "cluster-deployment.yaml": ("ClusterDeployment", {"spec": {"clusterName": "z", "baseDomain": "example.com"}}),
        "infraenv.yaml": ("InfraEnv", {"spec": {**selector, **(environment or {})}}),
        "cluster-image-set.yaml": ("ClusterImageSet", {"spec": {"releaseImage": release}}),
        "pull-secret.yaml": ("Secret", {"stringData": {".dockerconfigjson": PULL_SECRET}}),
    }
    for file, (kind, document) in documents.items():
        (manifests / file).write_text(yaml.safe_dump({"kind": kind, "metadata": name, **document}))
    if hosts:
        (manifests / "nmstateconfig.yaml").write_text("---\n".join(yaml.safe_dump(host) for host in hosts))
    if agent:
        head = {"apiVersion": "v1beta1", "kind": "AgentConfig", "metadata": name}
        (folder / "agent-config.yaml").write_text(yaml.safe_dump({**head, **agent}))
    return folder


def needs(masters, workers=0, **rest):
    return {"provisionRequirements": {"controlPlaneAgents": masters, "workerAgents": workers}, **rest}


def test_one_node_with_an_address_of_its_own(tmp_path):
    shape = lab_of(
        write(tmp_path, spec=needs(1, platformType="None", networking=NETWORKS), hosts=[nmstate(0, "192.168.5.7/24")])
    )
    assert (shape.cluster_domain, shape.platform, shape.rendezvous_ip) == ("z.example.com", "none", "192.168.5.7")
    [node] = shape.nodes
    assert (node.role, node.ip, node.mac) == ("master", "192.168.5.7", "52:54:00:11:22:00")


def test_the_network_is_that_of_the_api_address_where_none_is_said(tmp_path):
    hosts = [nmstate(i, f"10.9.8.{10 + i}/24") for i in range(5)]
    spec = needs(3, 2, apiVIPs=["10.9.8.2"], ingressVIPs=["10.9.8.3"])
    shape = lab_of(write(tmp_path, spec=spec, hosts=hosts))
    assert (shape.platform, [str(one) for one in shape.machine_subnets]) == ("baremetal", ["10.9.8.0/24"])
    assert (len(shape.masters), len(shape.workers), shape.vips("api")) == (3, 2, ("10.9.8.2",))
    assert shape.rendezvous_ip == "10.9.8.10"


def test_both_families_and_clocks_of_the_infraenv(tmp_path):
    hosts = [nmstate(i, f"10.1.0.{10 + i}/24", f"fd00::{10 + i}/64") for i in range(3)]
    spec = needs(
        3, platformType="BareMetal", apiVIPs=["10.1.0.2", "fd00::2"], ingressVIPs=["10.1.0.3", "fd00::3"],
        networking=DUAL,
    )  # fmt: skip
    shape = lab_of(write(tmp_path, spec=spec, hosts=hosts, environment={"additionalNTPSources": ["10.1.0.99"]}))
    assert len(shape.machine_subnets) == 2
    assert "10.1.0.99" in shape.dump()


def test_an_agent_config_beside_them_names_hosts_and_disks(tmp_path):
    agent = {"rendezvousIP": "192.168.5.8", "hosts": [
        {"hostname": "b", "interfaces": [{"name": "eno1", "macAddress": "52:54:00:11:22:01"}],
         "rootDeviceHints": {"serialNumber": "S2"}}]}  # fmt: skip
    spec = needs(3, apiVIP="192.168.5.2", ingressVIP="192.168.5.3")
    hosts = [nmstate(i, f"192.168.5.{7 + i}/24") for i in range(3)]
    shape = lab_of(write(tmp_path, spec=spec, hosts=hosts, agent=agent))
    assert shape.rendezvous_ip == "192.168.5.8"
    named = next(node for node in shape.nodes if node.name == "b")
    assert (named.ip, named.mac) == ("192.168.5.8", "52:54:00:11:22:01")
    assert "S2" in [disk.serial for disk in named.disks]
    assert len(shape.nodes) == 3


@pytest.mark.parametrize(("mode", "on"), [("tpmv2", "all"), ("tang", "masters"), ("tang", "none")])
def test_encrypted_disks_get_tpms_or_a_tang_server(tmp_path, mode, on):
    servers = {"tangServers": '[{"url": "http://tang.example", "thumbprint": "x"}]'} if mode == "tang" else {}
    spec = needs(1, platformType="None", networking=NETWORKS, diskEncryption={"enableOn": on, "mode": mode, **servers})
    shape = lab_of(write(tmp_path, spec=spec, hosts=[nmstate(0, "192.168.5.7/24")]))
    assert [node.tpm for node in shape.nodes] == [mode == "tpmv2"]
    assert shape.tang is (mode == "tang" and on != "none")


def test_a_contradiction_is_reported_by_its_manifest(tmp_path):
    hosts = [nmstate(index, "192.168.5.7/24") for index in range(2)]
    folder = write(tmp_path, spec=needs(3, apiVIPs=["192.168.5.2"], ingressVIPs=["192.168.5.3"]), hosts=hosts)
    with pytest.raises(ConfigsError, match=r"cluster-manifests/nmstateconfig.yaml: .*192.168.5.7 is that of"):
        lab_of(folder)


def test_more_hosts_than_nodes_are_refused(tmp_path):
    hosts = [nmstate(index, f"192.168.5.{index + 7}/24") for index in range(2)]
    with pytest.raises(
        ConfigsError, match=r"nmstateconfig.yaml: 2 hosts are listed, .*agent-cluster-install.yaml has 1"
    ):
        lab_of(write(tmp_path, spec=needs(1, platformType="None", networking=NETWORKS), hosts=hosts))


def test_the_command_reads_them_whichever_release_they_name(tmp_path):
    hosts = [nmstate(0, "192.168.5.7/24")]
    folder = write(
        tmp_path / "a", spec=needs(1, platformType="None", networking=NETWORKS), hosts=hosts, release="quay.io/o/r:4.18"
    )
    assert topology_for(folder).rendezvous_ip == "192.168.5.7"
    folder = write(tmp_path / "b", spec=needs(1, networking=NETWORKS, platformType="Bogus"), hosts=hosts)
    with pytest.raises(TopologyError, match=rf"^{folder}: failed to fetch .*platformType: Unsupported value"):
        topology_for(folder)
