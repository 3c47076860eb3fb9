"""Settings of a NIC besides addresses: Ethernet, SR-IOV, ethtool, 802.1X, OVS notes (nmstate.md §2.7, §2.11)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from installer.network.keyfile import flag
from installer.network.reading import values
from installer.network.reading.model import Shape
from installer.network.reading.reader import Fields

Keys = dict[str, dict[str, str]]

# The names that NetworkManager 1.42 takes after `feature-`; others it would ignore silently.
_FEATURE_LIST = """
    esp-hw-offload esp-tx-csum-hw-offload fcoe-mtu gro gso highdma hw-tc-offload l2-fwd-offload loopback lro
    macsec-hw-offload ntuple rx rxhash rxvlan rx-all rx-fcs rx-gro-hw rx-gro-list rx-udp-gro-forwarding
    rx-udp_tunnel-port-offload rx-vlan-filter rx-vlan-stag-filter rx-vlan-stag-hw-parse sg tls-hw-record
    tls-hw-rx-offload tls-hw-tx-offload tso tx txvlan tx-checksum-fcoe-crc tx-checksum-ipv4 tx-checksum-ipv6
    tx-checksum-ip-generic tx-checksum-sctp tx-esp-segmentation tx-fcoe-segmentation tx-gre-csum-segmentation
    tx-gre-segmentation tx-gso-list tx-gso-partial tx-gso-robust tx-ipxip4-segmentation tx-ipxip6-segmentation
    tx-nocache-copy tx-scatter-gather-fraglist tx-sctp-segmentation tx-tcp6-segmentation tx-tcp-ecn-segmentation
    tx-tcp-mangleid-segmentation tx-tunnel-remcsum-segmentation tx-udp-segmentation tx-udp_tnl-csum-segmentation
    tx-udp_tnl-segmentation tx-vlan-stag-hw-insert
"""
_FEATURES = frozenset(_FEATURE_LIST.split())
# The kernel's and ethtool's other names for some of them.
_FEATURE_NAMES = {
    **dict.fromkeys(("rx-checksum", "rx-checksumming"), "rx"),
    **dict.fromkeys(("tx-generic-segmentation", "generic-segmentation-offload"), "gso"),
    **dict.fromkeys(("rx-gro", "generic-receive-offload"), "gro"),
    **dict.fromkeys(("rx-lro", "large-receive-offload"), "lro"),
    **dict.fromkeys(("rx-vlan-hw-parse", "rx-vlan-offload"), "rxvlan"),
    **dict.fromkeys(("tx-vlan-hw-insert", "tx-vlan-offload"), "txvlan"),
    **dict.fromkeys(("rx-ntuple-filter", "ntuple-filters"), "ntuple"),
    **dict.fromkeys(("rx-hashing", "receive-hashing"), "rxhash"),
    "tx-scatter-gather": "sg",
    "tx-tcp-segmentation": "tso",
}
_RINGS = ("rx", "tx", "rx-jumbo", "rx-mini")
_COALESCE_SWITCHES = ("adaptive-rx", "adaptive-tx")
_COALESCE_NUMBERS = (
    *("pkt-rate-high", "pkt-rate-low", "sample-interval", "stats-block-usecs"),
    *(
        f"{direction}-{what}{when}"
        for direction in ("rx", "tx")
        for what in ("frames", "usecs")
        for when in ("", "-high", "-irq", "-low")
    ),
)
_EAP = ("leap", "md5", "tls", "peap", "ttls", "sim", "fast", "pwd")
_PHASE2 = ("pap", "chap", "mschap", "mschapv2", "gtc", "otp", "md5", "tls")
_HIDDEN_PASSWORD = "<_password_hidden_by_nmstate>"
_DATA_KEY = re.compile(r"[A-Za-z0-9_:.-]{1,200}")


def read_ethernet(fields: Fields) -> Shape:
    """Return the `ethernet` section. Speed and duplex count only with auto-negotiation off, as in nmstate."""
    section = fields.table("ethernet")
    if section is None:
        return Shape()
    auto = section.boolean("auto-negotiation")
    speed = section.integer("speed", low=1)
    duplex = section.choice("duplex", ("full", "half"))
    sections: Keys = {}
    if auto is not None:
        sections["ethernet"] = {"auto-negotiate": flag(auto)}
    if auto is False:
        if speed is None or duplex is None:
            # NetworkManager takes speed and duplex only together.
            section.problem("auto-negotiation", False, "needs speed and duplex")
        sections["ethernet"] |= {"speed": str(speed), "duplex": duplex or ""}
    sriov = section.table("sr-iov")
    if sriov is not None:
        sections.update(_read_sriov(sriov))
    section.close()
    return Shape(sections)


def _read_sriov(section: Fields) -> Keys:
    total = section.integer("total-vfs")
    probe = section.boolean("drivers-autoprobe")
    keys: dict[str, str] = {}
    numbers = []
    for entry in section.tables("vfs"):
        entry.required("id")
        number = entry.integer("id", high=(1 << 32) - 2)
        text = _read_vf(entry)
        entry.close()
        if number is None:
            continue
        if number in numbers:
            entry.problem("id", number, "is given twice")
        if total is not None and number >= total:
            entry.problem("id", number, f"must be below total-vfs, which is {total}")
        numbers.append(number)
        keys[f"vf.{number}"] = text
    section.close()
    if total == 0:
        return {}
    if total is None and numbers:
        total = max(numbers) + 1
    keys["total-vfs"] = "" if total is None else str(total)
    keys["autoprobe-drivers"] = "" if probe is None else str(int(probe))
    return {"sriov": keys}


def _read_vf(entry: Fields) -> str:
    entry.ignore("iface-name")
    words = []
    if (mac := entry.mac("mac-address")) is not None:
        words.append(f"mac={mac}")
    switches = {name: entry.boolean(name) for name in ("spoof-check", "trust")}
    words += [f"{name}={flag(switch)}" for name, switch in switches.items() if switch is not None]
    rates = {name: entry.integer(name) for name in ("min-tx-rate", "max-tx-rate")}
    words += [f"{name}={rate}" for name, rate in rates.items() if rate is not None]
    vlan, qos = entry.integer("vlan-id", high=4095), entry.integer("qos", high=7)
    protocol = entry.choice("vlan-proto", ("802.1q", "802.1ad"))
    if vlan is None and (qos or protocol is not None):
        entry.problem("vlan-id", None, "is required with qos or vlan-proto")
    if protocol == "802.1ad" and not vlan and not qos:
        entry.problem("vlan-proto", protocol, "needs a vlan-id or qos that is not 0")
    if vlan is not None:
        words.append(f"vlans={vlan}.{qos or 0}.{'ad' if protocol == '802.1ad' else 'q'}")
    return " ".join(words)


def read_ethtool(fields: Fields) -> Keys:
    """Return the `ethtool` section, of any type."""
    section = fields.table("ethtool")
    if section is None:
        return {}
    keys: dict[str, str] = {}
    section.refuse_null("feature")
    features = section.table("feature")
    if features is not None:
        keys.update(_read_features(features))
    pause = section.table("pause")
    if pause is not None:
        auto, pauses = pause.boolean("autoneg"), {direction: pause.boolean(direction) for direction in ("rx", "tx")}
        pause.close()
        if auto is not None:
            keys["pause-autoneg"] = flag(auto)
        if auto is False:
            keys.update({f"pause-{direction}": flag(on) for direction, on in pauses.items() if on is not None})
    ring = section.table("ring")
    if ring is not None:
        keys.update({f"ring-{name}": str(size) for name in _RINGS if (size := ring.integer(name)) is not None})
        ring.ignore(*(f"{name}-max" for name in _RINGS))
        ring.close()
    coalesce = section.table("coalesce")
    if coalesce is not None:
        for name in _COALESCE_SWITCHES:
            if (switch := coalesce.boolean(name)) is not None:
                keys[f"coalesce-{name}"] = str(int(switch))
        for name in _COALESCE_NUMBERS:
            if (number := coalesce.integer(name)) is not None:
                keys[f"coalesce-{name}"] = str(number)
        coalesce.close()
    section.close()
    return {"ethtool": keys}


def _read_features(features: Fields) -> dict[str, str]:
    keys: dict[str, str] = {}
    # NetworkManager's own name for a feature is read last, and so counts where there are two.
    for name in sorted(features.names(), key=lambda name: name not in _FEATURE_NAMES):
        feature = _FEATURE_NAMES.get(name, name)
        features.refuse_null(name)
        on = features.boolean(name, plain=True)
        if feature not in _FEATURES:
            features.problem(name, None, "is not a feature that NetworkManager knows")
        elif on is not None:
            keys[f"feature-{feature}"] = flag(on)
    return keys


def read_8021x(fields: Fields) -> Keys:
    """Return the `802.1x` section: the paths of certificates are those on the host; passwords never show in an
    error."""
    section = fields.table("802.1x")
    if section is None:
        return {}
    keys = {"identity": section.text("identity") or ""}
    methods = []
    for path, value in section.items("eap-methods"):
        if isinstance(value, str) and value in _EAP:
            methods.append(value)
        else:
            section.problems.add(path, value, f"must be one of {', '.join(_EAP)}")
    if not methods:
        section.problem("eap-methods", None, "must list at least one method")
    keys["eap"] = "".join(f"{method};" for method in methods)
    for name in ("private-key", "client-cert", "ca-cert"):
        keys[name] = section.text(name, rule="must be an absolute path", check=lambda text: text.startswith("/")) or ""
    for name in ("private-key-password", "password"):
        keys[name] = section.secret(name) or ""
        if keys[name] == _HIDDEN_PASSWORD:
            section.problem(name, None, "is the stand-in that nmstatectl shows, not the password")
    keys["phase2-auth"] = section.choice("phase2-auth", _PHASE2) or ""
    section.close()
    if "tls" in methods and not (keys["client-cert"] and keys["private-key"]):
        section.problem("client-cert", None, "method tls needs client-cert and private-key")
    if set(methods) - {"sim"} and not keys["identity"]:
        section.problem("identity", None, "is required")
    if set(methods) & {"peap", "ttls"} and not keys["phase2-auth"]:
        section.problem("phase2-auth", None, "methods peap and ttls need it")
    if set(methods) - {"sim", "tls"} and not keys["password"]:
        # The password has to be in the document: there is nobody at the console to ask.
        section.problem("password", None, "is required by every method but tls and sim")
    return {"802-1x": keys}


def read_ovs_db(fields: Fields) -> Keys:
    """Return the `ovs-db` section of an interface or an OVS bond: two maps of free keys."""
    section = fields.table("ovs-db")
    if section is None:
        return {}
    keys: Keys = {}
    for name, target in (("external_ids", "ovs-external-ids"), ("other_config", "ovs-other-config")):
        inner = section.table(name)
        if inner is None:
            continue
        if data := _read_data(inner):
            keys[target] = {f"data.{key}": value for key, value in data.items()}
    section.close()
    return keys


def _read_data(inner: Fields) -> Mapping[str, str]:
    data: dict[str, str] = {}
    for key in inner.names():
        value = inner.raw(key)
        text = str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int) else value
        if not _DATA_KEY.fullmatch(key):
            inner.problem(key, None, "keys are letters, digits and any of _ : . -")
        elif not (text := values.clean_text(text)):
            inner.problem(key, value, "must be text on one line, not empty")
        else:
            data[key] = text
    return data
