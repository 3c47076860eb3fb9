"""The node outside of pacemaker's container, and what pacemaker knows: programs, one line each way."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from lab.release.cluster.errors import AgentError

#: The machine's own namespaces: pacemaker's container shares its process numbers.
HOST = ("nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--")
SECONDS = 60.0
#: crm_attribute's exit code for an attribute that is not there (CRM_EX_NOSUCH).
_NO_SUCH = 105


def run(argv: Sequence[str], seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Run a program; any exit code is a result. Raises AgentError when it takes longer."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AgentError(" ".join(argv[:3]), str(error)) from error


def must(argv: Sequence[str], seconds: float = SECONDS) -> str:
    """Return a program's output. Raises AgentError when it fails."""
    completed = run(argv, seconds)
    if completed.returncode:
        raise AgentError(" ".join(argv[:3]), " ".join((completed.stderr or completed.stdout).split())[-300:])
    return completed.stdout


def on_host(*words: str, seconds: float = SECONDS) -> str:
    """Return a program's output, run on the node itself. Raises AgentError."""
    return must([*HOST, *words], seconds)


@dataclass(frozen=True)
class Etcd:
    """etcd on this node, as a unit that runs podman."""

    image: str
    command: Sequence[str]
    env: dict[str, str]
    certs: str
    data: str

    @staticmethod
    def active() -> bool:
        """Return whether it runs."""
        return run([*HOST, "systemctl", "is-active", "--quiet", "etcd.service"]).returncode == 0

    def pull(self, seconds: float) -> None:
        """Have the image here. Raises AgentError."""
        if run([*HOST, "podman", "image", "exists", self.image]).returncode:
            on_host("podman", "pull", "--quiet", "--authfile", "/root/.docker/config.json", self.image, seconds=seconds)

    def start(self, *more: str) -> None:
        """Start it with further options, which win. Raises AgentError."""
        argv = ["/usr/bin/podman", "run", "--rm", "--replace", "--name", "etcd", "--net", "host", "--detach"]
        argv += [
            "--sdnotify=conmon",
            "--cgroups=no-conmon",
            "--log-driver",
            "passthrough",
            "--stop-timeout",
            "30",
            "--http-proxy=false",
            "--pull",
            "never",
        ]
        argv += ["--volume", f"{self.certs}:{self.certs}:ro", "--volume", f"{self.data}:{self.data}"]
        for name, value in self.env.items():
            argv += ["--env", f"{name}={value}"]
        names = {word.partition("=")[0] for word in more}
        command = [word for word in self.command if word.partition("=")[0] not in names]
        argv += ["--entrypoint", command[0], self.image, *command[1:], *more]
        run([*HOST, "systemctl", "reset-failed", "etcd.service"])
        # Detached: an attached podman asks four times a second whether its container is still there.
        unit = ["systemd-run", "--quiet", "--collect", "--unit=etcd", "--description=etcd, run by pacemaker"]
        on_host(*unit, "--service-type=notify", "--property=NotifyAccess=all", *argv)

    @staticmethod
    def stop() -> None:
        """Stop it, and wait until it has ended. Raises AgentError."""
        run([*HOST, "podman", "stop", "--ignore", "--time", "30", "etcd"], 90.0)
        run([*HOST, "systemctl", "stop", "etcd.service"], 90.0)
        run([*HOST, "podman", "rm", "--force", "--ignore", "etcd"])


def attribute(name: str) -> str:
    """Return a property of the cluster, which both nodes know and keep; empty when there is none. Raises AgentError."""
    argv = ["crm_attribute", "--name", name, "--query", "--quiet"]
    completed = run(argv)
    if completed.returncode == _NO_SUCH:
        return ""
    if completed.returncode:
        raise AgentError(" ".join(argv[:3]), " ".join((completed.stderr or completed.stdout).split())[-300:])
    return completed.stdout.strip()


def set_attribute(name: str, value: str) -> None:
    """Set it, or delete it when the value is empty. Raises AgentError."""
    change = ["--update", value] if value else ["--delete"]
    must(["crm_attribute", "--name", name, *change])


@dataclass(frozen=True)
class Seen:
    """Pacemaker's view of a node: whether it is a member now, and whether its activity is known. One that is neither
    online nor unclean has been fenced, or has ended of itself."""

    online: bool
    unclean: bool

    @property
    def gone(self) -> bool:
        """Known to run nothing."""
        return not self.online and not self.unclean


def node(name: str) -> Seen:
    """Return pacemaker's view of a node. Raises AgentError."""
    try:
        root = ElementTree.fromstring(must(["crm_mon", "--one-shot", "--output-as=xml"]))
    except ElementTree.ParseError as error:
        raise AgentError("crm_mon", str(error)) from error
    element = root.find(f"nodes/node[@name='{name}']")
    # Of one that pacemaker does not know nothing is known.
    return (
        Seen(False, True)
        if element is None
        else Seen(element.get("online") == "true", element.get("unclean") == "true")
    )
