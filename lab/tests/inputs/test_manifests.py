"""cluster-manifests/ alone: which lab they lead to, and what the lab adds to them."""

import ipaddress
import json
import stat
import tomllib
from dataclasses import replace

import msgspec
import pytest
import yaml

from lab.deploy import topology_for
from lab.errors import TopologyError
from lab.inputs import ztp
from lab.inputs.configs import Access

ACCESS = Access('{"auths": {"lab:5000": {"auth": "bGFi"}}}', "LAB CA\n", "ssh-ed25519 LAB", (("r.x/y", "lab:5000/y"),))


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
    card = {"name": "eno1", "type": "ethernet", "state": "up", "mac-address": mac, **families}
    return {
        "apiVersion": "agent-install.openshift.io/v1beta1",
        "kind": "NMStateConfig",
        "metadata": {"name": f"z-{index}", "labels": {"infraenvs.agent-install.openshift.io": "z"}},
        "spec": {
            "interfaces": [{"name": "eno1", "macAddress": mac}],
            "config": {
                "interfaces": [card, *(extra or [])],
                "routes": {"config": routes},
                "dns-resolver": {"config": {"server": servers}},
            },
        },
    }


def write(folder, *, spec, hosts=(), environment=None, agent=None, secret=None):
    """Return a directory as users of ZTP have it."""
    manifests = folder / "cluster-manifests"
    manifests.mkdir(parents=True)
    name = {"name": "z", "namespace": "z"}
    documents = {
        "agent-cluster-install.yaml": {"kind": "AgentClusterInstall", "metadata": name, "spec": {
            "networking": {"clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}]}, **spec}},
        "cluster-deployment.yaml": {"kind": "ClusterDeployment", "metadata": name,
                                    "spec": {"clusterName": "z", "baseDomain": "example.com"}},
        "infraenv.yaml": {"kind": "InfraEnv", "metadata": name, "spec": environment or {"cpuArchitecture": "x86_64"}},
        "cluster-image-set.yaml": {"kind": "ClusterImageSet", "metadata": name, "spec": {"releaseImage": "old"}},
        "pull-secret.yaml": secret or {"kind": "Secret", "metadata": name, "stringData": {
            ".dockerconfigjson": '{"auths": {"quay.io": {"auth": "eDp5"}}}'}},
    }  # fmt: skip
    for file, document in documents.items():
        (manifests / file).write_text(yaml.safe_dump(document))
    if hosts:
        (manifests / "nmstateconfig.yaml").write_text("---\n".join(yaml.safe_dump(host) for host in hosts))
    if agent:
        (folder / "agent-config.yaml").write_text(yaml.safe_dump(agent))
    return folder


def needs(masters, workers=0, **rest):
    return {"provisionRequirements": {"controlPlaneAgents": masters, "workerAgents": workers}, **rest}


def test_one_node_with_an_address_of_its_own(tmp_path):
    networks = {"networking": {"machineNetwork": [{"cidr": "192.168.5.0/24"}]}}
    shape = topology_for(write(tmp_path, spec=needs(1, **networks), hosts=[nmstate(0, "192.168.5.7/24")]))
    assert (shape.cluster_domain, shape.platform, shape.rendezvous_ip) == ("z.example.com", "none", "192.168.5.7")
    [node] = shape.nodes
    assert (node.role, node.ip, node.mac) == ("master", "192.168.5.7", "52:54:00:11:22:00")


def test_the_network_is_that_of_the_api_address_where_none_is_said(tmp_path):
    hosts = [nmstate(i, f"10.9.8.{10 + i}/24") for i in range(5)]
    spec = needs(3, 2, apiVIPs=["10.9.8.2"], ingressVIPs=["10.9.8.3"])
    shape = topology_for(write(tmp_path, spec=spec, hosts=hosts))
    assert (shape.platform, [str(one) for one in shape.machine_subnets]) == ("baremetal", ["10.9.8.0/24"])
    assert (len(shape.masters), len(shape.workers), shape.vips("api")) == (3, 2, ("10.9.8.2",))
    assert shape.rendezvous_ip == "10.9.8.10"


def test_both_families_and_clocks_of_the_infraenv(tmp_path):
    hosts = [nmstate(i, f"10.1.0.{10 + i}/24", f"fd00::{10 + i}/64") for i in range(3)]
    spec = needs(
        3, platformType="BareMetal", apiVIPs=["10.1.0.2", "fd00::2"], ingressVIPs=["10.1.0.3", "fd00::3"],
        networking={"machineNetwork": [{"cidr": "10.1.0.0/24"}, {"cidr": "fd00::/64"}]},
    )  # fmt: skip
    shape = topology_for(write(tmp_path, spec=spec, hosts=hosts, environment={"additionalNTPSources": ["10.1.0.99"]}))
    assert len(shape.machine_subnets) == 2
    assert "10.1.0.99" in shape.dump()


def test_an_agent_config_beside_them_names_hosts_and_disks(tmp_path):
    agent = {"rendezvousIP": "192.168.5.8", "hosts": [
        {"hostname": "b", "interfaces": [{"name": "eno1", "macAddress": "52:54:00:11:22:01"}],
         "rootDeviceHints": {"serialNumber": "S2"}}]}  # fmt: skip
    spec = needs(3, apiVIP="192.168.5.2", ingressVIP="192.168.5.3")
    hosts = [nmstate(i, f"192.168.5.{7 + i}/24") for i in range(3)]
    shape = topology_for(write(tmp_path, spec=spec, hosts=hosts, agent=agent))
    assert shape.rendezvous_ip == "192.168.5.8"
    named = next(node for node in shape.nodes if node.name == "b")
    assert (named.ip, named.mac) == ("192.168.5.8", "52:54:00:11:22:01")
    assert "S2" in [disk.serial for disk in named.disks]
    assert len(shape.nodes) == 3


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"platformType": "VSphere"}, "cluster-manifests/agent-cluster-install.yaml: spec.platformType: must be none"),
        (
            {"provisionRequirements": {"controlPlaneAgents": 1, "workerAgents": "two"}},
            "agent-cluster-install.yaml: spec.provisionRequirements.workerAgents: must be a number",
        ),
        ({"platformType": "BareMetal"}, "agent-cluster-install.yaml: spec.apiVIPs: platform baremetal needs"),
        (
            {"provisionRequirements": {}},
            "nmstateconfig.yaml: documents: 1 are listed, cluster-manifests/agent-cluster-install.yaml has 0",
        ),
    ],
)
def test_what_cannot_be_is_said_by_manifest_and_field(tmp_path, change, rule):
    with pytest.raises(TopologyError, match=r"^cluster-manifests/") as error:
        topology_for(write(tmp_path, spec={**needs(1), **change}, hosts=[nmstate(0, "192.168.5.7/24")]))
    assert rule in str(error.value)


def test_other_architectures_and_wrong_interfaces_are_told_at_once(tmp_path):
    tunnel = {"name": "tun0", "type": "ipvlan"}
    folder = write(
        tmp_path, spec=needs(1), environment={"cpuArchitecture": "aarch64"},
        hosts=[nmstate(0, "192.168.5.7/24", extra=[tunnel])],
    )  # fmt: skip
    with pytest.raises(TopologyError) as error:
        topology_for(folder)
    assert "infraenv.yaml: spec.cpuArchitecture: " in str(error.value)
    assert "nmstateconfig.yaml: [0].spec.config.interfaces[1]" in str(error.value)


def test_an_object_of_another_kind_is_told_as_that(tmp_path):
    """A List is what `oc get nmstateconfig -o yaml` writes."""
    folder = write(tmp_path, spec=needs(1), hosts=[{"kind": "List", "items": [nmstate(0, "192.168.5.7/24")]}])
    manifests = folder / "cluster-manifests"
    (manifests / "agent-cluster-install.yaml").write_bytes((manifests / "cluster-deployment.yaml").read_bytes())
    with pytest.raises(TopologyError) as caught:
        topology_for(folder)
    assert str(caught.value).splitlines() == [
        f"{manifests}/agent-cluster-install.yaml: kind: 'ClusterDeployment': must be AgentClusterInstall",
        f"{manifests}/nmstateconfig.yaml: kind: 'List': must be NMStateConfig, a document each",
    ]


def test_two_hosts_with_one_address_are_told_by_their_manifests(tmp_path):
    hosts = [nmstate(index, "192.168.5.7/24") for index in range(2)]
    folder = write(tmp_path, spec=needs(3, apiVIPs=["192.168.5.2"], ingressVIPs=["192.168.5.3"]), hosts=hosts)
    with pytest.raises(TopologyError) as error:
        topology_for(folder)
    field = "spec.config.interfaces[0].ipv4.address[0].ip"
    message = f"cluster-manifests/nmstateconfig.yaml: [1].{field}: 192.168.5.7 is that of [0].{field} too"
    assert str(error.value) == message


def test_all_manifests_that_cannot_be_read_are_named(tmp_path):
    folder = write(tmp_path, spec=needs(1))
    (folder / "cluster-manifests/cluster-deployment.yaml").unlink()
    for name in ("infraenv", "nmstateconfig"):
        (folder / f"cluster-manifests/{name}.yaml").write_text("a: [\n")
    with pytest.raises(TopologyError, match=r"cluster-deployment.yaml: is missing or empty") as error:
        topology_for(folder)
    assert [line.partition(".yaml: ")[0].rpartition("/")[2] for line in str(error.value).splitlines()] == [
        "cluster-deployment", "infraenv", "nmstateconfig",
    ]  # fmt: skip


def test_all_that_is_wrong_with_the_manifests_is_told_at_once(tmp_path):
    hosts = [nmstate(0, "192.168.9.2/24"), nmstate(1, "192.168.9.3/24", mac="52:54:00:11:22:00")]
    spec = needs("3", apiVIP="192.168.8.4", ingressVIP="192.168.9.5")
    with pytest.raises(TopologyError) as error:
        topology_for(write(tmp_path, spec=spec, hosts=hosts))
    places = [line.split(": ")[1] for line in str(error.value).splitlines()]
    assert places == ["[1].spec.interfaces", "spec.provisionRequirements.controlPlaneAgents", "spec.apiVIP"]


def test_the_lab_adds_what_a_disconnected_cluster_needs(tmp_path):
    spec = needs(1, networking={"machineNetwork": [{"cidr": "192.168.5.0/24"}]}, sshPublicKey="ssh-rsa USER")
    folder = write(tmp_path, spec=spec, hosts=[nmstate(0, "192.168.5.7/24")])
    (folder / "mirror").mkdir()
    (folder / "mirror/registries.conf").write_text('[[registry]]\nlocation = "quay.io/a"\n')
    shape = topology_for(folder)
    ztp.adapt(folder, shape, ACCESS, "r.x/y@sha256:1")

    def manifest(name):
        return yaml.safe_load((folder / "cluster-manifests" / name).read_text())

    auths = json.loads(manifest("pull-secret.yaml")["stringData"][".dockerconfigjson"])["auths"]
    assert set(auths) == {"quay.io", "lab:5000"}
    assert stat.S_IMODE((folder / "cluster-manifests/pull-secret.yaml").stat().st_mode) == 0o600
    assert manifest("cluster-image-set.yaml")["spec"]["releaseImage"] == "r.x/y@sha256:1"
    assert manifest("agent-cluster-install.yaml")["spec"]["sshPublicKey"] == "ssh-rsa USER\nssh-ed25519 LAB"
    environment = manifest("infraenv.yaml")["spec"]
    assert environment["additionalNTPSources"] == [shape.gateway]
    assert "LAB CA" in environment["additionalTrustBundle"]
    registries = (folder / "mirror/registries.conf").read_text()
    assert registries.index('location = "r.x/y"') < registries.index("lab:5000/y") < registries.index("quay.io/a")
    assert registries.count("[[registry]]") == 2
    assert (folder / "mirror/ca-bundle.crt").read_text() == "LAB CA\n"
    assert not (folder / "agent-config.yaml").exists()


@pytest.mark.parametrize("on", ["all", "masters", "none"])
def test_encrypted_disks_get_tpms_or_the_labs_own_tang_server(tmp_path, on):
    spec = needs(1, networking={"machineNetwork": [{"cidr": "192.168.5.0/24"}]})
    theirs = {"tpmv2": {}, "tang": {"tangServers": '[{"url": "http://tang.example", "thumbprint": "x"}]'}}
    for mode, servers in theirs.items():
        spec["diskEncryption"] = {"enableOn": on, "mode": mode, **servers}
        folder = write(tmp_path / mode, spec=spec, hosts=[nmstate(0, "192.168.5.7/24")])
        shape = topology_for(folder)
        assert [node.tpm for node in shape.nodes] == [mode == "tpmv2" and on != "none"]
        assert shape.tang is (mode == "tang" and on != "none")
        ztp.adapt(folder, shape, replace(ACCESS, tang_servers="[ours]"), "r")
        adapted = yaml.safe_load((folder / "cluster-manifests/agent-cluster-install.yaml").read_text())
        ours = {"tangServers": "[ours]"} if shape.tang else {}
        assert adapted["spec"]["diskEncryption"] == {**spec["diskEncryption"], **ours}


def test_a_disk_encryption_that_is_none_is_told_by_its_field(tmp_path):
    spec = needs(1, networking={"machineNetwork": [{"cidr": "192.168.5.0/24"}]}, diskEncryption=["all"])
    folder = write(tmp_path, spec=spec, hosts=[nmstate(0, "192.168.5.7/24")])
    with pytest.raises(TopologyError, match=r"agent-cluster-install.yaml: spec.diskEncryption: must be a mapping"):
        topology_for(folder)


def test_what_the_installer_falls_back_to_is_not_hidden(tmp_path):
    spec = needs(1, networking={"machineNetwork": [{"cidr": "192.168.5.0/24"}]}, sshPublicKey="ssh-rsa USER")
    folder = write(
        tmp_path, spec=spec, hosts=[nmstate(0, "192.168.5.7/24")], environment={"additionalTrustBundle": "USER CA\n"}
    )
    ztp.adapt(folder, topology_for(folder), ACCESS, "r")
    environment = yaml.safe_load((folder / "cluster-manifests/infraenv.yaml").read_text())["spec"]
    assert environment["sshAuthorizedKey"] == "ssh-rsa USER\nssh-ed25519 LAB"
    assert (folder / "mirror/ca-bundle.crt").read_text() == "USER CA\nLAB CA\n"
    assert tomllib.loads((folder / "mirror/registries.conf").read_text())["registry"][0]["location"] == "r.x/y"


def test_a_config_image_is_refused_before_anything_starts(tmp_path):
    spec = needs(1, networking={"machineNetwork": [{"cidr": "192.168.5.0/24"}]})
    folder = write(tmp_path, spec=spec, hosts=[nmstate(0, "192.168.5.7/24")])
    shape = topology_for(folder)
    assert ztp.check(folder, shape) == []
    [line] = ztp.check(folder, msgspec.structs.replace(shape, boot="config-image"))
    assert line.startswith("boot: config-image is made from install-config.yaml")


def test_a_bad_pull_secret_is_refused_without_its_text(tmp_path):
    folder = write(tmp_path, spec=needs(1), secret={"kind": "Secret", "stringData": {".dockerconfigjson": "s3cret{"}},
                   hosts=[nmstate(0, "192.168.5.7/24")])  # fmt: skip
    with pytest.raises(TopologyError, match=r"pull-secret.yaml: stringData") as error:
        ztp.adapt(folder, topology_for(folder), ACCESS, "r")
    assert "s3cret" not in str(error.value)


def test_two_documents_of_one_host_are_told(tmp_path):
    hosts = [nmstate(0, "192.168.9.2/24"), nmstate(1, "192.168.9.3/24", mac="52:54:00:11:22:00")]
    spec = {"platformType": "None", "provisionRequirements": {"controlPlaneAgents": 2}}
    with pytest.raises(
        TopologyError, match=r"\[1\].spec.interfaces: a MAC address of \[0\] too; each host has one doc"
    ):
        topology_for(write(tmp_path, spec=spec, hosts=hosts))


def test_manifests_that_lead_to_no_rendezvous_are_told(tmp_path):
    spec = {"platformType": "None", "provisionRequirements": {"controlPlaneAgents": 1}}
    with pytest.raises(
        TopologyError, match=r"^agent-config.yaml: rendezvousIP: missing, and no host has a static addr"
    ):
        topology_for(write(tmp_path / "none", spec=spec))
    agent = {"apiVersion": "v1beta1", "kind": "AgentConfig", "rendezvousIP": "10.0.0.9"}
    assert topology_for(write(tmp_path / "one", spec=spec, agent=agent)).rendezvous_ip == "10.0.0.9"


def test_a_name_that_is_none_is_told_where_it_stands(tmp_path):
    spec = {"platformType": "None", "provisionRequirements": {"controlPlaneAgents": 1}}
    folder = write(tmp_path, spec=spec, hosts=[nmstate(0, "10.0.0.7/16")])
    path = folder / "cluster-manifests/cluster-deployment.yaml"
    path.write_text(path.read_text().replace("clusterName: z", "clusterName: Z z"))
    with pytest.raises(TopologyError, match=r"cluster-deployment.yaml: spec.clusterName: 'Z z' is not a DNS label"):
        topology_for(folder)
