"""Hardware thresholds by role, read from the requirements JSON (installer.md §5.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installer.assisted.enums import Role
from installer.assisted.errors import ConfigurationError
from installer.assisted.stages import SNO
from installer.common.formats import jsontext
from installer.rendezvous.settings import DEFAULT_HW_FILE, Settings

EDGE_WORKER = "edge-worker"
#: Kinds of hosts with thresholds of their own: the roles, single nodes, and edge workers.
ROLES = (Role.MASTER, Role.ARBITER, Role.WORKER, SNO, EDGE_WORKER)


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """Thresholds of one role. RAM in MiB, disk in GB (10^9), fsync and latency in ms, loss in percent."""

    cpu_cores: int
    ram_mib: int
    disk_size_gb: int
    disk_speed_ms: int = 10
    latency_ms: float | None = None
    packet_loss_percent: float | None = None


DOCUMENTED: dict[str, Requirements] = {
    Role.MASTER: Requirements(
        cpu_cores=4, ram_mib=16384, disk_size_gb=100, disk_speed_ms=10, latency_ms=100, packet_loss_percent=0
    ),
    Role.ARBITER: Requirements(
        cpu_cores=2, ram_mib=8192, disk_size_gb=50, disk_speed_ms=10, latency_ms=1000, packet_loss_percent=0
    ),
    Role.WORKER: Requirements(
        cpu_cores=2, ram_mib=8192, disk_size_gb=100, disk_speed_ms=10, latency_ms=1000, packet_loss_percent=10
    ),
    SNO: Requirements(cpu_cores=8, ram_mib=16384, disk_size_gb=100, disk_speed_ms=10),
    EDGE_WORKER: Requirements(cpu_cores=2, ram_mib=8192, disk_size_gb=15, disk_speed_ms=10),
}


def _role(name: str, data: dict[str, Any], source: str) -> Requirements:
    base = DOCUMENTED[name]

    def number(key: str, default: float | None) -> Any:
        value = data.get(key, default)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
            raise ConfigurationError(source, f"{name}.{key} must be a number of 0 or more, not {value!r}")
        return value

    return Requirements(
        cpu_cores=number("cpu_cores", base.cpu_cores),
        ram_mib=number("ram_mib", base.ram_mib),
        disk_size_gb=number("disk_size_gb", base.disk_size_gb),
        disk_speed_ms=number("installation_disk_speed_threshold_ms", base.disk_speed_ms),
        latency_ms=number("network_latency_threshold_ms", base.latency_ms),
        packet_loss_percent=number("packet_loss_percentage", base.packet_loss_percent),
    )


def parse(text: str, source: str, version: str = "") -> dict[str, Requirements]:
    """Thresholds by role from the JSON list ``[{version, master{...}, worker{...}, sno{...}, ...}]``.

    The entry whose version is a prefix of ``version`` wins over ``default``. Raises ConfigurationError.
    """
    try:
        entries = jsontext.loads(text)
    except ValueError as error:
        raise ConfigurationError(source, f"not JSON: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError(source, "must be a list of objects")
    chosen: dict[str, Any] = {}
    for entry in entries:
        wanted = str(entry.get("version", "default"))
        matches = bool(version) and (version == wanted or version.startswith(wanted + "."))
        if matches or (wanted == "default" and not chosen):
            chosen = entry
    result = {}
    for role in ROLES:
        data = chosen.get(role, {})
        if not isinstance(data, dict):
            raise ConfigurationError(source, f"{role} must be an object")
        result[role] = _role(role, data, source)
    return result


def load(settings: Settings, default_file: Path = Path(DEFAULT_HW_FILE)) -> dict[str, Requirements]:
    """Thresholds from HW_VALIDATOR_REQUIREMENTS, else from the image's default file, else as documented."""
    if settings.hw_requirements.strip():
        return parse(settings.hw_requirements, "HW_VALIDATOR_REQUIREMENTS", settings.openshift_version)
    if default_file.is_file():
        return parse(default_file.read_text(), str(default_file), settings.openshift_version)
    return dict(DOCUMENTED)


def minimum(requirements: Mapping[str, Requirements], roles: Iterable[str]) -> Requirements:
    """Return the lowest of each threshold over ``roles``: what a host needs to be of any use."""
    chosen = [requirements[role] for role in roles]
    return Requirements(
        cpu_cores=min(item.cpu_cores for item in chosen),
        ram_mib=min(item.ram_mib for item in chosen),
        disk_size_gb=min(item.disk_size_gb for item in chosen),
        disk_speed_ms=max(item.disk_speed_ms for item in chosen),
    )
