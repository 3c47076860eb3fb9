"""Causes, fields and remedies that wait-for finds in the words of podman, skopeo and Go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from installer.observe import outside
from installer.observe.state import Places
from installer.testing.waitfor_kit import QUICK, Moment, Run
from installer.waitfor import remedies

RESOLVER = [f"agent-config.yaml: hosts[{index}].networkConfig.dns-resolver" for index in range(3)]
MIRROR = "install-config.yaml: imageDigestSources[0].mirrors[0]"
PLACES = Places(
    dns={"192.0.2.10": RESOLVER, "fd00::1": RESOLVER[:1]},
    mirrors={"mirror.lab:5000": MIRROR},
    pull_field="install-config.yaml: pullSecret",
    trust_bundle="install-config.yaml: additionalTrustBundle",
    proxy="install-config.yaml: proxy",
)
PULL = (
    "Images cannot be pulled: agent.service: initializing source docker://mirror.lab:5000/ocp@sha256:0: pinging "
    "container registry mirror.lab:5000: "
)
GET = 'Get "https://mirror.lab:5000/v2/": dial tcp'
# skopeo, with a mirror: its own cause comes first, the source's last.
ALSO = (
    "(Mirrors also failed: [mirror.lab:5000/ocp@sha256:0: %s]): quay.io/x@sha256:0: dial tcp 1.2.3.4:443: i/o timeout"
)
LOOKUP = "lookup mirror.lab on 192.0.2.10:53: read udp 192.0.2.16:%d->192.0.2.10:53: i/o timeout"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"{PULL}{GET}: {LOOKUP % 4137}",
            f"DNS server 192.0.2.10 does not answer ({RESOLVER[0]} and 2 more): correct ",
        ),
        (
            f"{PULL}{GET}: lookup mirror.lab on [fd00::1]:53: dial udp: network is unreachable",
            "DNS server fd00::1 does ",
        ),
        (
            f"{PULL}{GET}: lookup mirror.lab on 192.0.2.9:53: connection refused",
            "DNS server 192.0.2.9 does not answer: ",
        ),
        (
            f"{PULL}{GET}: lookup mirror.lab on 192.0.2.10:53: no such host",
            "DNS server 192.0.2.10 does not know mirror.",
        ),
        (ALSO % "lookup mirror.lab: no such host", f"The DNS does not know mirror.lab ({MIRROR}): correct the name"),
        (f"{PULL}unauthorized", f"mirror.lab:5000 rejects the pull secret ({PLACES.pull_field}): "),
        (
            ALSO % "x509: signed by unknown authority",
            f"The certificate of mirror.lab:5000 is not trusted ({PLACES.trust_bundle})",
        ),
        (f"{PULL}x509: certificate has expired", "The certificate of mirror.lab:5000 is out of date"),
        (ALSO % "manifest unknown", f"mirror.lab:5000 does not have the release's images ({MIRROR}): "),
        (
            "cannot read image quay.io/x@sha256:0: the registry has no such image (mirror.lab:5000/ocp: name unknown)",
            f"mirror.lab:5000 does not have the release's images ({MIRROR}): ",
        ),
        (f"{PULL}{GET} 192.0.2.5:5000: connect: no route to host", f"mirror.lab:5000 does not answer ({MIRROR}): "),
        # As installer.release puts skopeo's words: the mirror is named, not the image's own registry.
        (
            "cannot read image quay.io/x@sha256:0: the registry has no such image (mirror.lab:5000/ocp: manifest "
            "unknown; quay.io/x: unauthorized)",
            f"mirror.lab:5000 does not have the release's images ({MIRROR}): ",
        ),
        (
            "cannot read image quay.io/x@sha256:0: the registry rejected the pull secret (mirror.lab:5000/ocp: "
            "unauthorized)",
            f"mirror.lab:5000 rejects the pull secret ({PLACES.pull_field}): ",
        ),
        ("cannot read image quay.io/x@sha256:0: no answer from its registry within 20 s", "quay.io does not answer: "),
        (
            "Couldn't resolve domain name mirror.lab, the release image's registry, on the host",
            "The DNS does not know m",
        ),
        (
            f"{PULL}{GET}: lookup mirror.lab on [fd00::1]:53: read udp [fd00::2]:4137->[fd00::1]:53: i/o timeout",
            f"DNS server fd00::1 does not answer ({RESOLVER[0]}): ",
        ),
        (
            f"{PULL}{GET}: lookup mirror.lab on [fe80::1%eth0]:53: read udp [fe80::2]:1->[fe80::1]:53: i/o timeout",
            "DNS server fe80::1%eth0 does not answer: ",
        ),
        (
            f"{PULL}{GET.removesuffix('dial tcp')}proxyconnect tcp: dial tcp 192.0.2.5:3128: i/o timeout",
            "The proxy at 192.0.2.5:3128 does not answer (install-config.yaml: proxy): ",
        ),
        (
            'Get "https://[fd00::5]:5000/v2/": dial tcp [fd00::5]:5000: connect: connection refused',
            "[fd00::5]:5000 does not answer: ",
        ),
        (
            "the registry's certificate is out of date, or this clock is wrong: initializing source docker://mirror.lab:5000/"
            "ocp: x509: certificate has expired",
            "The certificate of mirror.lab:5000 is out of date",
        ),
        (
            "the registry's certificate is not trusted here: initializing source docker://quay.io/x@sha256:0: (Mirrors "
            "also failed: [mirror.lab:5000/x@sha256:0: x509: unknown authority]): quay.io/x: unauthorized",
            "The certificate of mirror.lab:5000 is not trusted (",
        ),
        # No registry's
        ("Host could not fetch its Ignition config: x509: certificate signed by unknown authority", ""),
        ("Network latency to node-1 is 401 ms", ""),
        ("Images cannot be pulled: agent.service: no space left on device", ""),
    ],
)
def test_the_cause_comes_first_with_its_field(text: str, line: str) -> None:
    found = remedies.remedy(text, PLACES)
    assert found.startswith(line)
    assert bool(found) == bool(line)
    assert len(found) < 200
    assert remedies.explained(text, PLACES) == (f"{found}. {text}" if line else text)


def test_a_cause_is_told_once_whatever_its_text(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ports: Any = iter(range(40000, 60000))
    monkeypatch.setattr(outside, "complaint", lambda *_: f"Rendezvous says: {PULL}{GET}: {LOOKUP % next(ports)}")
    assert run([Moment()], settings=replace(QUICK, notice_every=0, unreachable_after=60), timeout=3) == 5
    assert next(ports) > 40003
    [line] = [line for line in run.lines("WARNING") if "DNS server" in line]
    assert line.startswith(
        "DNS server 192.0.2.10 does not answer: is it the right one for the hosts, and does it run. "
    )
