"""The plan by which certificates are renewed, as library-go's certrotation: pure, over what is kept.

All are renewed at half of their lives. A signer first gets a successor, which is trusted at once and signs when all who
read the CAs have had the time to; what the one before has signed is then renewed, and it is trusted until it ends. With
a ``day`` that is shorter than one, all lives are shorter in proportion.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from installer.common import certificates
from installer.common.certificates import DAY, Pair
from lab.release.cluster import tls
from lab.release.cluster.errors import ConfigError
from lab.release.cluster.pki.store import SIGNERS, TARGETS, Kept

#: For how many days, and how many seconds at least, a signer is trusted before it signs: kube-apiserver looks at its
#: files each minute.
SETTLE_DAYS, SETTLE_SECONDS = 3, 120.0
#: The part of its life after which a certificate is renewed: OpenShift's 15 of 30 days.
PART = 0.5
#: The shortest day, for which half of a life of 30 is longer than the five minutes within which client-go reads a
#: certificate again. With 15 s, controller manager and scheduler lost their leases.
SHORTEST_DAY = dt.timedelta(seconds=30)


def parse_day(text: str) -> dt.timedelta:
    """Read the length of a day for certificates as Go writes durations (`30s`, `1m30s`, `24h`). Raises ConfigError."""
    source, rest, total = "ConfigMap openshift-config/unsupported-cert-rotation-config", text, 0.0
    while rest:
        number = rest[: len(rest) - len(rest.lstrip("0123456789."))]
        rest = rest.removeprefix(number)
        unit = next((u for u in ("ms", "h", "m", "s") if rest.startswith(u)), "")
        if not unit or not number.strip(".") or number.count(".") > 1:
            raise ConfigError(source, "base", f"{text!r}: must be a duration such as 30s or 1h30m")
        total += float(number) * {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}[unit]
        rest = rest.removeprefix(unit)
    if not SHORTEST_DAY.total_seconds() <= total <= DAY.total_seconds():
        rule = f"{text!r}: must be from {SHORTEST_DAY.total_seconds():.0f}s to 24h"
        raise ConfigError(source, "base", rule)
    return dt.timedelta(seconds=total)


@dataclass(frozen=True)
class Plan:
    """Certificates that change, by asset, each with its reason; the CAs that are trusted; when to look again."""

    changed: Mapping[str, Kept]
    reasons: Mapping[str, str]
    trusted: Mapping[str, str]
    due: dt.datetime


def _trusted(texts: list[str], now: dt.datetime) -> str:
    """Join CAs, PEM, each once and none that has ended."""
    found: dict[bytes, str] = {}
    for text in texts:
        for certificate in x509.load_pem_x509_certificates(text.encode()) if text else []:
            if certificate.not_valid_after_utc > now:
                pem = certificate.public_bytes(Encoding.PEM)
                found.setdefault(pem, pem.decode())
    return "".join(found.values())


def _half(pair: Pair, lifetime: dt.timedelta) -> dt.datetime:
    """Return when half of a certificate's life is over, or of ``lifetime`` if that is shorter."""
    made, ends = certificates.validity(pair.certificate)
    return made + min(lifetime, ends - made) * PART


class _Round:
    """One look at all certificates."""

    def __init__(self, kept: Mapping[str, Kept], now: dt.datetime, day: dt.timedelta, unread: Collection[str]) -> None:
        self.kept = dict(kept)
        self._unread = unread
        self.reasons: dict[str, str] = {}
        self.due = now + DAY
        self._now = now
        self.scale = day / DAY
        self.settle = max(SETTLE_DAYS * day, dt.timedelta(seconds=SETTLE_SECONDS))

    def later(self, moment: dt.datetime) -> bool:
        """Return whether a moment is still to come, and look again then."""
        if moment <= self._now:
            return False
        self.due = min(self.due, moment)
        return True

    def change(self, asset: str, kept: Kept, reason: str) -> None:
        """Note what changes, and why."""
        self.kept[asset], self.reasons[asset] = kept, reason

    def signer(self, asset: str, lifetime: dt.timedelta) -> None:
        """Look at a signer: its successor is announced, then takes over."""

        def make() -> Pair:
            # Of those with one name a client might try the wrong one.
            name = f"{asset}@{self._now.timestamp():.0f}"
            return certificates.authority(name, unit="openshift", lifetime=lifetime)

        old = self.kept.get(asset)
        if old is None:
            self.change(asset, Kept(make()), "it is missing")
        elif not self.later(certificates.validity(old.pair.certificate)[1]):
            lasts = old.next is not None and certificates.validity(old.next.certificate)[1] > self._now
            self.change(asset, Kept(old.next if old.next and lasts else make()), "it has expired")
        elif old.next is not None:
            if asset in self._unread:
                self.later(self._now + self.settle)
            elif not self.later(certificates.validity(old.next.certificate)[0] + self.settle):
                self.change(asset, Kept(old.next), "its successor is trusted by now")
        elif old.asked or not self.later(_half(old.pair, lifetime)):
            reason = "somebody asks for it" if old.asked else "it is past its refresh time"
            self.change(asset, replace(old, next=make(), asked=False), reason)
            self.later(self._now + self.settle)

    def target(self, asset: str, signer: Pair, lifetime: dt.timedelta, make: Callable[[Pair], Pair]) -> None:
        """Look at what a signer signs."""
        old = self.kept.get(asset)
        if old is None:
            reason = "it is missing"
        elif old.asked:
            reason = "somebody asks for it"
        elif not certificates.signed_by(old.pair.certificate, signer.certificate):
            reason = "its signer has changed"
        elif not self.later(_half(old.pair, lifetime)):
            reason = "it is past its refresh time"
        else:
            return
        pair = make(signer)
        self.change(asset, Kept(pair), reason)
        self.later(_half(pair, lifetime))


def limited(lifetime: dt.timedelta, signer: Pair, now: dt.datetime) -> dt.timedelta:
    """Return a life that does not outlast its signer's."""
    return min(lifetime, certificates.validity(signer.certificate)[1] - now)


def plan(
    leaves: Mapping[str, tls.Leaf],
    kept: Mapping[str, Kept],
    trusted: Mapping[str, str],
    *,
    now: dt.datetime,
    day: dt.timedelta = DAY,
    unread: Collection[str] = (),
) -> Plan:
    """Return what is to be renewed now. ``leaves`` describe what is signed, by asset; the successors of the signers
    ``unread`` are not known to all that read CAs. Raises ConfigError where a signer cannot be used."""
    look = _Round(kept, now, day, unread)
    for asset in SIGNERS:
        look.signer(asset, tls.SIGNERS[asset] * look.scale)
    for asset in TARGETS:
        leaf = leaves[asset]
        signer, lifetime = look.kept[leaf.signer].pair, leaf.lifetime * look.scale
        wanted = replace(leaf, lifetime=limited(lifetime, signer, now))
        look.target(asset, signer, lifetime, partial(tls.make, wanted))
    bundles = {
        asset: _trusted(
            [
                # In one order, or files that are read at a start alone would change once more.
                trusted.get(asset, ""),
                look.kept[asset].pair.certificate,
                (follower.certificate if (follower := look.kept[asset].next) else ""),
            ],
            now,
        )
        for asset in SIGNERS
    }
    changed = {asset: look.kept[asset] for asset in look.reasons}
    return Plan(changed, look.reasons, bundles, look.due)
