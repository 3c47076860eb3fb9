"""Rules 46 to 51: proxy and mirrors."""

from __future__ import annotations

from collections.abc import Iterator

from installer.common.redact import without_login
from installer.config.fielderror import FieldError, invalid, required, unsupported
from installer.config.rules.catalogue import rule
from installer.config.types.install import ImageSource, InstallConfig
from installer.config.values import check, urls

POLICIES = ("AllowContactingSource", "NeverContactSource")


@rule("46", "proxy")
def proxy(config: InstallConfig) -> Iterator[FieldError]:
    """Check that a proxy has at least one of httpProxy and httpsProxy."""
    if config.proxy is not None and not config.proxy.http_proxy and not config.proxy.https_proxy:
        yield required("proxy", "must include httpProxy or httpsProxy")


@rule("47", "proxy.{httpProxy,httpsProxy}")
def proxy_urls(config: InstallConfig) -> Iterator[FieldError]:
    """URIs of the right scheme, outside the cluster's own networks; passwords in them are not shown."""
    if config.proxy is None:
        return
    for name, value, schemes in (
        ("httpProxy", config.proxy.http_proxy, ("http",)),
        ("httpsProxy", config.proxy.https_proxy, ("http", "https")),
    ):
        if not value:
            continue
        path = f"proxy.{name}"
        if problem := check.url(value, request=True):
            yield invalid(path, without_login(value), problem)
            continue
        if (scheme := urls.parse(value).scheme) not in schemes:
            yield unsupported(path, scheme, schemes)
        yield from _inside(config, path, value)


def _inside(config: InstallConfig, path: str, value: str) -> Iterator[FieldError]:
    host = check.address(urls.parse(value).host)
    if host is None or config.networking is None:
        return
    lists = [("cluster networks", entry.cidr) for entry in config.networking.cluster_network]
    lists += [("service networks", item) for item in config.networking.service_network]
    ovn = config.networking.ovn_kubernetes_config
    if ovn is not None and ovn.ipv4 is not None:
        lists.append(("ovn-kubernetes IPv4 InternalJoinSubnet", ovn.ipv4.internal_join_subnet))
    for name, item in lists:
        network = check.network(item)
        if network is not None and host in network:
            yield invalid(path, without_login(value), f"proxy value is part of the {name} {item}")


@rule("48", "proxy.noProxy")
def no_proxy(config: InstallConfig) -> Iterator[FieldError]:
    """noProxy is a list of addresses, networks and domains without blanks, or * for everything."""
    value = config.proxy.no_proxy if config.proxy else ""
    if not value or value == "*":
        return
    if " " in value:
        yield invalid("proxy.noProxy", value, "noProxy must not have spaces")
    for index, item in enumerate(value.split(",")):
        plain = item.strip()
        if check.address(plain) is None and check.network(plain) is None and check.domain(plain.removeprefix(".")):
            text = (
                "each element of noProxy must be a IP, CIDR or domain without wildcard characters, which is violated by"
            )
            yield invalid("proxy.noProxy", value, f'{text} element {index} "{plain}"')


def _lists(config: InstallConfig) -> Iterator[tuple[str, ImageSource]]:
    for name, sources in (
        ("imageContentSources", config.image_content_sources),
        ("imageDigestSources", config.image_digest_sources),
    ):
        for index, source in enumerate(sources):
            yield f"{name}[{index}]", source


@rule("49", "imageContentSources, imageDigestSources")
def mirrors(config: InstallConfig) -> Iterator[FieldError]:
    """Check that sources and mirrors are repositories, without tag or digest."""
    for path, source in _lists(config):
        if problem := check.repository(source.source):
            yield invalid(f"{path}.source", without_login(source.source), problem)
        for number, mirror in enumerate(source.mirrors):
            if problem := check.repository(mirror):
                yield invalid(f"{path}.mirrors[{number}]", without_login(mirror), problem)


@rule("50", "imageDigestSources[].sourcePolicy")
def source_policies(config: InstallConfig) -> Iterator[FieldError]:
    """sourcePolicy is one of two values, and needs mirrors."""
    for path, source in _lists(config):
        policy = source.policy
        if policy and policy not in POLICIES:
            yield invalid(
                f"{path}.sourcePolicy", policy, 'supported values are "NeverContactSource" and "AllowContactingSource"'
            )
        if policy and not source.mirrors:
            yield invalid(f"{path}.sourcePolicy", policy, "sourcePolicy cannot be configured without a mirror")


@rule("51", "imageContentSources")
def one_spelling(config: InstallConfig) -> Iterator[FieldError]:
    """Only one of imageDigestSources and imageContentSources is set."""
    if config.image_content_sources and config.image_digest_sources:
        text = "cannot set imageContentSources and imageDigestSources at the same time"
        # Upstream shows the value of publish.
        yield invalid("imageContentSources", config.publish, text)
