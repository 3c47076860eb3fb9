"""`agent show inputs`: every field as it is understood, no secret, nothing written."""

import json
import re
from pathlib import Path

import pytest
import yaml

from installer.cli import main
from installer.overrides import RELEASE_OVERRIDE
from installer.testing.create.directory_kit import snapshot
from installer.testing.create.inputs_kit import AGENT, COMPACT, FENCED, SNO, changed, text
from installer.testing.create.manifests_kit import RELEASE, edited, generated

PAGE = Path(__file__).parents[3] / "docs/inputs.md"
SECRETS = {
    **FENCED,
    "proxy": {"httpProxy": "http://user:s3cr3t@proxy.example:3128", "noProxy": "a.example"},
    "imageDigestSources": [{"source": "quay.io/ocp/release", "mirrors": ["mirror.example/ocp"]}],
}
#: A bond of OVS with an address in its bridge by a tag, and a VLAN with a secret of 802.1x below it.
DOCUMENT = """
interfaces:
- {name: eth0, type: ethernet, mac-address: "52-54-00-6E-30-00",
   802.1x: {identity: me, eap-methods: [peap], phase2-auth: mschapv2, password: s3cr3t}}
- {name: eth0.7, type: vlan, mtu: 1400, vlan: {base-iface: eth0, id: 7},
   ipv4: {enabled: true, dhcp: "yes"}, ipv6: {enabled: false}}
- name: br
  type: ovs-bridge
  bridge:
    port:
    - {name: two, link-aggregation: {mode: lacp, port: [{name: eth1}, {name: eth2}]}}
    - {name: in, vlan: {mode: access, tag: 9}}
- {name: in, type: ovs-interface, ipv4: {enabled: true, address: [{ip: 192.168.111.80, prefix-length: 24}]}}
- {name: gone, type: bond, state: absent}
routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.168.111.1, next-hop-interface: in}]}
dns-resolver: {config: {server: [192.168.111.1]}}
"""


@pytest.fixture
def shown(tmp_path, capsys):
    """Return the command's output as JSON, or with another form its text."""

    def get(install=SNO, agent=AGENT, output="json"):
        for name, config in (("install-config.yaml", install), ("agent-config.yaml", agent)):
            if config is not None:
                (tmp_path / name).write_text(text(config))
        before = snapshot(tmp_path)
        code = main(["agent", "show", "inputs", "--dir", str(tmp_path), "-o", output])
        out, err = capsys.readouterr()
        assert code == 0, err
        assert snapshot(tmp_path) == before
        assert "s3cr3t" not in out + err
        return json.loads(out) if output == "json" else out

    return get


def test_all_fields_are_there_and_on_their_page(shown):
    document = shown(SECRETS)
    assert (document["version"], document["source"], document["platform"]) == (1, "configs", "baremetal")
    assert document["replicas"] == {"master": 2, "arbiter": 0, "worker": 0}
    assert document["machineNetworks"] == ["192.168.111.0/24"]
    assert (document["apiVIPs"], document["userManagedLoadBalancer"]) == (["192.168.111.5"], False)
    assert document["proxy"]["noProxy"] == "a.example,192.168.111.0/24"
    assert document["fencing"][0] == {
        "hostName": "master-1", "macAddress": "", "address": "redfish+https://10.9.0.1/x",
    }  # fmt: skip
    assert "proxy.example:3128" in document["proxy"]["httpProxy"]
    named = set(re.findall(r"`([A-Za-z0-9]+)`", PAGE.read_text()))
    missing = {*document, *document["hosts"][0], *document["hosts"][0]["networkConfig"]} - named
    assert not missing, "docs/inputs.md names every field"


def test_a_host_is_what_its_files_say(shown):
    [host] = shown(agent=changed(AGENT, "hosts.0.networkConfig", yaml.safe_load(DOCUMENT)))["hosts"]
    assert (host["file"], host["path"], host["name"]) == ("agent-config.yaml", "hosts[0]", "master-0")
    assert host["interfaces"] == [{"name": "eth0", "macAddress": "52:54:00:6e:30:00"}]
    assert host["rootDeviceHints"] == {"deviceName": "/dev/vda", "minSizeGigabytes": 10, "rotational": False}
    assert host["networkConfig"] == {
        "interfaces": [
            {"name": "eth0", "type": "ethernet", "macAddress": "52:54:00:6e:30:00"},
            {"name": "eth0.7", "type": "vlan", "mtu": 1400, "base": "eth0", "vlan": 7,
             "ipv4": {"dhcp": True, "autoconf": False, "addresses": []}},
            {"name": "two", "type": "ovs-bond", "mode": "lacp",
             "ports": [{"name": "eth1", "vlan": 0}, {"name": "eth2", "vlan": 0}]},
            {"name": "br", "type": "ovs-bridge", "ports": [{"name": "two", "vlan": 0}, {"name": "in", "vlan": 9}]},
            {"name": "in", "type": "ovs-interface",
             "ipv4": {"dhcp": False, "autoconf": False, "addresses": ["192.168.111.80/24"]}},
            {"name": "eth1", "type": "ethernet"},
            {"name": "eth2", "type": "ethernet"},
        ],
        "routes": [{"destination": "0.0.0.0/0", "nextHop": "192.168.111.1", "interface": "in", "table": 254}],
        "dnsServers": ["192.168.111.1"],
    }  # fmt: skip


def test_an_address_is_copied_from_where_create_image_has_it(shown):
    document = """
interfaces:
- {name: eth0, type: ethernet}
- {name: br-ex, type: ovs-bridge, bridge: {port: [{name: eth0}, {name: br-ex}]}}
- {name: br-ex, type: ovs-interface, copy-mac-from: eth0,
   ipv4: {enabled: true, address: [{ip: 192.168.111.80, prefix-length: 24}]}}
"""
    [host] = shown(agent=changed(AGENT, "hosts.0.networkConfig", yaml.safe_load(document)))["hosts"]
    assert [entry.get("macAddress") for entry in host["networkConfig"]["interfaces"]] == [
        None, None, host["interfaces"][0]["macAddress"],
    ]  # fmt: skip


def test_what_was_left_out_is_named_with_what_stands_for_it(shown):
    install = changed(changed(SNO, "networking", {"machineCIDR": "192.168.111.0/24"}), "compute.0.replicas", ...)
    install = changed(install, "controlPlane", ...)
    install = changed(install, "platform", COMPACT["platform"])
    document = shown(install, changed(AGENT, "rendezvousIP", ...))
    found = {f"{entry['file']}: {entry['path']}": entry["value"] for entry in document["defaulted"]}
    assert found["install-config.yaml: controlPlane.replicas"] == 3
    assert found["install-config.yaml: networking.clusterNetwork[0].cidr"] == "10.128.0.0/14"
    assert found["agent-config.yaml: rendezvousIP"] == document["rendezvousIP"] == "192.168.111.80"
    assert not any("machineNetwork" in path for path in found), "an old name for it is given"


@pytest.mark.parametrize(
    ("mac", "end"),
    [
        ("52:54:00:6E:30:10", ": one digit differs, is one of the two mistyped?"),
        ("02:00:00:00:00:01", None),  # set on purpose
        ("52-54-00-6E-30-00", None),
    ],
)
def test_a_nic_with_two_mac_addresses_is_named_in_both_places(shown, mac, end):
    document = yaml.safe_load(DOCUMENT)
    document["interfaces"][0]["mac-address"] = mac
    nic = {"name": "eth0", "macAddress": "52:54:00:6e:30:00"}
    host = {"hostname": "master-0", "interfaces": [nic], "networkConfig": document}
    lines = shown(agent=changed(AGENT, "hosts", [host]))["contradictions"]
    line = (
        "agent-config.yaml: hosts[0].interfaces[0].macAddress: 52:54:00:6e:30:00 is not "
        f"{mac.lower()}, which hosts[0].networkConfig.interfaces[0].mac-address has for eth0{end}"
    )
    assert [text for text in lines if "mac-address" in text] == ([line] if end else [])


def test_contradictions_are_part_of_it(shown):
    agent = changed(AGENT, "hosts.0.hostname", "localhost")
    assert any(
        "hosts[0].hostname: localhost is no host's name" in line for line in shown(agent=agent)["contradictions"]
    )


@pytest.mark.parametrize(
    ("kind", "more", "held_up"),
    [("linux-bridge", [], True), ("bond", [], False), ("linux-bridge", [{"name": "eth1", "type": "ethernet",
      "ipv4": {"enabled": True, "dhcp": True}}], False)],
)  # fmt: skip
def test_a_host_is_not_in_the_machine_network_by_a_bridge_alone(shown, kind, more, held_up):
    document = yaml.safe_load("""
interfaces:
- {name: eth0, type: ethernet, mac-address: "52:54:00:6e:30:00"}
- {name: br0, bridge: {port: [{name: eth0}]}, link-aggregation: {mode: active-backup, port: [eth0]},
   ipv4: {enabled: true, address: [{ip: 192.168.111.80, prefix-length: 24}]}}
""")
    bridge = document["interfaces"][1]
    bridge["type"] = kind
    del bridge["bridge" if kind == "bond" else "link-aggregation"]
    document["interfaces"] += more
    lines = shown(agent=changed(AGENT, "hosts.0.networkConfig", document))["contradictions"]
    assert held_up == any("interfaces[1]: br0 is of type linux-bridge, of which the service counts" in x for x in lines)


@pytest.mark.parametrize("output", ["yaml", "text"])
def test_the_other_forms_say_the_same(shown, output):
    written = shown(SECRETS, output=output)
    if output == "yaml":
        assert yaml.safe_load(written) == shown(SECRETS)
    for word in ("ostest", "master-0", "52:54:00:6e:30:00", "192.168.111.80/24", "networking.serviceNetwork[0]"):
        assert word in written


def test_manifests_are_shown_as_well(shown, tmp_path, monkeypatch):
    monkeypatch.setenv(RELEASE_OVERRIDE, RELEASE)
    _, _, files = generated()
    files = edited(
        files,
        "cluster-manifests/agent-cluster-install.yaml",
        "spec.diskEncryption",
        {"enableOn": "all", "mode": "tpmv2"},
    )
    (tmp_path / "cluster-manifests").mkdir()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    document = shown(None, None)
    assert (document["source"], document["diskEncryption"]) == ("manifests", {"enableOn": "all", "mode": "tpmv2"})
    [host] = document["hosts"]
    assert host["file"] == "cluster-manifests/nmstateconfig.yaml"
    assert host["interfaces"][0]["macAddress"] == "52:54:00:6e:30:00"


@pytest.mark.parametrize(
    ("install", "code"),
    [
        (changed(SNO, "bogus", 1), 3),
        (changed(SNO, "baseDomain", ""), 1),
        (changed(SNO, "networking.clusterNetwork", [{"cidr": "10.128.0.0/14", "hostPrefix": 8}]), 1),
    ],
)
def test_errors_are_those_of_create_image(tmp_path, capsys, install, code):
    (tmp_path / "install-config.yaml").write_text(text(install))
    (tmp_path / "agent-config.yaml").write_text(text(AGENT))
    assert main(["agent", "show", "inputs", "--dir", str(tmp_path)]) == code
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert not list(tmp_path.glob(".*"))
    assert main(["agent", "create", "image", "--dir", str(tmp_path)]) == code
    assert capsys.readouterr().err.splitlines()[-1] == err.splitlines()[0]
