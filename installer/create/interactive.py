"""`agent create unconfigured-image`: an ISO that names no cluster and no rendezvous host (reference/interactive.md).

Every host that boots it asks on its console which machine is the rendezvous host (installer/tui); there, the service
starts, and a person installs with its page. All hosts have the service's CA and tokens: they trust the rendezvous host
wherever it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from installer.common import certificates
from installer.common.certificates import Pair
from installer.config.state import State, damaged
from installer.create.outputs import Outputs
from installer.create.stages.resolve import architecture, resolve_payload
from installer.create.stages.write import save
from installer.create.unconfigured import NOWHERE, blank, inputs_of, manifest_files, users_of
from installer.credentials import tokens
from installer.credentials.tokens import Tokens
from installer.errors import AssetError, IsoError
from installer.ignition.config import File, Unit, render
from installer.ignition.live import IMAGE_VARIABLES, NETWORK_UNIT, TLS_DIR, UNITS, LiveInputs, live_files
from installer.ignition.livesystem import SYSTEM_UNITS
from installer.image.artifacts import LiveChanges, prepare_iso
from installer.image.config_image import RENDEZVOUS_ENV
from installer.image.copy import IMAGE_MODE
from installer.tui.program import program
from installer.tui.rendezvous import COPY_NETWORK

log = logging.getLogger(__name__)

TARGET = "Agent Installer Unconfigured Image"
#: The state's part with the secrets of the image, which stay the same when it is made again.
SECRETS = "*node0.UnconfiguredImage"
#: Marks a live system that asks on its console, as upstream's.
MARKER = "/etc/assisted/interactive-ui"
# Units that the console starts: the page registers the cluster, and configures its hosts.
_STARTED = tuple(unit for unit in UNITS if unit != "apply-host-config.service")
# Where getty would ask for a login: every console that the kernel has.
_CONSOLES = ("getty@tty1.service", "serial-getty@.service", "console-getty.service")


@dataclass(frozen=True)
class _Secrets:
    """The service's CA, the key of its certificates, which stays the same over restarts, and its tokens."""

    authority: Pair = field(repr=False)
    service_key: str = field(repr=False)
    tokens: Tokens = field(repr=False)


def _secrets(state: State) -> _Secrets:
    """Return the state's secrets, or new ones where it has none. Raises StateError."""
    saved = state.get(SECRETS)
    if not saved:
        service_key = certificates.private_pem(certificates.ec_key())
        return _Secrets(certificates.authority("node0-service-ca"), service_key, tokens.make_tokens())
    try:
        pair = Pair(str(saved["certificate"]), str(saved["key"]))
        certificates.check(pair)
        made = Tokens(*(str(saved[name]) for name in ("publicKey", "agentToken", "userToken", "watcherToken")))
        tokens.check(made)
        return _Secrets(pair, str(saved["serviceKey"]), made)
    except (KeyError, ValueError) as error:
        raise damaged(state.path, f"{SECRETS}: {type(error).__name__}") from None


def _saved(secrets: _Secrets) -> dict[str, Any]:
    authority, made = secrets.authority, secrets.tokens
    return {
        "certificate": authority.certificate,
        "key": authority.key,
        "serviceKey": secrets.service_key,
        "publicKey": made.public_key_pem,
        "agentToken": made.agent,
        "userToken": made.user,
        "watcherToken": made.watcher,
    }


def _live(live: LiveInputs, secrets: _Secrets) -> Iterable[File]:
    """Yield the live system's files; the console makes rendezvous-host.env and the service's certificate."""
    for file in live_files(live):
        if file.path != RENDEZVOUS_ENV:
            yield file
            continue
        text = file.content.decode().replace(f"//{NOWHERE}", "//{{.RendezvousHost}}")
        yield File.text(f"{file.path}.template", text.replace(NOWHERE, "{{.RendezvousIP}}"), 0o600)
    yield File.text(f"{TLS_DIR}/ca.crt", secrets.authority.certificate)
    yield File.text(f"{TLS_DIR}/service.key", secrets.service_key, 0o600)
    # Not in TLS_DIR, which the service's container sees.
    yield File.text("/opt/agent/service-ca/ca.key", secrets.authority.key, 0o600)
    yield File("/usr/local/bin/agent-tui", program(), 0o555)
    yield File.text(MARKER, "")
    yield File.text("/etc/assisted/interactive-units", "".join(f"{unit}\n" for unit in (*_STARTED, COPY_NETWORK)))
    data = resources.files("installer.ignition") / "data/interactive"
    script = COPY_NETWORK.replace(".service", ".sh")
    yield File(f"/usr/local/bin/{script}", (data / script).read_bytes(), 0o555)
    for unit in _CONSOLES:
        drop_in = f"/etc/systemd/system/{unit}.d/10-agent-tui.conf"
        yield File(drop_in, (data / "10-agent-tui.conf").read_bytes())


def _units(static: bool) -> list[Unit]:
    data = resources.files("installer.ignition") / "data"
    units = [Unit(name, (data / "systemd" / name).read_text(), enabled=False) for name in _STARTED]
    units.append(Unit(COPY_NETWORK, (data / "interactive" / COPY_NETWORK).read_text(), enabled=False))
    units += (Unit(name, (data / "systemd" / name).read_text()) for name in SYSTEM_UNITS)
    units.append(Unit(NETWORK_UNIT, (data / "systemd" / NETWORK_UNIT).read_text(), enabled=static))
    return units


def unconfigured_image(directory: Path) -> None:
    """Write unconfigured.ARCH.iso, the tokens in auth/ and the service's CA. Raises AssetError, StateError."""
    state = State.load(directory)
    inputs = blank(directory, state)
    payload = resolve_payload(inputs.install, IMAGE_VARIABLES.values())
    secrets = _secrets(state)
    made = secrets.tokens
    live = replace(
        inputs_of(inputs, payload.release),
        public_key_pem=made.public_key_pem,
        agent_token=made.agent,
        user_token=made.user,
        watcher_token=made.watcher,
    )
    files = [*_live(live, secrets), *manifest_files(inputs, payload.release)]
    ignition = render(files, _units(bool(inputs.manifests.nmstate)), users_of(inputs))
    target = directory / f"unconfigured.{architecture(inputs.install)}.iso"
    with Outputs(directory) as outputs:
        try:
            outputs.take(prepare_iso(payload.iso, target, LiveChanges(ignition), mode=IMAGE_MODE))
        except IsoError as error:
            raise AssetError(f'failed to fetch {TARGET}: failed to generate asset "{TARGET}"', error) from error
        outputs.put("auth/user-token", f"{made.user}\n".encode())
        outputs.put("auth/watcher-token", f"{made.watcher}\n".encode())
        outputs.put("tls/ca.crt", secrets.authority.certificate.encode(), 0o644)
        state.put(SECRETS, _saved(secrets))
        for asset, consumed in inputs.consumed.items():
            state.put_files(asset, consumed)
            outputs.remove(*consumed)
        save(outputs, state)
    log.info(
        "Generated ISO at %s. Boot every machine from it: each asks on its console for the rendezvous host", target
    )
    log.info("The page's token is in %s, its CA in %s", directory / "auth/user-token", directory / "tls/ca.crt")
