"""Labs for somebody's config files, and the lab's additions to them."""

import copy
import ipaddress
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lab import topology
from lab.deploy import adapt_agent_config, adapt_install_config, fenced_by_lab, read
from lab.derive import derive
from lab.errors import TopologyError
from lab.inputs.configs import Access, BmcAccess, agent_config, install_config, through_proxy, write_configs
from lab.topology import NodeSpec, Topology

ACCESS = Access(
    '{"auths": {"lab:5000": {"auth": "bGFi"}}}', "LAB CA", "ssh-ed25519 LAB", (("release.x/y", "lab:5000/y"),)
)


def files(shape):
    return install_config(shape, ACCESS), agent_config(shape)


@st.composite
def clusters(draw):
    """Topologies in all the variety that the two files can tell."""
    network = ipaddress.IPv4Network(draw(st.sampled_from(["10.1.2.0/24", "172.20.0.0/16", "192.168.8.64/26"])))
    masters, workers = draw(st.sampled_from([(1, 0), (3, 0), (3, 2), (4, 1), (5, 0)]))
    addressing = draw(st.sampled_from(["static", "dhcp"]))
    platform = "none" if masters == 1 else draw(st.sampled_from(["none", "baremetal"]))
    count = masters + workers
    places = draw(
        st.lists(st.integers(2, network.num_addresses - 2), min_size=count + 2, max_size=count + 2, unique=True)
    )
    macs = draw(st.lists(st.integers(0, 255), min_size=count, max_size=count, unique=True))
    ips = [str(network[place]) for place in places]
    roles = ["master"] * masters + ["worker"] * workers
    vips = {"api_vip": ips[count], "ingress_vip": ips[count + 1]} if platform == "baremetal" else {}
    return Topology(
        name="drawn",
        cluster_name="drawn",
        base_domain=draw(st.sampled_from(["example.com", "a.b.c"])),
        machine_network=str(network),
        addressing=addressing,
        platform=platform,
        nodes=tuple(
            NodeSpec(name=f"{role}-{i}", role=role, mac=f"52:54:00:aa:bb:{mac:02x}", ip=ip)
            for i, (role, mac, ip) in enumerate(zip(roles, macs, ips, strict=False))
        ),
        **vips,
    )


@settings(max_examples=50)
@given(clusters())
def test_the_files_of_a_topology_lead_back_to_it(drawn):
    derived = derive(*files(drawn), memory_mib=4096)
    keep = ("name", "role", "mac") + (("ip",) if drawn.addressing == "static" else ())
    assert [[getattr(n, k) for k in keep] for n in derived.nodes] == [
        [getattr(n, k) for k in keep] for n in drawn.nodes
    ]
    same = ("cluster_domain", "machine_network", "addressing", "platform", "api_vip", "ingress_vip", "rendezvous_ip")
    assert {k: getattr(derived, k) for k in same} == {k: getattr(drawn, k) for k in same}
    if drawn.addressing == "static":
        assert derived.gateway == drawn.gateway
    assert topology.load_text(derived.dump()) == derived


@settings(max_examples=50)
@given(clusters(), st.data())
def test_hosts_that_are_not_listed_are_made_and_get_what_is_free(drawn, data):
    install, agent = files(drawn)
    rendezvous, *_ = agent["hosts"]
    agent["hosts"] = data.draw(st.lists(st.sampled_from(agent["hosts"]), unique_by=lambda h: h["hostname"]))
    if data.draw(st.booleans()):
        # Without roles those that are listed may be all of the masters, so the rendezvous host is one of them.
        agent["hosts"] = [rendezvous, *(host for host in agent["hosts"] if host is not rendezvous)]
        for host in agent["hosts"]:
            host.pop("role", None)
            host.pop("hostname", None)
    derived = derive(install, agent)
    assert len(derived.masters) == len(drawn.masters)
    assert len(derived.workers) == len(drawn.workers)
    assert {n.mac for n in derived.nodes} >= {h["interfaces"][0]["macAddress"] for h in agent["hosts"]}
    # Topology itself holds that addresses are unique and within the network.
    listed = {
        h["networkConfig"]["interfaces"][0]["ipv4"]["address"][0]["ip"] for h in agent["hosts"] if "networkConfig" in h
    }
    assert listed <= {n.ip for n in derived.nodes}


def test_a_gateway_and_servers_elsewhere_are_the_labs():
    install, agent = files(topology.compact())
    for host in agent["hosts"]:
        host["networkConfig"]["routes"]["config"][0]["next-hop-address"] = "192.168.111.254"
        host["networkConfig"]["dns-resolver"]["config"]["server"] = ["192.168.111.53", "8.8.8.8", "fd00::1"]
    agent["hosts"][0]["networkConfig"]["interfaces"][0]["ipv4"]["address"][0]["ip"] = "192.168.111.1"
    agent["rendezvousIP"] = "192.168.111.1"
    derived = derive(install, agent)
    assert derived.gateway == "192.168.111.254"
    assert derived.aliases == ("192.168.111.53", "8.8.8.8")
    assert derived.rendezvous_ip == "192.168.111.1"


def test_defaults_are_openshifts():
    install = {"metadata": {"name": "c"}, "baseDomain": "d.e", "platform": {"none": {}}}
    derived = derive(install, {"rendezvousIP": "10.0.7.7"})
    assert (len(derived.masters), len(derived.workers), derived.machine_network) == (3, 3, "10.0.0.0/16")
    assert (derived.addressing, derived.rendezvous_ip) == ("dhcp", "10.0.7.7")
    # The service makes the weakest masters where nobody says a role.
    assert [n.memory_mib for n in derived.nodes] == [topology.MASTER_MIB] * 3 + [topology.MASTER_MIB + 256] * 3


def test_hosts_of_the_baremetal_platform_count_when_agent_config_has_none():
    install, agent = files(topology.compact())
    install["platform"]["baremetal"]["hosts"] = [
        {
            "name": h["hostname"],
            "role": h["role"],
            "bootMACAddress": h["interfaces"][0]["macAddress"].upper(),
            "networkConfig": h["networkConfig"],
        }
        for h in agent.pop("hosts")
    ]
    assert [n.mac for n in derive(install, agent).nodes] == [n.mac for n in topology.compact().nodes]
    assert derive(install, agent).addressing == "static"


def test_a_disk_is_as_large_as_the_hints_want():
    install, agent = files(topology.sno())
    agent["hosts"][0]["rootDeviceHints"] = {"minSizeGigabytes": 120}
    assert derive(install, agent, firmware="bios").nodes[0].disk_gib > 120
    assert derive(install, agent, firmware="bios").nodes[0].firmware == "bios"


def put(where, value):
    """A change of one place in the two files: "install" or "agent", then keys and indices."""

    def change(documents):
        here = documents
        for step in where[:-1]:
            here = here[step]
        here[where[-1]] = value

    return change


HOST = ("agent", "hosts", 0)
NMSTATE = (*HOST, "networkConfig", "interfaces", 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(("install", "platform"), {"vsphere": {}}), r"install-config.yaml: platform: .* not vsphere"),
        (put(("install", "platform"), {}), r"platform: must be .*; nothing is given"),
        (put(("install", "platform"), []), r"platform: must be a mapping, is list"),
        (put(("install", "platform", "baremetal", "apiVIPs"), []), r"platform.baremetal.apiVIPs: .* needs an address"),
        (put(("install", "platform", "baremetal", "apiVIPs"), ["x"]), r"apiVIPs\[0\]: 'x' is not an IP address"),
        (put(("install", "networking", "machineNetwork"), [{}, {}]), r"machineNetwork\[0\].cidr: '' is not an address"),
        (
            put(("install", "networking", "machineNetwork", 0, "cidr"), "10.0.0.0/24"),
            r"hosts\[0\].networkConfig: 192.168.111.80: none is in machineNetwork, 10.0.0.0/24",
        ),
        (put(("install", "controlPlane", "architecture"), "arm64"), r"controlPlane.architecture: .* not arm64"),
        (put(("install", "controlPlane", "replicas"), 2), r"agent-config.yaml: hosts: 3 are masters, .* has 2"),
        (put(("install", "controlPlane", "replicas"), "3"), r"controlPlane.replicas: must be a number"),
        (put(("install", "controlPlane", "replicas"), 260), r"replicas: 260 nodes in all, a lab has at most 128"),
        (put(("install", "controlPlane", "replicas"), 10**12), r"nodes in all, a lab has at most 128"),
        (put(("install", "metadata"), {}), r"name: '' is not a DNS label"),
        (put(("agent", "hosts"), {"a": 1}), r"agent-config.yaml: hosts: must be a list, is dict"),
        (put((*HOST, "role"), "king"), r"hosts\[0\].role: 'king' is not one of master, arbiter, worker"),
        (put((*HOST, "interfaces", 0, "macAddress"), "x"), r"interfaces\[0\].macAddress: 'x' is not a MAC"),
        (put((*HOST, "rootDeviceHints"), {"deviceName": "/dev/hda"}), r"deviceName: /dev/hda: no disk of a lab is"),
        (put((*HOST, "rootDeviceHints"), {"deviceName": "/dev/disk/by-path/x"}), r"labs cannot put a disk there"),
        (put((*HOST, "rootDeviceHints"), {"wwn": "1"}), r"rootDeviceHints.wwn: '1': disks of labs have one of 16"),
        (put((*HOST, "rootDeviceHints"), {"vendor": "SEAGATE 2"}), r"Hints.vendor: 'SEAGATE 2': disks of labs"),
        (put((*NMSTATE, "type"), "infiniband"), r"interfaces\[0\].type: eth0 is of type infiniband"),
        (put((*NMSTATE, "ipv4", "address"), [{"ip": "1.1.1.300"}]), r"address\[0\].ip: '1.1.1.300' is not an IP"),
        (put((*HOST, "hostname"), "master-1.other.domain"), r"name master-1 is used more than once"),
    ],
)
def test_what_the_lab_cannot_be_is_told_by_file_and_field(change, message):
    install, agent = files(topology.compact())
    documents = {"install": copy.deepcopy(install), "agent": copy.deepcopy(agent)}
    change(documents)
    with pytest.raises(TopologyError, match=message) as caught:
        derive(documents["install"], documents["agent"])
    assert all(line.startswith(("install-config.yaml", "agent-config.yaml")) for line in str(caught.value).splitlines())


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.data())
def test_whatever_is_in_the_files_is_a_lab_or_a_line(data):
    documents = dict(zip(("install", "agent"), map(copy.deepcopy, files(topology.ha())), strict=True))
    here, path = documents, data.draw(st.lists(st.integers(0, 30), min_size=2, max_size=9))
    for step in path:
        keys = list(range(len(here))) if isinstance(here, list) else list(here)
        if not keys:
            break
        key = keys[step % len(keys)]
        if not isinstance(here[key], (list, dict)) or data.draw(st.integers(0, 3)) == 0:
            here[key] = data.draw(ANYTHING)
            break
        here = here[key]
    assert outcome(documents)


def outcome(documents):
    """Return whether it is a lab, or lines that name a file."""
    if not all(isinstance(document, dict) for document in documents.values()):
        return True  # `read` has refused it
    try:
        return bool(derive(documents["install"], documents["agent"]).nodes)
    except TopologyError as error:
        return all(line.startswith(("install-config.yaml", "agent-config.yaml")) for line in str(error).splitlines())


def test_the_labs_needs_stand_beside_the_users_own():
    own = {
        "pullSecret": '{"auths": {"quay.io": {"auth": "cXVheQ=="}}}',
        "additionalTrustBundle": "OWN CA\n",
        "sshKey": "ssh-rsa OWN",
        "imageContentSources": [{"source": "a", "mirrors": ["b"]}],
        "fips": False,
    }
    adapted = adapt_install_config(own, ACCESS)
    assert set(json.loads(adapted["pullSecret"])["auths"]) == {"quay.io", "lab:5000"}
    assert adapted["additionalTrustBundle"].split("\n") == ["OWN CA", "LAB CA"]
    assert adapted["sshKey"].split("\n") == ["ssh-rsa OWN", "ssh-ed25519 LAB"]
    assert [entry["source"] for entry in adapted["imageContentSources"]] == ["a", "release.x/y"]
    assert "imageDigestSources" not in adapted
    assert adapt_install_config({}, ACCESS)["imageDigestSources"] == [
        {"source": "release.x/y", "mirrors": ["lab:5000/y"]}
    ]
    lab = topology.sno()
    b = lab.gateway
    assert adapt_agent_config({"additionalNTPSources": ["a"]}, lab)["additionalNTPSources"] == ["a", b]
    assert adapt_agent_config({"additionalNTPSources": [b]}, lab) == {"additionalNTPSources": [b]}
    install, agent = files(lab)
    minimal = derive(install, {**agent, "minimalISO": True, "bootArtifactsBaseURL": "http://theirs"})
    assert (derive(install, agent).boot, minimal.boot) == ("iso", "minimal-iso")
    assert adapt_agent_config({"bootArtifactsBaseURL": "http://theirs"}, minimal) == {
        "additionalNTPSources": [b],
        "minimalISO": True,
        "bootArtifactsBaseURL": "http://192.168.111.1:8080/boot",
    }
    external = derive({**install, "platform": {"external": {"platformName": "mine"}}}, agent)
    fetched = {key: value for key, value in adapt_agent_config({}, external).items() if key != "additionalNTPSources"}
    assert fetched == {"bootArtifactsBaseURL": "http://192.168.111.1:8080/boot"}, "no ISO is a full one there"
    for none in ({"source": "a"}, 1, "quay.io"):
        assert adapt_install_config({"imageDigestSources": none}, ACCESS)["imageDigestSources"] == none
    with pytest.raises(TopologyError, match="pullSecret: not a dockerconfigjson"):
        adapt_install_config({"pullSecret": "["}, ACCESS)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(TopologyError, match=r"install-config.yaml: No such file or directory"):
        read(tmp_path)
    write_configs(tmp_path, topology.sno(), ACCESS)
    assert read(tmp_path)[1] == yaml.safe_load((tmp_path / "agent-config.yaml").read_text())
    (tmp_path / "agent-config.yaml").write_text("a: [\n")
    with pytest.raises(TopologyError, match=r"agent-config.yaml: line 1: ") as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("proxy", "wanted"),
    [
        (None, None),
        ({"noProxy": "a"}, None),
        (
            {"httpProxy": "http://u:p@corp:80", "httpsProxy": "http://corp:80", "noProxy": "a,b"},
            {"httpProxy": "http://192.168.111.1:3128", "httpsProxy": "http://192.168.111.1:3128", "noProxy": "a,b"},
        ),
        ({"httpsProxy": "https://corp:443"}, {"httpsProxy": "http://192.168.111.1:3128"}),
    ],
)
def test_a_proxy_is_the_labs_own(proxy, wanted):
    install, agent = files(topology.sno())
    install |= {"proxy": proxy} if proxy else {}
    derived = derive(install, agent)
    assert derived.proxy is bool(wanted)
    assert through_proxy(install, derived).get("proxy") == (wanted or proxy)


def test_nodes_are_fenced_by_the_labs_bmcs():
    shape = topology.fencing()
    bmcs = tuple(BmcAccess(node.name, f"redfish+https://lab/{node.name}", "ours", "hidden") for node in shape.nodes)
    access = Access(pull_secret="{}", trust_bundle="", ssh_key="", mirrors=(), bmcs=bmcs)
    install, agent = files(shape)
    own_credentials = [
        {"hostName": name, "address": f"redfish+https://10.9.0.{n}/x", "username": "u", "password": "p"}
        for n, name in enumerate(("master-1", "Master-0.corp.example", "elsewhere"))
    ]
    install["controlPlane"] |= {"fencing": {"credentials": own_credentials}}
    assert derive(install, agent).fenced
    credentials = fenced_by_lab(install, access, shape)["controlPlane"]["fencing"]["credentials"]
    assert [(one["hostName"], one["address"]) for one in credentials] == [
        ("master-1", "redfish+https://lab/master-1"),
        ("Master-0.corp.example", "redfish+https://lab/master-0"),
        ("elsewhere", "redfish+https://10.9.0.2/x"),
    ]
    assert credentials[0]["certificateVerification"] == "Disabled"
    assert install["controlPlane"]["fencing"]["credentials"] == own_credentials, "the user's own is left alone"
    plain = files(topology.compact())[0]
    assert fenced_by_lab(plain, access, shape) == plain
    # OpenShift's documentation writes `hostname`, which Go reads as well.
    text = json.dumps(install).replace("hostName", "hostname").replace('"address"', '"Address"')
    documented = fenced_by_lab(json.loads(text), access, shape)["controlPlane"]["fencing"]["credentials"]
    assert [one["Address"] for one in documented] == [one["address"] for one in credentials]
    assert not any("address" in one for one in documented)
    entries = install["controlPlane"]["fencing"]["credentials"] = [
        {"macAddress": node.mac.upper().replace(":", "-"), "address": "redfish+https://10.9.0.9/x"}
        for node in reversed(shape.nodes)
    ]
    by_mac = fenced_by_lab(install, access, shape)["controlPlane"]["fencing"]["credentials"]
    assert [one["macAddress"] for one in by_mac] == [one["macAddress"] for one in entries]
    assert [one["address"] for one in by_mac] == [f"redfish+https://lab/master-{n}" for n in (1, 0)]
    assert derive(install, agent).fenced


def test_names_in_other_letters_case_are_what_go_reads_them_as():
    lab = derive({**files(topology.sno())[0], "proxy": {"httpproxy": "http://corp:80"}}, files(topology.sno())[1])
    assert lab.proxy
    assert through_proxy({"Proxy": {"httpproxy": "http://corp:80"}}, lab) == {
        "Proxy": {"httpproxy": "http://192.168.111.1:3128"}
    }
    own = {"pullsecret": '{"auths": {"quay.io": {}}}', "SSHKey": "ssh-rsa OWN", "imagedigestsources": [{"source": "a"}]}
    adapted = adapt_install_config(own, ACCESS)
    assert {str(key).lower() for key in adapted} == {*own, "sshkey", "additionaltrustbundle"} - {"SSHKey"}
    assert len(adapted) == 4
    assert set(json.loads(adapted["pullsecret"])["auths"]) == {"quay.io", "lab:5000"}
    assert adapted["SSHKey"].split("\n") == ["ssh-rsa OWN", "ssh-ed25519 LAB"]
    agent = adapt_agent_config({"additionalntpsources": ["a"], "minimaliso": False}, lab)
    assert agent == {"additionalntpsources": ["a", lab.gateway], "minimaliso": False}


def test_a_clock_at_an_address_of_every_hosts_own_is_not_the_labs():
    install, agent = files(topology.sno())
    derived = derive(install, {**agent, "additionalNTPSources": ["127.127.1.0", "192.168.111.7"]})
    assert "192.168.111.7" in derived.aliases
    assert "127.127.1.0" not in derived.aliases


def credentials_of(*names):
    return {"fencing": {"credentials": [{"hostname": name, "address": "redfish+https://b/x"} for name in names]}}


def test_two_masters_without_names_have_those_of_their_credentials():
    install, agent = files(topology.fencing())
    install["controlPlane"] |= credentials_of("Edge-b.corp.example", "edge-a")
    assert [node.name for node in derive(install, {**agent, "hosts": []}).nodes] == ["edge-b", "edge-a"]
    agent["hosts"][0]["hostname"] = "edge-a"
    del agent["hosts"][1]["hostname"]
    assert [node.name for node in derive(install, agent).nodes] == ["edge-a", "edge-b"]


def test_a_credential_for_neither_of_two_masters_is_told():
    install, agent = files(topology.fencing())
    install["controlPlane"] |= credentials_of("master-1", "elsewhere")
    with pytest.raises(TopologyError) as caught:
        derive(install, agent)
    assert str(caught.value) == (
        "install-config.yaml: controlPlane.fencing.credentials[1].hostName: elsewhere is neither of the control plane "
        "nodes, master-0 and master-1"
    )
    # How many there have to be is for the installer to say.
    install["controlPlane"] |= credentials_of("master-1", "elsewhere", "nowhere")
    assert derive(install, agent).fenced
