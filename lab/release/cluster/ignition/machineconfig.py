"""MachineConfigs: a node's configuration at first boot, rendered for each pool (reference/cluster.md §3, §4)."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence

from lab.release.cluster import templates
from lab.release.cluster.errors import ConfigError
from lab.release.cluster.ignition import containerd, keepalived
from lab.release.cluster.ignition import document as ignition
from lab.release.cluster.ignition.document import Config, file, unit
from lab.release.cluster.installconfig import InstallConfig
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.pods import pacemaker, staticpods
from lab.release.cluster.pods.pod import RESOURCES

API = "machineconfiguration.openshift.io/v1"
PREFIX = "machineconfiguration.openshift.io"
ROLE = f"{PREFIX}/role"
#: Node labels by which a kubelet says what it booted with; node-role.kubernetes.io/* it may not set itself (§4).
CURRENT = f"{PREFIX}/booted-config"
#: How long a host may take to have its addresses: longer than NetworkManager tries DHCP (45 s).
NODE_IP_SECONDS = 180
#: As MCO's (templates/common/_base/files/sdn.yaml): NetworkManager makes a connection of its own for a pod's new veth,
#: and took one out of the pods' bridge for it, so that nobody reached that pod any more.
SDN_CONF = "[device]\nmatch-device=interface-name:veth*;interface-name:cni0\nmanaged=0\n"
#: What brings a node's kernel arguments into force at its first boot, and the file that it works by (§3.2).
FIRSTBOOT = "machine-config-daemon-firstboot.service"
PROXY_ENV = "/etc/mco/proxy.env"
FIRSTBOOT_SCRIPT = "machine-config-daemon-firstboot.sh"
#: The ConfigMap with the image and the version of the release's machine OS.
OS_IMAGE, OS_NAMESPACE = "machine-config-osimageurl", "openshift-machine-config-operator"
#: Fields of a MachineConfig that this machine OS has nothing for, and the value that asks for nothing. The machine OS
#: is the release's own.
UNSUPPORTED = {"extensions": [], "kernelType": "default", "osImageURL": "", "baseOSExtensionsContainerImage": ""}
ENCAPSULATED = "/etc/ignition-machine-config-encapsulated.json"
#: What an administrator finds on control plane nodes for a backup and the way back (docs/backup.md).
RESCUE = ("etcd-common-tools", "cluster-backup.sh", "cluster-restore.sh", "quorum-restore.sh", "disable-etcd.sh")


def machine_addresses(config: InstallConfig) -> list[str]:
    """Return an address in the first machine network of each family, to ask the kernel by which of its own it would go
    there."""
    networks = [ipaddress.ip_network(text) for text in config.machine_networks]
    firsts = {network.version: str(network[1]) for network in reversed(networks)}
    return [firsts[version] for version in config.families if version in firsts] or [str(networks[0][1])]


def node_ip_script(config: InstallConfig) -> Config:
    """Return the file of the script that finds a host's own address."""
    values = {"machine_addresses": " ".join(machine_addresses(config)), "wait_seconds": str(NODE_IP_SECONDS)}
    content = templates.fill("node-ip.sh", **values)
    return file("/usr/local/bin/node-ip.sh", content, 0o755)


def machine_config(
    name: str,
    role: str,
    config: Config,
    kernel_arguments: Sequence[str] = (),
    *,
    fips: bool = False,
    os_image: str = "",
) -> Object:
    """Return a MachineConfig object; what was rendered has no role."""
    further = {"kernelArguments": list(kernel_arguments), "fips": fips, "osImageURL": os_image}
    return {
        "apiVersion": API,
        "kind": "MachineConfig",
        "metadata": {"name": name} | ({"labels": {ROLE: role}} if role else {}),
        "spec": {"config": config} | {key: value for key, value in further.items() if value},
    }


def kernel_arguments(config: Object) -> list[str]:
    """Return a MachineConfig's kernel arguments, a word each. Raises ConfigError for what no boot loader could pass
    on."""
    arguments = config["spec"].get("kernelArguments") or []
    source = f"MachineConfig {config['metadata']['name']}"
    if not isinstance(arguments, list) or not all(isinstance(text, str) for text in arguments):
        raise ConfigError(source, "spec.kernelArguments", "must be a list of strings")
    for index, text in enumerate(arguments):
        # As coreos-installer, which writes the arguments of the installation between the same quotes.
        if any(sign in text for sign in "\"'$\\`") or not text.isprintable():
            rule = f"{text!r}: quotes, '$' and backslashes are not supported"
            raise ConfigError(source, f"spec.kernelArguments[{index}]", rule)
    return [word for text in arguments for word in text.split()]


def registry_files(config: InstallConfig) -> list[Config]:
    """Mirrors, CA and credentials for containerd and podman on a node."""
    files = containerd.hosts_files(config.mirrors, config.trust_bundle)
    files.append(file("/root/.docker/config.json", config.pull_secret, 0o600))
    if config.mirrors:
        files.append(file("/etc/containers/registries.conf", containerd.registries_conf(config)))
    if config.trust_bundle:
        files.append(file(containerd.TRUST_ANCHOR, config.trust_bundle))
    return files


def _kubelet_conf(config: InstallConfig) -> str:
    # No cloud's volumes are migrated to CSI here, and a kubelet of 1.20 would be NotReady until it has noted that there
    # are none: it tries at 0, 0, 0.1, 0.6 and 4 s, and then 20 s later, while it registers its node each 7 s.
    gates = {"CSIMigration": False} | ({"IPv6DualStack": True} if config.dual_stack else {})
    return templates.fill(
        "kubelet.conf",
        dns_ip=config.dns_ip,
        any_address=config.any_address,
        feature_gates=json.dumps(gates),
        lease_seconds=str(config.node_grace_seconds),
    )


def _proxy_files(config: InstallConfig) -> list[Config]:
    """Return the cluster's proxy as variables, for units that pull images; nothing without one."""
    variables = {"HTTP_PROXY": "httpProxy", "HTTPS_PROXY": "httpsProxy"}
    lines = [f"{name}={config.proxy[key]}\n" for name, key in variables.items() if config.proxy.get(key)]
    # A proxy's address may hold its password.
    return [file(PROXY_ENV, "".join([*lines, f"NO_PROXY={config.no_proxy}\n"]), 0o600)] if lines else []


def _proxy_dropins(config: InstallConfig) -> dict[str, str]:
    return {"10-mco-default-env.conf": f"[Service]\nEnvironmentFile={PROXY_ENV}\n"} if _proxy_files(config) else {}


def _sysctls(config: InstallConfig) -> str:
    forwarding = {4: "net.ipv4.ip_forward=1\n", 6: "net.ipv6.conf.all.forwarding=1\n"}
    return "".join(forwarding[version] for version in config.families) + "vm.overcommit_memory=1\n"


def standard(config: InstallConfig, images: Images, role: str) -> list[Object]:
    """Return the MachineConfigs that every node of a role has."""
    containerd_toml = templates.fill(
        "containerd.toml", pod_image=images["pod"], registry_auth=containerd.registry_auth(config.pull_secret)
    )
    rescue = [file(f"/usr/local/bin/{name}", templates.text(name), 0o755) for name in RESCUE if role == "master"]
    base = ignition.config(files=[*registry_files(config), *rescue], ssh_key=config.ssh_key)
    runtime = ignition.config(
        files=[
            file("/etc/containerd/config.toml", containerd_toml, 0o600),
            file("/etc/containerd/cni.conflist.tmpl", templates.text("cni.conflist.tmpl")),
            *_proxy_files(config),
        ],
        units=[unit("containerd.service", dropins=_proxy_dropins(config))],
    )
    kubelet = ignition.config(
        files=[
            file("/etc/kubernetes/kubelet.conf", _kubelet_conf(config)),
            file("/etc/kubernetes/kubelet.env", f"POD_IMAGE={images['pod']}\n"),
            node_ip_script(config),
            file("/usr/local/bin/end-containers.sh", templates.text("end-containers.sh"), 0o755),
            file(f"/usr/local/bin/{FIRSTBOOT_SCRIPT}", templates.text(FIRSTBOOT_SCRIPT), 0o755),
            file("/etc/NetworkManager/conf.d/sdn.conf", SDN_CONF),
            # the kernel settings that kubelet's service proxy neighbours expect; the bridge plugin forwards
            file("/etc/sysctl.d/99-kubernetes.conf", _sysctls(config)),
        ],
        units=[
            unit("nodeip-configuration.service", templates.text("nodeip-configuration.service")),
            unit("end-containers.service", templates.text("end-containers.service")),
            unit("kubelet.service", templates.text("kubelet.service")),
            unit(FIRSTBOOT, templates.text(FIRSTBOOT)),
        ],
    )
    configs = [
        machine_config(f"00-{role}", role, base),
        machine_config(f"01-{role}-container-runtime", role, runtime),
        machine_config(f"01-{role}-kubelet", role, kubelet),
    ]
    # An arbiter answers neither for the API nor for the ingress.
    if config.holds_vips and role != "arbiter":
        configs.append(machine_config(f"02-{role}-keepalived", role, _keepalived(config, images, role)))
    if config.fenced and role == "master":
        configs.append(machine_config(f"02-{role}-pacemaker", role, _pacemaker(config, images)))
    return configs


def _pacemaker(config: InstallConfig, images: Images) -> Config:
    """Pacemaker as a service that begins when the node has been told what to do; not in the machine OS, which clusters
    of all other sizes would carry it in."""
    plan = f"{pacemaker.DIRECTORY}/{pacemaker.PLAN}"
    service = templates.fill("pacemaker.service", plan=plan, image=images["pacemaker"])
    return ignition.config(
        units=[
            unit("pacemaker.service", service, enabled=False, dropins=_proxy_dropins(config)),
            unit("pacemaker.path", templates.fill("pacemaker.path", plan=plan), enabled=True),
        ]
    )


def fips(config: InstallConfig) -> dict[str, list[Object]]:
    """Return the manifests by which a cluster in FIPS mode has its nodes in it, one for each pool, with the names that
    OpenShift's installer gives them; none without FIPS."""
    names = {role: f"99-{role}-fips" for role in config.pools if config.fips}
    return {
        f"99_openshift-machineconfig_{name}.yaml": [machine_config(name, role, ignition.config(), fips=True)]
        for role, name in names.items()
    }


def _keepalived(config: InstallConfig, images: Images, role: str) -> Config:
    """keepalived as a static pod, its configuration but for the interface, which the host fills in at each start."""
    template = f"{RESOURCES}/keepalived/keepalived.conf.tmpl"
    manifest = staticpods.keepalived().manifest(images)
    return ignition.config(
        files=[
            file(template, keepalived.node(config, role), 0o600),
            file(keepalived.CHECK_ROUTER, templates.text("check-router.sh"), 0o555),
            file("/etc/kubernetes/manifests/keepalived.yaml", manifest, 0o600),
        ]
    )


def matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector takes an object with these labels; an empty one takes all, none takes none."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for rule in selector.get("matchExpressions") or []:
        present, value = rule["key"] in labels, labels.get(rule["key"])
        verdict = {
            "In": present and value in (rule.get("values") or []),
            "NotIn": not present or value not in (rule.get("values") or []),
            "Exists": present,
            "DoesNotExist": not present,
        }
        if not verdict.get(rule["operator"], False):
            return False
    return True


def selected(pool: Object, configs: Iterable[Object]) -> list[Object]:
    """Return a pool's MachineConfigs in the order in which they are merged: by name, those of role `worker` before a
    custom pool's own."""
    labels = [(config, config["metadata"].get("labels") or {}) for config in configs]
    chosen = [(c, own) for c, own in labels if own and matches(pool["spec"].get("machineConfigSelector"), own)]
    return [c for c, own in sorted(chosen, key=lambda e: (e[1].get(ROLE) != "worker", str(e[0]["metadata"]["name"])))]


def _problems(config: Config) -> list[tuple[str, str]]:
    # Each node's daemon reads this module, and checks nothing.
    from lab.release.cluster.ignition.validation import problems

    return problems(config)


def check(configs: Iterable[Object]) -> None:
    """Raise ConfigError with all that is wrong with MachineConfigs, or is asked of them and cannot be done."""
    wrong = []
    for entry in configs:
        name, spec = f"MachineConfig {entry['metadata']['name']}", entry["spec"]
        own = (
            [(f"spec.config.{field}", rule) for field, rule in _problems(spec["config"])] if spec.get("config") else []
        )
        own += [
            (f"spec.{field}", f"{spec[field]!r}: is not supported by this machine OS")
            for field, usual in UNSUPPORTED.items()
            if spec.get(field) and spec[field] != usual
        ]
        try:
            kernel_arguments(entry)
        except ConfigError as error:
            own.append((error.field, error.rule))
        wrong += [f"{name}: {field}: {rule}" for field, rule in own]
    if wrong:
        raise ConfigError(wrong[0].partition(": ")[0], "", "; ".join([wrong[0].partition(": ")[2], *wrong[1:]]))


def rendered(pool: str, configs: Sequence[Object], os_image: str) -> Object:
    """Return MachineConfigs, in the order of `selected`, merged into one; its name carries the hash of its content, the
    image of the release's machine OS included.

    Kernel arguments add up, and one with `fips` is enough. Files replace what is there, as the daemon does it, unless
    they say otherwise. Raises ConfigError.
    """
    merged: Config = ignition.config()
    arguments: list[str] = []
    check(configs)
    for entry in configs:
        merged = ignition.merge(merged, entry["spec"].get("config") or {})
        arguments += kernel_arguments(entry)
    if files := (merged.get("storage") or {}).get("files"):
        whole = [entry if "overwrite" in entry else {**entry, "overwrite": True} for entry in files]
        merged = {**merged, "storage": {**merged["storage"], "files": whole}}
    if wrong := _problems(merged):
        raise ConfigError(f"pool {pool}, merged", "", "; ".join(": ".join(pair) for pair in wrong))
    mode = any(entry["spec"].get("fips") is True for entry in configs)
    content = json.dumps([merged, arguments, mode, os_image], sort_keys=True)
    digest = hashlib.md5(content.encode(), usedforsecurity=False).hexdigest()
    return machine_config(f"rendered-{pool}-{digest}", "", merged, arguments, fips=mode, os_image=os_image)


def configuration(current: Object, sources: Iterable[Object]) -> Object:
    """Return the reference of a pool to what was rendered, and from what."""
    names = [{"apiVersion": API, "kind": "MachineConfig", "name": c["metadata"]["name"]} for c in sources]
    return {"apiVersion": API, "kind": "MachineConfig", "name": current["metadata"]["name"], "source": names}


def machine_config_pool(pool: str) -> Object:
    """Return the pool's object, before anything was rendered for it."""
    return {
        "apiVersion": API,
        "kind": "MachineConfigPool",
        "metadata": {
            "name": pool,
            # By the second, KubeletConfigs select it.
            "labels": {f"{PREFIX}/mco-built-in": "", f"pools.operator.{PREFIX}/{pool}": ""},
        },
        "spec": {
            "machineConfigSelector": {"matchLabels": {ROLE: pool}},
            "nodeSelector": {"matchLabels": {f"node-role.kubernetes.io/{pool}": ""}},
            "paused": False,
        },
    }


def served(pool: str, current: Object, bootstrap_kubeconfig: str, kubelet_ca: str, *, os_id: str = "node0") -> Config:
    """Return the config served to a node of the pool: the rendered one and what only the server adds (§3.2)."""
    name, mode = current["metadata"]["name"], current["spec"].get("fips") is True
    encapsulated = machine_config(name, "", ignition.config(), kernel_arguments(current), fips=mode)
    annotations = {
        f"{PREFIX}/currentConfig": name,
        f"{PREFIX}/desiredConfig": name,
        f"{PREFIX}/firstPivotConfig": name,
        f"{PREFIX}/state": "Done",
    }
    labels = {"node.openshift.io/os_id": os_id, ROLE: pool, CURRENT: name}
    text = ",".join(f"{key}={value}" for key, value in labels.items())
    added = [
        file("/etc/machine-config-daemon/node-annotations.json", json.dumps(annotations)),
        file("/etc/kubernetes/kubeconfig", bootstrap_kubeconfig, 0o600),
        file("/etc/kubernetes/kubelet-ca.crt", kubelet_ca),
        file("/etc/kubernetes/kubelet-labels.env", f"KUBELET_NODE_LABELS={text}\n"),
        file("/etc/mcs-machine-config-content.json", json.dumps(current), 0o600, compress=True),
        file(ENCAPSULATED, json.dumps(encapsulated)),
    ]
    return ignition.merge(current["spec"]["config"], ignition.config(files=added))


def role_of(node: Object) -> str:
    """Return the pool that a node reports to have booted from; empty when it reports none."""
    return str((node["metadata"].get("labels") or {}).get(ROLE, ""))
