"""The components of the lab release: one row for each tag that the installer or the cluster looks up in the payload."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.release import kubernetes
from lab.release.cluster import templates
from lab.release.image.debian import Packages

# Debian's packages by layer. What is left out of skopeo's is for podman's networks and signatures, which are not used.
PACKAGES: Mapping[str, Packages] = {
    "etcd": Packages(("etcd-client", "etcd-server"), ("adduser", "libse*", "passwd")),
    "haproxy": Packages(("haproxy",), ("adduser", "libse*", "passwd")),
    # curl is what its checks ask the API server and the router with.
    "keepalived": Packages(("curl", "keepalived")),
    "busybox": Packages(("busybox-static",)),
    # What the version operator checks releases' signatures with.
    "gpgv": Packages(("gpgv",)),
    "iptables": Packages(("conntrack", "iptables"), ("libip*-dev",)),
    "kubectl": Packages(("kubernetes-client",)),
    # Without what agents for other hardware and clouds need, and what the wheels bring.
    "pacemaker": Packages(
        ("corosync", "fence-agents", "pacemaker", "pacemaker-cli-utils", "python3-pexpect", "python3-pycurl"),
        (
            "adduser",
            "bc",
            "bzip2",
            "cluster-glue",
            "dbus*",
            "gawk",
            "libnet1",
            "libopenhpi3",
            "libplumb*",
            "liblrm2",
            "libse*",
            "libstonith1",
            "libtimedate-perl",
            "passwd",
            "perl*",
            "python3-boto*",
            "python3-c*",
            "python3-dateutil",
            "python3-f*",
            "python3-g*",
            "python3-idna",
            "python3-jmespath",
            "python3-monotonic",
            "python3-oauth2client",
            "python3-pyasn1*",
            "python3-r*",
            "python3-s*",
            "python3-u*",
            "resource-agents",
            "sgml-base",
            "tzdata",
            "xsltproc",
        ),
    ),
    "skopeo": Packages(
        ("skopeo", "zstd"),
        (
            "containernetworking-plugins",
            "dirmngr",
            "gnupg*",
            "gpg*",
            "iptables",
            "libip?tc2",
            "libnetfilter-conntrack3",
            "libnfnetlink0",
            "pinentry-curses",
        ),
    ),
    # Its Python answers for names of pods.
    "unbound": Packages(("python3-unbound", "unbound"), ("adduser", "libse*", "passwd")),
}

# Thresholds of the lab's machines (installer.md §5.4 has the product's): few emulated CPUs, sparse 20 GB disks, and a
# host whose disks, bridges and CPUs are shared by every VM.
_LAB_HARDWARE = {
    "master": (1, 2048, 10, 1000, 10),
    "arbiter": (1, 2048, 10, 1000, 10),
    "worker": (1, 1536, 10, 1000, 10),
    "sno": (2, 3072, 10, None, None),
    "edge-worker": (1, 1536, 10, None, None),
}


def hardware_requirements() -> str:
    """Return the service's default_hw_requirements.json for lab machines: one entry for every version."""
    entry: dict[str, object] = {"version": "default"}
    for role, (cores, ram_mib, disk_gb, latency_ms, loss_percent) in _LAB_HARDWARE.items():
        limits: dict[str, int] = {
            "cpu_cores": cores,
            "ram_mib": ram_mib,
            "disk_size_gb": disk_gb,
            "installation_disk_speed_threshold_ms": 10_000,
        }
        if latency_ms is not None and loss_percent is not None:
            limits |= {"network_latency_threshold_ms": latency_ms, "packet_loss_percentage": loss_percent}
        entry[role] = limits
    return json.dumps([entry], indent=2) + "\n"


@dataclass(frozen=True)
class Component:
    """One image. Layers from the bottom: base, packages, wheels and code (if it runs Python), binaries, own files.

    entrypoint: what always runs; cmd: what runs if nothing else is asked for, as in OpenShift's images of service and
    agent, whose other programs are run by name. packages: keys of PACKAGES. code: "installer", "cluster" or both.
    wheels: those beside the usual ones.
    commands: path in the image -> Python module. binaries: Kubernetes programs for /usr/bin. files and programs: path
    -> text; a program can be executed. links: path -> target. built: path -> a program of this machine, only in
    variants. versions: what it declares as io.openshift.build.versions.
    """

    tag: str
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    wheels: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    binaries: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    built: Mapping[str, Path] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    display_names: Mapping[str, str] = field(default_factory=dict)


_KUBERNETES = {"kubernetes": kubernetes.UPSTREAM}
_KUBERNETES_NAME = {"kubernetes": "Kubernetes"}

# The module that the installer image's openshift-install, a zipapp, starts.
INSTALL_MODULE = "lab.release.cluster.openshift_install.command"

# openshift-install's ISO starts a database beside the service, in the service's image, by this name. The service keeps
# its state in a file, so what stands here only waits until it is told to end.
# It runs as this user.
_USERS = """root:x:0:0:root:/root:/bin/bash
postgres:x:26:26:PostgreSQL:/var/lib/pgsql:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
# Pacemaker's daemons run as this user, and let this group in.
_HA_USERS = "root:x:0:0:root:/root:/bin/bash\nhacluster:x:189:189:cluster:/var/lib/pacemaker:/usr/sbin/nologin\n"
_HA_GROUPS = "root:x:0:\nhaclient:x:189:\n"
_NO_DATABASE = """#!/bin/bash
echo "no database is needed: the service keeps its state in a file"
trap 'exit 0' TERM INT
sleep infinity & wait
"""

# On a host's first console, before the service is looked for: what OpenShift's interactive program checks
# (reference/installer.md §4.4), told and not asked. It never waits for anybody.
_CONSOLE = """#!/bin/bash
registry=${RELEASE_IMAGE%%/*}
host=${registry%:*} port=443
[ "$host" = "$registry" ] || port=${registry##*:}
address=$(getent ahosts "$host" | head -n 1 | cut -d ' ' -f 1)
echo "registry $registry: ${address:-its name is not known here}"
[ -z "$address" ] || ! timeout 3 bash -c "</dev/tcp/$address/$port" 2>/dev/null || echo "registry $registry: answers"
exit 0
"""

# openshift-install's ISO copies this file to the host, which has not got what the agent needs to run.
_AGENT = """#!/bin/sh
# The agent: in its image as it is; on a host, to which this file was copied, from the image that --agent-version names.
[ ! -x /usr/libexec/node0-agent ] || exec /usr/libexec/node0-agent "$@"
image= before=
for word; do
    [ "$before" != --agent-version ] || image=$word
    case "$word" in --agent-version=*) image=${word#*=} ;; esac
    before=$word
done
[ -n "$image" ] || { echo "agent: --agent-version IMAGE: must name the image that this program came from" >&2; exit 1; }
exec podman run --replace --rm --cgroups=no-conmon --name agent --privileged --net host --pid host \\
    --log-driver passthrough --env PULL_SECRET_TOKEN -v /:/host:rslave "$image" /usr/bin/agent "$@"
"""

# What its package's scripts would choose: the kernel's nf_tables, as the machine OS does.
_IPTABLES = {
    f"usr/sbin/{name}{verb}": "xtables-nft-multi"
    for name in ("iptables", "ip6tables")
    for verb in ("", "-restore", "-save")
}

# In a pod, asked by the probe of operator `network`: reaches all addresses of the query, separated by commas, and says
# of each which node answered. Without a query it is what answers.
_REACH = """#!/bin/busybox sh
printf 'Content-Type: text/plain\\r\\n\\r\\n'
[ -n "$QUERY_STRING" ] || { echo "$NODE_NAME"; exit 0; }
reach() {
    case $1 in *:*) host="[$1]" ;; *) host=$1 ;; esac
    # Emulated nodes stall for seconds. Not wget -T, on which Debian's busybox 1.35 faults.
    answer=$(busybox timeout 15 busybox wget -q -O - "http://$host:8080/cgi-bin/reach" 2>&1) ||
        answer="- ${answer:-no answer in 15 s}"
    echo "$1 $answer"
}
IFS=,
for address in $QUERY_STRING; do
    case $address in *[!0-9a-f.:]*) continue ;; esac
    reach "$address" &
done
wait
"""

VERSION_OPERATOR = Component(
    "cluster-version-operator",
    entrypoint=("/usr/bin/cluster-version-operator",),
    packages=("gpgv",),
    code=("cluster",),
    commands={"usr/bin/cluster-version-operator": "lab.release.cluster.version_operator.command"},
)

COMPONENTS: tuple[Component, ...] = (
    Component(
        "agent-installer-api-server",
        cmd=("/usr/bin/assisted-service",),
        packages=("skopeo",),
        code=("installer",),
        commands={
            "usr/bin/assisted-service": "installer.rendezvous",
            "usr/bin/agent-installer-client": "installer.rendezvous.client.command",
        },
        # In a lab everybody may see the page; elsewhere it requires a token.
        files={
            "data/default_hw_requirements.json": hardware_requirements(),
            "data/page_access": "open\n",
            "etc/passwd": _USERS,
        },
        # What the units of openshift-install's ISO look for (docs/seam.md).
        programs={"start_db.sh": _NO_DATABASE},
        links={"usr/local/bin/agent-installer-client": "/usr/bin/agent-installer-client"},
    ),
    Component(
        "agent-installer-csr-approver",
        entrypoint=("/usr/bin/assisted-installer-controller",),
        code=("cluster",),
        commands={"usr/bin/assisted-installer-controller": "lab.release.cluster.controller.command"},
    ),
    # No image of OpenShift's: what `node0 hub install --image` runs in a cluster.
    Component(
        "agent-installer-hub",
        entrypoint=("/usr/bin/node0",),
        packages=("skopeo",),
        code=("installer",),
        wheels=("filelock", "jq", "kubernetes", "sushy"),
        commands={"usr/bin/node0": "installer"},
        files={"data/default_hw_requirements.json": hardware_requirements()},
    ),
    Component(
        "agent-installer-node-agent",
        cmd=("/usr/bin/agent",),
        code=("installer",),
        commands={"usr/libexec/node0-agent": "installer.agent"},
        programs={"usr/bin/agent": _AGENT},
    ),
    Component(
        "agent-installer-orchestrator",
        entrypoint=("/usr/bin/assisted-installer",),
        code=("installer",),
        commands={"usr/bin/assisted-installer": "installer.orchestrator"},
    ),
    Component(
        "agent-installer-utils",
        programs={"usr/bin/agent-tui": _CONSOLE},
        # create image wants one of these beside agent-tui; a shell script needs none.
        files={"usr/lib64/libnmstate.so.2": "agent-tui of the lab release is a shell script and needs no library\n"},
    ),
    Component(
        "cli",
        entrypoint=("/usr/bin/oc",),
        packages=("kubectl",),
        # There is no oc for 1.20 in Debian; kubectl answers the part of it that scripts use against a cluster.
        links={"usr/bin/oc": "kubectl"},
        versions=_KUBERNETES,
        display_names=_KUBERNETES_NAME,
    ),
    Component(
        "console",
        entrypoint=("/usr/bin/console",),
        code=("cluster",),
        commands={"usr/bin/console": "lab.release.cluster.console.command"},
    ),
    Component("etcd", entrypoint=("/usr/bin/etcd",), packages=("etcd",)),
    Component(
        "haproxy-router",
        entrypoint=("/usr/sbin/haproxy",),
        packages=("haproxy",),
        code=("cluster",),
        commands={"usr/bin/ingress-controller": "lab.release.cluster.ingress.command"},
    ),
    Component(
        "hyperkube",
        binaries=("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
        versions=_KUBERNETES,
        display_names=_KUBERNETES_NAME,
    ),
    Component("keepalived-ipfailover", entrypoint=("/usr/sbin/keepalived",), packages=("keepalived",)),
    Component(
        "machine-config-operator",
        entrypoint=("/usr/bin/machine-config-server",),
        code=("cluster",),
        commands={"usr/bin/machine-config-server": "lab.release.cluster.machine_config_server.command"},
    ),
    Component(
        "kube-proxy",
        entrypoint=("/usr/bin/kube-proxy",),
        packages=("iptables",),
        binaries=("kube-proxy",),
        links=_IPTABLES,
        versions=_KUBERNETES,
        display_names=_KUBERNETES_NAME,
    ),
    Component(
        "network-check-target",
        entrypoint=("/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/srv/reach"),
        packages=("busybox",),
        programs={"srv/reach/cgi-bin/reach": _REACH},
    ),
    Component(
        "node-network",
        entrypoint=("/usr/bin/node-network",),
        packages=("iptables",),
        code=("cluster",),
        commands={"usr/bin/node-network": "lab.release.cluster.network.command"},
        links=_IPTABLES,
    ),
    # OpenShift's machine OS has these programs in it; here only clusters of two nodes pull them.
    Component(
        "pacemaker",
        entrypoint=("/usr/bin/run-pacemaker",),
        # Libraries that several groups need are in the first one's layer only.
        packages=("haproxy", "keepalived", "pacemaker"),
        code=("cluster",),
        commands={
            "usr/bin/run-pacemaker": "lab.release.cluster.fencing.command",
            "usr/lib/ocf/resource.d/node0/podman-etcd": "lab.release.cluster.fencing.agent",
        },
        files={"etc/passwd": _HA_USERS, "etc/group": _HA_GROUPS},
    ),
    Component(
        "unbound",
        entrypoint=("/usr/sbin/unbound",),
        packages=("unbound",),
        files={f"etc/unbound/{name}": templates.text(f"unbound/{name}") for name in ("pods.py", "unbound.conf")},
    ),
)

# Images without a base layer, built by functions of their own in images.py.
INSTALLER_TAG = "installer"
MACHINE_OS_TAG = "machine-os-images"
# The machine OS as a container image, which nodes are upgraded to.
OS_TAG = "rhel-coreos"
POD_TAG = "pod"
