"""One entry of `interfaces`: what all types share (reference/nmstate.md §2.1)."""

from __future__ import annotations

from installer.network.interfaces import kinds
from installer.network.interfaces.ip import loopback_ip, read_ip
from installer.network.reading.model import LOOPBACK, Interface, IpConfig, Shape
from installer.network.reading.reader import Fields

STATES = ("up", "down", "absent", "ignore")
WAITS = ("any", "ipv4", "ipv6", "ipv4+ipv6")
_COPY_MAC_KINDS = ("bond", "linux-bridge", "ovs-interface")
_PROFILE_RULE = "must be a file name: at most 200 bytes, no slash, not starting with a dot"
# Kernel and NetworkManager limits; below 1280 IPv6 cannot work (RFC 8200).
MTU_MIN, MTU_MAX, MTU_MIN_IPV6 = 68, 65535, 1280
LOOPBACK_MTU = 65536  # the kernel's own; `nmstatectl show` has it
_U64 = (1 << 64) - 1


def read_interface(fields: Fields) -> Interface | None:
    """Read one entry; None when it cannot be named or typed. Problems go to the fields' collection."""
    fields.required("name")
    name = fields.interface("name")
    # Upstream takes a missing type for ethernet when there is no running system to ask (§2.1).
    kind = fields.choice("type", (*kinds.READERS, *kinds.UNSUPPORTED, "unknown"))
    if fields.raw("type") is None or kind == "unknown":
        kind = "ethernet"
    fields.refuse_null("state")
    state = fields.choice("state", STATES) or "up"
    if name is None or kind is None:
        return None
    if state in ("absent", "ignore"):
        # There is no profile, so nothing that the rest of the entry says can be lost.
        return Interface(fields.path, name, kind, state, shape=Shape())
    if kind in kinds.UNSUPPORTED:
        fields.problem("type", kind, f"is not supported: {kinds.UNSUPPORTED[kind]}")
        return None
    return _read_present(fields, name, kind, state)


def _read_present(fields: Fields, name: str, kind: str, state: str) -> Interface:
    mac = fields.mac("mac-address", infiniband=kind == "infiniband")
    by_mac = fields.choice("identifier", ("name", "mac-address")) == "mac-address"
    if by_mac and mac is None:
        # Without an address the profile would match every NIC (§2.1).
        fields.problem("identifier", "mac-address", "needs mac-address")
    copy_mac_from = fields.interface("copy-mac-from")
    if copy_mac_from is not None and kind not in _COPY_MAC_KINDS:
        fields.problem("copy-mac-from", copy_mac_from, f"is of {', '.join(_COPY_MAC_KINDS)} only")
    if copy_mac_from is not None and mac is not None:
        fields.problem("copy-mac-from", copy_mac_from, "contradicts mac-address")
    if by_mac and kind != "ethernet":
        fields.problem("identifier", "mac-address", "is of type ethernet only")
    ipv4, ipv6 = read_ip(fields, 4), read_ip(fields, 6)
    if kind == "loopback":
        ipv4, ipv6 = _loopback_addresses(fields, ipv4, 4), _loopback_addresses(fields, ipv6, 6)
    elif name == LOOPBACK:
        fields.problem("type", kind, f"{LOOPBACK} is of type loopback")
    mtu = fields.integer("mtu", low=MTU_MIN, high=LOOPBACK_MTU if kind == "loopback" else MTU_MAX)
    if mtu is not None and mtu < MTU_MIN_IPV6 and ipv6 is not None and ipv6.enabled:
        fields.problem("mtu", mtu, f"must be at least {MTU_MIN_IPV6} with IPv6 enabled")
    wait_ip = fields.choice("wait-ip", WAITS)
    for family, config in ((4, ipv4), (6, ipv6)):
        if wait_ip is not None and f"ipv{family}" in wait_ip and (config is None or not config.enabled):
            fields.problem("wait-ip", wait_ip, f"waits for IPv{family}, which is not enabled")
    lldp = fields.table("lldp")
    lldp_on = None
    if lldp is not None:
        lldp.required("enabled")
        lldp_on = lldp.boolean("enabled")
        lldp.ignore("neighbors")
        lldp.close()
    shape, extra = kinds.read(fields, kind)
    if kind == "ovs-bridge":
        _refuse_in_kernel(fields, mac, (ipv4, ipv6))
        fields.without_effect("mtu", "an OVS bridge has none, an ovs-interface in it may")
        mtu = ipv4 = ipv6 = None
    elif "ovs-patch" in shape.sections:
        _refuse_of_patch(fields, mtu, (ipv4, ipv6))
    controller = fields.interface("controller") if fields.raw("controller") != "" else None
    interface = Interface(
        path=fields.path,
        name=name,
        kind="veth" if shape.peer is not None else kind,
        state=state,
        shape=shape,
        profile_name=fields.text("profile-name", rule=_PROFILE_RULE, check=_is_file_name),
        description=fields.remark("description"),
        by_mac=by_mac,
        mac=mac,
        copy_mac_from=copy_mac_from,
        mtu=mtu,
        accept_all_mac=fields.boolean("accept-all-mac-addresses"),
        lldp=lldp_on,
        controller=controller,
        wait_ip=wait_ip,
        ipv4=ipv4,
        ipv6=ipv6,
        extra=extra,
    )
    for limit in ("min-mtu", "max-mtu"):
        fields.integer(limit, high=_U64, plain=True)
    fields.ignore("permanent-mac-address", "driver")
    fields.without_effect("mptcp", "no profile key is made for it")
    fields.without_effect("dispatch", "dispatch scripts are no part of a profile")
    fields.close()
    return interface


def _loopback_addresses(fields: Fields, config: IpConfig | None, family: int) -> IpConfig:
    """Return the loopback's family, enabled and static (NetworkManager refuses others); the kernel's own if it is
    missing."""
    if config is None:
        return loopback_ip(family)
    if not config.static:
        fields.problem(f"ipv{family}", None, "of the loopback interface must be enabled, static, with addresses")
    return config


def _refuse_in_kernel(fields: Fields, mac: str | None, families: tuple[IpConfig | None, ...]) -> None:
    """Refuse settings of an OVS bridge outside the kernel: upstream refuses its MAC, and drops its addresses."""
    if mac is not None:
        fields.problem("mac-address", mac, "is of the ovs-interface in an OVS bridge, not of the bridge")
    for config in families:
        if config is not None and (config.auto or config.addresses):
            rule = "an OVS bridge has no addresses; an ovs-interface in it may"
            fields.problem(f"ipv{config.family}", None, rule)


def _refuse_of_patch(fields: Fields, mtu: int | None, families: tuple[IpConfig | None, ...]) -> None:
    """Refuse settings of a patch interface, which only joins two bridges: it has neither MTU nor addresses."""
    if mtu is not None:
        fields.problem("mtu", mtu, "is not of an OVS patch interface")
    for config in families:
        if config is not None and config.enabled:
            fields.problem(f"ipv{config.family}.enabled", True, "must not be enabled on an OVS patch interface")


def _is_file_name(text: str) -> bool:
    return "/" not in text and not text.startswith(".") and len(text.encode()) <= 200
