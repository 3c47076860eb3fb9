"""Our keyfiles in the real NetworkManager: it takes them all, and understands every key as it was meant."""

import re
from ipaddress import IPv6Address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.network import InvalidNetworkConfig, host_network_files, keyfiles
from installer.network.document import load
from installer.testing.network.network_documents import DOCUMENTS
from installer.testing.network.network_manager import ask_daemon, canonical, why_not
from installer.testing.network.nmstate_compare import parse

offline = pytest.mark.skipif(bool(why_not()), reason=why_not())

# What NetworkManager does not write back since it is the default anyway (nm-settings-keyfile(5)).
DEFAULTS = {
    ("connection", "autoconnect", "true"),
    ("connection", "autoconnect-slaves", "-1"),
    ("bridge", "stp", "true"),
    ("bridge", "vlan-filtering", "false"),
    ("bridge", "hello-time", "2"),
    ("bridge", "multicast-querier", "false"),
    ("bridge", "multicast-query-use-ifaddr", "false"),
    ("bridge", "multicast-snooping", "true"),
    ("bridge", "multicast-last-member-count", "2"),
    ("bridge", "multicast-last-member-interval", "100"),
    ("bridge", "multicast-startup-query-count", "2"),
    ("bridge", "multicast-router", "auto"),
    ("bridge", "vlan-default-pvid", "1"),
    ("bridge", "group-forward-mask", "0"),
    ("bridge-port", "path-cost", "100"),
    ("ethernet", "auto-negotiate", "false"),
    ("ovs-bridge", "stp-enable", "false"),
    ("macvlan", "tap", "false"),
    ("vlan", "id", "0"),
    *((ip, "dhcp-send-hostname", "true") for ip in ("ipv4", "ipv6")),
    *((ip, "may-fail", "true") for ip in ("ipv4", "ipv6")),
    *(
        (ip, key, "false")
        for ip in ("ipv4", "ipv6")
        for key in ("ignore-auto-dns", "ignore-auto-routes", "never-default")
    ),
}
# What 1.42, the version of Debian 12, does not know yet and leaves out: newer ones read them (§2.8).
NEWER = {("bond-port", "prio"), ("bond", "arp_missed_max")}
WORDS = {
    ("connection", "type", "802-3-ethernet"): "ethernet",
    ("ipv6", "addr-gen-mode", "0"): "eui64",
    ("ipv6", "addr-gen-mode", "1"): "stable-privacy",
}


def meant(section, key, value):
    """Return a key in a form in which both writers' spellings are equal."""
    if match := re.fullmatch(r"(route\d+)_options", key):
        return set(value.split(","))
    if re.fullmatch(r"route\d+", key):
        return value.replace(",,", ",0.0.0.0," if section == "ipv4" else ",::,")
    if key.startswith("routing-rule"):
        words = re.sub(r"/(32|128)(?= |$)", "", value).split()
        pairs = dict(zip(words[::2], words[1::2], strict=True))
        mark = pairs.pop("fwmark", "")
        value, _, mask = mark.partition("/")
        return pairs, (int(value, 0), int(mask or "0xffffffff", 0)) if mark else None
    if key.startswith("vf."):
        return {word.removesuffix(".q") for word in value.split()}
    if key == "token":
        return IPv6Address(value)
    assert match is None
    return WORDS.get((section, key, value), value.rstrip(";"))


def not_understood(text, answer):
    """Return the keys of a keyfile that NetworkManager's own writing of it lacks or has otherwise."""
    read = parse(answer)
    odd = []
    for section, keys in parse(text).items():
        for key, value in keys.items():
            # NetworkManager counts from 1.
            number = re.fullmatch(r"(address|route|routing-rule)(\d+)(_options)?", key)
            name = f"{number[1]}{int(number[2]) + 1}{number[3] or ''}" if number else key
            got = read.get(section, {}).get(name)
            if got is None and ((section, key, value) in DEFAULTS or (section, key) in NEWER):
                continue
            if got is None or meant(section, key, got) != meant(section, key, value):
                odd.append(f"[{section}] {key}={value}, read as {got}")
    return odd


@offline
@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_every_key_is_understood(name):
    for file, text in keyfiles(load(DOCUMENTS[name])).items():
        answer, complaint = canonical(text)
        assert not complaint, (file, complaint)
        assert not not_understood(text, answer), file


@offline
def test_the_check_itself_sees_an_ignored_key():
    text = keyfiles(load(DOCUMENTS["static"]))["enp1s0.nmconnection"]
    answer, complaint = canonical(text.replace("mtu=9000", "mtuu=9000"))
    assert not complaint
    assert not_understood(text, answer) == ["[ethernet] mtu=9000, read as None"]
    assert canonical(text.replace("method=manual", "method=hopeful"))[1]


ADDRESSES = st.ip_addresses(v=4, network="10.0.0.0/9")
ADDRESSES6 = st.ip_addresses(v=6, network="fd00::/16")


@st.composite
def ip_sections(draw):
    four: dict[str, Any] = {"enabled": True}
    if draw(st.booleans()):
        four |= {"dhcp": True, "auto-route-metric": draw(st.integers(0, 2**32 - 1)), "auto-dns": draw(st.booleans())}
        four["dhcp-client-id"] = draw(st.sampled_from(["ll", "iaid+duid", "01:02:03:ab", "a plain name"]))
    else:
        chosen = draw(st.lists(ADDRESSES, min_size=1, max_size=3, unique=True))
        four["address"] = [{"ip": str(address), "prefix-length": draw(st.integers(1, 32))} for address in chosen]
    six: dict[str, Any] = {"enabled": draw(st.booleans())}
    if six["enabled"] and draw(st.booleans()):
        six |= {"dhcp": True, "autoconf": draw(st.booleans())}
        six["dhcp-duid"] = draw(st.sampled_from(["ll", "llt", "00:01:00:01:aa:bb", "00:03:00:01:02:00:00:00:00:01"]))
    elif six["enabled"]:
        chosen = draw(st.lists(ADDRESSES6, min_size=1, max_size=2, unique=True))
        six["address"] = [{"ip": str(address), "prefix-length": draw(st.integers(1, 128))} for address in chosen]
    return {"ipv4": four, "ipv6": six, "mtu": draw(st.integers(1280, 65535))}


LIMITS = st.sampled_from([0, 1, 2, 3, 5, 63, 100, 255, 256, 1023, 4094, 65535, 2**31 - 1, 2**31, 2**32 - 1])
BOND_OPTIONS = st.sampled_from(
    [
        *("ad_actor_sys_prio", "ad_user_port_key", "downdelay", "lp_interval", "miimon", "min_links", "num_grat_arp"),
        *("num_unsol_na", "packets_per_slave", "resend_igmp", "updelay", "ad_select", "all_slaves_active"),
        *("arp_all_targets", "arp_validate", "fail_over_mac", "lacp_rate", "primary_reselect", "xmit_hash_policy"),
        *("tlb_dynamic_lb", "use_carrier", "arp_interval"),
    ]
)
BRIDGE_OPTIONS = st.sampled_from(
    [
        *("mac-ageing-time", "hash-max", "group-forward-mask", "multicast-querier", "multicast-snooping"),
        *(
            "multicast-last-member-count",
            "multicast-last-member-interval",
            "multicast-query-interval",
            "multicast-router",
        ),
        *("multicast-router", "multicast-startup-query-count", "vlan-default-pvid", "multicast-query-use-ifaddr"),
    ]
)


@st.composite
def documents(draw):
    """Documents with values at and beyond the limits: some are refused by us, the others NetworkManager must take."""
    bond = {"mode": draw(st.integers(0, 6)), "options": draw(st.dictionaries(BOND_OPTIONS, LIMITS, max_size=2))}
    if "arp_interval" in bond["options"]:
        bond["options"]["arp_ip_target"] = "10.0.0.1"
    stp = {"enabled": draw(st.booleans()), "hello-time": draw(LIMITS)} if draw(st.booleans()) else {}
    bridge = {"options": {**draw(st.dictionaries(BRIDGE_OPTIONS, LIMITS, max_size=2)), "stp": stp}}
    port = {"name": "eno3", "stp-priority": draw(LIMITS), "stp-path-cost": draw(LIMITS)}
    route = {
        "destination": f"{draw(ADDRESSES)}/{draw(st.integers(0, 32))}",
        "next-hop-interface": "eno1",
        "table-id": draw(LIMITS),
        "metric": draw(LIMITS),
        "cwnd": draw(LIMITS),
    }
    rule = {
        "ip-from": str(draw(ADDRESSES)),
        "priority": draw(LIMITS),
        "route-table": draw(LIMITS),
        "fwmark": draw(LIMITS),
    }
    if draw(st.booleans()):
        rule |= {"suppress-prefix-length": draw(st.integers(0, 200)), "fwmask": draw(LIMITS)}
    profile = draw(st.text(st.characters(codec="ascii", exclude_characters="\x00"), max_size=8) | st.just("eno1"))
    return {
        "interfaces": [
            {"name": "eno1", "profile-name": profile, "description": draw(st.text(max_size=9)), **draw(ip_sections())},
            {"name": "bond0", "type": "bond", "link-aggregation": bond},
            {"name": "br0", "type": "linux-bridge", "bridge": {**bridge, "port": [port]}},
            {"name": "v0", "type": "vlan", "vlan": {"base-iface": "eno1", "id": draw(LIMITS), "protocol": "802.1q"}},
        ],
        "routes": {"config": draw(st.sampled_from([[], [route]]))},
        "route-rules": {"config": draw(st.sampled_from([[], [rule]]))},
        "dns-resolver": {"config": {"search": ["x.example"], "options": ["ndots:2"]}},
    }


def kept(document):
    """Return the document without the parts that are refused one by one, so that most examples get to
    NetworkManager."""
    for _ in range(12):
        try:
            return keyfiles(document)
        except InvalidNetworkConfig as refusal:
            for problem in refusal.problems:
                drop(document, problem.path)
    return keyfiles({})


def drop(document, path):
    place, steps = document, re.findall(r"[^.\[\]]+", path)
    for step in steps[:-1]:
        inner = place[int(step)] if isinstance(place, list) else place.get(step)
        if inner is None:
            return
        place = inner
    if isinstance(place, list):
        place[int(steps[-1])] = {"name": f"spare{steps[-1]}"}
    else:
        place.pop(steps[-1], None)


@pytest.mark.slow
@offline
@settings(max_examples=40, deadline=None)
@given(documents())
def test_networkmanager_accepts_what_we_accept(document):
    for file, text in kept(document).items():
        answer, complaint = canonical(text)
        assert not complaint, f"{file}: {complaint}\n{text}"
        odd = not_understood(text, answer)
        assert not odd, f"{file}: {odd}"


@pytest.mark.skipif(bool(why_not(daemon=True)), reason=why_not(daemon=True))
def test_a_daemon_loads_the_host_directory(tmp_path):
    """The directory of a host as the agent ISO has it, loaded by a NetworkManager in namespaces of its own."""
    nics = [{"name": f"eno{number}", "macAddress": f"02:00:00:00:00:{number:02x}"} for number in range(1, 4)]
    files = host_network_files(nics, load(DOCUMENTS["bond-vlan"]))
    files.pop("mac_interface.ini")
    names = ["bond0", "bond0.42", "eno1", "eno2", "svc"]
    fields = "connection.interface-name,connection.autoconnect,connection.autoconnect-priority,connection.master"
    answers, log = ask_daemon(
        files,
        [
            "-t -f NAME,FILENAME connection",
            f"-g {fields} connection show eno1",
            "-g ipv4.method,ipv4.addresses,ipv4.dns,ipv4.routes,vlan.parent,vlan.id connection show bond0.42",
            "-g bond.options,802-3-ethernet.cloned-mac-address connection show bond0",
        ],
        tmp_path,
    )
    directory = "/etc/NetworkManager/system-connections"
    # NetworkManager adds one for `lo` in memory.
    loaded = [line for line in answers[0].splitlines() if directory in line]
    assert set(loaded) == {f"{name}:{directory}/{name}.nmconnection" for name in names}
    assert answers[1].splitlines() == ["eno1", "yes", "1", "bond0"]
    assert answers[2].splitlines() == [
        "manual",
        "10.42.0.7/24",
        "10.42.0.1",
        "0.0.0.0/0 10.42.0.1 0 table=254",
        "bond0",
        "42",
    ]
    assert "mode=802.3ad" in answers[3]
    assert r"02\:00\:00\:00\:01\:00" in answers[3]
    assert not [line for line in log.splitlines() if "<warn>" in line and "keyfile" in line]
