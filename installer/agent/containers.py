"""Steps that use the host's podman: image availability, install, stop-installation."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from installer.agent.errors import StepError
from installer.assisted.auth import ATTEMPT_VARIABLE
from installer.assisted.enums import ImageResult
from installer.assisted.steparguments import ImagesRequest, InstallRequest, ProxyRequest
from installer.hostsys.errors import CommandError
from installer.hostsys.system import HostSystem

PULL_TRIES = 3
PULL_TIMEOUT = 600.0
PULLS_TIMEOUT = 16 * 60.0
START_TIMEOUT = 600.0
INSTALL_TIMEOUT = 6 * 3600.0  # the service's stage time-outs end it long before
AUTH_FILE = "/root/.docker/config.json"
# The exit code of podman's own failures, and how often and after which pause it is asked again.
PODMAN_FAILED, WAIT_TRIES, WAIT_PAUSE = 125, 5, 10.0
CONTAINER = "assisted-installer"
PULL_FAILED = 2


@dataclass(frozen=True, kw_only=True)
class AgentContext:
    """The install step's parameters for the orchestrator."""

    url: str
    infra_env_id: str
    host_id: str
    token: str = field(repr=False)
    ca_file: str
    insecure: bool
    agent_image: str


def _size(host: HostSystem, image: str) -> int:
    text = host.run("podman", "image", "inspect", "--format", "{{.Size}}", image, check=False).strip()
    return int(text) if text.isdigit() else 0


def pull(host: HostSystem, image: str, timeout: float) -> None:
    """Pull an image unless it is there. Raises CommandError."""
    try:
        host.run("podman", "image", "exists", image)
        return
    except CommandError as error:
        # A podman that does not answer in time may have it or not: pulling what is there costs little.
        if error.code not in (1, None):
            raise
    auth = ["--authfile", AUTH_FILE] if host.path(AUTH_FILE).is_file() else []
    host.run("podman", "pull", "-q", *auth, image, timeout=timeout)


def availability(host: HostSystem, request: ImagesRequest) -> str:
    """Pull each image once and report time and size."""
    left = time.monotonic() + (request.timeout or PULLS_TIMEOUT)
    results = []
    for image in request.images or []:
        start = time.monotonic()
        result: dict[str, Any] = {"name": image, "result": ImageResult.SUCCESS}
        try:
            pull(host, image, max(1.0, left - start))
        except CommandError as error:
            result.update(result=ImageResult.FAILURE, error=error.detail[-300:])
        else:
            seconds = time.monotonic() - start
            size = _size(host, image)
            result.update(size_bytes=size, time=round(seconds, 3))
            if seconds > 0:
                result["download_rate"] = round(size / seconds / 1e6, 3)
        results.append(result)
    return json.dumps({"images": results})


def orchestrator_args(request: InstallRequest, agent: AgentContext) -> list[str]:
    """Return the orchestrator's command line from the install request (installer.md §6.3)."""
    args = [
        *("--role", request.role.value),
        *("--infra-env-id", request.infra_env_id),
        *("--cluster-id", request.cluster_id),
        *("--host-id", request.host_id),
        *("--boot-device", request.boot_device),
        *("--url", agent.url),
        *("--controller-image", request.controller_image or ""),
        *("--agent-image", agent.agent_image),
        *("--control-plane-count", str(request.control_plane_count or 3)),
        *("--openshift-version", request.openshift_version or ""),
        f"--check-cluster-version={'true' if request.check_cvo else 'false'}",
    ]
    for disk in request.disks_to_format or []:
        args += ["--format-disk", disk]
    images = {"mco": request.mco_image, "must-gather": request.must_gather_image, "coreos": request.coreos_image}
    for name, image in images.items():
        if image:
            args += [f"--{name}-image", image]
    if request.service_ips:
        args += ["--service-ips", ",".join(request.service_ips)]
    if request.installer_args:
        args += ["--installer-args", request.installer_args]
    for option, value in _proxies(request.proxy).items():
        if value:
            args += [option, value]
    switches = {
        "--skip-installation-disk-cleanup": request.skip_installation_disk_cleanup,
        "--enable-skip-mco-reboot": request.enable_skip_mco_reboot,
        "--notify-num-reboots": request.notify_num_reboots,
    }
    args += [option for option, wanted in switches.items() if wanted]
    if agent.insecure:
        args.append("--insecure")
    elif agent.ca_file:
        args += ["--cacert", agent.ca_file]
    return args


def _proxies(proxy: ProxyRequest | None) -> dict[str, str | None]:
    if proxy is None:
        return {}
    return {"--http-proxy": proxy.http_proxy, "--https-proxy": proxy.https_proxy, "--no-proxy": proxy.no_proxy}


def run_command(request: InstallRequest, agent: AgentContext) -> list[str]:
    """podman's command line for the orchestrator; the token comes by environment, not on the command line."""
    command: list[str] = ["podman", "run", "--detach", "--privileged", "--pid=host", "--net=host", "--name", CONTAINER]
    command += ["-v", "/dev:/dev:rw", "-v", "/:/host:rw", "-v", "/var/log:/var/log:rw"]
    if agent.ca_file:
        command += ["-v", f"{agent.ca_file}:{agent.ca_file}:ro"]
    if request.installation_attempt:
        command += ["--env", f"{ATTEMPT_VARIABLE}={request.installation_attempt}"]
    command += ["--env", "PULL_SECRET_TOKEN", request.installer_image]
    return command + orchestrator_args(request, agent)


def _code(output: str) -> int:
    """Return the exit code in podman's output; -1 when there is none."""
    try:
        return int(output)
    except ValueError:
        return -1


def _wait_for_end(host: HostSystem) -> int:
    """Wait for the orchestrator's end; its exit code. Raises CommandError."""
    words = ("podman", "wait", "--interval", "3s", CONTAINER)
    for _ in range(WAIT_TRIES - 1):
        try:
            return _code(host.run(*words, timeout=INSTALL_TIMEOUT))
        except CommandError as error:
            # Podman's own failure: it may lack memory or open files for a moment, and the container runs on.
            if error.code != PODMAN_FAILED:
                raise
        time.sleep(WAIT_PAUSE)
    return _code(host.run(*words, timeout=INSTALL_TIMEOUT))


def install(host: HostSystem, request: InstallRequest, agent: AgentContext) -> str:
    """Run the orchestrator and wait for its end. Raises StepError with its last lines.

    Detached, and asked for its end every few seconds: an attached podman asks four times a second.
    """
    if not request.installer_image:
        raise StepError("argument: installer_image is empty")
    detail = ""
    for _ in range(PULL_TRIES):
        try:
            pull(host, request.installer_image, PULL_TIMEOUT)
            break
        except CommandError as error:
            detail = str(error)
    else:
        raise StepError(f"cannot pull {request.installer_image}: {detail}", PULL_FAILED)
    # A container of a run before this agent's restart would hold the name.
    host.run("podman", "rm", "-f", "-i", CONTAINER, check=False)
    # By environment, which nsenter keeps: no token in anybody's process list.
    environment = {"PULL_SECRET_TOKEN": agent.token}
    try:
        host.run_with(environment, *run_command(request, agent), timeout=START_TIMEOUT)
    except CommandError as error:
        last = " | ".join(error.detail.splitlines()[-5:])
        raise StepError(f"the installer did not start: {last}", error.code or -1) from None
    # The usual end is that this host reboots.
    code = _wait_for_end(host)
    words = host.run("sh", "-c", f"podman logs --tail 5 {CONTAINER} 2>&1", check=False)
    if code:
        raise StepError(f"the installer ended with code {code}: {' | '.join(words.strip().splitlines())}", code)
    return words[-2000:]


def stop_installation(host: HostSystem) -> str:
    """Stop the orchestrator if it runs."""
    try:
        return host.run("podman", "stop", "-i", "-t", "5", CONTAINER, timeout=60)
    except CommandError as error:
        raise StepError(str(error), error.code or -1) from None
