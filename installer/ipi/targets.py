"""The machines that install-config.yaml gives BMCs, and a first look at each of them."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from installer.common.redact import shortened
from installer.config.load import INSTALL_CONFIG_FILE
from installer.config.types.install import InstallConfig
from installer.config.types.platform import BareMetalHost
from installer.config.values.check import canonical_mac
from installer.errors import ConfigError, InstallerError
from installer.hub.baremetal.address import Address, AddressError, parse
from installer.hub.baremetal.provisioner import Account, Done, Failed, Outcome
from installer.hub.baremetal.redfish import RedfishMachine

log = logging.getLogger("installer.ipi.targets")

T = TypeVar("T")

HOSTS = "platform.baremetal.hosts"
# With 5 s for a connection: a BMC that is dead or silent is named within 10 s, a slow one has time for all its answers.
LOOK_SECONDS = 8.0
# For a BMC that says that it is not ready.
AGAIN_SECONDS = 5.0
#: BMCs that are asked at a time: a rack's worth.
AT_A_TIME = 32
# Of what a BMC answers, in a line of a message.
_SHOWN_NICS, _LONGEST_URL = 8, 120


@dataclass(frozen=True)
class Target:
    """One machine: `mac` in lower case, `verify` as in requests, `field` its place in install-config.yaml."""

    name: str
    address: Address
    account: Account
    _: KW_ONLY
    mac: str = ""
    role: str = ""
    verify: bool | str = True
    boot_mode: str = ""
    tls: Literal["1.1", "1.2"] = "1.2"
    field: str = ""

    def machine(self, answer_seconds: float = 0.0) -> RedfishMachine:
        """Return a client of its BMC, which has that long for an answer; a minute unless it is given."""
        return RedfishMachine(
            self.address,
            self.account,
            verify=self.verify,
            boot_mode=self.boot_mode,
            tls=self.tls,
            answer_seconds=answer_seconds,
        )


@dataclass(frozen=True)
class Seen:
    """A machine as its BMC shows it: whether it runs, the URL in its virtual CD drive, MAC addresses in lower case."""

    powered: bool
    image: str = field(default="", repr=False)
    macs: frozenset[str] = frozenset()


def targets_of(install: InstallConfig, ca: str = "", *, old_tls: bool = False) -> list[Target]:
    """List the machines with BMCs; `ca` is a file with `bmcVerifyCA`. Raises ConfigError, which names all bad ones."""
    platform = install.platform.baremetal
    hosts = platform.hosts if platform else ()
    problems, targets = [], []
    names = [host.name for host in hosts if host.name]
    problems += [f"{HOSTS}[{name}].name: {names.count(name)} hosts have it" for name in dict.fromkeys(names)
                 if names.count(name) > 1]  # fmt: skip
    for host in hosts:
        place = place_of(host)
        bmc = host.bmc
        missing = [name for name in ("address", "username", "password") if not (bmc and getattr(bmc, name))]
        problems += [f"{place}.bmc.{name}: missing, so that it cannot be booted" for name in missing]
        if bmc is None or missing:
            continue
        try:
            address = parse(bmc.address)
        except AddressError as error:
            problems.append(f"{place}.bmc.address: {error}")
            continue
        targets.append(
            Target(
                host.name or place,
                address,
                Account(bmc.username, bmc.password),
                mac=canonical_mac(host.boot_mac_address),
                role=host.role,
                verify=not bmc.disable_certificate_verification and (ca or True),
                boot_mode=host.boot_mode,
                tls="1.1" if old_tls else "1.2",
                field=place,
            )
        )
    if not hosts:
        problems.append(f"{HOSTS}: missing: it names the hosts and their BMCs")
    if problems:
        raise ConfigError("\n".join(f"{INSTALL_CONFIG_FILE}: {problem}" for problem in problems))
    return targets


def place_of(host: BareMetalHost) -> str:
    """Return a host's place in install-config.yaml: defaults have put hosts into another order than the file's."""
    return f"{HOSTS}[{host.name or host.boot_mac_address or 'without name and bootMACAddress'}]"


@contextmanager
def authorities(install: InstallConfig) -> Iterator[str]:
    """Provide a file with the certificates that BMCs are verified by, for the block; empty for the system's."""
    pem = install.platform.baremetal.bmc_verify_ca if install.platform.baremetal else ""
    if not pem:
        yield ""
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        yield file.name


def look(targets: Sequence[Target]) -> dict[str, Seen | Failed]:
    """Look at all BMCs at once, and return what is seen by the machine's name; a failure may pass."""

    def of(target: Target) -> Seen | Failed:
        outcome = target.machine(LOOK_SECONDS).look()
        if isinstance(outcome, Done):
            nics = (outcome.hardware or {}).get("nics", ())
            return Seen(bool(outcome.powered), outcome.image, frozenset(nic["mac"] for nic in nics))
        return outcome if isinstance(outcome, Failed) else Failed(outcome.why)

    return each(targets, of)


def each(targets: Sequence[Target], act: Callable[[Target], T], stop: threading.Event | None = None) -> dict[str, T]:
    """Act on all machines at once; returns the values by their names. An interrupt sets `stop`, which ends steps."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        values = pool.map(act, targets)
        try:
            return dict(zip((target.name for target in targets), values, strict=True))
        except BaseException:
            if stop is not None:
                stop.set()
            raise


def refusals(targets: Sequence[Target], looks: Mapping[str, Seen | Failed]) -> dict[str, str]:
    """Return the reasons why BMCs cannot be used, by the machine's name; a BMC that is another machine's is one.

    Warns of boot NICs that a BMC does not show: many show only some.
    """
    problems = {}
    for target in targets:
        seen = looks[target.name]
        if isinstance(seen, Failed):
            if not seen.passing:
                problems[target.name] = seen.message
            continue
        others = [other for other in targets if other.address != target.address and other.mac in seen.macs]
        if target.mac in seen.macs or not seen.macs:
            continue
        if others:
            problems[target.name] = (
                f"bmc.address is that of another machine: it has the NIC {others[0].mac}, bootMACAddress of "
                f"{others[0].name}, and none {target.mac}"
            )
        elif target.mac:
            log.warning("%s: its BMC shows no NIC with bootMACAddress %s, but %s",
                        target.name, target.mac, ", ".join(sorted(seen.macs)[:_SHOWN_NICS]))  # fmt: skip
    return problems


def shown(url: str) -> str:
    """Return an image's URL without what may be a secret: login, path and query; its last part says which image."""
    try:
        parts = urlsplit(url)
        text = f"{parts.scheme}://{parts.hostname or ''}/…/{parts.path.rsplit('/', 1)[-1]}"
    except ValueError:
        return "what is no URL"
    return shortened("".join(letter for letter in text if letter.isprintable()), _LONGEST_URL)


def finished(
    act: Callable[[], Outcome], seconds: float, stop: threading.Event, note: Callable[[str], None] = lambda _: None
) -> Done | Failed:
    """Repeat a step of a machine until it is done or has failed for good, for `seconds` at most.

    What passes is tried again. Raises InterruptedStep once `stop` is set.
    """
    deadline = time.monotonic() + seconds
    while True:
        if stop.is_set():
            raise InterruptedStep
        outcome = act()
        if isinstance(outcome, Done) or (isinstance(outcome, Failed) and not outcome.passing):
            return outcome
        wait, why = (AGAIN_SECONDS, outcome.message) if isinstance(outcome, Failed) else (outcome.seconds, outcome.why)
        note(why)
        if time.monotonic() + wait > deadline:
            return Failed(f"not done within {seconds:.0f} s, last: {why}")
        stop.wait(wait)


class InterruptedStep(InstallerError):
    """The command ends: the step is not gone on with."""
