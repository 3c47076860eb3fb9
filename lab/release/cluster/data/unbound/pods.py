"""Names of pods, as a module of unbound: A-B-C-D.NAMESPACE.pod.cluster.local is the address A.B.C.D.

There is such a name for every address, in every namespace that exists (Kubernetes' DNS specification, §2.6); IPv6
addresses have dashes for colons. Unbound calls these functions by their names, with its own numbers as arguments.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any

from unboundmodule import (
    MODULE_ERROR,
    MODULE_EVENT_MODDONE,
    MODULE_EVENT_NEW,
    MODULE_EVENT_PASS,
    MODULE_FINISHED,
    MODULE_WAIT_MODULE,
    PKT_QR,
    PKT_RA,
    RCODE_NOERROR,
    RR_CLASS_IN,
    RR_TYPE_A,
    RR_TYPE_AAAA,
    DNSMessage,
)

NAMESPACES = Path("/run/openshift-dns/namespaces")
NAME = re.compile(r"([0-9a-f-]+)\.([a-z0-9-]+)\.pod\.cluster\.local\.", re.IGNORECASE)
SOA = "cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5"


def init_standard(number: int, environment: object) -> bool:
    """Begin; there is nothing to do."""
    return True


def deinit(number: int) -> bool:
    """End; there is nothing to do."""
    return True


def inform_super(number: int, query: Any, above: Any, data: Any) -> bool:
    """Take note of a sub-query; there are none."""
    return True


def pod_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a pod's name stands for; None for any other name, or without such a namespace."""
    match = NAME.fullmatch(name)
    if match is None or match[2].lower() not in NAMESPACES.read_text().split():
        return None
    label = match[1]
    try:
        return ipaddress.ip_address(label.replace("-", "." if label.count("-") == 3 and "--" not in label else ":"))
    except ValueError:
        return None


def operate(number: int, event: int, query: Any, data: Any) -> bool:
    """Answer a query for a pod's name; hand on all others."""
    if event == MODULE_EVENT_MODDONE:
        query.ext_state[number] = MODULE_FINISHED
        return True
    if event not in (MODULE_EVENT_NEW, MODULE_EVENT_PASS):
        query.ext_state[number] = MODULE_ERROR
        return True
    name, kind = query.qinfo.qname_str, query.qinfo.qtype
    address = pod_address(name)
    if address is None:
        query.ext_state[number] = MODULE_WAIT_MODULE
        return True
    message = DNSMessage(name, kind, RR_CLASS_IN, PKT_QR | PKT_RA)
    if kind == (RR_TYPE_A if address.version == 4 else RR_TYPE_AAAA):
        message.answer.append(f"{name} 5 IN {'A' if address.version == 4 else 'AAAA'} {address}")
    else:
        message.authority.append(SOA)
    if not message.set_return_msg(query):
        query.ext_state[number] = MODULE_ERROR
        return True
    query.return_msg.rep.security = 2
    query.return_rcode = RCODE_NOERROR
    query.ext_state[number] = MODULE_FINISHED
    return True
