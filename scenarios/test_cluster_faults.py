"""Faults in an installed cluster: the object concerned, or an operator, says so, and all is well when they are over."""

import base64
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from installer.common.certificates import ec_key
from lab.cleanup import afterwards
from lab.waiting import wait_until
from scenarios.catalogue.clusterfaults import ROWS, ClusterFault, Says
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.health import BACK_SECONDS

pytestmark = [pytest.mark.weekly, pytest.mark.disruptive]

NAMESPACE = "cluster-fault"


def request() -> str:
    """Return a certificate request as a kubelet makes it, in base64."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "system:node:nobody")])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(ec_key(), hashes.SHA256())
    return base64.b64encode(csr.public_bytes(serialization.Encoding.PEM)).decode()


def own(installation: Installation, what: str) -> Any:
    """Return an object, or all of a kind; what has a namespace is in that of the row."""
    return installation.kubectl_json("-n", NAMESPACE, "get", what)


def said(installation: Installation, says: Says) -> list[str]:
    """Return the messages of the object's condition, or of its events, that there are."""
    if says.condition:
        kind, _, status = says.condition.partition("=")
        conditions = (own(installation, says.object).get("status") or {}).get("conditions") or []
        return [str(c.get("message", "")) for c in conditions if (c["type"], c["status"]) == (kind, status)]
    events = own(installation, "events")["items"]
    name = says.object.partition("/")[2]
    return [str(e["message"]) for e in events if (e["involvedObject"]["name"], e["reason"]) == (name, says.event)]


def matches(messages: list[str], says: Says) -> bool:
    """Return whether the pattern is in one of the messages."""
    return any(re.search(says.message, message) for message in messages)


def as_root(installation: Installation, nodes: list[str], script: str) -> None:
    """Run a script on nodes; its failure fails the test."""
    for node in nodes:
        done = installation.lab.nodes[node].ssh().run("sudo bash -ec %s", script)
        assert done.rc == 0, f"{node}: {script}: {done.stderr}"


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
@pytest.mark.parametrize(
    "installation", params(lambda row: row.thorough and row.topology == "compact-ipv4-static-uefi"), indirect=True
)
def test_a_fault_is_said_where_it_is_looked_for(installation: Installation, row: ClusterFault) -> None:
    vip = installation.topology.api_vip
    assert vip is not None
    held = installation.holder(vip, 6443)
    masters = [spec.name for spec in installation.topology.masters]
    node = next(name for name in reversed(masters) if name != held)
    network = installation.kubectl_json("get", "node", node)["spec"]["podCIDR"]
    row = row.filled(node=node, podCIDR=network, csr=request())
    nodes = masters if row.nodes == "all" else [node]
    outlives_row = not row.says.object.startswith("pod/")
    if outlives_row:
        assert not matches(said(installation, row.says), row.says), "it is said before there is a reason"
    file = installation.lab.layout.root / f"{row.name}.yaml"
    file.write_text(yaml.safe_dump_all(row.apply))
    installation.kubectl("create", "namespace", NAMESPACE)
    steps: list[tuple[str, Callable[[], object]]] = [
        ("the namespace", lambda: installation.kubectl("delete", "namespace", NAMESPACE))
    ]
    if row.apply:
        delete = ("-n", NAMESPACE, "delete", "--wait=false", "-f", str(file))
        steps.insert(0, ("the row's objects", lambda: installation.kubectl(*delete)))
    else:
        steps.insert(0, ("what is broken", lambda: as_root(installation, nodes, row.mend)))
    began = time.monotonic()
    with afterwards(*steps):
        if row.apply:
            installation.kubectl("-n", NAMESPACE, "apply", "-f", str(file))
        else:
            as_root(installation, nodes, row.do)
        wait_until(
            lambda: matches(said(installation, row.says), row.says),
            row.seconds,
            f"{row.says.object} to say {row.says.message!r}",
            lambda: said(installation, row.says),
        )
        print(f"{row.name}: said after {time.monotonic() - began:.0f} s: {said(installation, row.says)}")
    if outlives_row and row.says.condition:
        wait_until(
            lambda: not matches(said(installation, row.says), row.says),
            BACK_SECONDS,
            f"{row.says.object} to say it no more",
        )
    wait_until(
        lambda: installation.unwell_operators() == [],
        BACK_SECONDS,
        "all operators to be well again",
        installation.unwell_operators,
    )
