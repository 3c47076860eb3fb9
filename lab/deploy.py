"""Somebody's cluster, from the directory with its two files to its console, in a lab made for it (`node0-lab deploy`).

The directory stays as it is: a copy of it lies with the lab, and there the two files are given what a closed lab needs,
its registry, its CA, its SSH key and its clock, beside what they have.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.configs import Access
from lab.derive import AGENT, INSTALL
from lab.errors import InstallFailedError, TopologyError
from lab.lab import Lab
from lab.release.cluster import yamltext

log = logging.getLogger(__name__)

CREATE_SECONDS = 900
# The installer has limits of its own (reference/installer.md §8); this is for one that hangs.
WAIT_SECONDS = 4 * 3600
_TAIL_LINES = 12


def _decoded(path: Path) -> dict[str, Any]:
    try:
        found = yamltext.load(path.read_bytes())
    except OSError as error:
        raise TopologyError(str(path), f"{error.strerror}; the lab is made from it") from error
    except yaml.YAMLError as error:
        raise TopologyError(str(path), " ".join(str(error).split())) from error
    if not isinstance(found, dict):
        raise TopologyError(str(path), "must be a mapping")
    return found


def read(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """install-config.yaml and agent-config.yaml of a directory, decoded. Raises TopologyError."""
    return _decoded(directory / INSTALL), _decoded(directory / AGENT)


def adapt_install_config(config: dict[str, Any], access: Access) -> dict[str, Any]:
    """The same with the lab's registry, credentials, CA and key beside its own. Raises TopologyError."""
    try:
        secret = json.loads(config.get("pullSecret") or "{}")
        auths = {**(secret.get("auths") or {}), **json.loads(access.pull_secret)["auths"]}
    except (ValueError, AttributeError, TypeError) as error:
        raise TopologyError(INSTALL, f"pullSecret: not a dockerconfigjson ({error})") from error
    # The deprecated field cannot stand beside the new one.
    field = "imageContentSources" if config.get("imageContentSources") else "imageDigestSources"
    texts = {"additionalTrustBundle": access.trust_bundle, "sshKey": access.ssh_key}
    return {
        **config,
        "pullSecret": json.dumps({**secret, "auths": auths}),
        field: [*(config.get(field) or []), {"source": access.source, "mirrors": [access.mirror]}],
        **{key: "\n".join(filter(None, [str(config.get(key) or "").strip(), text])) for key, text in texts.items()},
    }


def adapt_agent_config(config: dict[str, Any], clock: str) -> dict[str, Any]:
    """The same with the lab as a further source of the time."""
    sources = config.get("additionalNTPSources") or []
    return {**config, "additionalNTPSources": [*sources, *([clock] if clock not in sources else [])]}


def _write(path: Path, content: dict[str, Any]) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


@dataclass(frozen=True)
class Deployment:
    """A lab that is up, and the command line of an installer; `pullspec` is the release to install."""

    lab: Lab
    installer: Sequence[str]
    pullspec: str

    @property
    def directory(self) -> Path:
        """The installer's --dir: with the lab it goes."""
        return self.lab.layout.root / "cluster"

    @property
    def kubeconfig(self) -> Path:
        """The user's kubeconfig, once the installer has written it."""
        return self.directory / "auth/kubeconfig"

    @property
    def console_url(self) -> str:
        """Where the console is when the cluster is installed."""
        return f"https://console-openshift-console.apps.{self.lab.topology.cluster_domain}"

    def prepare(self, source: Path, *, adapt: bool) -> None:
        """Copy the user's directory; with `adapt`, what the lab needs is added to its two files."""
        shutil.copytree(source, self.directory, ignore=shutil.ignore_patterns("*.iso"))
        self.directory.chmod(0o700)
        if adapt:
            install, agent = read(source)
            _write(self.directory / INSTALL, adapt_install_config(install, self.lab.access))
            _write(self.directory / AGENT, adapt_agent_config(agent, self.lab.topology.gateway))

    def _agent(self, *words: str, timeout: float) -> subprocess.CompletedProcess[str]:
        result = self.lab.run(
            [*self.installer, "agent", *words, "--dir", str(self.directory)],
            env={"OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": self.pullspec},
            name="-".join(words[:2]),
            timeout=timeout,
        )
        if result.returncode:
            tail = "\n".join((result.stdout + result.stderr).splitlines()[-_TAIL_LINES:])
            raise InstallFailedError(f"agent {' '.join(words[:2])}", result.returncode, tail)
        return result

    def create_image(self) -> Path:
        """`agent create image`; the image. Raises InstallFailedError."""
        with self.lab.phase("create image"):
            self._agent("create", "image", timeout=CREATE_SECONDS)
        [image] = self.directory.glob("agent.*.iso")
        return image

    def boot(self, image: Path) -> None:
        """Boot every machine from the image, through its BMC."""
        with self.lab.phase("boot"):
            for node in self.lab.nodes.values():
                node.boot_image(image)

    def wait(self) -> None:
        """`agent wait-for`, both targets. Raises InstallFailedError."""
        for target, options in (("bootstrap-complete", ()), ("install-complete", ("--skip-password-print",))):
            with self.lab.phase(f"wait-for {target}"):
                self._agent("wait-for", target, *options, timeout=WAIT_SECONDS)


def default_installer() -> list[str]:
    """node0 of the same environment, else the one in PATH."""
    beside = Path(sys.executable).with_name("node0")
    return [str(beside) if beside.exists() else shutil.which("node0") or "node0"]
