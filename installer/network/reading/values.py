"""Plain checks on single values: no state, no paths. Each returns the canonical form, or None."""

from __future__ import annotations

import ipaddress
import re
import reprlib
import unicodedata
from typing import Any

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_TRUE = {"true", "yes", "on", "y", "1"}
_FALSE = {"false", "no", "off", "n", "0"}
_MAC = re.compile(r"[0-9A-F]{2}(:[0-9A-F]{2}){5}")
_INFINIBAND_MAC = re.compile(r"[0-9A-F]{2}(:[0-9A-F]{2}){19}")
_IFNAME = re.compile(r"[A-Za-z0-9_@+][A-Za-z0-9_.@+~!^-]{0,14}")
_DECIMAL = re.compile(r"-?[0-9]{1,20}")
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_RESERVED_NAMES = {"all", "default", "bonding_masters"}

_SECRET = re.compile(r"pas+w|psk|secret|private|\bcak|-cak|preshared", re.IGNORECASE)
# A section whose settings may all be secret: a password may stand in the place of any of them.
_SECRET_SECTION = "802.1x"
_IFNAME_RULE = (
    "must be an interface name: 1 to 15 letters, digits or any of _ . @ + ~ ! ^ -, not starting with . ~ ! ^ -"
)
_VF_RULE = (
    "is a virtual function by the name of its NIC and its number, which NMState looks up on the host itself and no "
    "profile can say; use the name that the kernel gives it, such as eno1v0"
)
MAC_RULE = "must be a MAC address, six hexadecimal bytes joined by colons"

_shortener = reprlib.Repr()
_shortener.maxstring = _shortener.maxother = 80
_shortener.maxlevel = 2


def may_be_secret(path: str, value: object) -> bool:
    """Return whether a field, or one inside its value, is named as passwords and keys are, mistyped ones too, or is of
    802.1x."""
    if _SECRET_SECTION in path or _SECRET.search(path.rpartition(".")[2]):
        return True
    if isinstance(value, dict):
        return any(may_be_secret(str(name), content) for name, content in value.items())
    return isinstance(value, list) and any(may_be_secret("", item) for item in value)


def describe(value: Any) -> str:
    """Return a value as an error message shows it: short, on one line, and safe for any input."""
    if value is None:
        return ""
    try:
        return _shortener.repr(value)
    except ValueError:  # an integer too long for Python to write in decimal
        return f"a {type(value).__name__}"


def interface_rule(value: Any) -> str:
    """Return the rule that a text breaks which is no interface's name."""
    return _VF_RULE if isinstance(value, str) and value.startswith("sriov:") else _IFNAME_RULE


def boolean(value: Any) -> bool | None:
    """nmstate's booleans: true/false, 1/0, yes/no, on/off, y/n, also as text (reference/nmstate.md §3)."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | str):
        word = str(value).lower() if isinstance(value, str) or value in (0, 1) else ""
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
    return None


def integer(value: Any, low: int, high: int) -> int | None:
    """Return a number or its text (decimal, or 0x.. where no negative number is meant) between `low` and `high`
    inclusive."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if _DECIMAL.fullmatch(value):
            value = int(value)
        elif low >= 0 and _HEX.fullmatch(value):
            value = int(value, 16)
    return value if isinstance(value, int) and low <= value <= high else None


def clean_text(value: Any) -> str | None:
    """Text that one keyfile line can carry: no control characters, no lone surrogates, no blanks at its ends."""
    if not isinstance(value, str) or value != value.strip():
        return None
    if any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in value):
        return None
    return value


def mac(value: Any, *, infiniband: bool = False) -> str | None:
    """Return a MAC address in upper case; colons or dashes between its bytes."""
    if not isinstance(value, str):
        return None
    text = value.upper().replace("-", ":")
    shape = _INFINIBAND_MAC if infiniband else _MAC
    return text if shape.fullmatch(text) else None


def interface_name(value: Any) -> str | None:
    """Return a name that the kernel, NetworkManager and a file name all take (NetworkManager refuses more than 15
    bytes)."""
    if not isinstance(value, str) or not _IFNAME.fullmatch(value) or value in _RESERVED_NAMES:
        return None
    return value


def address(value: Any) -> Address | None:
    """Return an IPv4 or IPv6 address without zone."""
    if not isinstance(value, str) or "%" in value:
        return None
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


def network(value: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """ADDRESS or ADDRESS/LENGTH; host bits are cleared, a bare address stands for itself alone (§2.4)."""
    if not isinstance(value, str) or "%" in value:
        return None
    head, slash, length = value.partition("/")
    base = address(head)
    if base is None:
        return None
    bits: int | None = base.max_prefixlen
    if slash:
        bits = integer(length, 0, base.max_prefixlen) if length.isascii() and length.isdigit() else None
    return None if bits is None else ipaddress.ip_network((base, bits), strict=False)
