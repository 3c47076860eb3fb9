"""``node0 service``: the service on an administrator's machine; certificates, tokens and store in one folder."""

from __future__ import annotations

import base64
import logging
import os
import re
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from installer.assisted.errors import PrepareError
from installer.common import numbers
from installer.common.inputs import read_input, read_text
from installer.errors import ConfigError
from installer.files import write_whole
from installer.overrides import RELEASE_OVERRIDE
from installer.rendezvous import settings as service_settings
from installer.rendezvous.registries import digest_sources
from installer.rendezvous.settings import Settings

if TYPE_CHECKING:
    from installer.rendezvous.catalogue import Contents

log = logging.getLogger("assisted-service")
#: What is said to whoever has started the command.
screen = logging.getLogger(__name__)
SCHEMES = ("agent", "user", "watcher")
PRIVATE, PUBLIC = 0o600, 0o644
# Marks a folder in which files that belong together are being made and not all are there yet.
BEGUN = ".begun"
# Marks the folder of the service's own data, of which it removes what a killed one has left.
OWN = ".node0-service"
REGISTRIES, CA_BUNDLE, PULL_SECRET = "registries.conf", "ca-bundle.crt", "pull-secret.json"
# How long the start waits for the release to be read (s).
LEARN_SECONDS = 20.0
# A rootfs holds no secret, and hosts may be booted from an old minimal image for a long time.
ROOTFS_LIFETIME = 10 * 365 * 86400
# What the administrator's environment may set. Nothing else of it is read: a shell in which somebody has set up another
# service, or has tried something out, must not decide who is let in, where the data is or which programs are run.
ALLOWED_VARIABLES = frozenset(
    {
        *("PAGE_ACCESS", "HW_VALIDATOR_REQUIREMENTS", "NEXT_INSTRUCTION_SECONDS", "MONITOR_INTERVAL"),
        *("HOST_DISCONNECTION_TIMEOUT", "BOOTSTRAP_DISCONNECTION_GRACE", "HOST_PREPARE_TIMEOUT"),
        "DISK_CHECK_TIMEOUT",
        *("PREPARE_FOR_INSTALLATION_TIMEOUT", "HOST_INSTALLING_TIMEOUT", "PENDING_USER_ACTION_TIMEOUT"),
    }
)
STAGE_TIMEOUT = re.compile("HOST_STAGE_[A-Z_]+_TIMEOUT")
# What a service on a host reads besides, from the file that its image was made with.
IGNORED_VARIABLES = (
    *("DB_PATH", "DISABLED_STEPS", "BOOTSTRAP_HOST_MAC", "INSTALLER_BINARY", "REQUESTS_PER_SECOND", "INFRA_ENV_ID"),
    *("MAX_HOST_SERVICE_TIME_DRIFT", "RELEASE_IMAGES", "OPENSHIFT_VERSION", "AGENT_DOCKER_IMAGE", "INSTALLER_IMAGE"),
    *(
        "CONTROLLER_IMAGE",
        "MCO_IMAGE",
        "MUST_GATHER_IMAGE",
        "EXPECTED_HOSTS_FILE",
        "EPHEMERAL_INSTALLER_CLUSTER_TLS_CERTS_OVERRIDE_DIR",
    ),
)


def listening(text: str, option: str = "--listen", *, is_for_hosts: bool = True) -> tuple[str, int]:
    """(address, port) of ``HOST:PORT``, an IPv6 address in brackets. Raises ConfigError.

    ``is_for_hosts``: hosts are told this address, so it must be a certain one.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        address = ip_address(host)
    except ValueError:
        raise ConfigError(f"{option} {text}: must be ADDRESS:PORT, such as 192.0.2.1:8090") from None
    try:
        number = numbers.whole(port, 1, 65535)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: the port {error}") from None
    if address.version == 6 and f"[{host}]" not in text:
        raise ConfigError(f"{option} {text}: an IPv6 address must be in brackets, such as [2001:db8::1]:8090")
    if is_for_hosts and address.is_unspecified:
        raise ConfigError(f"{option} {text}: must be the address that the hosts reach, it goes into their images")
    return str(address), number


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, content, mode)


def _to_be_made(paths: Sequence[Path]) -> bool:
    """Return whether none of the files is there that are made together. Raises ConfigError when only some are missing.

    Images that were given out hold what belongs to the others: with new ones their hosts would be locked out.
    """
    missing = [path for path in paths if not os.path.lexists(path)]
    if (paths[0].parent / BEGUN).exists():
        return True  # a start was cut short: nobody has got anything of it
    if missing and len(missing) < len(paths):
        raise ConfigError(
            f"{', '.join(map(str, missing))}: missing, but what was made with it is there: put it back, or remove "
            f"{' and '.join(path.name for path in paths)} to begin anew; images made before cannot be used then"
        )
    return bool(missing)


@contextmanager
def _made_together(folder: Path) -> Iterator[None]:
    mark = folder / BEGUN
    _write(mark, b"", PRIVATE)
    yield
    mark.unlink()


def prepare_tls(directory: Path, address: str) -> None:
    """tls/ca.crt is made once; a serving certificate at every start, as the address may have changed."""
    from installer.common.certificates import SERVER, Pair, authority, check, leaf

    ca, key = directory / "ca.crt", directory / "ca.key"
    if _to_be_made((key, ca)):
        signer = authority("node0 service CA")
        with _made_together(directory):
            _write(key, signer.key.encode(), PRIVATE)
            _write(ca, signer.certificate.encode(), PUBLIC)
    try:
        pair = Pair(read_text(ca), read_text(key))
        check(pair)
        served = leaf(pair, address, names=tuple(dict.fromkeys((address, "127.0.0.1"))), usages=SERVER)
    except ValueError as error:
        raise ConfigError(f"{ca} and {key} cannot be used: {error}") from None
    _write(directory / "service.key", served.key.encode(), PRIVATE)
    _write(directory / "service.crt", served.certificate.encode(), PUBLIC)


def prepare_tokens(directory: Path) -> str:
    """auth/{agent,user,watcher}-token, made once; returns the public key, base64 of PEM."""
    from installer.credentials.tokens import make_tokens

    public = directory / "public.pem"
    paths = {scheme: directory / f"{scheme}-token" for scheme in SCHEMES}
    if _to_be_made((*paths.values(), public)):
        tokens = make_tokens()
        with _made_together(directory):
            for scheme, path in paths.items():
                _write(path, getattr(tokens, scheme).encode() + b"\n", PRIVATE)
            _write(public, tokens.public_key_pem.encode(), PUBLIC)
    return base64.b64encode(read_input(public)).decode()


def check_mirror(directory: Path) -> None:
    """registries.conf and ca-bundle.crt, as far as they are there. Raises ConfigError."""
    from cryptography import x509

    try:
        digest_sources(directory / REGISTRIES)
    except PrepareError as error:
        raise ConfigError(str(error)) from None
    bundle = directory / CA_BUNDLE
    try:
        text = read_input(bundle)
        if text.strip():
            x509.load_pem_x509_certificates(text)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{bundle}: cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise ConfigError(f"{bundle}: not a bundle of PEM certificates") from None


def _make_own(data: Path) -> None:
    """Make the folder of the service's data. Raises ConfigError for one that holds what no service has put there."""
    data.mkdir(exist_ok=True, mode=0o700)
    # Services of earlier versions have left no mark, but their store.
    if not any((data / name).is_file() for name in (OWN, "assisted.db")) and any(data.iterdir()):
        raise ConfigError(f"{data}: holds files that are not a service's; choose another folder, or move them away")
    _write(data / OWN, b"", PUBLIC)


def settings_of(directory: Path, listen: str, env: Mapping[str, str]) -> Settings:
    """Make the settings of a service in ``directory``, with files that are missing. Raises InstallerError."""
    from installer.overrides import os_override, release_override

    os_override()
    address, port = listening(listen)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        data = directory / "data"
        _make_own(data)
        prepare_tls(directory / "tls", address)
        public_key = prepare_tokens(directory / "auth")
    except OSError as error:
        raise ConfigError(f"{directory} cannot be used: {error.strerror or error}") from None
    host = f"[{address}]" if ":" in address else address
    mirror = directory / "mirror"
    check_mirror(mirror)
    variables = {
        "SERVICE_BASE_URL": f"https://{host}:{port}/",
        "LISTEN_HOST": address,
        "LISTEN_PORT": str(port),
        "HTTPS_CERT_FILE": str(directory / "tls/service.crt"),
        "HTTPS_KEY_FILE": str(directory / "tls/service.key"),
        "SERVICE_CA_CERT_PATH": str(directory / "tls/ca.crt"),
        "EC_PUBLIC_KEY_PEM": public_key,
        "WORK_DIR": str(data),
        "REGISTRIES_CONF": str(mirror / REGISTRIES),
        "MIRROR_CA_FILE": str(mirror / CA_BUNDLE),
        "INSTALL_INVOKER": "assisted-installer",
        "AUTH_TYPE": "agent-installer-local",
        "PAGE_ACCESS": env.get("PAGE_ACCESS") or "token",
        "OPENSHIFT_INSTALL_RELEASE_IMAGE": release_override(env),
    }
    allowed = {name: value for name, value in env.items() if name in ALLOWED_VARIABLES or STAGE_TIMEOUT.fullmatch(name)}
    set_elsewhere = {*IGNORED_VARIABLES, *variables} - ALLOWED_VARIABLES
    ignored = sorted(name for name in set_elsewhere if env.get(name))
    if ignored:
        log.warning("ignored in the environment: %s", ", ".join(ignored))
    return service_settings.load({**allowed, **variables})


def _learned(config: Settings, pull_secret: Path) -> Contents | None:
    """Read the release if that takes a moment only: with the folder's pull secret, or without any."""
    from installer.rendezvous.discovery import payload

    if not config.release_image:
        return None
    found: list[Contents] = []

    def learn() -> None:
        try:
            found.append(payload.learn(config, read_text(pull_secret) if pull_secret.is_file() else ""))
        except (PrepareError, OSError) as error:
            log.warning("the release's version is not known before a pull secret comes: %s", error)

    # A registry that does not answer must not keep the service from starting.
    thread = threading.Thread(target=learn, daemon=True)
    thread.start()
    thread.join(LEARN_SECONDS)
    return found[0] if found else None


def first_steps(url: str, directory: Path, release: str) -> tuple[str, ...]:
    """Return the lines that say where the tokens and the CA are, and the first things to do with them; `release` is
    empty where none is set."""
    ca, user, watcher = (directory / name for name in ("tls/ca.crt", "auth/user-token", "auth/watcher-token"))
    header = f"<(sed 's/^/Authorization: /' {shlex.quote(str(user))})"
    versions = f"{url}api/assisted-install/v2/openshift-versions"
    return (
        f"Listening on {url} (its CA: {ca})",
        f"To install, open {url} in a browser and paste the token in {user} (or in {watcher}, to watch only)",
        f"To ask its API from bash: curl --cacert {shlex.quote(str(ca))} -H @{header} {versions}",
        "Next: create a cluster on the page, or an infra-env by the API (node0 service --help), and boot hosts from "
        "its image"
        if release
        else f"Next: stop it, and say which release to install: {RELEASE_OVERRIDE}=REPOSITORY@sha256:DIGEST in its "
        "environment. Without one there are no images, except for clusters of a hub, which names theirs",
    )


def run(directory: Path, listen: str) -> int:
    """Serve until told to stop. Raises InstallerError, ConfigurationError."""
    from installer.rendezvous import __main__ as program
    from installer.rendezvous import catalogue
    from installer.rendezvous.api import signing
    from installer.rendezvous.api.context import Service
    from installer.rendezvous.discovery import images as discovery
    from installer.rendezvous.store.model import InfraEnv
    from installer.rendezvous.validations import requirements as hwreqs

    directory = directory.absolute()
    config = settings_of(directory, listen, os.environ)
    contents = catalogue.known(config) or _learned(config, directory / "mirror" / PULL_SECRET)
    if contents is not None:
        config = catalogue.adopted(config, contents)
    token = read_text(directory / "auth/agent-token").strip()

    def attach(service: Service) -> None:
        def adopt(release: Contents) -> None:
            service.adopt(catalogue.adopted(service.settings, release))

        def rootfs_url(infra_env: InfraEnv) -> str:
            path = f"/images/{infra_env.id}/rootfs.img"
            return (
                service.settings.base_url.rstrip("/")
                + signing.signed(infra_env.image_key.encode(), path, {}, ROOTFS_LIFETIME)[0]
            )

        service.images = discovery.DiscoveryImages(service.settings_of, token, rootfs_url, adopt)

    def started() -> None:
        for line in first_steps(config.base_url, directory, config.release_image):
            # As it is: to the redactor, the way to a token looks like one.
            screen.info("%s", line, extra={"secret": True})

    return program.serve(config, hwreqs.load(config), attach, started)
