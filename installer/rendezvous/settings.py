"""The service's settings, read from its environment once, at the start (installer.md §4.2, §5.6)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from installer.assisted.errors import ConfigurationError
from installer.common import numbers
from installer.common.macs import ExpectedHost, read_listed

DEFAULT_HW_FILE = "/data/default_hw_requirements.json"
# A payload's image may say here who sees the page; a lab's does.
PAGE_ACCESS_FILE = Path("/data/page_access")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"([0-9]{1,15}(?:\.[0-9]{0,15})?)(ms|h|m|s)")
_LONGEST = 366 * numbers.DAY


def _duration(name: str, text: str, least: float = 0.0) -> float:
    """Seconds from Go's duration form (``90``, ``60m``, ``1h30m``, ``500ms``). Raises ConfigurationError."""
    value = text.strip()
    parts = _PART.findall(value if value[-1:].isalpha() else f"{value}s")
    if not parts or "".join(number + unit for number, unit in parts) not in (value, f"{value}s"):
        raise ConfigurationError(name, f"{text!r} is not a duration such as 90s, 60m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not least <= seconds <= _LONGEST:
        raise ConfigurationError(name, f"{text!r} is not from {least:g} s to {_LONGEST / 3600:g} h")
    return seconds


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The service's settings. Times in seconds, paths absolute."""

    base_url: str = "https://127.0.0.1:8090/"
    listen_host: str = ""
    port: int = 8090
    cert_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    auth_type: str = "agent-installer-local"
    public_key_pem: str = ""
    work_dir: Path = Path("/data")
    db_path: Path = Path("/data/assisted.db")
    bootstrap_mac: str = ""
    # The id of the first infra-env, which openshift-install's ISO has chosen before there was a service.
    infra_env_id: str = ""
    release_image: str = ""
    # Below work_dir: what was read of the release (architectures.py).
    release_notes: str = "release.json"
    openshift_version: str = ""
    release_architectures: tuple[str, ...] = ()
    agent_image: str = ""
    installer_image: str = ""
    controller_image: str = ""
    mco_image: str = ""
    must_gather_image: str = ""
    hw_requirements: str = ""
    tls_override_dir: Path | None = None
    registries_conf: Path = Path("/etc/containers/registries.conf")
    mirror_ca_file: Path = Path("/etc/pki/ca-trust/source/anchors/domain.crt")
    install_invoker: str = "agent-installer"
    installer_binary: Path | None = None
    disabled_steps: frozenset[str] = frozenset()
    poll_seconds: int = 5
    host_disconnect: float = 180.0
    bootstrap_grace: float = 120.0
    max_clock_gap: float = 240.0
    prepare_host: float = 480.0
    prepare_cluster: float = 600.0
    host_installing: float = 1200.0
    disk_check_timeout: float = 480.0
    pending_user_action: float = 3600.0
    stage_timeouts: Mapping[str, float] = field(default_factory=dict)
    monitor_seconds: float = 5.0
    requests_per_second: float = 1000.0
    # Who sees the page: ``token`` (watchers and users) or ``open`` (everybody; secrets still need a token).
    page_access: str = "token"
    # Those that the inputs of the image list, in their order.
    expected_hosts: tuple[ExpectedHost, ...] = ()


def _path(value: str | None) -> Path | None:
    return Path(value) if value else None


def _page_access(env: Mapping[str, str]) -> str:
    """PAGE_ACCESS, else what the image says, else ``token``. Raises ConfigurationError."""
    access = env.get("PAGE_ACCESS", "")
    if not access:
        try:
            access = PAGE_ACCESS_FILE.read_text(encoding="utf-8").strip()
        except OSError:
            access = "token"
    if access not in ("token", "open"):
        raise ConfigurationError("PAGE_ACCESS", f"{access!r} is not one of token, open")
    return access


def _expected_hosts(path: str) -> tuple[ExpectedHost, ...]:
    """Read EXPECTED_HOSTS_FILE; without it nobody is expected, and the page shows who has come."""
    try:
        return read_listed(Path(path).read_text(encoding="utf-8")) if path else ()
    except OSError:
        return ()


def _infra_env_id(text: str) -> str:
    """INFRA_ENV_ID, a UUID or nothing. Raises ConfigurationError."""
    try:
        return str(UUID(text)) if text else ""
    except ValueError:
        raise ConfigurationError("INFRA_ENV_ID", f"{text!r} is not a UUID") from None


def _release(env: Mapping[str, str]) -> tuple[str, str, tuple[str, ...]]:
    """(pull spec, version, architectures) of the release: RELEASE_IMAGES' first entry, else the two plain variables."""
    text = env.get("RELEASE_IMAGES", "").strip()
    if not text:
        return env.get("OPENSHIFT_INSTALL_RELEASE_IMAGE", ""), env.get("OPENSHIFT_VERSION", ""), ()
    try:
        first = json.loads(text)[0]
        names = first.get("cpu_architectures") or [first.get("cpu_architecture") or ""]
        version = str(first.get("version") or first.get("openshift_version") or "")
        return str(first["url"]), version, tuple(str(name) for name in names if name)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise ConfigurationError("RELEASE_IMAGES", f"not a JSON list of objects with a url: {error}") from None


def load(env: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from the environment (``os.environ`` by default). Raises ConfigurationError."""
    env = os.environ if env is None else env
    release, version, names = _release(env)
    work_dir = Path(env.get("WORK_DIR", "/data"))

    def seconds(name: str, default: float, least: float = 0.0) -> float:
        return _duration(name, env[name], least) if env.get(name) else default

    try:
        port = numbers.whole(env.get("LISTEN_PORT", "8090"), 1, 65535)
    except ValueError as error:
        raise ConfigurationError("LISTEN_PORT", str(error)) from None
    stages = {
        name[len("HOST_STAGE_") : -len("_TIMEOUT")]: _duration(name, value)
        for name, value in env.items()
        if name.startswith("HOST_STAGE_") and name.endswith("_TIMEOUT") and value
    }
    return Settings(
        base_url=env.get("SERVICE_BASE_URL", f"https://127.0.0.1:{port}/"),
        listen_host=env.get("LISTEN_HOST", ""),
        port=port,
        cert_file=_path(env.get("HTTPS_CERT_FILE")),
        key_file=_path(env.get("HTTPS_KEY_FILE")),
        ca_file=_path(env.get("SERVICE_CA_CERT_PATH")),
        auth_type=env.get("AUTH_TYPE", "agent-installer-local"),
        public_key_pem=env.get("EC_PUBLIC_KEY_PEM", ""),
        work_dir=work_dir,
        db_path=Path(env.get("DB_PATH", str(work_dir / "assisted.db"))),
        bootstrap_mac=env.get("BOOTSTRAP_HOST_MAC", "").lower(),
        infra_env_id=_infra_env_id(env.get("INFRA_ENV_ID", "")),
        release_image=release,
        openshift_version=version,
        release_architectures=names,
        agent_image=env.get("AGENT_DOCKER_IMAGE", ""),
        installer_image=env.get("INSTALLER_IMAGE", ""),
        controller_image=env.get("CONTROLLER_IMAGE", ""),
        mco_image=env.get("MCO_IMAGE", ""),
        must_gather_image=env.get("MUST_GATHER_IMAGE", ""),
        hw_requirements=env.get("HW_VALIDATOR_REQUIREMENTS", ""),
        tls_override_dir=_path(env.get("EPHEMERAL_INSTALLER_CLUSTER_TLS_CERTS_OVERRIDE_DIR")),
        registries_conf=Path(env.get("REGISTRIES_CONF", "/etc/containers/registries.conf")),
        mirror_ca_file=Path(env.get("MIRROR_CA_FILE", "/etc/pki/ca-trust/source/anchors/domain.crt")),
        install_invoker=env.get("INSTALL_INVOKER", "agent-installer"),
        installer_binary=_path(env.get("INSTALLER_BINARY")),
        disabled_steps=frozenset(filter(None, env.get("DISABLED_STEPS", "").split(","))),
        poll_seconds=max(1, int(seconds("NEXT_INSTRUCTION_SECONDS", 5))),
        host_disconnect=seconds("HOST_DISCONNECTION_TIMEOUT", 180),
        bootstrap_grace=seconds("BOOTSTRAP_DISCONNECTION_GRACE", 120),
        max_clock_gap=seconds("MAX_HOST_SERVICE_TIME_DRIFT", 240),
        prepare_host=seconds("HOST_PREPARE_TIMEOUT", 480),
        prepare_cluster=seconds("PREPARE_FOR_INSTALLATION_TIMEOUT", 600),
        disk_check_timeout=seconds("DISK_CHECK_TIMEOUT", 480, 1),
        host_installing=seconds("HOST_INSTALLING_TIMEOUT", 1200),
        pending_user_action=seconds("PENDING_USER_ACTION_TIMEOUT", 3600),
        stage_timeouts=stages,
        monitor_seconds=seconds("MONITOR_INTERVAL", 5, 0.1),
        requests_per_second=max(1.0, seconds("REQUESTS_PER_SECOND", 1000)),
        page_access=_page_access(env),
        expected_hosts=_expected_hosts(env.get("EXPECTED_HOSTS_FILE", "")),
    )
