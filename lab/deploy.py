"""Deploy a cluster in a lab, from its two config files to its console; used by `node0-lab deploy` and scenarios.

The user's directory is not changed: the lab works on a copy, and adds to the two files there what a disconnected lab
needs: its registry, CA, SSH key and NTP server.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import yaml

from installer.common.formats import YamlError, yamltext
from installer.common.inputs import read_input
from installer.common.secretfiles import write_private
from lab import boots, seam
from lab.derive import AGENT, INSTALL, derive
from lab.derive.cluster import label
from lab.derive.inputs import ask
from lab.errors import ConfigsError, InstallFailedError, TopologyError
from lab.inputs import ztp
from lab.inputs.changes import differences
from lab.inputs.configs import Access, boot_fields, merged_secret, spelled, through_proxy
from lab.lab import Lab
from lab.layout import bracketed
from lab.subject import Subject
from lab.subject.installer import default_installer, is_ours
from lab.topology import FROM_STICK, Firmware, Topology
from lab.waiting import wait_until

log = logging.getLogger(__name__)

CREATE_SECONDS = 900
# The installer has time-outs of its own (reference/installer.md §8); this one is for an installer that hangs.
WAIT_SECONDS = 4 * 3600
_TAIL_LINES = 12
SERVICE_PORT = 8090
REST_SECONDS = 10.0
# Where the installer keeps what waiting commands need.
STATE = ".openshift_install_state.json"
_RELEASE = "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
# A cluster in FIPS mode wants a host in FIPS mode, which this one need not be.
_ANY_HOST = {"OPENSHIFT_INSTALL_SKIP_HOSTCRYPT_VALIDATION": "true"}


def _decoded(path: Path) -> dict[str, Any]:
    try:
        document = yamltext.load(read_input(path))
    except OSError as error:
        raise TopologyError(str(path), f"{error.strerror}; the lab is made from it") from error
    except YamlError as error:
        raise TopologyError(str(path), " ".join(str(error).split())) from error
    if not isinstance(document, dict):
        kind = "nothing" if document is None else type(document).__name__
        raise TopologyError(str(path), f"must be a mapping, is {kind}")
    return document


def read(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return install-config.yaml and agent-config.yaml of a directory, decoded. Raises ConfigsError for all that
    cannot.

    agent-config.yaml may be as it was before its first release: no apiVersion, and its fields under `spec`.
    """
    configs: list[dict[str, Any]] = []
    wrong: list[tuple[str, str]] = []
    for name in (INSTALL, AGENT):
        try:
            configs.append(_decoded(directory / name))
        except TopologyError as error:
            wrong.append((error.source, error.message))
    if wrong:
        raise ConfigsError(wrong)
    install, agent = configs
    return install, _released(agent)


def read_install(directory: Path) -> dict[str, Any]:
    """Return install-config.yaml alone, decoded. Raises TopologyError."""
    return _decoded(directory / INSTALL)


def _released(agent: dict[str, Any]) -> dict[str, Any]:
    """Return agent-config.yaml in the form that it has since its first release."""
    spec = agent.get("spec")
    if "apiVersion" in agent or not isinstance(spec, dict):
        return agent
    return {"apiVersion": "v1alpha1", **{key: value for key, value in agent.items() if key != "spec"}, **spec}


def topology_for(
    directory: Path,
    *,
    installer: Sequence[str] = (),
    firmware: Firmware = "uefi",
    memory_mib: int | None = None,
    vcpu: int | None = None,
) -> Topology:
    """Return the lab for the cluster of a directory, whose inputs node0 reads: the `installer` if it is one, else our
    own. Raises TopologyError, ConfigsError."""
    reader = installer if installer and is_ours(installer) else default_installer()
    # The lab puts the release that it installs in the place of the one that manifests name.
    release = ztp.release_image(directory) if ztp.is_ztp(directory) else ""
    inputs = ask(reader, directory, {**_ANY_HOST, **({_RELEASE: release} if release else {})})
    return derive(inputs, firmware=firmware, memory_mib=memory_mib, vcpu=vcpu)


def without_stand_ins(topology: Topology) -> Topology:
    """Return the topology without the addresses, proxy and Tang server that the lab has in the place of others'."""
    networks = tuple(msgspec.structs.replace(network, aliases=()) for network in topology.networks)
    return msgspec.structs.replace(topology, networks=networks, aliases=(), proxy=False, tang=False)


def stood_in(topology: Topology) -> list[str]:
    """Return the addresses of the files' routers and servers at which the lab answers besides its own."""
    return [text for network in topology.all_networks for text in network.aliases]


def adapt_install_config(config: dict[str, Any], access: Access) -> dict[str, Any]:
    """Return the config with the lab's registry, credentials, CA and SSH key added. Raises TopologyError."""
    try:
        secret = merged_secret(config.get(spelled(config, "pullSecret")) or "", access)
    except ValueError as error:
        raise TopologyError(INSTALL, f"pullSecret: {error}") from None
    # The deprecated field and the new one exclude each other.
    deprecated = spelled(config, "imageContentSources")
    field = deprecated if config.get(deprecated) else spelled(config, "imageDigestSources")
    mirrors = config.get(field) or []
    texts = {
        spelled(config, "additionalTrustBundle"): access.trust_bundle, spelled(config, "sshKey"): access.ssh_key,
    }  # fmt: skip
    return {
        **config,
        spelled(config, "pullSecret"): secret,
        # What is no list is the installer's to refuse.
        field: [*mirrors, *access.digest_sources] if isinstance(mirrors, list) else mirrors,
        **{key: "\n".join(filter(None, [str(config.get(key) or "").strip(), text])) for key, text in texts.items()},
    }


def inputs(directory: Path, skip: Collection[Path] = ()) -> list[Path]:
    """List a user's files at any depth, folders before what is in them, without images and without the folders
    `skip`: those of labs may lie below it. Raises TopologyError for a link to a folder, which may lead anywhere, and
    for what is no file."""
    found: list[Path] = []
    wrong: list[str] = []
    left_out = {path.resolve() for path in skip}
    for folder, names, files in os.walk(directory):
        names[:] = [n for n in names if Path(folder, n).resolve() not in left_out and not n.endswith(".iso")]
        for path in (Path(folder, name) for name in sorted((*names, *files)) if not name.endswith(".iso")):
            found.append(path.relative_to(directory))
            if path.is_symlink() and path.is_dir():
                wrong.append(f"{found[-1]}: is a link to a folder: have the folder itself there")
            elif not path.is_file() and not path.is_dir():
                wrong.append(f"{found[-1]}: is neither a file nor a folder")
    if wrong:
        raise TopologyError(str(directory), wrong)
    return found


def fenced_by_lab(config: dict[str, Any], access: Access, topology: Topology) -> dict[str, Any]:
    """Return the config with the lab's BMCs in the place of those that its control plane nodes are fenced by, each by
    the host name or, as newer installers have it, by a MAC address of the host's; without fencing, as it is."""
    ours = {bmc.host: bmc.credential() for bmc in access.bmcs}
    fenced = [node for node in topology.nodes if node.name in ours]
    by_mac = {_digits(mac): ours[node.name] for node in fenced for _, mac in node.mac_fields}

    def replaced(entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        name, mac = (str(entry.get(spelled(entry, key)) or "") for key in ("hostName", "macAddress"))
        credential = ours.get(label(name)) or by_mac.get(_digits(mac)) or {}
        return {**entry, **{spelled(entry, key): value for key, value in credential.items()}}

    def within(value: Any, *names: str) -> Any:
        """Return the same with credentials replaced, which lie at the end of these fields."""
        if not names:
            return [replaced(entry) for entry in value] if isinstance(value, list) else value
        if not isinstance(value, dict) or (key := spelled(value, names[0])) not in value:
            return value
        return {**value, key: within(value[key], *names[1:])}

    changed: dict[str, Any] = within(config, "controlPlane", "fencing", "credentials")
    return changed


def _digits(mac: str) -> str:
    return re.sub("[:.-]", "", mac.lower())


def adapt_agent_config(config: dict[str, Any], topology: Topology) -> dict[str, Any]:
    """Return the config with the lab's NTP server added, and where hosts find what they boot."""
    named, clock = spelled(config, "additionalNTPSources"), topology.gateway
    sources = config.get(named) or []
    fields = {named: [*sources, *([clock] if clock not in sources else [])]}
    return {**config, **fields, **{spelled(config, name): value for name, value in boot_fields(topology).items()}}


def console_url(topology: Topology) -> str:
    """Return the URL of a cluster's console."""
    return f"https://console-openshift-console.apps.{topology.cluster_domain}"


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a config, which may hold the pull secret."""
    write_private(path, yaml.safe_dump(content, sort_keys=False))


#: What `agent wait-for` waits for, one after the other.
WaitTarget = Literal["bootstrap-complete", "install-complete"]


@dataclass(frozen=True)
class Deployment:
    """A running lab, the release to install in it, and the installer's command line."""

    lab: Lab
    installer: Sequence[str]
    release: Subject
    log_level: str = "info"

    @property
    def directory(self) -> Path:
        """The installer's --dir: it has keys, and is removed with the lab. Only files without secrets are evidence."""
        return self.lab.layout.root / "cluster"

    @property
    def topology(self) -> Topology:
        """The lab's topology."""
        return self.lab.topology

    @property
    def kubeconfig(self) -> Path:
        """The user's kubeconfig, once the installer has written it."""
        return self.directory / "auth/kubeconfig"

    @property
    def console_url(self) -> str:
        """The console's URL, once the cluster is installed."""
        return console_url(self.topology)

    def prepare(self, source: Path, *, adapt: bool, as_is: bool = False, skip: Collection[Path] = ()) -> list[str]:
        """Copy the user's directory (`inputs`); with `adapt`, add what the lab needs to its two files or its manifests:
        `as_is`, what its registry needs alone. Returns a line for each field that changed, without secrets. Raises
        TopologyError."""
        self.directory.mkdir(mode=0o700)
        for path in inputs(source, skip):
            if (source / path).is_dir():
                (self.directory / path).mkdir()
            else:
                shutil.copy2(source / path, self.directory / path)
        if not adapt:
            return []
        if ztp.is_ztp(source):
            return ztp.adapt(self.directory, self.topology, self.lab.access, self.release.pullspec, as_is=as_is)
        before = read(source)
        install, agent = before
        install = through_proxy(adapt_install_config(install, self.lab.access), self.topology)
        if not as_is:
            install = fenced_by_lab(install, self.lab.access, self.topology)
            agent = adapt_agent_config(agent, self.topology)
        files = {INSTALL: install, AGENT: agent}
        lines = []
        for (name, after), known in zip(files.items(), before, strict=True):
            if changed := list(differences(name, known, after)):
                write(self.directory / name, after)
            lines += changed
        return lines

    def agent(self, *words: str, timeout: float, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run `<installer> agent WORDS --dir DIR` in the lab; any exit code is a result, its output is evidence."""
        return self.node0("agent", *words, timeout=timeout, directory=directory)

    def node0(self, *words: str, timeout: float, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run `<installer> WORDS --dir DIR` in the lab; any exit code is a result, its output is evidence."""
        name = "-".join(takewhile(lambda word: not word.startswith(("-", "/")), words[words[0] == "agent" :]))
        argv = self.argv(*words, directory=directory)
        return self.lab.run(argv, env=self.environment(), name=name, timeout=timeout)

    def argv(self, *words: str, directory: Path | None = None) -> list[str]:
        """Return the command line `<installer> WORDS --dir DIR`."""
        where = str(directory or self.directory)
        return [*self.installer, *words, "--dir", where, "--log-level", self.log_level]

    def environment(self) -> dict[str, str]:
        """Return the variables that the installer is run with."""
        return {_RELEASE: self.release.pullspec, **_ANY_HOST, **self._tools()}

    def _tools(self) -> Mapping[str, str]:
        """Variables with which an installer that is not ours finds the programs that it starts (docs/seam.md)."""
        if is_ours(self.installer):
            return {}
        folder = self.lab.layout.root / "tools"
        seam.write_programs(folder, default_installer())
        return seam.environment(folder, self.lab.layout.root / "installer-cache")

    def create(self, target: boots.Target, directory: Path | None = None) -> None:
        """Run `agent create TARGET`. Raises InstallFailedError."""
        succeeded(f"agent create {target}", self.agent("create", target, timeout=CREATE_SECONDS, directory=directory))

    def edit_cluster_install(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Have the installer make the manifests, and change AgentClusterInstall among them, as users do where neither
        config has a field for something. Raises InstallFailedError."""
        self.create("cluster-manifests")
        path = self.directory / "cluster-manifests/agent-cluster-install.yaml"
        manifest = _decoded(path)
        edit(manifest)
        write(path, manifest)

    def create_image(self) -> Path:
        """Make what the machines boot, by the topology's way; returns the image. Raises InstallFailedError."""
        with self.lab.phase("create image"):
            return boots.make(self)

    def boot(self, *names: str, image: Path | None = None) -> None:
        """Boot these machines (default: all) by the topology's way, or from an image in their drives."""
        nodes = [self.lab.nodes[name] for name in names or self.lab.nodes]
        with self.lab.phase("insert media"):
            for node in nodes:
                if image is None:
                    boots.provide(self, node)
                else:
                    node.media.insert(image)
        with self.lab.phase("power on"):
            for node in nodes:
                node.start(from_stick=image is None and self.topology.boot in FROM_STICK)
        if image is None:
            boots.after_power_on(self, nodes)

    def wait_for(self, target: WaitTarget, timeout: float, *options: str) -> subprocess.CompletedProcess[str]:
        """Run `agent wait-for TARGET OPTIONS`; any exit code is a result."""
        with self.lab.phase(f"wait-for {target}"):
            return self._wait_for(target, timeout, *options)

    def _wait_for(self, target: WaitTarget, timeout: float, *options: str) -> subprocess.CompletedProcess[str]:
        # A command's output is evidence, and evidence may hold no secret.
        words = [target, "--skip-password-print"] if target == "install-complete" else [target]
        return self.waiting(*words, *options, timeout=timeout)

    def waiting(self, *words: str, timeout: float) -> subprocess.CompletedProcess[str]:
        """Run `agent wait-for WORDS`; any exit code is a result."""
        return self.agent("wait-for", *words, timeout=timeout)

    def wait(self, timeout: float = WAIT_SECONDS) -> None:
        """Run `agent wait-for` for both targets, each for `timeout` seconds at most. Raises InstallFailedError."""
        for target in get_args(WaitTarget):
            with self.lab.phase(f"wait-for {target}"):
                succeeded(f"agent wait-for {target}", self._wait_for(target, timeout))

    def rest(self, path: str) -> Any:
        """Return the rendezvous service's answer to GET /api/assisted-install/v2/PATH, decoded; asked with a watcher's
        token, as `wait-for` does. Raises OSError while it does not answer."""
        state = json.loads((self.directory / STATE).read_bytes())["node0"]
        address = f"{bracketed(state['rendezvousIP'])}:{SERVICE_PORT}"
        return self.rest_of(address, path, token=state["watcherToken"], ca=state["serviceCACert"])

    def rest_of(self, address: str, path: str, *, token: str, ca: str) -> Any:
        """Return the answer of the service at ADDRESS:PORT, whose CA this certificate is, as `rest` does."""
        url = f"https://{address}/api/assisted-install/v2/{path}"
        request = urllib.request.Request(url, headers={"Watcher-Authorization": token})
        context = ssl.create_default_context(cadata=ca)

        def ask() -> Any:
            try:
                with urllib.request.urlopen(request, context=context, timeout=REST_SECONDS) as answer:
                    return json.load(answer)
            except (HTTPException, ValueError) as error:
                raise OSError(f"{url}: {error}") from error

        return self.lab.inside(ask)

    def console_log(self, host: str) -> Path:
        """Return the file with a host's console."""
        return self.lab.layout.console_log(self.lab.nodes[host].spec)

    def disk_is_written(self, name: str, seconds: float, mib: int = 64) -> None:
        """Wait until `mib` MiB of a machine's disk are allocated: its image is being written. Raises WaitTimeout."""
        disk = self.lab.layout.disk(self.lab.nodes[name].spec)

        def written() -> int:
            return disk.stat().st_blocks * 512 >> 20

        with self.lab.phase(f"{name} writes its disk"):
            wait_until(lambda: written() >= mib, seconds, f"{mib} MiB of the disk of {name}", written, poll=0.2)

    def keep_evidence(self) -> None:
        """Copy the installer's files that hold no secrets: its log, the REST events, hosts, logs of a failure."""
        target = self.lab.artifacts / "installer"
        target.mkdir(parents=True, exist_ok=True)
        for name in (".openshift_install.log", "rendezvousIP"):
            if (self.directory / name).is_file():
                shutil.copyfile(self.directory / name, target / name.lstrip("."))
        if (self.directory / "logs").is_dir():
            shutil.copytree(self.directory / "logs", target / "logs", dirs_exist_ok=True)


def succeeded(what: str, result: subprocess.CompletedProcess[str]) -> None:
    """Raise InstallFailedError for a command of the installer's that failed."""
    if result.returncode:
        tail = "\n".join((result.stdout + result.stderr).splitlines()[-_TAIL_LINES:])
        raise InstallFailedError(what, result.returncode, tail)
