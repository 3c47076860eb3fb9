"""The administrator's view of hosts and registries while no service answers: it tells causes apart.

A host that answers ping and refuses a port is up, and the program behind that port is not; a host that answers nothing
is off, unplugged or has another address. An image that cannot be had from here can hardly be had by a host.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterable
from urllib.parse import urlsplit

from installer.errors import InstallerError, PullSecretRejected, RegistryCertificateError, RegistryUnreachable
from installer.observe.state import Images
from installer.release.access import RegistryAccess
from installer.release.proxy import ImageProxy, OpenImage

PING_SECONDS = 2
# The mark in sshd's banner of what install-status.sh on the live host complains of, and how much of it is shown.
BANNER = "install-status: "
# How the line begins that every boot shows for a while (services are not running yet).
STARTING = "Not running:"
LONGEST_BANNER = 1000
OFF = "it is off, not connected, or has another address; its console may tell"
# A registry that has not answered after this long does not answer hosts either.
REGISTRY_SECONDS = 20.0
MOST_READ = 1 << 30


def port(address: str, number: int, timeout: float) -> str:
    """Try a TCP port: "answers", "refuses connections", "resets connections", or why it cannot be reached."""
    try:
        with socket.create_connection((address, number), timeout=timeout):
            return "answers"
    except ConnectionRefusedError:
        return "refuses connections"
    except ConnectionResetError:
        return "resets connections"
    except TimeoutError:
        return "does not answer"
    except OSError as error:
        unreachable = error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH)
        return "cannot be reached" if unreachable else (error.strerror or str(error))


def pings(address: str) -> bool | None:
    """Return whether it answers an echo request; None where there is no ping here, or it may not be used."""
    if shutil.which("ping") is None:
        return None
    argv = ["ping", "-c", "1", "-W", str(PING_SECONDS), address]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PING_SECONDS + 3)
    except subprocess.TimeoutExpired:
        return False
    # iputils: 1 is no answer, 2 any other error.
    return None if done.returncode == 2 else done.returncode == 0


def banner(address: str, ssh_port: int, timeout: float) -> list[str]:
    """Read the banner of a live host's sshd, without logging in, by line; none where it says
    nothing, or there is no ssh here."""
    if shutil.which("ssh") is None:
        return []
    options = ["BatchMode=yes", "PreferredAuthentications=none", "StrictHostKeyChecking=no", "LogLevel=INFO"]
    options += ["UserKnownHostsFile=/dev/null", "ControlPath=none", "ProxyCommand=none", "ProxyJump=none"]
    options.append(f"ConnectTimeout={max(round(timeout), 1)}")
    argv = ["ssh", "-F", "none", "-T", *(part for option in options for part in ("-o", option))]
    argv += ["-p", str(ssh_port), "-l", "core", "--", address, "true"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * timeout + 3)
    except (subprocess.TimeoutExpired, OSError):
        return []
    lines = done.stderr.decode(errors="replace").splitlines()
    return [line.removeprefix(BANNER) for line in lines if line.startswith(BANNER)]


def _sentence(lines: Iterable[str]) -> str:
    # Anybody may answer at that address.
    return "".join(letter for letter in "; ".join(lines) if letter.isprintable())[:LONGEST_BANNER]


def complaint(address: str, ssh_port: int, timeout: float) -> str:
    """Return a live host's complaint, except that services do not run yet, which passes; empty for nothing."""
    return _sentence(line for line in banner(address, ssh_port, timeout) if not line.startswith(STARTING))


def host(address: str, service_port: int, ssh_port: int, timeout: float) -> str:
    """One sentence about a host whose service does not answer: whether it is up at all, and which part of it."""
    service, ssh = port(address, service_port, timeout), port(address, ssh_port, timeout)
    if service == "answers":
        return f"{address} accepts connections on port {service_port}: the host is up, its service answers nothing"
    if ssh == "answers":
        text = _sentence(banner(address, ssh_port, timeout))
        says = f". It says: {text}" if text else ""
        return f"{address} answers SSH, port {service_port} {service}: the host is up, its service is not{says}"
    # A refusal is an answer of the host's.
    up = not {"refuses connections", "resets connections"}.isdisjoint((service, ssh)) or pings(address)
    if up:
        ports = f"port {service_port} {service}, SSH (port {ssh_port}) {ssh}"
        return f"{address} is there, {ports}: it is starting, or failed to"
    return f"{address} does not answer either (SSH, port {ssh_port}: {ssh}): {OFF}"


def api(url: str, state: str, rendezvous_ip: str, timeout: float) -> str:
    """One sentence about a cluster's API that never answered: where its name leads, and whether it runs elsewhere."""
    parts = urlsplit(url)
    name, number = parts.hostname or "", parts.port or 443
    where, ports = _leads(name, number, timeout)
    if rendezvous_ip not in ports:
        where += f"; {rendezvous_ip}, the rendezvous host, {port(rendezvous_ip, number, timeout)} there"
    return f"The cluster's API {url} has never answered: {state}; {where}"


def internal_api(name: str, number: int, timeout: float) -> str:
    """Describe the fault of the name at which kubelets look for the API, as seen from here; empty when all of its
    addresses answer."""
    where, ports = _leads(name, number, timeout)
    return "" if ports and set(ports.values()) == {"answers"} else where


def _leads(name: str, number: int, timeout: float) -> tuple[str, dict[str, str]]:
    """Describe a name's addresses as seen from here, and the state of the port at each of them."""
    try:
        entries = socket.getaddrinfo(name, number, type=socket.SOCK_STREAM)
    except OSError as error:
        return f"{name} has no address here ({error.strerror or error})", {}
    ports = {
        address: port(address, number, timeout) for address in dict.fromkeys(str(entry[4][0]) for entry in entries)
    }
    lead = "" if list(ports) == [name] else f"{name} leads to "
    return lead + ", ".join(f"{address}, where port {number} {state}" for address, state in ports.items()), ports


def _read_whole(image: OpenImage) -> None:
    """Read an image's layers. Raises InstallerError where one is not what its digest says, or ends too early."""
    left = MOST_READ
    for digest, size in image.layers():
        left -= size
        if left < 0:
            return
        with image.blob(digest, size) as (fd, _):
            while os.read(fd, 1 << 20):
                pass


def _through_proxy(images: Images) -> bool:
    """Return whether this environment has a proxy that is on the way to a registry of these images."""
    proxies = urllib.request.getproxies_environment()
    mirrors = [mirror for source in images.sources for mirror in source.mirrors]
    registries = {name.partition("/")[0].partition(":")[0] for name in (*images.names.values(), *mirrors)}
    asked = [name for name in registries if name != "localhost" and not name.startswith("127.")]  # Go asks no proxy
    return ("https" in proxies or "http" in proxies) and any(not urllib.request.proxy_bypass(name) for name in asked)


def image_problems(images: Images, timeout: float = REGISTRY_SECONDS, *, whole: bool = False) -> tuple[str, ...]:
    """List reasons why hosts cannot pull the first images, as seen from here; empty when all can be pulled.

    One line for a registry that serves nothing, else one for each image. With `whole`, what they consist of is read as
    well, at most 1 GiB of each.
    """
    problems = []
    hosts = "Hosts cannot pull"
    if _through_proxy(images):
        # What hosts reach does not follow from it: theirs is the install-config's proxy, if any.
        hosts = "Through the proxy of its environment, which need not be that of the hosts, this machine cannot pull"
    try:
        with RegistryAccess(images.pull_secret, images.sources, images.trust_bundle) as access:
            for tag, name in images.names.items():
                try:
                    with ImageProxy(access, timeout) as proxy:
                        opened = proxy.open_image(name)
                        if whole:
                            _read_whole(opened)
                except (RegistryUnreachable, PullSecretRejected, RegistryCertificateError) as error:
                    return (f"{hosts} images: {error}",)
                except InstallerError as error:
                    problems.append(f"{hosts} {tag}: {error}")
    except InstallerError:
        # Without skopeo nothing is known.
        return ()
    return tuple(problems)
