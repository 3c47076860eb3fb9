"""The lab's daemons: their configuration files and how the supervisor starts them."""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import msgspec
import yaml

from installer.common import certificates
from installer.common.certificates import YEAR
from installer.common.secretfiles import write_private
from lab.bmcs.recorded import profile_of
from lab.daemons import balancer, disks, dns, iscsi
from lab.daemons.pki import issue, make_ssh_key, make_tang_keys, tang_thumbprint
from lab.daemons.switch.config import groups as switched
from lab.host.paths import cache_dir
from lab.host.preflight import IPXE, TANGD
from lab.hub.controlplane import ControlPlane
from lab.inputs.configs import BmcAccess
from lab.layout import (
    BMC_PORT,
    HTTP_PORT,
    HTTPS_PORT,
    ISCSI_PORT,
    POOL,
    PROXY_PORT,
    REGISTRY_PORT,
    TANG_PORT,
    Layout,
    bracketed,
)
from lab.machines import failing
from lab.supervisor.plan import Bridge, Plan, Ready, Service
from lab.topology import NodeSpec, Topology


class Credentials(msgspec.Struct, frozen=True):
    """One lab's passwords, made for it and deleted with it."""

    bmc_user: str
    bmc_password: str
    registry_user: str
    registry_password: str

    def __repr__(self) -> str:
        return f"Credentials({self.bmc_user!r}, {self.registry_user!r})"

    @classmethod
    def make(cls) -> Credentials:
        """Fresh random passwords."""
        return cls("admin", secrets.token_urlsafe(12), "lab", secrets.token_urlsafe(12))


@dataclass(frozen=True)
class Prepared:
    """The plan that `prepare` made, and the credentials that the lab's user needs."""

    plan: Plan
    credentials: Credentials


def pull_secret(layout: Layout, credentials: Credentials) -> str:
    """Return the lab registry's credentials as dockerconfigjson text."""
    pair = f"{credentials.registry_user}:{credentials.registry_password}".encode()
    return json.dumps({"auths": {layout.registry: {"auth": base64.b64encode(pair).decode()}}})


def tang_servers(layout: Layout) -> str:
    """Return the lab's Tang server as `diskEncryption` names servers (JSON text); empty for a lab without one."""
    if not layout.topology.tang:
        return ""
    return json.dumps([{"url": layout.tang_url, "thumbprint": tang_thumbprint(layout.tang)}])


def bmc_access(layout: Layout, credentials: Credentials, node: NodeSpec, uuid: str) -> BmcAccess:
    """Give the address and account of the BMC of a node, which the hypervisor calls `uuid`."""
    kind = layout.topology.bmc_of(node)
    system = uuid if kind == "lab" else profile_of(kind).system
    return BmcAccess(
        host=node.name,
        address=f"redfish+{layout.bmc_url_of(node)}/redfish/v1/Systems/{system}",
        username=credentials.bmc_user,
        password=credentials.bmc_password,
    )


def prepare(layout: Layout, lab_id: str, owner: tuple[int, int] | None, storage: Path | None) -> Prepared:
    """Write every file that the lab's daemons need below `layout.root`, which must not exist yet.

    `storage` is the registry's storage, served read-only; with None the lab gets an empty one that accepts pushes.
    """
    layout.make()
    topology = layout.topology
    credentials = Credentials.make()
    write_private(layout.secrets, msgspec.json.encode(credentials))
    make_ssh_key(layout.ssh_key)
    authority = certificates.authority(f"node0 lab {lab_id}", lifetime=YEAR)
    layout.ca.write_text(authority.certificate)
    names = [layout.registry_host, f"bmc.{topology.base_domain}", topology.gateway, layout.bmc_address, "127.0.0.1"]
    names = list(dict.fromkeys(names))
    issue(authority, names, layout.root)
    issue(authority, names, layout.root, "expired", expired=True)
    contained = topology.machine == "container"
    reaped = contained or bool(failing.places(layout))
    reaper = _python("reaper", "lab.machines.container.reaper", [lab_id])
    services = (
        machined(layout, lab_id) if contained else _libvirtd(layout),
        *_failing(layout),
        *_switch(layout),
        _impair(layout),
        _dnsmasq(layout),
        _rogue(layout),
        _chronyd(layout),
        _registry(layout, credentials, storage),
        *([_proxy(layout)] if topology.proxy else []),
        *([_load_balancer(layout)] if topology.load_balancer else []),
        *([_tang(layout)] if topology.tang else []),
        *(ControlPlane(layout.hub, topology.gateway).services() if topology.hub else ()),
        *_iscsi(layout),
        _bmc(layout, credentials),
        _http(layout),
        *_ipmi(layout, credentials),
        _python("console-clock", "lab.daemons.consoleclock", [str(layout.console)]),
    )
    plan = Plan(
        id=lab_id,
        state=str(layout.root),
        bridges=tuple(
            Bridge(layout.bridge(network), topology.lab_addresses(network), network.mtu)
            for network in topology.all_networks
        ),
        mounts=_mounts(layout),
        services=services,
        owner=owner,
        after=reaper.argv if reaped else (),
        after_env=reaper.env if reaped else {},
    )
    (layout.root / "plan.json").write_bytes(msgspec.json.encode(plan))
    return Prepared(plan, credentials)


def _mounts(layout: Layout) -> tuple[tuple[str, str], ...]:
    root = layout.root
    resolv = root / "etc/resolv.conf"
    resolv.write_text(f"nameserver {layout.topology.gateway}\n")
    hosts = root / "etc/hosts"
    registry_line = f"{layout.registry_address} {layout.registry_host}\n" if layout.topology.proxy else ""
    hosts.write_text(f"127.0.0.1 localhost\n::1 localhost\n{registry_line}")
    # Probing QEMU's capabilities takes seconds; libvirt caches them by the binary's time stamp, so labs can share them.
    capabilities = cache_dir() / "libvirt"
    capabilities.mkdir(exist_ok=True)
    pairs = (
        (root / "libvirt/run", "/run/libvirt"),
        (root / "libvirt/lib", "/var/lib/libvirt"),
        (root / "libvirt/log", "/var/log/libvirt"),
        (root / "libvirt/etc", "/etc/libvirt"),
        (capabilities, "/var/cache/libvirt"),
        (resolv, str(Path("/etc/resolv.conf").resolve())),
        (hosts, "/etc/hosts"),
    )
    return tuple((str(source), target) for source, target in pairs)


def _libvirtd(layout: Layout) -> Service:
    etc = layout.root / "libvirt/etc"
    nwfilter = Path("/etc/libvirt/nwfilter")
    if nwfilter.is_dir():
        shutil.copytree(nwfilter, etc / "nwfilter")
    (etc / "libvirtd.conf").write_text('auth_unix_rw = "none"\nauth_unix_ro = "none"\nunix_sock_rw_perms = "0700"\n')
    # QEMU runs as root inside the lab's namespaces: its files lie in a directory of root's. Cgroups and private /dev
    # trees are the host's affair. The serial log goes straight to its file, since virtlogd rotates at 2 MiB.
    (etc / "qemu.conf").write_text(
        'user = "root"\ngroup = "root"\nsecurity_driver = "none"\ndynamic_ownership = 0\nremember_owner = 0\n'
        'namespaces = []\ncgroup_controllers = []\nstdio_handler = "file"\nauto_dump_path = "/var/lib/libvirt/dump"\n'
    )
    argv = ("libvirtd", "-p", str(layout.root / "libvirtd.pid"))
    return Service(name="libvirtd", argv=argv, ready=Ready("unix", "/run/libvirt/libvirt-sock"))


def machined(layout: Layout, lab_id: str) -> Service:
    """Describe the daemon that owns container machines."""
    arguments = [str(layout.machines), str(layout.machined), lab_id]
    ready = Ready("unix", str(layout.machined))
    return _python("machined", "lab.machines.container.machined", arguments, ready=ready)


def _failing(layout: Layout) -> tuple[Service, ...]:
    """Describe the holder of the devices of disks that can fail, where there are any."""
    places = failing.places(layout)
    if not places:
        return ()
    file = layout.root / "failing.json"
    config = disks.Config(layout.root.name, places, str(layout.failing), str(layout.root / "blkio"))
    file.write_bytes(msgspec.json.encode(config))
    return (_python("disks", "lab.daemons.disks", [str(file)], ready=Ready("unix", str(layout.failing))),)


def _switch(layout: Layout) -> tuple[Service, ...]:
    """Describe the switch, where there is anything for it to do."""
    groups = switched(layout)
    if not groups:
        return ()
    file = layout.root / "switch.json"
    file.write_bytes(msgspec.json.encode(groups))
    return (_python("switch", "lab.daemons.switch", [str(file)]),)


def _impair(layout: Layout) -> Service:
    """Describe the daemon that delays, doubles and corrupts packets for faults."""
    ready = Ready("unix", str(layout.impair))
    return _python("impair", "lab.daemons.switch.impair", [str(layout.impair)], ready=ready, by_request=True)


def _rogue(layout: Layout) -> Service:
    """Describe the second DHCP server, for the fault that has one."""
    ready = Ready("unix", str(layout.rogue_socket))
    return _python("rogue-dhcp", "lab.daemons.switch.rogue", [str(layout.rogue)], ready=ready, by_request=True)


def _dnsmasq(layout: Layout) -> Service:
    if layout.topology.boot == "pxe" and layout.topology.machine == "vm":
        for loader in IPXE:
            shutil.copyfile(loader, layout.tftp / loader.name)
    for node in layout.topology.nodes:
        if name := iscsi.script_name(node):
            (layout.tftp / name).write_text(iscsi.script(layout, node))
    config = layout.root / "dnsmasq.conf"
    config.write_text(dns.dnsmasq_config(layout, leases=layout.root / "dnsmasq.leases", log=layout.log / "dnsmasq.log"))
    argv = ("dnsmasq", "--keep-in-foreground", f"--conf-file={config}")
    return Service(name="dnsmasq", argv=argv, ready=Ready("tcp", layout.topology.gateway, 53))


def _chronyd(layout: Layout) -> Service:
    topology = layout.topology
    config = layout.root / "chrony.conf"
    allowed = "".join(f"allow {subnet}\n" for network in topology.all_networks for subnet in network.subnets)
    # -x below: it serves the host's clock as it is, and never touches it.
    config.write_text(f"local stratum 8\n{allowed}cmdport 0\nbindcmdaddress /\npidfile {layout.root / 'chronyd.pid'}\n")
    argv = ("chronyd", "-d", "-x", "-u", "root", "-f", str(config))
    return Service(name="chronyd", argv=argv, ready=Ready("ntp", topology.gateway))


def _htpasswd(path: Path, user: str, password: str) -> None:
    # Both servers check the hash on every request; a low cost suits a random password that lives as long as one lab.
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(rounds=5)).decode()
    write_private(path, f"{user}:{hashed}\n".encode())


def _registry(layout: Layout, credentials: Credentials, storage: Path | None) -> Service:
    htpasswd = layout.root / "registry.htpasswd"
    _htpasswd(htpasswd, credentials.registry_user, credentials.registry_password)
    backend: dict[str, object] = {"filesystem": {"rootdirectory": str(storage or layout.root / "registry")}}
    if storage is not None:
        backend["maintenance"] = {"readonly": {"enabled": True}}
    config = {
        "version": 0.1,
        "log": {"level": "info", "accesslog": {"disabled": False}},
        "storage": backend,
        "http": {
            "addr": f"{bracketed(layout.registry_address)}:{REGISTRY_PORT}",
            "secret": secrets.token_hex(16),
            "tls": {"certificate": str(layout.root / "server.crt"), "key": str(layout.root / "server.key")},
        },
        "auth": {"htpasswd": {"realm": "lab", "path": str(htpasswd)}},
    }
    path = layout.root / "registry.yaml"
    write_private(path, yaml.safe_dump(config).encode())
    argv = ("docker-registry", "serve", str(path))
    return Service(name="registry", argv=argv, ready=Ready("tcp", layout.registry_address, REGISTRY_PORT))


def _proxy(layout: Layout) -> Service:
    """tinyproxy, for connections to the registry's port only."""
    config = layout.root / "proxy.conf"
    lines = [
        f"Port {PROXY_PORT}",
        f"Listen {layout.topology.gateway}",
        "Timeout 600",
        "MaxClients 200",
        f'LogFile "{layout.proxy_log}"',
        "LogLevel Connect",
        f"ConnectPort {REGISTRY_PORT}",
    ]
    config.write_text("\n".join(lines) + "\n")
    argv = ("tinyproxy", "-d", "-c", str(config))
    return Service(name="proxy", argv=argv, ready=Ready("tcp", layout.topology.gateway, PROXY_PORT))


def write_balancer(root: Path, topology: Topology) -> Path:
    """Write haproxy's configuration, which it reads when it starts; return its path."""
    config = root / "load-balancer.cfg"
    config.write_text(balancer.haproxy_config(topology))
    return config


def _load_balancer(layout: Layout) -> Service:
    """haproxy, in the place of the load balancer that users bring."""
    config = write_balancer(layout.root, layout.topology)
    ready = Ready("tcp", layout.topology.api_addresses[0], balancer.API_PORT)
    return Service(name="load-balancer", argv=("haproxy", "-db", "-f", str(config)), ready=ready)


def _tang(layout: Layout) -> Service:
    """tangd, which systemd's socket activation starts for each request."""
    make_tang_keys(layout.tang)
    place = f"{bracketed(layout.topology.gateway)}:{TANG_PORT}"
    argv = ("systemd-socket-activate", f"--listen={place}", "--accept", "--inetd", TANGD, str(layout.tang))
    return Service(name="tang", argv=argv, ready=Ready("tcp", layout.topology.gateway, TANG_PORT))


def _iscsi(layout: Layout) -> tuple[Service, ...]:
    """Describe the target of iSCSI disks, where a machine has one."""
    served = iscsi.config(layout)
    if served is None:
        return ()
    file = layout.root / "iscsi.json"
    file.write_bytes(msgspec.json.encode(served))
    ready = Ready("tcp", served.portals[-1], ISCSI_PORT)
    return (_python("iscsi", "lab.daemons.iscsi", [str(file)], ready=ready),)


def _bmc(layout: Layout, credentials: Credentials) -> Service:
    root = layout.root
    htpasswd = root / "bmc/htpasswd"
    _htpasswd(htpasswd, credentials.bmc_user, credentials.bmc_password)
    settings = {
        "SUSHY_EMULATOR_LISTEN_IP": layout.bmc_address,
        "SUSHY_EMULATOR_LISTEN_PORT": BMC_PORT,
        "SUSHY_EMULATOR_SSL_CERT": str(root / "server.crt"),
        "SUSHY_EMULATOR_SSL_KEY": str(root / "server.key"),
        "NODE0_ACCOUNTS": str(htpasswd),
        **(
            {"NODE0_MACHINED": str(layout.machined)}
            if layout.topology.machine == "container"
            else {"SUSHY_EMULATOR_LIBVIRT_URI": "qemu:///system"}
        ),
        "SUSHY_EMULATOR_STATE_DIR": str(root / "bmc/state"),
        "SUSHY_EMULATOR_STORAGE_POOL": POOL,
        "NODE0_HTTP_URL": layout.http_url,
        "NODE0_HTTPS_URL": layout.https_url,
        "NODE0_SHARES": (f"{layout.nfs_url}={layout.www}",),
        "NODE0_FRONTS": tuple(
            (node.name, layout.topology.bmc_of(node), layout.bmc_port(node))
            for node in layout.topology.nodes
            if layout.topology.bmc_of(node) != "lab"
        ),
        "NODE0_HTTP_ROOT": str(layout.www),
        "NODE0_BMC_REQUESTS": str(layout.log / "bmc-requests.jsonl"),
        "NODE0_UNREADY": str(layout.bmc_unready),
    }
    config = root / "bmc/emulator.conf"
    # Flask executes this file as Python.
    config.write_text("".join(f"{key} = {value!r}\n" for key, value in settings.items()))
    ready = Ready("tcp", layout.bmc_address, BMC_PORT)
    return _python("bmc", "lab.daemons.bmc", [str(config)], ready=ready, env={"TMPDIR": str(root / "bmc/tmp")})


def _ipmi(layout: Layout, credentials: Credentials) -> tuple[Service, ...]:
    """IPMI for all machines, where the topology wants it."""
    topology = layout.topology
    if not topology.ipmi:
        return ()
    from lab.daemons.ipmi import bmc as ipmi

    contained = topology.machine == "container"
    config = ipmi.Config(
        address=layout.bmc_address,
        user=credentials.bmc_user,
        password=credentials.bmc_password,
        owner=str(layout.machined) if contained else "qemu:///system",
        contained=contained,
        machines=tuple(
            ipmi.Place(
                node.name, layout.ipmi_port(node), str(layout.console_log(node)), str(layout.console_socket(node))
            )
            for node in topology.nodes
        ),
    )
    file = layout.root / "ipmi.json"
    write_private(file, msgspec.json.encode(config))
    return (_python("ipmi", "lab.daemons.ipmi.bmc", [str(file)]),)


def _http(layout: Layout) -> Service:
    """Describe the server of boot media; by HTTPS too where a BMC reads nothing else."""
    words = [str(layout.www), layout.topology.gateway, str(HTTP_PORT)]
    if any("http" not in profile_of(layout.topology.bmc_of(node)).media.schemes for node in layout.topology.nodes):
        words += [str(HTTPS_PORT), str(layout.root / "server.crt"), str(layout.root / "server.key")]
    return _python("http", "lab.daemons.httpd", words, ready=Ready("tcp", layout.topology.gateway, HTTP_PORT))


def _python(
    name: str,
    module: str,
    arguments: list[str],
    *,
    ready: Ready | None = None,
    by_request: bool = False,
    env: dict[str, str] | None = None,
) -> Service:
    """Describe a service that is a module of this package, run by this interpreter."""
    argv = (sys.executable, "-m", module, *arguments)
    own = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"}
    return Service(name=name, argv=argv, ready=ready, env=own | (env or {}), by_request=by_request)
