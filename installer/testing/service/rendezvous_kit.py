"""Helpers for tests of the service: keys, tokens, certificates, inventories, a running service."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt

from installer.common.certificates import BOTH, authority, ec_key, leaf, private_pem, public_pem
from installer.common.ports import free_port

REPOSITORY = Path(__file__).parents[3]
SMALL = json.dumps(
    [
        {
            "version": "default",
            **{
                role: {
                    "cpu_cores": 1,
                    "ram_mib": 1024,
                    "disk_size_gb": 10,
                    "installation_disk_speed_threshold_ms": 1000,
                }
                for role in ("master", "arbiter", "worker", "sno", "edge-worker")
            },
        }
    ]
)


@dataclass(frozen=True)
class Keys:
    """Tokens by scheme and the public key, as a CLI makes them at image time."""

    private: bytes = field(repr=False)
    public_base64: str

    def token(self, scheme: str, **claims: Any) -> str:
        """Return a token of this scheme, signed with the private key."""
        return jwt.encode({"auth_scheme": scheme, **claims}, self.private, algorithm="ES256")


def make_keys() -> Keys:
    """Return a fresh pair of keys."""
    key = ec_key()
    return Keys(private_pem(key).encode(), base64.b64encode(public_pem(key).encode()).decode())


def make_tls(directory: Path) -> None:
    """ca.crt, service.crt, service.key for 127.0.0.1."""
    directory.mkdir(parents=True, exist_ok=True)
    ca = authority("test CA")
    service = leaf(ca, "rendezvous", names=("127.0.0.1",), usages=BOTH)
    for name, text in (("ca.crt", ca.certificate), ("service.crt", service.certificate), ("service.key", service.key)):
        (directory / name).write_text(text)


def bare_environment() -> dict[str, str]:
    """Return the environment of a service in its own process; its bytecode is kept beside this one's."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "PYTHONPYCACHEPREFIX")}
    return {**kept, "PYTHONPATH": str(REPOSITORY)}


def wait_for(event: str, seen: Any, deadline: float = 60.0) -> Any:
    """Poll ``seen`` until it is true; the error says what it waited for and what it last saw."""
    end, last = time.monotonic() + deadline, None
    while time.monotonic() < end:
        last = seen()
        if last:
            return last
        time.sleep(0.1)
    raise AssertionError(f"{event}: not within {deadline:.0f} s, last seen {last!r}")


class Running:
    """A service in its own process, on TLS."""

    def __init__(self, directory: Path, **env: str) -> None:
        self.directory = directory
        self.keys = make_keys()
        self._clients: dict[str, Any] = {}
        make_tls(directory / "tls")
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}/"
        self.ca = directory / "tls" / "ca.crt"
        self.env = {
            **bare_environment(),
            "SERVICE_BASE_URL": self.url,
            "LISTEN_PORT": str(self.port),
            "LISTEN_HOST": "127.0.0.1",
            "HTTPS_CERT_FILE": str(directory / "tls" / "service.crt"),
            "HTTPS_KEY_FILE": str(directory / "tls" / "service.key"),
            "AUTH_TYPE": "agent-installer-local",
            "EC_PUBLIC_KEY_PEM": self.keys.public_base64,
            "WORK_DIR": str(directory / "data"),
            "HW_VALIDATOR_REQUIREMENTS": SMALL,
            "NEXT_INSTRUCTION_SECONDS": "1",
            "MONITOR_INTERVAL": "500ms",
            "RELEASE_IMAGES": json.dumps([{"url": "release.example/r@sha256:" + "0" * 64, "version": "4.18.0"}]),
            **env,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        with (self.directory / "service.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "installer.rendezvous"], env=self.env, cwd=self.directory, stderr=log
            )
        wait_for("service to be ready", self._ready)

    def _ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError((self.directory / "service.log").read_text()[-2000:])
        context = ssl.create_default_context(cafile=str(self.ca))
        try:
            with urllib.request.urlopen(f"{self.url}ready", context=context, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL: the process cannot clean up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def client(self, scheme: str = "userAuth") -> Any:
        """Return a client of this scheme, the same one each time."""
        from installer.assisted.auth import Scheme
        from installer.assisted.client import AssistedClient
        from installer.assisted.endpoint import endpoint

        # One token a scheme, as an image brings: a service takes a caller who always comes with another for a guesser.
        if scheme not in self._clients:
            server = endpoint(self.url, ca_file=self.ca)
            self._clients[scheme] = AssistedClient(server, Scheme(scheme), self.keys.token(scheme))
        return self._clients[scheme]

    def stop(self) -> None:
        """End it, and the connections to it."""
        for client in self._clients.values():
            client.close()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)


def running(directory: Path, **env: str) -> AbstractContextManager[Running]:
    """Return a service for the length of the block; `env` is added to its environment."""
    return started(Running(directory, **env))


@contextmanager
def started(service: Running) -> Iterator[Running]:
    """Provide this service, for the length of the block."""
    service.start()
    try:
        yield service
    finally:
        service.stop()


def inventory(
    hostname: str = "master-0",
    mac: str = "52:54:00:00:00:80",
    ip: str = "192.168.111.80/24",
    disk_gb: int = 20,
    *,
    ram_mib: int = 4096,
    cpus: int = 2,
    **changes: Any,
) -> dict[str, Any]:
    """Return an inventory as an agent sends it."""
    return {
        "hostname": hostname,
        "interfaces": [
            {"name": "enp1s0", "mac_address": mac, "ipv4_addresses": [ip], "mtu": 1500, "has_carrier": True}
        ],
        "disks": [
            {
                "id": "/dev/disk/by-path/pci-0000:04:00.0",
                "name": "vda",
                "path": "/dev/vda",
                "by_path": "/dev/disk/by-path/pci-0000:04:00.0",
                "drive_type": "HDD",
                "size_bytes": disk_gb * 1000**3,
                "installation_eligibility": {"eligible": True, "not_eligible_reasons": []},
            }
        ],
        "boot": {"current_boot_mode": "uefi", "device_type": "ephemeral"},
        "system_vendor": {"manufacturer": "QEMU", "product_name": "Standard PC", "virtual": True},
        "memory": {"physical_bytes": ram_mib * 1024**2, "usable_bytes": ram_mib * 1024**2},
        "cpu": {"count": cpus, "architecture": "x86_64"},
        "routes": [{"interface": "enp1s0", "gateway": "192.168.111.1", "destination": "0.0.0.0", "family": 2}],
        "tpm_version": "none",
        **changes,
    }


PULL_SECRET = '{"auths":{"registry.test.node0.example:5000":{"auth":"c2VjcmV0OnNlY3JldA=="}}}'
CLUSTER: dict[str, Any] = {
    "name": "ostest",
    "base_dns_domain": "test.node0.example",
    "openshift_version": "4.18.0",
    "pull_secret": PULL_SECRET,
    "control_plane_count": 1,
    "platform": {"type": "none"},
    "machine_networks": [{"cidr": "192.168.111.0/24"}],
    "ssh_public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop test",
}
