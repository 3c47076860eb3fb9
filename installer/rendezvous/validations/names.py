"""Validations of what names a host resolves (installer.md §5.4)."""

from __future__ import annotations

from collections.abc import Callable

from installer.rendezvous import registries
from installer.rendezvous.store.documents import Resolution
from installer.rendezvous.validations import networks
from installer.rendezvous.validations.hostview import HostView
from installer.rendezvous.validations.network import is_day2
from installer.rendezvous.validations.verdict import SUPPRESSED, Verdict, error, failure, pending, success

RECORDS = {"api": "api.{}", "api-int": "api-int.{}", "apps": "console-openshift-console.apps.{}"}
# What each record must lead to, in words.
TARGETS = {"api": "API load balancer", "api-int": "internal API load balancer", "apps": "application ingress"}
WILDCARD_PROBE = "validateNoWildcardDNS.{}"


def domain_of(view: HostView) -> str:
    """``<cluster name>.<base domain>``."""
    return f"{view.cluster.name}.{view.cluster.base_dns_domain}"


def _resolution(view: HostView, name: str) -> Resolution | None:
    resolutions = view.host.domain_name_resolutions.value
    plain = name.lower()
    answers = (resolutions and resolutions.resolutions) or []
    return next((item for item in answers if (item.domain_name or "").lower() == plain), None)


def domain(record: str) -> Callable[[HostView], Verdict]:
    """Check that ``record`` resolves; required only where the user has to provide it."""

    def check(view: HostView) -> Verdict:
        name = RECORDS[record].format(domain_of(view))
        shown = f"*.apps.{domain_of(view)}" if record == "apps" else name
        if networks.user_managed(view.cluster) and not view.cluster.is_sno:
            if not view.cluster.base_dns_domain:
                return error(
                    f"DNS validation for the {TARGETS[record]} domain cannot be completed because the cluster does "
                    "not have base_dns_domain set. Please update the cluster with the correct base_dns_domain"
                )
            return _resolves(view, name, shown, TARGETS[record])
        return success(f"Domain name resolution for the {shown} domain was successful or not required")

    return check


def _resolves(view: HostView, name: str, shown: str, target: str) -> Verdict:
    if view.host.domain_name_resolutions.value is None:
        return pending(f"DNS resolution of {name} has not been checked on this host yet")
    answer = _resolution(view, name)
    if answer is None or not answer.addresses:
        return failure(
            f"Couldn't resolve domain name {shown} on the host. To continue installation, create the necessary DNS "
            f"entries to resolve this domain name to your cluster's {target} IP address"
        )
    # Upstream means to refuse names that lead to the host itself, and compares them with addresses that carry a prefix
    # length: such records, of all control-plane nodes for one, are in use.
    return success(f"Domain name resolution for the {shown} domain was successful or not required")


def release_domain(view: HostView) -> Verdict:
    """Check that the registry's name resolves (warning; with mirrors nobody needs it)

    Upstream has the id and leaves the check out, as mirrors and proxies made it fail: only a failure is reported here.
    """
    name = registries.release_domain(view.settings.registries_conf, _release(view))
    answer = _resolution(view, name) if name else None
    if answer is None or answer.addresses:
        return SUPPRESSED
    return failure(
        f"Couldn't resolve domain name {name}, the release image's registry, on the host: correct the name, or add "
        "it to the DNS"
    )


def _release(view: HostView) -> str:
    return view.cluster.ocp_release_image or view.settings.release_image


def names_to_resolve(view: HostView) -> list[str]:
    """Return the names that some validation of this host waits for; without any, nobody has to ask the DNS."""
    probe = WILDCARD_PROBE.format(domain_of(view))
    names = []
    if view.cluster.user_managed_networking and not view.cluster.is_sno:
        names += [record.format(domain_of(view)) for record in RECORDS.values()]
    release = registries.release_domain(view.settings.registries_conf, _release(view))
    return [*names, probe, f"{probe}.", *([release] if release else [])]


def no_wildcard(view: HostView) -> Verdict:
    """Return a DNS that answers for everything hides missing records, and breaks the cluster's own names."""
    if is_day2(view):
        return success("DNS wildcard check is not required for day2")
    probe = WILDCARD_PROBE.format(domain_of(view))
    # As a full name, and as one that the resolver may complete by its search list.
    full, relative = _resolution(view, f"{probe}."), _resolution(view, probe)
    if full is None and relative is None:
        return pending(
            "DNS wildcard check cannot be performed yet because the host has not yet performed DNS resolution"
        )
    if full is not None and full.addresses:
        return failure(
            f"DNS wildcard configuration was detected for domain *.{domain_of(view)}: the installation cannot complete "
            f"while this record exists. Please remove it to proceed. The domain resolves to {', '.join(full.addresses)}"
        )
    if relative is not None and relative.addresses:
        return failure(
            f"Unexpected domain name resolution was detected for the relative domain name *.{domain_of(view)}, while "
            "the fully qualified one does not resolve: usually a sign of DHCP-provided domain-search configuration. "
            f"Please remove it to proceed. It resolves to {', '.join(relative.addresses)}"
        )
    return success("DNS wildcard check was successful")
