"""NetworkManager's keyfile format: text and nothing else (reference/nmstate.md §1.3)."""

from __future__ import annotations

from collections.abc import Mapping

SECTION_ORDER = (
    *("connection", "bond", "bond-port", "bridge", "bridge-port", "ipv4", "ipv6", "ovs-bridge", "ovs-port"),
    *("ovs-interface", "ovs-patch", "ovs-dpdk", "ethernet", "vlan", "vxlan", "sriov", "macvlan", "vrf", "veth"),
    *("user", "802-1x", "ethtool", "infiniband", "ovs-external-ids", "ovs-other-config"),
)


def flag(value: bool) -> str:
    """Return a boolean as keyfiles write it."""
    return "true" if value else "false"


def render(sections: Mapping[str, Mapping[str, str]]) -> str:
    """Return the keyfile text: sections in upstream's order, keys sorted by bytes, empty values left out.

    Values hold no control characters and no blanks at their ends (the reader saw to that), so a backslash is all
    that the format needs escaped.
    """
    blocks = []
    for name in SECTION_ORDER:
        if name not in sections:
            continue
        lines = [f"[{name}]"]
        for key, value in sorted(sections[name].items(), key=lambda item: item[0].encode()):
            if value:
                escaped = value.replace("\\", "\\\\")
                lines.append(f"{key}={escaped}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)
