"""The lower bound of an installation: its irreducible steps, each measured alone in one machine (design.md).

live boot, pulls of the images that the flow uses (live by podman, from disk by containerd; both are counted at podman's
price), the disk write, the boot from disk, and the start of etcd and kube-apiserver: each as often as the flow needs
it, over all hosts, since the machine that emulates them has to do it as often.
"""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci.bench.image import NODE0
from ci.bench.measure import Clock, clock_of, timed
from lab import topology
from lab.lab import Lab
from lab.release.build import Release, latest_release
from lab.subject.model import of_lab
from lab.topology import MachineKind, Topology

#: Images that every host pulls, live, and those that the rendezvous host pulls too; likewise from disk.
HOST_IMAGES = ("agent-installer-node-agent", "agent-installer-orchestrator")
RENDEZVOUS_IMAGES = ("agent-installer-api-server", "etcd", "hyperkube")
INGRESS_IMAGES = ("haproxy-router", "console")
CONTROL_PLANE_IMAGES = ("etcd", "hyperkube", "machine-config-operator", "agent-installer-csr-approver")
BOOT_SECONDS = 300.0
READY_SECONDS = 300

KEYFILE = """[connection]
id=bench
type=ethernet
[ethernet]
mac-address={mac}
[ipv4]
method=manual
address1={ip}/{prefix},{gateway}
dns={gateway}
[ipv6]
method=disabled
"""
REGISTRY = """[[registry]]
location = "{source}"
mirror-by-digest-only = true
[[registry.mirror]]
location = "{mirror}"
"""
# etcd and kube-apiserver without any options that their start does not need.
API_START = """set -e
mkdir -p /var/lib/bench
openssl genrsa -out /var/lib/bench/sa.key 2048 2>/dev/null
openssl rsa -in /var/lib/bench/sa.key -pubout -out /var/lib/bench/sa.pub 2>/dev/null
podman run -d --name etcd --net host {etcd} --data-dir /tmp/etcd >/dev/null
podman run -d --name api --net host -v /var/lib/bench:/var/lib/bench --entrypoint /usr/bin/kube-apiserver {hyperkube} \
  --etcd-servers http://127.0.0.1:2379 --secure-port 6443 --service-cluster-ip-range 172.30.0.0/16 \
  --cert-dir /tmp/certs \
  --service-account-key-file /var/lib/bench/sa.pub --service-account-signing-key-file /var/lib/bench/sa.key \
  --service-account-issuer https://bench --authorization-mode Node,RBAC --profiling=false >/dev/null
timeout {limit} sh -c 'until curl -skf -o /dev/null https://127.0.0.1:6443/readyz; do sleep 0.5; done'
"""


def _ignition(lab: Lab) -> str:
    node = lab.topology.nodes[0]
    keyfile = KEYFILE.format(
        mac=node.mac.upper(), ip=node.ip, prefix=lab.topology.network.prefixlen, gateway=lab.topology.gateway
    )
    files = {
        "/etc/NetworkManager/system-connections/bench.nmconnection": (keyfile, 0o600),
        "/root/.docker/config.json": (lab.pull_secret, 0o600),
        "/etc/pki/ca-trust/source/anchors/lab.crt": (lab.ca_pem, 0o644),
        "/etc/containers/registries.conf": (
            "".join(REGISTRY.format(source=source, mirror=mirror) for source, mirror in lab.access.mirrors),
            0o644,
        ),
    }
    entries = [
        {
            "path": path,
            "mode": mode,
            "overwrite": True,
            "contents": {"source": "data:;base64," + base64.b64encode(text.encode()).decode()},
        }
        for path, (text, mode) in files.items()
    ]
    config = {
        "ignition": {"version": "3.2.0"},
        "storage": {"files": entries},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [lab.access.ssh_key]}]},
    }
    return json.dumps(config)


def _pull(host: Any, release: Release, tags: tuple[str, ...]) -> Clock:
    specs = " ".join(release.components[tag] for tag in tags)
    return clock_of(lambda: host.check_output(f"sudo podman pull -q {specs}"))


def times(shape: Topology) -> dict[str, int]:
    """Count how often an installation of that shape takes each step of `measure`."""
    hosts, masters = len(shape.nodes), len(shape.masters)
    return {
        "live ISO to SSH": hosts,
        "image pulls, live, every host": hosts,
        "image pulls, live, rendezvous host": 1,
        "etcd and API start": 1 + masters,
        "image pulls, from disk, ingress": hosts - masters or masters,
        "image pulls, from disk, control plane": masters,
        "disk write": hosts,
        "disk to SSH": hosts,
    }


def measure(lab: Lab, release: Release, iso: Path) -> dict[str, Clock]:
    """Measure each step, in the order in which an installation takes them."""
    node = lab.nodes[lab.topology.nodes[0].name]
    steps: dict[str, Clock] = {}
    with timed() as clock:
        node.boot_image(iso)
        host = node.ssh(BOOT_SECONDS)
    steps["live ISO to SSH"] = clock
    steps["image pulls, live, every host"] = _pull(host, release, HOST_IMAGES)
    steps["image pulls, live, rendezvous host"] = _pull(host, release, RENDEZVOUS_IMAGES)
    start = API_START.format(
        etcd=release.components["etcd"], hyperkube=release.components["hyperkube"], limit=READY_SECONDS
    )
    steps["etcd and API start"] = clock_of(lambda: host.check_output("sudo sh -c %s", start))
    host.check_output("sudo podman rm -f etcd api")
    host.check_output("sudo podman rmi -a -f")
    steps["image pulls, from disk, ingress"] = _pull(host, release, INGRESS_IMAGES)
    steps["image pulls, from disk, control plane"] = _pull(host, release, CONTROL_PLANE_IMAGES)
    host.check_output("sudo sh -c %s", f"cat > /tmp/config.ign <<'EOF'\n{_ignition(lab)}\nEOF")
    install = "sudo coreos-installer install --offline -i /tmp/config.ign --copy-network /dev/vda"
    steps["disk write"] = clock_of(lambda: host.check_output(install))
    node.power.off()
    with timed() as clock:
        node.power.on()
        node.ssh(BOOT_SECONDS)
    steps["disk to SSH"] = clock
    return steps


def live_iso(release: Release, ignition: str, work: Path) -> Path:
    """Make the release's machine OS with this Ignition config in the folder `work`."""
    if release.machine_os_iso is None:
        raise SystemExit("the latest lab release was built without a machine OS")
    config, iso = work / "config.ign", work / "bench.iso"
    config.write_text(ignition)
    embed = [NODE0, "iso", "embed", "--ignition", str(config), "-o", str(iso), str(release.machine_os_iso)]
    subprocess.run(embed, check=True, capture_output=True)
    return iso


def once_each(machine: MachineKind = "vm") -> dict[str, Clock]:
    """Take every step once, alone, in a machine of that kind."""
    release = latest_release()
    shape = topology.sno().with_machines(machine)
    with tempfile.TemporaryDirectory() as work, Lab(shape, Path(work) / "artifacts", of_lab(release)) as lab:
        return measure(lab, release, live_iso(release, _ignition(lab), Path(work)))


def in_turn(shape: Topology) -> dict[str, int]:
    """Count how often each step of `measure` occurs in the longest chain of steps that wait for one another.

    One node: live, then from its disk. Several: the other masters install from disk first, the rendezvous host after
    them, all else meanwhile.
    """
    from_disk = 1 if len(shape.nodes) == 1 else 2
    return {
        "live ISO to SSH": 1,
        "image pulls, live, every host": 1,
        "image pulls, live, rendezvous host": 1,
        "etcd and API start": 1 + from_disk,
        "image pulls, from disk, ingress": int(len(shape.nodes) == len(shape.masters)),
        "image pulls, from disk, control plane": from_disk,
        "disk write": from_disk,
        "disk to SSH": from_disk,
    }


def bounds(steps: Mapping[str, Clock], shape: Topology, processors: int) -> tuple[float, float]:
    """Return two times (seconds) that no installation of that shape can undercut: its longest chain of steps, each as
    fast as alone; and the work of all steps on all hosts, spread over these processors without a gap."""
    chain, often = in_turn(shape), times(shape)
    return (
        sum(chain[name] * clock.seconds for name, clock in steps.items()),
        sum(often[name] * clock.work for name, clock in steps.items()) / processors,
    )
